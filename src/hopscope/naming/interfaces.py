"""The newest counters of devices' interfaces, in a file in the folder of regions
that is replaced as a whole.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..memory.region import Region, RegionError

COUNTER_NAMES = ("in_bytes", "out_bytes", "in_errors", "out_errors", "in_discards", "out_discards")
"""Counters of an interface; `in` and `out` are from the view of the device."""
INTERFACE = np.dtype(
    [
        ("node_id", "<u4"),
        ("port", "<u4"),
        ("last_ns", "<i8"),
        ("known", "<u8"),
        *((name, "<u8") for name in COUNTER_NAMES),
    ]
)
"""An interface: node, ifIndex, when it was read (Unix time), and counters; bit N of `known`: counter N is
valid.
"""
_FILE, _KIND, _VERSION = "names.interfaces", "interface counters", 1
Interfaces = npt.NDArray[Any]
"""INTERFACE rows."""


def rows_of(node: int, counters: dict[int, dict[str, int]], now_ns: int) -> Interfaces:
    """The rows of a device, made from its counters by ifIndex and name."""
    rows = np.zeros(len(counters), INTERFACE)
    for row, (port, values) in zip(rows, counters.items(), strict=True):
        row["node_id"], row["port"], row["last_ns"] = node, port, now_ns
        for bit, name in enumerate(COUNTER_NAMES):
            if name in values:
                row[name] = values[name]
                row["known"] |= 1 << bit
    return rows


def write_interfaces(folder: Path, rows: Interfaces) -> None:
    """Replace the file in `folder`. Raises RegionError."""
    arrays = {"interfaces": (INTERFACE, len(rows))}
    with Region.create(folder / f"{_FILE}.part", _KIND, _VERSION, arrays) as region:
        region["interfaces"][:] = rows
        region.rename(folder / _FILE)


def read_interfaces(folder: Path) -> Interfaces:
    """The rows of the file in `folder`; none if there is no file."""
    try:
        with Region.attach(folder / _FILE, _KIND, _VERSION) as region:
            return region["interfaces"].copy()
    except RegionError:
        return np.zeros(0, INTERFACE)
