"""What the ports of a fabric do, as rows for people and programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .fabric import Plan
from .records import PortCounter
from .registers import Registers

DROPS = (PortCounter.LOST, PortCounter.UNROUTED, PortCounter.DAMAGED, PortCounter.NO_ROOM)
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
        }
        for row, port in enumerate(parts.ports)
    ]
