"""Region of tracked flows (INT-label, 3.3): its records, and its reader."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from ..memory.region import Region
from ..memory.snapshot import consistent
from ..wire.records import Records

KIND, VERSION = "tracked flows", 2
FILE_NAME = "labels.tracked"
HOPS = 32
"""Hops of a path that are stored; further hops are only counted."""

TRACKED_HOP = np.dtype(
    [
        ("time_ns", "<i8"),  # of its newest label, by the switch's clock
        ("node_id", "<u4"),
        ("latency_ns", "<u4"),  # of the newest packet in this switch
        ("highest_latency_ns", "<u4"),  # since the path was first seen
        ("occupancy", "<u4"),  # of the egress queue at that time, bytes
        ("highest_occupancy", "<u4"),
        ("ingress_port", "<u2"),
        ("egress_port", "<u2"),
    ]
)
"""One switch of a path, 32 bytes."""

TRACKED_FLOW = np.dtype(
    [
        ("src_hi", "<u8"),  # IPv4 as ::ffff:a.b.c.d
        ("src_lo", "<u8"),
        ("dst_hi", "<u8"),
        ("dst_lo", "<u8"),
        ("begin_ns", "<i8"),  # arrival of its first packet
        ("received_ns", "<i8"),  # arrival of the newest
        ("changed_ns", "<i8"),  # when the newest path was first seen, if another came before it
        ("packets", "<u8"),  # tracked packets; 0: a free row
        ("late", "<u8"),  # tracked packets overtaken by a newer one
        ("partial", "<u8"),  # tracked packets without the labels of some switches on the path
        ("changes", "<u8"),  # changes of the path
        ("rate", "<f4"),  # tracked packets per second, over the last full RATE_NS
        ("sport", "<u2"),
        ("dport", "<u2"),
        ("proto", "u1"),
        ("hops", "u1"),  # of the newest path; `path` has at most the first HOPS
        ("previous_hops", "u1"),  # 0: the path never changed
        ("spare", "u1", (5,)),
        ("path", TRACKED_HOP, (HOPS,)),  # the source's side first
        ("previous", TRACKED_HOP, (HOPS,)),  # the previous path, with its last values
    ]
)
"""One tracked flow."""


def arrays_of(flows: int) -> dict[str, Any]:
    """Arrays of the region."""
    return {
        "rows": (TRACKED_FLOW, flows),
        "versions": (np.uint32, flows),
        "ahead": (np.int64, 1),  # how far the clock of all times here is ahead of the system clock, ns
    }


class TrackedReader:
    """Reads the table that another process writes; `attach` makes one."""

    def __init__(self, region: Region) -> None:
        self._region = region

    @classmethod
    def attach(cls, path: Path) -> TrackedReader:
        """Map the table. Raises RegionError if there is none."""
        region = Region.attach(path, KIND, VERSION)
        return cls(region.require(arrays_of(max(1, region.length("rows")))))

    def now(self) -> int:
        """Current time by the clock of the table's times, ns, for ages."""
        return time.time_ns() + int(self._region["ahead"][0])

    def flows(self) -> Records:
        """TRACKED_FLOW [flows], each consistent, in no order."""
        rows = self._region["rows"]
        used = np.flatnonzero(rows["packets"])
        _, (flows,) = consistent(self._region["versions"], lambda at: (rows[at],), used)
        return np.asarray(flows[flows["packets"] > 0])
