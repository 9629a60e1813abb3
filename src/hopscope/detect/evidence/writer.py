"""Keeps the reports of notable events, with the bytes of their datagrams, within a budget per second."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ...memory.region import Region, barrier
from ...wire.records import Carried, Flag, Records, ReportBatch
from ..records import NOT_FOUND, ROUTINE, Kind
from .datagrams import NAME, Datagram
from .layout import MAX_BYTES
from .region import BEGIN, END, ENTRIES, ENTRY

Causes = tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]
"""Rows of notable events in a block, and rows of their reports in a batch."""
_NOTABLE = np.zeros(256, bool)
_NOTABLE[[kind.value for kind in Kind if kind not in ROUTINE]] = True
_SECOND_NS = 1_000_000_000


class Datagrams(Protocol):
    """Source of the datagrams of reports: a batch in memory, or the workers' rings."""

    def of(self, batch: ReportBatch, row: int) -> dict[int, Datagram]:
        """The datagrams of a report that are still held: for a joined path by hop, else under the key 0."""


class EvidenceWriter:
    """Keeps reports of one shard; `count` gets the names of counters."""

    def __init__(self, region: Region, per_second: int, count: Callable[[str, int], object]) -> None:
        self._cursor, self._entries, self._data = region["cursor"], region["entries"], region["data"]
        self._per_second, self._count = per_second, count
        self._second, self._left = 0, 0

    def causes(self, events: Records) -> Causes | None:
        """Notable events and the reports that caused them, before the events are numbered; None: no such
        event.
        """
        at = np.flatnonzero(_NOTABLE[events["kind"]])
        rows = events["sequence"][at]
        known = rows != NOT_FOUND
        return (at[known], rows[known]) if known.any() else None

    def keep(self, causes: Causes, events: Records, batch: ReportBatch, datagrams: Datagrams) -> None:
        """Keep the reports of numbered events, each once."""
        at, rows = causes
        wanted = np.unique(rows)
        allowed = self._allowed(len(wanted), int(events["time_ns"][0]) // _SECOND_NS)
        if allowed < len(wanted):
            self._count("evidence_skipped_total", len(wanted) - allowed)
        for row in wanted[:allowed].tolist():
            self._put(events[at[rows == row]], batch, row, datagrams)

    def _allowed(self, wanted: int, second: int) -> int:
        """How many of `wanted` reports may still be kept in this second, by the time of receipt."""
        if second != self._second:
            self._second, self._left = second, self._per_second
        allowed = min(wanted, self._left)
        self._left -= allowed
        return allowed

    def _put(self, events: Records, batch: ReportBatch, row: int, datagrams: Datagrams) -> None:
        report = batch.reports[row : row + 1].copy()
        first = int(report["first_hop"][0])
        count = int(report["hop_count"][0]) + bool(int(report["carried"][0]) & Carried.OWN_HOP)
        hops = batch.hops[first : first + count]
        found, room = list[bytes](), MAX_BYTES
        for hop, datagram in datagrams.of(batch, row).items():
            room -= len(datagram.raw)
            if room < 0:
                break
            frame = datagram.frame.copy()
            frame["offset"] = hop
            name = datagram.dialect.encode()[: NAME.itemsize].ljust(NAME.itemsize, b"\0")
            found.append(frame.tobytes() + name + datagram.raw)
        if len(found) < (int(report["hop_count"][0]) if int(report["flags"][0]) & Flag.JOINED else 1):
            self._count("evidence_incomplete_total", 1)
        report["first_hop"] = report["packet"] = 0
        whole = b"".join((report.tobytes(), hops.tobytes(), *found))
        entry = np.zeros(len(events), ENTRY)
        entry["sequence"], entry["time_ns"] = events["sequence"], events["time_ns"]
        entry["begin"], entry["size"] = self._write(np.frombuffer(whole, np.uint8)), len(whole)
        entry["hops"], entry["datagrams"], entry["sum"] = len(hops), len(found), zlib.crc32(whole)
        at = int(self._cursor[ENTRIES])
        self._entries[(at + np.arange(len(entry))) % len(self._entries)] = entry
        barrier()
        self._cursor[ENTRIES] = at + len(entry)
        self._count("evidence_reports_total", 1)

    def _write(self, whole: npt.NDArray[np.uint8]) -> int:
        """Append the bytes of a report contiguously; returns where they begin."""
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
