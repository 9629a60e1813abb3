"""Corrections of losses: sequence numbers that this member missed, but other members of the cluster received.

When a source of reports returns after some time at another member, the numbers in between count as lost here.
The `cluster` process finds the numbers that other members account for (`cluster.moved`) and puts corrections
into a small region. The process that detects takes them once a second: `lost` of the source and
`lost_reports` fall, `moved` of the source and `moved_reports_total` rise. So received, lost and moved still
add up to all numbers of the source between its first and its highest here; from them the cluster computes
what no member received (`cluster.merge.sources`).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..memory.region import Region, barrier
from ..wire.records import Records

KIND, VERSION = "moved-reports", 1
FILE_NAME = "cluster.moved"
ROWS = 4096
CORRECTION = np.dtype(
    [
        ("source_hi", "<u8"),
        ("source_lo", "<u8"),
        ("node_id", "<u4"),
        ("hw_id", "<u4"),
        ("bits", "<u4"),  # width of the sequence number
        ("reserved", "<u4"),
        ("moved", "<u8"),  # count of numbers that are not lost
    ]
)
"""One correction of a row of SOURCE, 40 bytes."""
SPACE = ("source_hi", "source_lo", "node_id", "hw_id", "bits")
"""Fields that identify a sequence space."""
HEAD, TAKEN = 0, 8
"""Slots of `cursor`: corrections written and taken; each has a cache line of its own."""


def open_corrections(folder: Path) -> Region:
    """The region, for writer or reader; created if it does not exist. Raises RegionError."""
    arrays = {"cursor": (np.dtype(np.uint64), 16), "rows": (CORRECTION, ROWS)}
    return Region.open(folder / FILE_NAME, KIND, VERSION, arrays)


class CorrectionWriter:
    """The writing end, in the `cluster` process."""

    def __init__(self, region: Region) -> None:
        self._cursor, self._rows = region["cursor"], region["rows"]

    def put(self, corrections: Records) -> int:
        """Write as many CORRECTION records as there is room for; returns their number."""
        head = int(self._cursor[HEAD])
        count = min(len(corrections), len(self._rows) - (head - int(self._cursor[TAKEN])))
        barrier()
        self._rows[np.arange(head, head + count) % len(self._rows)] = corrections[:count]
        barrier()
        self._cursor[HEAD] = head + count
        return count


class CorrectionReader:
    """The reading end, in the process that detects: the only one that writes the table of sources."""

    def __init__(self, region: Region, sources: Records) -> None:
        """`sources`: SOURCE [rows]."""
        self._cursor, self._rows, self._sources = region["cursor"], region["rows"], sources

    def take(self) -> int:
        """Apply new corrections to the table; returns by how much losses fell in total."""
        head, taken = int(self._cursor[HEAD]), int(self._cursor[TAKEN])
        if head == taken:
            return 0
        barrier()
        moved = 0
        for at in range(taken, head):
            moved += self._correct(self._rows[at % len(self._rows)])
        self._cursor[TAKEN] = head
        return moved

    def _correct(self, correction: np.void) -> int:
        """Apply one correction; returns by how much losses fell."""
        sources, moved = self._sources, correction["moved"]
        found = np.ones(len(sources), bool)
        for name in SPACE:
            found &= sources[name] == correction[name]
        places: npt.NDArray[np.int64] = np.flatnonzero(found)
        for place in places.tolist():  # one, or none if another source took the row
            sources["version"][place] |= 1
            barrier()
            moved = min(sources["lost"][place], moved)  # some may have arrived late meanwhile
            sources["lost"][place] -= moved
            sources["moved"][place] += moved
            barrier()
            sources["version"][place] += 1
        return int(moved)
