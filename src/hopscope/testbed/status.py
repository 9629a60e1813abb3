"""Status of a fabric's ports as rows, and the controller's coverage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..labels.records import PortCounter
from ..labels.registers import Registers
from ..labels.state import FILE_NAME, LabelReader
from ..memory.data_folder import read_owner
from ..memory.region import RegionError
from .fabric import FabricPlan
from .state import FabricState

DROPS = (
    PortCounter.LOST,
    PortCounter.UNROUTED,
    PortCounter.DAMAGED,
    PortCounter.NO_ROOM,
    PortCounter.REJECTED,
    PortCounter.MISSED,
    PortCounter.LINK_DOWN,
)
"""Counters of dropped frames."""


def port_rows(
    parts: FabricPlan, registers: Registers, before: npt.NDArray[np.uint64], seconds: float
) -> list[dict[str, Any]]:
    """A row for every switch port; `before`: the counters `seconds` ago."""
    now = registers.counters.copy()
    rates = (now - before) / seconds
    lossy = registers.lossy()
    return [
        {
            "switch": parts.topology.switch_name(port.node),
            "port": port.number,
            "to": parts.topology.port_name(port.row).removeprefix("to "),
            "frames/s": round(float(rates[row, PortCounter.SENT]), 1),
            "labels/s": round(float(rates[row, PortCounter.LABELS]), 1),
            "frames": int(now[row, PortCounter.SENT]),
            "labels": int(now[row, PortCounter.LABELS]),
            "restored": int(now[row, PortCounter.RESTORED]),
            "S": int(registers.shift[row]),
            "flag": bool(registers.flag[row]),
            "loss": round(float(lossy[row]), 4),
            "link": "down" if registers.down[row] else "up",
            "dropped": int(sum(now[row, drop] for drop in DROPS)),
            "counters": {counter.name.lower(): int(now[row, counter]) for counter in PortCounter},
        }
        for row, port in enumerate(parts.ports)
    ]


def coverage(state: FabricState, seconds: float) -> str | None:
    """The controller's recent mean coverage, over telemetry intervals with traffic, as text; None if it has
    not started.
    """
    try:
        reader = LabelReader.attach(Path(read_owner(Path(state.data))["regions"]) / FILE_NAME)
    except (KeyError, RegionError):
        return None
    latest = reader.coverage(max(1, round(seconds * 1e9 / reader.about().telemetry_ns)))
    busy = latest[latest["active"] > 0]
    if not len(busy):
        return f"no port had traffic in the last {seconds:g} s; coverage is undefined"
    share = float((busy["reported"] / busy["active"]).mean())
    among = f"{len(busy)} of the last {len(latest)} telemetry intervals"
    return f"coverage {share:.2%}: there was traffic in {among}"
