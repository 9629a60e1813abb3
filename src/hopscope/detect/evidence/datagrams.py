"""The newest datagrams of a worker, in a ring of bytes. An event may be found later than its report arrives:
by another process, or when the postcards of a path are complete. The ring still has the report's bytes then.

A writer copies all datagrams of a batch, and writes into the batch where each is: `packet` of a report
becomes the *number* of its datagram. The writer never waits; it moves BEGIN before it overwrites bytes, so a
reader that has copied a datagram sees whether it was overwritten meanwhile. After a kill, a new writer
continues where the old one ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...memory.region import Region, barrier
from ...wire.records import FRAME, HOP, REPORT, FrameBatch, Records, ReportBatch, Spare
from . import layout

KIND, VERSION = "datagrams", 1
BYTES_PER_REPORT = 256
"""Room for each report that fits the queue: the size of a report of three hops with its head."""
MIN_BYTES, MAX_BYTES = 1 << 20, 1 << 28
"""Bounds of a ring's size; a datagram's number can address one GiB."""
CLAIM = 1 << 18
"""Bytes that a writer claims at a time before it overwrites them: more than two of the longest datagrams."""
BEGIN, END, DIALECTS = 0, 8, 16
"""Slots of `cursor`: bytes overwritten, bytes written, number of named dialects."""
MAX_DIALECTS = 256
NAME = np.dtype("S56")
"""Name of a dialect."""


@dataclass(frozen=True, slots=True)
class Datagram:
    """One received datagram, or frame."""

    frame: Records
    """FRAME [1], `offset` 0."""
    raw: bytes
    dialect: str
    """Name of the dialect that it was decoded with; empty: unknown."""


def ring_path(folder: Path, worker: int) -> Path:
    """File of a worker's ring in the folder of regions."""
    return folder / f"worker-{worker}.datagrams"


def ring_bytes(reports: int) -> int:
    """Size of the ring for a queue of `reports` reports, a power of two."""
    wanted = min(max(reports * BYTES_PER_REPORT, MIN_BYTES), MAX_BYTES)
    return 1 << (wanted - 1).bit_length()


def create_ring(path: Path | None, reports: int) -> Region:
    """Create an empty ring; path None: private memory. Raises RegionError."""
    arrays = {
        "cursor": (np.uint64, 24),
        "dialects": (NAME, MAX_DIALECTS),
        "data": (np.uint8, ring_bytes(reports)),
    }
    return Region.create(path, KIND, VERSION, arrays)


def attach_ring(path: Path, *, writable: bool = False) -> Region:
    """Map a ring. Raises RegionError."""
    return Region.attach(path, KIND, VERSION, writable)


class DatagramWriter:
    """Holds the datagrams of one worker; continues after the last published datagram."""

    def __init__(self, region: Region, worker: int = 0) -> None:
        from ...base.kernels.jit import readonly
        from . import datagram_kernel

        self._kernel: Any = datagram_kernel
        self._readonly = readonly
        self._cursor, self._data, self._names = region["cursor"], region["data"], region["dialects"]
        self._high = np.uint64(worker << layout.WORKER_SHIFT)
        self._numbers = np.zeros(0, np.uint32)
        self._end = self._limit = int(self._cursor[END])
        self._known = {
            name.decode("utf-8", "replace"): np.uint64(number)
            for number, name in enumerate(self._names[: int(self._cursor[DIALECTS])].tolist())
        }
        none = FrameBatch(np.zeros(0, np.uint8), np.zeros(0, FRAME))
        self.hold(none, ReportBatch(np.zeros(0, REPORT), np.zeros(0, HOP)), "")  # loads the kernel

    def hold(self, frames: FrameBatch, batch: ReportBatch, dialect: str) -> None:
        """Copy the frames that a batch was decoded from; `packet` of a report becomes its frame's number."""
        count = len(frames)
        if count > len(self._numbers):
            self._numbers = np.zeros(2 * count, np.uint32)
        records = np.ascontiguousarray(frames.frames)
        inputs = map(self._readonly, (records, records.view(np.uint64), frames.arena))
        fixed = (*inputs, batch.reports, self._data, self._numbers)
        named = self._high, self._dialect(dialect)
        row, end = 0, self._end
        while True:
            place = np.uint64(row), np.uint64(end), np.uint64(self._limit)
            row, end = self._kernel.hold(*fixed, *place, *named)
            if row == count:
                break
            self._limit = int(end) + CLAIM
            self._cursor[BEGIN] = max(int(self._cursor[BEGIN]), self._limit - len(self._data))
            barrier()
        batch.first_packet = 0
        self._end = int(end)
        self._cursor[END] = self._end

    def _dialect(self, name: str) -> np.uint64:
        """Number of a dialect in this ring."""
        number = self._known.get(name)
        if number is None:
            number = self._known[name] = np.uint64(len(self._known))
            if number < MAX_DIALECTS:
                self._names[int(number)] = name.encode()
                self._cursor[DIALECTS] = len(self._known)
        return number


class BatchDatagrams:
    """The datagrams of a batch, which are still in memory."""

    def __init__(self, frames: FrameBatch, dialect: str) -> None:
        self._frames, self._dialect = frames, dialect

    def of(self, batch: ReportBatch, row: int) -> dict[int, Datagram]:
        """The datagram of a report, under the key 0; empty if it is too long."""
        frame = self._frames.frames[int(batch.reports["packet"][row])][None].copy()
        start, length = int(frame["offset"][0]), int(frame["length"][0])
        if length > layout.MAX_BYTES:
            return {}
        frame["offset"] = 0
        return {0: Datagram(frame, self._frames.arena[start : start + length].tobytes(), self._dialect)}


class DatagramReader:
    """The datagrams that workers hold, by number."""

    def __init__(self, rings: Sequence[Region]) -> None:
        self._rings = rings

    def of(self, batch: ReportBatch, row: int) -> dict[int, Datagram]:
        """The datagrams of a report that are still held: postcards of a joined path by hop, else key 0."""
        report = batch.reports[row]
        numbers = [batch.first_packet + int(report["packet"])]
        if batch.hop_packets is not None:
            first = int(report["first_hop"])
            numbers = batch.hop_packets[first : first + max(int(report["hop_count"]), 1)].tolist()
        elif report["spare"] == Spare.ELSEWHERE:
            return {}
        found = {hop: self.find(number) for hop, number in enumerate(numbers)}
        return {hop: each for hop, each in found.items() if each is not None}

    def find(self, number: int) -> Datagram | None:
        """The datagram with this number; None: it is not held, or no longer."""
        worker = number >> layout.WORKER_SHIFT
        if worker >= len(self._rings):
            return None
        ring = self._rings[worker]
        cursor, data = ring["cursor"], ring["data"]
        lines = int(cursor[END]) // layout.LINE
        position = layout.LINE * (lines - ((lines - number) & layout.PLACES))
        if not int(cursor[BEGIN]) <= position < layout.LINE * lines:
            return None
        start = position % len(data)
        body = start + layout.HEAD
        frame = data[start:body].view(FRAME).copy()
        named = int(data[body - 2 : body].view(np.uint16)[0])  # padding of FRAME, which `copy` may leave out
        raw = data[body : body + min(int(frame["length"][0]), layout.MAX_BYTES)].tobytes()
        barrier()
        if int(cursor[BEGIN]) > position or int(frame["offset"][0]) != position:
            return None
        name = ring["dialects"][named] if named < MAX_DIALECTS else b""
        frame["offset"] = 0
        return Datagram(frame, raw, name.decode("utf-8", "replace"))
