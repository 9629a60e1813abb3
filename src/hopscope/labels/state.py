"""Region of ports that label packets (INT-label): its records, and its reader."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..memory.region import Region
from ..memory.snapshot import consistent
from ..wire.records import Records

KIND, VERSION = "labels", 3
FILE_NAME = "labels.table"
NEVER = -(2**63)
"""Time of a port without a label."""
MODES = ("off", "shift", "one-bit")
"""Ways in which the controller changes intervals, in the order of their numbers in the region."""

LABEL_ROW = np.dtype(
    [
        ("time_ns", "<i8"),  # of the newest label, by the switch's clock; NEVER without one
        ("received_ns", "<i8"),  # when it arrived
        ("labels", "<u8"),  # labels in total
        ("late", "<u8"),  # labels that were older than the newest, and discarded
        ("node_id", "<u4"),
        ("latency_ns", "<u4"),  # of the newest label
        ("occupancy", "<u4"),  # of the newest label, bytes
        ("rate", "<f4"),  # labels per second, over the last full second
        ("port", "<u2"),
        ("ingress_port", "<u2"),  # ingress port of the newest label's packet
        ("shift", "u1"),  # Reg2: S, or the flag of the one-bit form
        ("traffic", "u1"),  # in the last telemetry interval: 0 unknown, 1 none, 2 some
        ("silent", "u1"),  # 1: it is silent, and the alarm is raised
        ("spare", "u1", (9,)),
    ]
)
"""One egress port, 64 bytes: its newest label (INT-label, Algorithm 4) and how it labels."""

COVERAGE = np.dtype(
    [
        ("begin_ns", "<i8"),
        ("active", "<u4"),  # ports with traffic
        ("reported", "<u4"),  # active ports that sent a label
        ("labels", "<u4"),
        ("packets", "<u4"),  # packets with these labels
        ("raised", "<u4"),  # ports whose Reg2 is not 0
        ("spare", "<u4"),
    ]
)
"""One telemetry interval, 32 bytes; coverage is reported / active (INT-label, 6.2)."""


def arrays_of(ports: int, intervals: int) -> dict[str, Any]:
    """Arrays of the region."""
    return {
        "rows": (LABEL_ROW, ports),
        "versions": (np.uint32, ports),
        "used": (np.uint64, 1),
        "coverage": (COVERAGE, intervals),
        "closed": (np.uint64, 1),  # intervals written to `coverage` in total
        "about": (np.int64, 4),  # telemetry interval, T, k T (ns), mode
        "coverage_low": (np.uint8, 1),  # 1: the coverage alarm is raised
        "ahead": (np.int64, 1),  # how far the clock of all times here is ahead of the system clock, ns
    }


@dataclass(frozen=True, slots=True)
class LabelRule:
    """How ports should label."""

    telemetry_ns: int
    """Telemetry interval."""
    interval_ns: int
    """T."""
    timeout_ns: int
    """k T: a port without a label for this long is late."""
    mode: str
    """`off`, `shift` or `one-bit`."""


class LabelReader:
    """Reads the table that another process writes; `attach` makes one."""

    def __init__(self, region: Region) -> None:
        self._region = region

    @classmethod
    def attach(cls, path: Path) -> LabelReader:
        """Map the table. Raises RegionError if there is none."""
        region = Region.attach(path, KIND, VERSION)
        ports, intervals = (max(1, region.length(name)) for name in ("rows", "coverage"))
        return cls(region.require(arrays_of(ports, intervals)))

    @property
    def is_current(self) -> bool:
        """Whether this is still the table at its path."""
        return self._region.is_current()

    def about(self) -> LabelRule:
        """How ports should label."""
        telemetry, interval, timeout, mode = self._region["about"].tolist()
        return LabelRule(telemetry, interval, timeout, MODES[mode % len(MODES)])

    def now(self) -> int:
        """Current time by the clock of the table's times, ns, for ages."""
        return time.time_ns() + int(self._region["ahead"][0])

    def ports(self) -> Records:
        """LABEL_ROW [ports], each consistent, in the order of their first labels."""
        rows = self._region["rows"]
        used = min(int(self._region["used"][0]), len(rows))
        _, (ports,) = consistent(self._region["versions"], lambda at: (rows[at],), np.arange(used))
        return ports

    def raised(self) -> list[tuple[int, int, int]]:
        """(Device, port, Reg2) of the ports whose Reg2 is not 0."""
        rows = self._region["rows"]
        rows = rows[: min(int(self._region["used"][0]), len(rows))]
        _, (found,) = consistent(
            self._region["versions"], lambda at: (rows[at],), np.flatnonzero(rows["shift"])
        )
        return [(row["node_id"].item(), row["port"].item(), row["shift"].item()) for row in found]

    def coverage(self, last: int) -> Records:
        """COVERAGE of the newest `last` intervals at most, the oldest first."""
        ring, closed = self._region["coverage"], self._region["closed"]
        end = int(closed[0])
        numbers = np.arange(max(0, end - min(last, len(ring))), end)
        copy = ring[numbers % len(ring)]
        whole = numbers > int(closed[0]) - len(ring)  # older ones were overwritten
        return np.asarray(copy[whole])
