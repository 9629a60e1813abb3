"""Reads the report that was kept for an event."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...memory.region import Region, barrier
from ...wire.records import FRAME, HOP, REPORT, Records, ReportBatch
from .datagrams import NAME, Datagram
from .region import BEGIN, FOLDER, KIND, VERSION, evidence_path


@dataclass(frozen=True, slots=True)
class StoredReport:
    """The report that caused an event."""

    batch: ReportBatch
    """The report as it was decoded, times in ns."""
    datagrams: dict[int, Datagram]
    """Its datagram, under the key 0; for a path joined from postcards, the datagram of each postcard by hop.
    Datagrams that were not kept are missing.
    """


def read_evidence(folder: Path, shard: int, sequence: int, time_ns: int) -> StoredReport | None:
    """The report that caused an event, from the regions of a data folder or from the copy on disk; None: it
    was not kept, or is no longer. Raises RegionError.
    """
    for place in (folder / "regions", folder / FOLDER):
        path = evidence_path(place, shard)
        if path.exists():
            found = _find(Region.attach(path, KIND, VERSION), sequence, time_ns)
            if found is not None:
                return found
    return None


def _find(region: Region, sequence: int, time_ns: int) -> StoredReport | None:
    cursor, data, entries = region["cursor"], region["data"], region["entries"].copy()
    for at in np.flatnonzero((entries["sequence"] == sequence) & (entries["time_ns"] == time_ns)).tolist():
        entry = entries[at]
        begin, size = int(entry["begin"]), int(entry["size"])
        start = begin % len(data)
        whole = data[start : start + size].tobytes()
        barrier()
        if begin < int(cursor[BEGIN]) or len(whole) < size or zlib.crc32(whole) != int(entry["sum"]):
            continue
        return _kept(whole, entry)
    return None


def _kept(whole: bytes, entry: Records) -> StoredReport | None:
    at = REPORT.itemsize + int(entry["hops"]) * HOP.itemsize
    if at > len(whole):
        return None
    batch = ReportBatch(
        np.frombuffer(whole, REPORT, 1), np.frombuffer(whole, HOP, int(entry["hops"]), REPORT.itemsize)
    )
    datagrams = {}
    for _ in range(int(entry["datagrams"])):
        if at + FRAME.itemsize + NAME.itemsize > len(whole):
            return None
        frame = np.frombuffer(whole, FRAME, 1, at).copy()
        at += FRAME.itemsize
        name = whole[at : at + NAME.itemsize].rstrip(b"\0").decode("utf-8", "replace")
        at += NAME.itemsize
        raw = whole[at : at + int(frame["length"][0])]
        at += len(raw)
        hop, frame["offset"] = int(frame["offset"][0]), 0
        datagrams[hop] = Datagram(frame, raw, name)
    return StoredReport(batch, datagrams)
