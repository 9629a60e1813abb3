"""What the ports of a fabric do, as rows for people and programs."""

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
from .fabric import Plan
from .state import State

DROPS = (
    PortCounter.LOST,
    PortCounter.UNROUTED,
    PortCounter.DAMAGED,
    PortCounter.NO_ROOM,
    PortCounter.REFUSED,
    PortCounter.MISSED,
)
"""Counters of frames that did not go on."""


def port_rows(
    parts: Plan, registers: Registers, before: npt.NDArray[np.uint64], seconds: float
) -> list[dict[str, Any]]:
    """A row for every switch port; `before`: its counters so many seconds ago."""
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
            "dropped": int(sum(now[row, drop] for drop in DROPS)),
            "counters": {counter.name.lower(): int(now[row, counter]) for counter in PortCounter},
        }
        for row, port in enumerate(parts.ports)
    ]


def coverage(state: State, seconds: float) -> str | None:
    """What the controller measured of late, in words: the mean coverage of telemetry intervals in which ports
    had traffic; None where it has not begun.
    """
    try:
        reader = LabelReader.attach(Path(read_owner(Path(state.data))["regions"]) / FILE_NAME)
    except (KeyError, RegionError):
        return None
    newest = reader.coverage(max(1, round(seconds * 1e9 / reader.about().telemetry_ns)))
    busy = newest[newest["active"] > 0]
    if not len(busy):
        return f"no port had traffic in the last {seconds:g} s: there is no coverage"
    share = float((busy["heard"] / busy["active"]).mean())
    among = f"{len(busy)} of the last {len(newest)} telemetry intervals"
    return f"coverage {share:.2%}: there was traffic in {among}"
