"""The live feed: rings are read once for all listeners, and each listener learns how many events it missed.

A cursor has the number of the next event of each shard. It is written as `0-1234,1-99`, or as `-` before the
very first event. Events are numbered without gaps, so a gap in the numbers that a listener gets shows
exactly how many it lost: they were overwritten in a ring, or dropped from this buffer, perhaps while it was
away.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from pathlib import Path

import numpy as np

from ..detect.records import EVENT, EVENT_VERSION
from ..memory.region import RegionError
from ..memory.ring import RingReader, attach_ring
from ..memory.snapshot import joined, rows_at
from ..wire.records import Records
from .collector_state import listing
from .events import continues

Cursor = dict[int, int]
"""Sequence of the next event to read, by shard."""

KEEP = 65_536
"""How many events of a shard are kept for listeners that are slow or reconnect."""
_NO_EVENT = "-"
"""Not an empty text: a client with an empty id would send none, and so miss the events while it was away."""
_PART = re.compile(r"(\d{1,5})-(\d{1,20})")


def parse_cursor(text: str | None) -> Cursor | None:
    """The cursor after a Last-Event-ID; None if the text is not one."""
    if not text or len(text) > 2000:
        return None
    if text == _NO_EVENT:
        return {}
    parts = [_PART.fullmatch(part) for part in text.split(",")]
    if not all(parts):
        return None
    return {int(part[1]): int(part[2]) for part in parts if part}


def cursor_text(cursor: Cursor) -> str:
    """The Last-Event-ID of a cursor."""
    return ",".join(f"{shard}-{sequence}" for shard, sequence in sorted(cursor.items())) or _NO_EVENT


class Feed:
    """The recent events of all rings in `regions`: `poll` reads new events, `read` returns them."""

    def __init__(self, regions: Path, keep: int = KEEP) -> None:
        self._regions = regions
        self._keep = keep
        self._lock = threading.Lock()
        self._files: tuple[tuple[str, int], ...] | None = None
        self._readers: dict[int, tuple[int, RingReader]] = {}
        self._blocks: dict[int, deque[Records]] = {}

    def poll(self, limit: int = 1 << 18) -> int:
        """Read new events from the rings (at most `limit` from each); returns their number."""
        with self._lock:
            self._attach()
            new = 0
            for shard, (_, reader) in self._readers.items():
                records, _ = reader.read(limit)
                new += len(records)
                self._keep_block(shard, records)
            return new

    def _keep_block(self, shard: int, records: Records) -> None:
        blocks = self._blocks.setdefault(shard, deque())
        if len(records) and blocks and records["sequence"][0] <= blocks[-1]["sequence"][-1]:
            if records["sequence"][0] == 0 and records["sequence"][-1] < blocks[-1]["sequence"][-1]:
                blocks.clear()  # the data folder was replaced: numbers start again
            else:
                records = records[records["sequence"] > blocks[-1]["sequence"][-1]]
        if len(records):
            cuts = np.flatnonzero(np.diff(records["sequence"]) != 1) + 1
            blocks.extend(np.split(records, cuts))
        kept = sum(len(block) for block in blocks)
        while len(blocks) > 1 and kept - len(blocks[0]) >= self._keep:
            kept -= len(blocks.popleft())

    def _attach(self) -> None:
        files = tuple(
            f for f in listing(self._regions) if f[0].startswith("worker-") and f[0].endswith(".events")
        )
        if files == self._files:
            return
        complete = True
        readers: dict[int, tuple[int, RingReader]] = {}
        for name, inode in files:
            shard = int(name[7:-7])
            if shard in self._readers and self._readers[shard][0] == inode:
                readers[shard] = self._readers[shard]
                continue
            try:
                readers[shard] = (
                    inode,
                    RingReader(attach_ring(self._regions / name, EVENT_VERSION), "oldest"),
                )
            except (RegionError, ValueError):
                complete = False
        self._readers = readers
        self._files = files if complete else None

    def now(self) -> Cursor:
        """Cursor after the newest event of each shard."""
        with self._lock:
            return {s: int(blocks[-1]["sequence"][-1]) + 1 for s, blocks in self._blocks.items() if blocks}

    def read(self, cursor: Cursor, limit: int = 5000) -> tuple[Records, int]:
        """Events from `cursor` on, by time, and how many were lost before them; advances `cursor`.

        There are at most `limit` events of each shard, but always all records of the last event. A shard
        that the cursor does not contain is read from its start.
        """
        parts: list[Records] = []
        lost = 0
        with self._lock:
            for shard, blocks in self._blocks.items():
                at = cursor.get(shard, 0)
                if blocks and at > int(blocks[-1]["sequence"][-1]) + 1:
                    at = int(blocks[-1]["sequence"][-1]) + 1  # the cursor is from another folder
                given = 0
                for block in blocks:
                    first, end = int(block["sequence"][0]), int(block["sequence"][-1]) + 1
                    if end <= at:
                        continue
                    if shard in cursor:
                        lost += max(0, first - at)
                    part = block[max(0, at - first) :]
                    end = limit - given
                    while end < len(part) and continues(part[end : end + 1])[0]:
                        end += 1  # a path is not cut
                    part = part[:end]
                    parts.append(part)
                    given += len(part)
                    at = int(part["sequence"][-1]) + 1
                    if given >= limit:
                        break
                cursor[shard] = at
        if not parts:
            return np.empty(0, EVENT), lost
        records = joined(parts)
        return rows_at(records, np.argsort(records["time_ns"], kind="stable")), lost
