"""Reports of notable events in memory of fixed size: kept, overwritten, bounded, continued, damaged."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopscope.detect import evidence as module
from hopscope.detect.evidence import (
    EvidenceWriter,
    evidence_path,
    open_evidence,
    read_evidence,
    store_evidence,
)
from hopscope.detect.records import EVENT, NOT_FOUND, Kind
from hopscope.memory.region import Region
from hopscope.wire.records import FRAME, HOP, REPORT, FrameBatch, ReportBatch

SIZE = 1 << 20


class Shard:
    """Writes events of made-up reports, whose bytes are the number of each."""

    def __init__(self, folder: Path, per_second: int = 10**6, size: int = SIZE) -> None:
        (folder / "regions").mkdir(exist_ok=True, parents=True)
        self.folder, self.counts = folder, Counter[str]()
        region = open_evidence(folder / "regions", 0, size, folder)
        assert region is not None
        self.writer = EvidenceWriter(region, per_second, lambda name, more: self.counts.update({name: more}))
        self.next = 0

    def add(self, kinds: list[Kind], length: int = 1000, frames: bool = True) -> list[int]:
        """An event of each kind, each of a report of its own; their numbers."""
        count = len(kinds)
        events = np.zeros(count, EVENT)
        events["kind"], events["sequence"] = kinds, np.arange(count)
        events["time_ns"] = 10**9
        causes = self.writer.causes(events)
        events["sequence"] = numbers = self.next + np.arange(count)
        self.next += count
        reports, records = np.zeros(count, REPORT), np.zeros(count, FRAME)
        reports["packet"] = np.arange(count)
        reports["first_hop"], reports["hop_count"], reports["time_ns"] = 2 * np.arange(count), 2, numbers
        hops = np.zeros(2 * count, HOP)
        hops["node_id"] = np.repeat(numbers, 2)
        arena = np.repeat(numbers.astype(np.uint8), length)
        records["offset"], records["length"] = length * np.arange(count), length
        if causes is not None:
            batch = FrameBatch(arena, records) if frames else None
            self.writer.keep(causes, events, ReportBatch(reports, hops), batch, "spec")
        return list(map(int, numbers))

    def read(self, number: int) -> Any:
        """What is kept of an event."""
        return read_evidence(self.folder, 0, number, 10**9)


def test_what_is_kept_is_what_came(tmp_path: Path) -> None:
    """Bytes, report and hops of notable events; nothing of routine ones, nor of those without a report."""
    shard = Shard(tmp_path)
    shard.add([Kind.RAISED, Kind.CHANGE, Kind.PATH_CHANGE])
    for number in (0, 2):
        kept = shard.read(number)
        assert kept.frames.arena.tobytes() == bytes([number]) * 1000
        assert (kept.batch.reports["time_ns"].tolist(), kept.batch.hops["node_id"].tolist()) == (
            [number], [number] * 2,
        )  # fmt: skip
        assert kept.dialect == "spec"
    assert shard.read(1) is None
    assert read_evidence(tmp_path, 0, 0, 5) is None  # another event of this number
    events = np.zeros(1, EVENT)
    events["kind"], events["sequence"] = Kind.SILENT, NOT_FOUND
    assert shard.writer.causes(events) is None
    assert shard.counts == {"evidence_reports_total": 2}


def test_the_oldest_make_room(tmp_path: Path) -> None:
    """Far more than there is room for: the newest are whole, the oldest are gone, none is a mixture."""
    shard = Shard(tmp_path)
    for _ in range(40):
        shard.add([Kind.LOOP] * 50)
    found = [shard.read(number) for number in range(shard.next)]
    first = next(number for number, kept in enumerate(found) if kept is not None)
    assert all(kept is None for kept in found[:first])
    assert 700 < shard.next - first < SIZE // 1000
    for number in range(first, shard.next):
        assert found[number].frames.arena.tobytes() == bytes([number % 256]) * 1000


def test_more_than_the_budget_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten a second are kept; in the next second ten more. Frames that are too long are counted, too."""
    monkeypatch.setattr("time.monotonic", lambda: 1000.5)
    shard = Shard(tmp_path, per_second=10)
    shard.add([Kind.DROP] * 25)
    assert shard.counts == {"evidence_reports_total": 10, "evidence_skipped_total": 15}
    monkeypatch.setattr("time.monotonic", lambda: 1001.0)
    shard.add([Kind.DROP])
    shard.add([Kind.DROP], length=module.MOST_BYTES + 1)
    assert shard.counts == {"evidence_reports_total": 11, "evidence_skipped_total": 16}


def test_without_frames_the_decoded_report_is_kept(tmp_path: Path) -> None:
    """As in a detector process, which has no frames."""
    shard = Shard(tmp_path)
    shard.add([Kind.RAISED], frames=False)
    kept = shard.read(0)
    assert (len(kept.frames.arena), kept.batch.hops["node_id"].tolist()) == (0, [0, 0])


def test_it_is_continued_after_a_kill_and_after_a_stop(tmp_path: Path) -> None:
    """A new writer goes on in the region; after a stop, from the copy in the data folder."""
    Shard(tmp_path).add([Kind.RAISED])
    shard = Shard(tmp_path)
    shard.next = 1
    shard.add([Kind.RAISED])
    store_evidence(tmp_path / "regions", tmp_path)
    evidence_path(tmp_path / "regions", 0).unlink()
    assert [shard.read(number) is not None for number in (0, 1, 2)] == [True, True, False]
    shard = Shard(tmp_path)
    shard.next = 2
    shard.add([Kind.RAISED])
    assert [shard.read(number) is not None for number in (0, 1, 2)] == [True, True, True]


def test_damaged_bytes_are_no_evidence(tmp_path: Path) -> None:
    """A flipped bit in a report is found by its sum; entries of nonsense lead nowhere."""
    shard = Shard(tmp_path)
    shard.add([Kind.RAISED, Kind.RAISED])
    path = evidence_path(tmp_path / "regions", 0)
    raw = bytearray(path.read_bytes())
    at = raw.index(bytes([1]) * 1000) + 500
    raw[at] ^= 1
    path.write_bytes(raw)
    assert shard.read(0) is not None
    assert shard.read(1) is None
    rng = np.random.default_rng(1)
    begin = raw.index(b"spec") - 40
    for _ in range(50):
        raw[begin : begin + 40] = rng.bytes(40)
        raw[begin : begin + 16] = (0).to_bytes(8, "little") + (10**9).to_bytes(8, "little")
        path.write_bytes(raw)
        assert shard.read(0) is None


def test_a_damaged_cursor_is_not_continued(tmp_path: Path) -> None:
    """Counts in a stored file that no writer can have reached: the worker begins afresh, and goes on."""
    Shard(tmp_path).add([Kind.RAISED])
    store_evidence(tmp_path / "regions", tmp_path)
    path = evidence_path(tmp_path / "regions", 0)
    with Region.attach(evidence_path(tmp_path / module.FOLDER, 0), "evidence", 1, writable=True) as region:
        region["cursor"][:] = 2**64 - 1
    path.unlink()
    (number,) = (shard := Shard(tmp_path)).add([Kind.RAISED])
    assert shard.read(number).frames.arena.size == 1000


def test_off_is_off(tmp_path: Path) -> None:
    """With 0 bytes, or in private memory, there is no region."""
    assert open_evidence(tmp_path, 0, 0) is None
    assert open_evidence(None, 0, SIZE) is None
    assert list(tmp_path.iterdir()) == []
