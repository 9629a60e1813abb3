"""Rings: one writer, any number of readers with cursors of their own; a slow reader learns what it lost.

Two counters of records since the ring was made stand in front of the records: `claim` is raised before the
writer touches a slot, `head` after the journal has the records.  A reader copies records below `head`, then
looks at `claim` again: what lies a whole ring behind it may have been overwritten while it was copied, and is
counted as lost.  So reading never blocks the writer, and read + lost is what was published.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from .region import Region, RegionError, barrier

KIND = "ring"
CLAIM, HEAD = 0, 8
"""Places in the `cursor` array; each counter has a cache line of its own."""


def create_ring(path: Path | str | None, record: npt.DTypeLike, capacity: int, version: int) -> Region:
    """Region of a ring of `capacity` records, a power of two; `version` is that of the record type."""
    if capacity < 1 or capacity & (capacity - 1):
        raise ValueError(f"a ring holds a power of two of records, not {capacity}")
    return Region.create(path, KIND, version, {"cursor": (np.uint64, 16), "records": (record, capacity)})


def attach_ring(path: Path | str, version: int, writable: bool = False) -> Region:
    """Map a ring; RegionError where it is none, or of another record version."""
    return Region.attach(path, KIND, version, writable)


def continue_ring(path: Path | None, record: npt.DTypeLike, capacity: int, version: int) -> Region:
    """The ring under `path`, to be written on; made anew where there is none of this size and version."""
    if path is not None:
        try:
            region = attach_ring(path, version, writable=True)
            if len(region["records"]) == capacity:
                return region
        except RegionError:
            pass
    return create_ring(path, record, capacity, version)


class RingWriter:
    """The one writer; it continues after the last published record of an existing ring."""

    def __init__(self, region: Region) -> None:
        self._cursor = region["cursor"]
        self.records: npt.NDArray[Any] = region["records"]
        self.capacity = len(self.records)
        if not self._cursor.flags.writeable:
            raise RegionError(f"{region.path}: mapped read-only; a ring's writer attaches with writable=True")

    @property
    def head(self) -> int:
        """Records published since the ring was made."""
        return int(self._cursor[HEAD])

    def reserve(self, count: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Slots for the next `count` records, in two parts (a ring has an end); the second may be empty."""
        if count > self.capacity:
            raise ValueError(f"{count} records do not fit a ring of {self.capacity}")
        head = self.head
        self._cursor[CLAIM] = max(int(self._cursor[CLAIM]), head + count)  # a killed writer's claim stays
        barrier()
        at = head & (self.capacity - 1)
        first = min(count, self.capacity - at)
        return self.records[at : at + first], self.records[: count - first]

    def publish(self, count: int) -> None:
        """Let readers see the next `count` records: called when the journal has them."""
        barrier()
        self._cursor[HEAD] = self.head + count

    def write(self, records: npt.NDArray[Any]) -> None:
        """Reserve, copy and publish; more records than the ring holds go through it in parts."""
        for at in range(0, len(records), self.capacity):
            part = records[at : at + self.capacity]
            first, second = self.reserve(len(part))
            first[:] = part[: len(first)]
            second[:] = part[len(first) :]
            self.publish(len(part))


class RingReader:
    """A reader with its own cursor: the number of the next record, counted since the ring was made."""

    def __init__(self, region: Region, start: Literal["new", "oldest"] | int = "new") -> None:
        self._cursor = region["cursor"]
        self._records = region["records"]
        self.capacity = len(self._records)
        if start == "new":
            self.cursor = self.head
        elif start == "oldest":
            self.cursor = max(0, int(self._cursor[CLAIM]) - self.capacity)
        else:
            self.cursor = start
        self.lost = 0

    @property
    def head(self) -> int:
        """Records published since the ring was made."""
        return int(self._cursor[HEAD])

    def read(self, limit: int = 4096) -> tuple[npt.NDArray[Any], int]:
        """At most `limit` records, a copy, and how many were lost in front of them. Empty: nothing new."""
        head = self.head
        barrier()
        if self.cursor > head:  # the ring was made anew under this reader
            self.cursor = head
        begin = min(max(self.cursor, self._oldest()), head)
        end = min(begin + limit, head)
        records = self._copy(begin, end)
        barrier()
        safe = min(max(begin, self._oldest()), end)
        lost = safe - self.cursor
        self.cursor = end
        self.lost += lost
        return records[safe - begin :], lost

    def _oldest(self) -> int:
        """First record that no writer may be overwriting."""
        return max(0, int(self._cursor[CLAIM]) - self.capacity)

    def _copy(self, begin: int, end: int) -> npt.NDArray[Any]:
        at, count = begin & (self.capacity - 1), end - begin
        first = min(count, self.capacity - at)
        if first == count:
            return self._records[at : at + count].copy()
        return np.concatenate([self._records[at:], self._records[: count - first]])
