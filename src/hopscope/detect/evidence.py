"""Evidence: the reports that caused notable events, in shared memory of fixed size, the newest ones.

A ring of bytes has the reports, one after the other; a ring of entries says which event each is of.  There is
one writer.  It moves `BEGIN` before it overwrites bytes, so a reader that has copied a report sees whether it
was overwritten meanwhile.

A report is its FRAME, its REPORT, its HOPs, and its bytes as they were received; where the process that
finds events does not see frames (several workers), and for a path that was joined from postcards, it has no
bytes.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..memory.region import Region, RegionError, barrier
from ..wire.records import FRAME, HOP, REPORT, Carried, FrameBatch, Records, ReportBatch
from .records import NOT_FOUND, ROUTINE, Kind

KIND, VERSION = "evidence", 1
FOLDER = "evidence"
"""Folder of the data folder with the regions of a collector that has stopped."""
ENTRY = np.dtype(
    [
        ("sequence", "<u8"),  # of the event, in its shard
        ("time_ns", "<i8"),  # of the event
        ("begin", "<u8"),  # bytes that were written before its report
        ("frame_bytes", "<u4"),  # received bytes; 0: none are kept
        ("hops", "<u4"),
        ("sum", "<u4"),  # CRC-32 of the report
        ("reserved", "<u4"),
        ("dialect", "S56"),  # name of the dialect that it was decoded by
    ]
)
"""One event with its report, 96 bytes."""
BEGIN, END, ENTRIES = 0, 8, 16
"""Slots of `cursor`: bytes that are overwritten, bytes and entries that were written, in all."""
MOST_BYTES = 65_536
"""Longest frame that is kept."""
_PER_ENTRY = 512
"""Bytes of the ring for each entry."""
_HEAD = FRAME.itemsize + REPORT.itemsize
Causes = tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]
"""Rows of notable events in a block, and those of their reports in a batch."""
_NOTABLE = np.zeros(256, bool)
_NOTABLE[[kind.value for kind in Kind if kind not in ROUTINE]] = True


@dataclass(frozen=True, slots=True)
class Kept:
    """The report that caused an event."""

    frames: FrameBatch
    """Its frame; of no bytes if none were kept."""
    batch: ReportBatch
    """The report as it was decoded, times in ns."""
    dialect: str


def evidence_path(folder: Path, shard: int) -> Path:
    """File of a shard, in the folder of regions or in FOLDER."""
    return folder / f"worker-{shard}.evidence"


def open_evidence(regions: Path | None, shard: int, size: int, data: Path | None = None) -> Region | None:
    """The region of a shard, continued; that of a collector that has stopped is in `data`. None: it is off.

    Raises RegionError.
    """
    if not size or regions is None:
        return None
    arrays = {
        "cursor": (np.uint64, 24),
        "entries": (ENTRY, max(16, size // _PER_ENTRY)),
        "data": (np.uint8, max(size, 2 * MOST_BYTES)),
    }
    path = evidence_path(regions, shard)
    if (found := Region.resume(path, KIND, VERSION, arrays)) is not None:
        return found
    made = Region.create(path, KIND, VERSION, arrays)
    if data is not None:
        try:
            before = Region.attach(evidence_path(data / FOLDER, shard), KIND, VERSION)
        except RegionError:
            return made
        if before.shape() == made.shape() and _can_go_on(before):
            for name in arrays:
                made[name][:] = before[name]
    return made


def _can_go_on(region: Region) -> bool:
    """Whether a writer can count on from what a file says; in a damaged one it may be anything."""
    return bool((region["cursor"][[BEGIN, END, ENTRIES]] < 1 << 62).all())


def store_evidence(regions: Path, data: Path, shard: int | None = None) -> None:
    """Keep the region of a shard (None: of all) of a collector that stops in its data folder. Raises
    OSError.
    """
    for path in sorted(regions.glob(f"worker-{'*' if shard is None else shard}.evidence")):
        folder = data / FOLDER
        folder.mkdir(mode=0o750, exist_ok=True)
        draft = folder / f".{path.name}"
        draft.write_bytes(path.read_bytes())
        draft.chmod(0o640)
        draft.replace(folder / path.name)


class EvidenceWriter:
    """Keeps reports of one shard; `count` gets the names of counters."""

    def __init__(self, region: Region, per_second: int, count: Callable[[str, int], object]) -> None:
        self._cursor, self._entries, self._data = region["cursor"], region["entries"], region["data"]
        self._per_second, self._count = per_second, count
        self._second, self._left = 0, 0

    def causes(self, events: Records) -> Causes | None:
        """Notable events and the reports that caused them, before they are numbered; None: there are none."""
        at = np.flatnonzero(_NOTABLE[events["kind"]])
        rows = events["sequence"][at]
        known = rows != NOT_FOUND
        return (at[known], rows[known]) if known.any() else None

    def keep(
        self, causes: Causes, events: Records, batch: ReportBatch, frames: FrameBatch | None, dialect: str
    ) -> None:
        """Keep the reports of numbered events, each once."""
        at, rows = causes
        wanted = np.unique(rows)
        allowed = self._allowed(len(wanted))
        if allowed < len(wanted):
            self._count("evidence_skipped_total", len(wanted) - allowed)
        for row in wanted[:allowed].tolist():
            self._put(events[at[rows == row]], batch, row, frames, dialect)

    def _allowed(self, wanted: int) -> int:
        """How many reports may be kept now."""
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._left = second, self._per_second
        allowed = min(wanted, self._left)
        self._left -= allowed
        return allowed

    def _put(
        self, events: Records, batch: ReportBatch, row: int, frames: FrameBatch | None, dialect: str
    ) -> None:
        report = batch.reports[row : row + 1].copy()
        first = int(report["first_hop"][0])
        count = int(report["hop_count"][0]) + bool(int(report["carried"][0]) & Carried.OWN_HOP)
        hops = batch.hops[first : first + count]
        frame, raw = np.zeros(1, FRAME), b""
        if frames is not None:
            frame = frames.frames[int(report["packet"][0])][None].copy()
            start, length = int(frame["offset"][0]), int(frame["length"][0])
            if length > MOST_BYTES:
                self._count("evidence_skipped_total", 1)
                return
            raw = frames.arena[start : start + length].tobytes()
        frame["offset"] = report["first_hop"] = report["packet"] = 0
        whole = frame.tobytes() + report.tobytes() + hops.tobytes() + raw
        begin = self._write(np.frombuffer(whole, np.uint8))
        entry = np.zeros(len(events), ENTRY)
        entry["sequence"], entry["time_ns"], entry["begin"] = events["sequence"], events["time_ns"], begin
        entry["frame_bytes"], entry["hops"], entry["sum"] = len(raw), len(hops), zlib.crc32(whole)
        entry["dialect"] = dialect.encode()[: ENTRY["dialect"].itemsize]
        at = int(self._cursor[ENTRIES])
        self._entries[(at + np.arange(len(entry))) % len(self._entries)] = entry
        barrier()
        self._cursor[ENTRIES] = at + len(entry)
        self._count("evidence_reports_total", 1)

    def _write(self, whole: npt.NDArray[np.uint8]) -> int:
        """Append the bytes of a report, in one piece; returns where they begin."""
        room, begin = len(self._data), int(self._cursor[END])
        if begin % room + len(whole) > room:
            begin += room - begin % room
        end = begin + len(whole)
        self._cursor[BEGIN] = max(0, end - room)
        barrier()
        self._data[begin % room : begin % room + len(whole)] = whole
        barrier()
        self._cursor[END] = end
        return begin


def read_evidence(folder: Path, shard: int, sequence: int, time_ns: int) -> Kept | None:
    """The report that caused an event, from the regions of a folder of data; None: it is not kept, or not any
    more. Raises RegionError.
    """
    for place in (folder / "regions", folder / FOLDER):
        path = evidence_path(place, shard)
        if path.exists():
            found = _find(Region.attach(path, KIND, VERSION), sequence, time_ns)
            if found is not None:
                return found
    return None


def _find(region: Region, sequence: int, time_ns: int) -> Kept | None:
    cursor, data, entries = region["cursor"], region["data"], region["entries"].copy()
    for at in np.flatnonzero((entries["sequence"] == sequence) & (entries["time_ns"] == time_ns)).tolist():
        entry = entries[at]
        hops_bytes, length = int(entry["hops"]) * HOP.itemsize, int(entry["frame_bytes"])
        begin, size = int(entry["begin"]), _HEAD + hops_bytes + length
        start = begin % len(data)
        whole = data[start : start + size].tobytes()
        barrier()
        if begin < int(cursor[BEGIN]) or len(whole) < size or zlib.crc32(whole) != int(entry["sum"]):
            continue
        frame = np.frombuffer(whole, FRAME, 1)
        report = np.frombuffer(whole, REPORT, 1, FRAME.itemsize)
        hops = np.frombuffer(whole, HOP, int(entry["hops"]), _HEAD)
        raw = np.frombuffer(whole, np.uint8, length, _HEAD + hops_bytes)
        return Kept(
            FrameBatch(raw, frame), ReportBatch(report, hops), entry["dialect"].decode("utf-8", "replace")
        )
    return None
