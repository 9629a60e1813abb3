"""A journal's bytes: a header, and EVENT records behind it; record i has the sequence `first + i`."""

from __future__ import annotations

import os
import struct
import time
import zlib
from pathlib import Path

import numpy as np

from ..detect.records import EVENT, EVENT_VERSION
from ..wire.records import Records
from .files import HistoryError, covered, list_journals, list_segments

MAGIC = b"HOPSJRNL"
HEADER_BYTES = 128
EVENT_BYTES = EVENT.itemsize
_HEADER = struct.Struct("<8sIIIIQqI")
"""Magic, EVENT_VERSION, bytes of a record, shard, bytes of the header, first sequence, creation (ns), CRC."""


def push_header(shard: int, first: int) -> bytes:
    """The header of a journal that is created now."""
    head = _HEADER.pack(MAGIC, EVENT_VERSION, EVENT_BYTES, shard, HEADER_BYTES, first, time.time_ns(), 0)[:-4]
    return (head + struct.pack("<I", zlib.crc32(head))).ljust(HEADER_BYTES, b"\0")


def pull_header(path: Path, head: bytes) -> tuple[int, int]:
    """Shard and first sequence; HistoryError if the file is foreign, damaged or of another version."""
    if len(head) < HEADER_BYTES or head[: len(MAGIC)] != MAGIC:
        raise HistoryError(f"{path} is not a journal of Hopscope: move it out of the folder")
    _, version, record, shard, header, first, _, check = _HEADER.unpack_from(head)
    if version != EVENT_VERSION or record != EVENT_BYTES or header != HEADER_BYTES:
        raise HistoryError(
            f"{path} has event layout {version}, and this version of Hopscope reads {EVENT_VERSION}:"
            " open the folder with the version that wrote it, or use a new one"
        )
    if check != zlib.crc32(head[: _HEADER.size - 4]):
        raise HistoryError(f"{path} has a damaged header: move it out of the folder")
    return shard, first


def read_journal(path: Path) -> Records:
    """Whole EVENT records of one journal, up to the first with a wrong sequence. FileNotFoundError passes."""
    with path.open("rb") as file:
        head = file.read(HEADER_BYTES)
        if not head.rstrip(b"\0"):
            return np.empty(0, EVENT)  # the machine lost its power before the header was on disk
        shard, first = pull_header(path, head)
        count = (os.fstat(file.fileno()).st_size - HEADER_BYTES) // EVENT_BYTES
        events = np.fromfile(file, EVENT, count)
    expected = np.arange(first, first + len(events), dtype=np.uint64)
    wrong = (events["sequence"] != expected) | (events["shard"] != shard)
    return events[: int(wrong.argmax())] if wrong.any() else events


def read_journals(folder: Path) -> Records:
    """EVENT records of all journals of a data folder that are in no segment yet, by (shard, sequence)."""
    blocks = []
    for journal in list_journals(Path(folder)):
        try:
            blocks.append((journal, read_journal(journal.path)))
        except FileNotFoundError:
            continue  # a segment by now
    segments = list_segments(Path(folder))
    fresh = [events for journal, events in blocks if not covered(segments, journal.shard, journal.first)]
    return np.concatenate(fresh) if fresh else np.empty(0, EVENT)
