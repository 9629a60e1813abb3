"""Reads the events of a data folder in order, starting at a position: from the ring if it still has them,
else from journals or segments.

A position is the sequence of the next event of a shard. A reader that keeps its positions misses no event
that is still in history, however far it falls behind.
"""

from __future__ import annotations

import os
import re
import time
from bisect import bisect_left
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from ..detect.records import EVENT, EVENT_VERSION
from ..memory.region import Region, RegionError
from ..memory.ring import RingReader, attach_ring
from ..memory.rings import ring_end
from ..wire.records import Records
from .columns import connect
from .errors import DamagedError, HistoryError
from .files.checksums import check_again, wrong_sums
from .files.journal_file import HEADER_BYTES, pull_header
from .files.names import (
    JournalFile,
    SegmentFile,
    list_journals,
    list_segments,
    noted_sequence,
    noted_shards,
    segment_covering,
)
from .files.segments import first_line, read_events

SCAN_SECONDS = 1.0
"""Interval between scans of the folder for new shards."""
SEGMENT_ROWS = 65_536
"""Events read from a segment at a time: fewer would cost more, since each read searches the file again."""
_RING = re.compile(r"worker-(\d+)\.events")


class EventFollower:
    """Reads the events of the data folder `folder`. It belongs to one thread.

    `read` raises HistoryError if a file in the folder is not ours, of a later version, or damaged. Once the
    archive has set a damaged file aside, `read` continues with the events after it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._rings: dict[int, tuple[Region, RingReader]] = {}
        self._journals: dict[int, _OpenJournal] = {}
        self._read: dict[int, Records] = {}
        """The events that were last read from a segment, by shard; without gaps."""
        self._shards: list[int] = []
        self._scanned_at = -SCAN_SECONDS
        self._segments: duckdb.DuckDBPyConnection | None = None
        self._undamaged: dict[int, Path] = {}
        """The last segment of each shard whose checksum was found to be right."""
        self.from_files = 0
        """Events that were read from files because the ring no longer had them."""

    def close(self) -> None:
        """Close files."""
        for journal in self._journals.values():
            os.close(journal.fd)
        self._journals.clear()
        if self._segments is not None:
            self._segments.close()

    def shards(self) -> list[int]:
        """Numbers of the shards that have or had events, ascending. The list is up to SCAN_SECONDS old."""
        if time.monotonic() - self._scanned_at < SCAN_SECONDS:
            return self._shards
        self._scanned_at = time.monotonic()
        rings = (_RING.fullmatch(path.name) for path in (self._folder / "regions").glob("worker-*.events"))
        journals = (file.shard for file in list_journals(self._folder))
        segments = (file.shard for file in list_segments(self._folder))
        noted = noted_shards(self._folder)
        self._shards = sorted({*(int(match[1]) for match in rings if match), *journals, *segments, *noted})
        return self._shards

    def end(self, shard: int) -> int:
        """1 + the sequence of the newest event of a shard; 0 if it has no events."""
        found = 0
        if ring := self._ring(shard):
            found = ring_end(ring[0])
        for journal in list_journals(self._folder):
            if journal.shard == shard and journal.first >= found:
                opened = _OpenJournal.open(journal)
                if opened is not None:
                    found = max(found, opened.end())
                    os.close(opened.fd)
        for segment in list_segments(self._folder):
            if segment.shard == shard:
                found = max(found, segment.last + 1)
        return found

    def following(self, shard: int) -> int:
        """A number above the sequences of all events of a shard, including those
        that retention has deleted.
        """
        return max(self.end(shard), noted_sequence(self._folder, shard))

    def read(self, shard: int, position: int, limit: int) -> Records:
        """EVENT [at most `limit`], by sequence without gaps, from `position` on; empty if there is none yet.

        The first event is later than `position` if history lacks the events before it.
        """
        ring = self._from_ring(shard, position, limit)
        if ring is not None and (not len(ring) or ring["sequence"][0] == position):
            self._read.pop(shard, None)
            return ring
        found = self._from_files(shard, position, limit)
        if found is None:
            return np.empty(0, EVENT) if ring is None else ring
        self.from_files += len(found)
        return found

    def run(self, shard: int, position: int, limit: int) -> Records:
        """As `read`, but joins what ring and files have until there are `limit` events or a gap."""
        parts = [self.read(shard, position, limit)]
        left = limit - len(parts[0])
        while left and len(parts[-1]):
            end = int(parts[-1]["sequence"][-1]) + 1
            more = self.read(shard, end, left)
            if not len(more) or more["sequence"][0] != end:
                break
            parts.append(more)
            left -= len(more)
        return np.concatenate(parts) if len(parts) > 1 else parts[0]

    # ----------------------------------------------------------------------------------------- the ring

    def _ring(self, shard: int) -> tuple[Region, RingReader] | None:
        known = self._rings.get(shard)
        if known is not None and known[0].is_current():
            return known
        try:
            region = attach_ring(self._folder / "regions" / f"worker-{shard}.events", EVENT_VERSION)
        except RegionError:
            return None
        self._rings[shard] = region, RingReader(region)
        return self._rings[shard]

    def _from_ring(self, shard: int, position: int, limit: int) -> Records | None:
        """Events of the ring from `position` or from its next event on; None if there is no ring, or it is
        empty.
        """
        ring = self._ring(shard)
        if ring is None:
            return None
        region, reader = ring
        head, newest = reader.head, ring_end(region)
        if not newest:
            return None
        if position >= newest:
            return np.empty(0, EVENT)
        sequences, mask = region["records"]["sequence"], reader.capacity - 1
        kept = range(max(0, head - reader.capacity), head)
        reader.cursor = kept.start + bisect_left(kept, position, key=lambda at: int(sequences[at & mask]))
        records, _ = reader.read(limit)
        jumps = np.flatnonzero(np.diff(records["sequence"]) != 1)
        return records[: int(jumps[0]) + 1] if len(jumps) else records

    # ------------------------------------------------------------------------------------------- files

    def _from_files(self, shard: int, position: int, limit: int) -> Records | None:
        """Events of files from `position` or from their next event on; None if they have none."""
        known = self._read.pop(shard, None)
        if known is not None and 0 <= (at := position - int(known["sequence"][0])) < len(known):
            self._read[shard] = known
            return known[at : at + limit]
        journals = [journal for journal in list_journals(self._folder) if journal.shard == shard]
        found = self._from_journal(shard, position, limit, [j for j in journals if j.first <= position])
        if found is not None:
            return found
        segments = [segment for segment in list_segments(self._folder) if segment.shard == shard]
        covering = segment_covering(segments, shard, position)
        if covering is not None:
            rows = self._from_segment(covering, position)
            if rows is None:
                return self._from_files(shard, position, limit)
            if len(rows):
                self._read[shard] = rows
                return rows[:limit]
        begins = (*(file.first for file in journals), *(file.first for file in segments))
        later = [first for first in begins if first > position]
        return self._from_files(shard, min(later), limit) if later else None

    def _from_journal(
        self, shard: int, position: int, limit: int, journals: list[JournalFile]
    ) -> Records | None:
        opened = self._journals.get(shard)
        if not journals:
            return None
        if opened is None or opened.path != journals[-1].path:
            if opened is not None:
                os.close(opened.fd)
                del self._journals[shard]
            opened = _OpenJournal.open(journals[-1])
            if opened is None:
                return None  # it has become a segment
            self._journals[shard] = opened
        rows = opened.read(position, limit)
        return rows if len(rows) else None

    def _from_segment(self, segment: SegmentFile, position: int) -> Records | None:
        """Events of one segment; None if the file no longer exists: merged, deleted, or set aside."""
        path = segment.path
        if self._segments is None:
            self._segments = connect(256 * 1024**2, threads=1)
        try:
            if self._undamaged.get(segment.shard) != path:
                for damage in wrong_sums([path]).values():
                    raise damage
                self._undamaged[segment.shard] = path
            return read_events(self._segments, path, position, position + SEGMENT_ROWS)
        except (duckdb.Error, DamagedError, UnicodeError) as error:
            try:
                check_again(path)  # the archive sets it aside if it is damaged
            except FileNotFoundError:
                return None
            except OSError:
                pass  # the file belongs to another user
            line = (
                str(error)
                if isinstance(error, DamagedError)
                else f"{path} cannot be read: {first_line(error)}"
            )
            raise HistoryError(line) from error


def ends_of(folder: Path) -> dict[int, int]:
    """1 + the sequence of the newest event, by shard of a data folder."""
    follower = EventFollower(folder)
    try:
        return {shard: follower.end(shard) for shard in follower.shards()}
    finally:
        follower.close()


@dataclass(slots=True)
class _OpenJournal:
    """An open journal, which may still be growing."""

    path: Path
    fd: int
    shard: int
    first: int
    layout: np.dtype[Any]

    @classmethod
    def open(cls, journal: JournalFile) -> _OpenJournal | None:
        """Open a journal; None if it no longer exists, or has no header yet."""
        try:
            fd = os.open(journal.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            head = os.pread(fd, HEADER_BYTES, 0)
            if not head.rstrip(b"\0"):
                os.close(fd)
                return None
            return cls(journal.path, fd, *pull_header(journal.path, head))
        except BaseException:
            os.close(fd)
            raise

    def end(self) -> int:
        """1 + the sequence of its last whole record."""
        return self.first + max(0, os.fstat(self.fd).st_size - HEADER_BYTES) // self.layout.itemsize

    def read(self, position: int, limit: int) -> Records:
        """EVENT records from `position` on."""
        size = self.layout.itemsize
        data = os.pread(self.fd, limit * size, HEADER_BYTES + (position - self.first) * size)
        raw = np.frombuffer(data[: len(data) // size * size], self.layout)
        rows = np.zeros(len(raw), EVENT)
        for name in self.layout.names or ():
            rows[name] = raw[name]
        expected = np.arange(position, position + len(rows), dtype=np.uint64)
        wrong = (rows["sequence"] != expected) | (rows["shard"] != self.shard)
        return rows[: int(wrong.argmax())] if wrong.any() else rows
