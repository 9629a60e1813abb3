"""Rings: one writer, and any number of readers with their own cursors. A slow reader knows how much it has
lost.

Two counters precede the records: `claim` is increased before the writer touches a slot, `head` after the
journal has the records. A reader copies records below `head`, then reads `claim` again: records that are at
least a whole ring below it may have been overwritten during the copy, and count as lost. So readers never
block the writer, and records read + records lost = records published.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from .region import Region, RegionError, barrier

KIND = "ring"
CLAIM, SETTLED, HEAD = 0, 1, 8
"""Indices into the `cursor` array; claim and head are in different cache lines."""


def create_ring(path: Path | str | None, record: npt.DTypeLike, capacity: int, version: int) -> Region:
    """Create the region of a ring with `capacity` records, a power of two; `version`: that of the record
    type.
    """
    if capacity < 1 or capacity & (capacity - 1):
        raise ValueError(f"the capacity of a ring is a power of two, not {capacity}")
    return Region.create(path, KIND, version, {"cursor": (np.uint64, 16), "records": (record, capacity)})


def attach_ring(path: Path | str, version: int, writable: bool = False) -> Region:
    """Map a ring. Raises RegionError if it is not a ring, or of another record version."""
    return Region.attach(path, KIND, version, writable)


def resume_ring(path: Path | None, record: npt.DTypeLike, capacity: int, version: int) -> Region:
    """Continue the ring at `path`, or create it if there is none with this capacity and version."""
    if path is not None:
        try:
            region = attach_ring(path, version, writable=True)
            if len(region["records"]) == capacity:
                return region
        except RegionError:
            pass
    return create_ring(path, record, capacity, version)


class RingWriter:
    """The writer of a ring; it continues after the last published record."""

    def __init__(self, region: Region) -> None:
        self._cursor = region["cursor"]
        self.records: npt.NDArray[Any] = region["records"]
        self.capacity = len(self.records)
        if not self._cursor.flags.writeable:
            raise RegionError(f"{region.path}: mapped read-only; a ring's writer attaches with writable=True")

    @property
    def head(self) -> int:
        """Number of records published since the ring was created."""
        return int(self._cursor[HEAD])

    @property
    def settled(self) -> int:
        """Number of records that the writer has accounted for: they are stored, or counted as lost."""
        return int(self._cursor[SETTLED])

    @settled.setter
    def settled(self, count: int) -> None:
        self._cursor[SETTLED] = count

    def reserve(self, count: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Slots for the next `count` records, in two parts (the ring wraps); the second may be empty."""
        if count > self.capacity:
            raise ValueError(f"{count} records exceed a ring of {self.capacity}")
        head = self.head
        # keeps the claim of a killed writer
        self._cursor[CLAIM] = max(int(self._cursor[CLAIM]), head + count)
        barrier()
        at = head & (self.capacity - 1)
        first = min(count, self.capacity - at)
        return self.records[at : at + first], self.records[: count - first]

    def publish(self, count: int) -> None:
        """Make the next `count` records visible to readers; to be called once the journal has them."""
        barrier()
        self._cursor[HEAD] = self.head + count

    def write(self, records: npt.NDArray[Any]) -> None:
        """Reserve, copy and publish; more records than the capacity are written in parts."""
        for at in range(0, len(records), self.capacity):
            part = records[at : at + self.capacity]
            first, second = self.reserve(len(part))
            _bytes(first)[:] = _bytes(part[: len(first)])
            _bytes(second)[:] = _bytes(part[len(first) :])
            self.publish(len(part))


class RingReader:
    """A reader with its own cursor, the number of the next record, counted since the ring was created."""

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
        """Records published since the ring was created."""
        return int(self._cursor[HEAD])

    def read(self, limit: int = 4096) -> tuple[npt.NDArray[Any], int]:
        """A copy of at most `limit` new records, and the number of records lost before them."""
        head = self.head
        barrier()
        if self.cursor > head:  # the ring was recreated
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
        """Number of the first record that the writer cannot be overwriting."""
        return max(0, int(self._cursor[CLAIM]) - self.capacity)

    def _copy(self, begin: int, end: int) -> npt.NDArray[Any]:
        at, count = begin & (self.capacity - 1), end - begin
        first = min(count, self.capacity - at)
        parts = self._records[at : at + first], self._records[: count - first]
        return np.concatenate([_bytes(part) for part in parts]).view(self._records.dtype)


def _bytes(records: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Records as opaque bytes: then copying an event takes 6 ns, instead of 170 ns field by field."""
    return records.view(f"V{records.dtype.itemsize}")
