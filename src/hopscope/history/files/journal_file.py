"""The format of a journal: a header, then EVENT records; record i has the sequence `first + i`.

Journals with an earlier layout can be read too; the fields that it lacks are 0.
"""

from __future__ import annotations

import os
import struct
import time
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


class JournalReader:
    """Reads a journal that may still be growing, and keeps the records that it has read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.record_bytes = EVENT_BYTES
        """Size of one record; valid after the first `read`."""
        self._buffer = np.empty(0, EVENT)
        self._count = 0

    def read(self) -> Records:
        """All complete EVENT records before the first with a wrong sequence.
        FileNotFoundError, DamagedError.
        """
        with self.path.open("rb") as file:
            head = file.read(HEADER_BYTES)
            if not head.rstrip(b"\0"):
                return self._buffer[:0]  # power failed before the header was on disk
            shard, first, layout = pull_header(self.path, head)
            self.record_bytes = layout.itemsize
            have = self._count
            more = (os.fstat(file.fileno()).st_size - HEADER_BYTES) // layout.itemsize - have
            if more > 0:
                if have + more > len(self._buffer):
                    grown = np.empty(have + more + have // 2, EVENT)
                    grown[:have] = self._buffer[:have]
                    self._buffer = grown
                file.seek(HEADER_BYTES + have * layout.itemsize)
                fresh = self._buffer[have : have + more]
                raw = fresh if layout is EVENT else np.zeros(more, layout)
                more = file.readinto(raw.view(np.uint8)) // layout.itemsize  # type: ignore[arg-type]
                if raw is not fresh:
                    fresh["switch_ns"] = 0
                    for name in layout.names or ():
                        fresh[name] = raw[name]
                expected = np.arange(first + have, first + have + more, dtype=np.uint64)
                wrong = (fresh["sequence"][:more] != expected) | (fresh["shard"][:more] != shard)
                self._count += int(wrong.argmax()) if wrong.any() else more
        return self._buffer[: self._count]


def read_journal(path: Path) -> Records:
    """The result of `JournalReader.read` for one journal."""
    return JournalReader(path).read()


def read_journals(folder: Path) -> Records:
    """EVENT records of a data folder that are not in a segment yet, ordered by (shard, sequence). Damaged
    journals are left out.
    """
    blocks = []
    for journal in list_journals(Path(folder)):
        try:
            blocks.append((journal, read_journal(journal.path)))
        except (FileNotFoundError, DamagedError):
            continue  # it has become a segment, or the archive will set it aside
    segments = list_segments(Path(folder))
    fresh = [
        events for journal, events in blocks if not segment_covering(segments, journal.shard, journal.first)
    ]
    return np.concatenate(fresh) if fresh else np.empty(0, EVENT)
