"""The format of a journal: a header, then EVENT records; record i has the sequence `first + i`.

Journals with an earlier layout can be read too; the fields that it lacks are 0.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
import weakref
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from ...detect.records import EVENT, EVENT_VERSION
from ...wire.records import Records
from ..errors import DamagedError, HistoryError
from .names import list_journals, list_segments, segment_covering

MAGIC = b"HOPSJRNL"
HEADER_BYTES = 128
EVENT_BYTES = EVENT.itemsize
_HEADER = struct.Struct("<8sIIIIQqI")
"""Magic, EVENT_VERSION, bytes of a record, shard, bytes of the header, first sequence, creation (ns), CRC."""


LAYOUTS = {EVENT_VERSION: EVENT, 1: np.dtype([field for field in EVENT.descr if field[0] != "switch_ns"])}
"""Record type by version of the layout; version 1 had no `switch_ns`."""


def number_events(events: Records, shard: int, first: int) -> None:
    """Set `shard`, and `sequence` from `first` on, in EVENT records. Only the writer of a shard may do so."""
    events["sequence"] = np.arange(first, first + len(events), dtype=np.uint64)
    events["shard"] = shard


def push_header(shard: int, first: int) -> bytes:
    """The header of a new journal."""
    head = _HEADER.pack(MAGIC, EVENT_VERSION, EVENT_BYTES, shard, HEADER_BYTES, first, time.time_ns(), 0)[:-4]
    return (head + struct.pack("<I", zlib.crc32(head))).ljust(HEADER_BYTES, b"\0")


def pull_header(path: Path, head: bytes) -> tuple[int, int, np.dtype[Any]]:
    """Read a header: shard, first sequence, layout. DamagedError: the header is damaged; HistoryError: a
    later version wrote it.
    """
    if len(head) < HEADER_BYTES or head[: len(MAGIC)] != MAGIC:
        raise DamagedError(f"{path} is damaged: it does not begin as a journal")
    _, version, record, shard, header, first, _, check = _HEADER.unpack_from(head)
    if check != zlib.crc32(head[: _HEADER.size - 4]):
        raise DamagedError(f"{path} is damaged: its header does not have its checksum")
    layout = LAYOUTS.get(version)
    if layout is None or record != layout.itemsize or header != HEADER_BYTES:
        raise HistoryError(
            f"{path} has event layout {version}, and this version of Hopscope reads {EVENT_VERSION}:"
            " open the folder with the version that wrote it, or use a new one"
        )
    return shard, first, layout


class OpenJournal:
    """A journal that may still be growing; it can be read after its file is deleted.
    FileNotFoundError, DamagedError.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb", buffering=0)
        weakref.finalize(self, self._file.close)
        head = self._file.read(HEADER_BYTES)
        self.shard, self.first, self._layout = 0, 0, EVENT
        self._has_header = bool(head.rstrip(b"\0"))  # else power failed before the header was on disk
        if self._has_header:
            self.shard, self.first, self._layout = pull_header(path, head)

    @property
    def record_bytes(self) -> int:
        """Size of one record."""
        return self._layout.itemsize

    def __len__(self) -> int:
        """Number of complete records."""
        if not self._has_header:
            return 0
        return max(0, os.fstat(self._file.fileno()).st_size - HEADER_BYTES) // self.record_bytes

    def read(self, begin: int, events: Records) -> int:
        """Read records from number `begin` on into `events`; returns how many: fewer if the file ends."""
        if not len(events):
            return 0
        raw = events if self._layout is EVENT else np.zeros(len(events), self._layout)
        self._file.seek(HEADER_BYTES + begin * self.record_bytes)
        buffer, done = raw.view(np.uint8).data, 0
        while done < len(buffer) and (more := self._file.readinto(buffer[done:])):
            done += more  # Linux reads at most 2 GiB at once
        if raw is not events:
            events["switch_ns"] = 0
            for name in self._layout.names or ():
                events[name] = raw[name]
        return done // self.record_bytes

    def undamaged(self, begin: int, events: Records) -> int:
        """How many of these records, from number `begin` on, come before the first with a wrong sequence."""
        first = self.first + begin
        expected = np.arange(first, first + len(events), dtype=np.uint64)
        wrong = (events["sequence"] != expected) | (events["shard"] != self.shard)
        return int(wrong.argmax()) if wrong.any() else len(events)

    def mapped(self, count: int) -> Records:
        """The first `count` EVENT records, which the file has, without copying them. A process that reads
        them after the file was cut is killed (SIGBUS).
        """
        if self._layout is EVENT and count:
            area = mmap.mmap(self._file.fileno(), HEADER_BYTES + count * EVENT_BYTES, access=mmap.ACCESS_READ)
            events: Records = np.frombuffer(area, EVENT, count, HEADER_BYTES)
            return events
        events = np.empty(count, EVENT)
        return events[: self.read(0, events)]


def read_journal(path: Path) -> tuple[Records, int]:
    """All complete EVENT records of a journal before the first with a wrong sequence, and the size of one in
    the file. FileNotFoundError, DamagedError.
    """
    journal = OpenJournal(path)
    events = np.empty(len(journal), EVENT)
    events = events[: journal.read(0, events)]
    return events[: journal.undamaged(0, events)], journal.record_bytes


def read_journals(folder: Path) -> Records:
    """EVENT records of a data folder that are not in a segment yet, ordered by (shard, sequence). Damaged
    journals are left out.
    """
    blocks = []
    for journal in list_journals(Path(folder)):
        try:
            blocks.append((journal, read_journal(journal.path)[0]))
        except (FileNotFoundError, DamagedError):
            continue  # it has become a segment, or the archive will set it aside
    segments = list_segments(Path(folder))
    fresh = [
        events for journal, events in blocks if not segment_covering(segments, journal.shard, journal.first)
    ]
    return np.concatenate(fresh) if fresh else np.empty(0, EVENT)
