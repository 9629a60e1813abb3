"""Reports of notable events in memory of fixed size: kept, overwritten, bounded, continued, damaged."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from hopscope.detect.evidence.datagrams import BatchDatagrams, DatagramReader
from hopscope.detect.evidence.layout import MAX_BYTES
from hopscope.detect.evidence.reader import read_evidence
from hopscope.detect.evidence.region import ENTRY, FOLDER, KIND, VERSION, evidence_path, open_evidence
from hopscope.detect.evidence.saver import EvidenceSaver, store_evidence
from hopscope.detect.evidence.writer import EvidenceWriter
from hopscope.detect.records import EVENT, NOT_FOUND, Kind
from hopscope.memory.region import Region
from hopscope.wire.records import FRAME, HOP, REPORT, FrameBatch, ReportBatch
from support.waiting import eventually

SIZE = 1 << 20


class Shard:
    """Writes events of made-up reports, whose bytes are the number of each."""

    def __init__(self, folder: Path, per_second: int = 10**6, size: int = SIZE) -> None:
        (folder / "regions").mkdir(exist_ok=True, parents=True)
        self.folder, self.counts = folder, Counter[str]()
        region = open_evidence(folder / "regions", 0, size, folder)
        assert region is not None
        self.region = region
        self.writer = EvidenceWriter(region, per_second, lambda name, more: self.counts.update({name: more}))
        self.next = 0

    def add(self, kinds: list[Kind], length: int = 1000, frames: bool = True, second: int = 1) -> list[int]:
        """An event of each kind, each of a report of its own; their numbers."""
        count = len(kinds)
        events = np.zeros(count, EVENT)
        events["kind"], events["sequence"] = kinds, np.arange(count)
        events["time_ns"] = second * 10**9
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
            source = BatchDatagrams(FrameBatch(arena, records), "spec") if frames else DatagramReader([])
            self.writer.keep(causes, events, ReportBatch(reports, hops), source)
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
        assert kept.datagrams[0].raw == bytes([number]) * 1000
        assert (kept.batch.reports["time_ns"].tolist(), kept.batch.hops["node_id"].tolist()) == (
            [number], [number] * 2,
        )  # fmt: skip
        assert kept.datagrams[0].dialect == "spec"
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
    assert 600 < shard.next - first < SIZE // 1000
    for number in range(first, shard.next):
        assert found[number].datagrams[0].raw == bytes([number % 256]) * 1000


def test_more_than_the_budget_is_counted(tmp_path: Path) -> None:
    """Ten a second of receive times, however fast a capture is replayed; in the next second ten more."""
    shard = Shard(tmp_path, per_second=10)
    shard.add([Kind.DROP] * 25)
    assert shard.counts == {"evidence_reports_total": 10, "evidence_skipped_total": 15}
    shard.add([Kind.DROP], second=2)
    assert shard.counts == {"evidence_reports_total": 11, "evidence_skipped_total": 15}


def test_without_bytes_the_decoded_report_is_kept(tmp_path: Path) -> None:
    """If its datagram is in no ring any more, or too long; each is counted."""
    shard = Shard(tmp_path)
    shard.add([Kind.RAISED], frames=False)
    shard.add([Kind.DROP], length=MAX_BYTES + 1)
    for number in (0, 1):
        kept = shard.read(number)
        assert (kept.datagrams, kept.batch.hops["node_id"].tolist()) == ({}, [number, number])
    assert shard.counts == {"evidence_reports_total": 2, "evidence_incomplete_total": 2}


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
    begin = shard.region.place("entries")
    for _ in range(50):
        raw[begin : begin + ENTRY.itemsize] = rng.bytes(ENTRY.itemsize)
        raw[begin : begin + 16] = (0).to_bytes(8, "little") + (10**9).to_bytes(8, "little")
        path.write_bytes(raw)
        assert shard.read(0) is None


def test_a_damaged_cursor_is_not_continued(tmp_path: Path) -> None:
    """Counts in a stored file that no writer can have reached: the worker begins afresh, and goes on."""
    Shard(tmp_path).add([Kind.RAISED])
    store_evidence(tmp_path / "regions", tmp_path)
    path = evidence_path(tmp_path / "regions", 0)
    with Region.attach(evidence_path(tmp_path / FOLDER, 0), KIND, VERSION, writable=True) as region:
        region["cursor"][:] = 2**64 - 1
    path.unlink()
    (number,) = (shard := Shard(tmp_path)).add([Kind.RAISED])
    assert len(shard.read(number).datagrams[0].raw) == 1000


def test_off_is_off(tmp_path: Path) -> None:
    """With 0 bytes, or without a folder, there is no region."""
    assert open_evidence(tmp_path, 0, 0) is None
    assert open_evidence(None, 0, SIZE) is None
    assert list(tmp_path.iterdir()) == []


def test_a_power_failure_loses_no_more_than_the_journal(tmp_path: Path) -> None:
    """A thread copies what is new to the disk, also across the end of the ring, and after the ring was
    overwritten more than once; what is read there is what memory had.
    """
    shard, problems = Shard(tmp_path), list[str]()
    saver = EvidenceSaver(shard.region, evidence_path(tmp_path / FOLDER, 0), 0.01, problems.append)
    elsewhere = tmp_path / "after"
    elsewhere.mkdir()
    for count in (1, 700, 1500, 3):
        newest = shard.add([Kind.LOOP] * count)[-1]

        def on_disk(number: int = newest) -> bool:
            place = elsewhere / FOLDER
            place.mkdir(exist_ok=True)
            copy = evidence_path(tmp_path / FOLDER, 0)
            if copy.exists():
                evidence_path(place, 0).write_bytes(copy.read_bytes())
            return read_evidence(elsewhere, 0, number, 10**9) is not None

        eventually(on_disk)
        for number in range(max(0, newest - 500), newest + 1, 7):
            kept = read_evidence(elsewhere, 0, number, 10**9)
            assert kept is not None
            assert kept.datagrams[0].raw == bytes([number % 256]) * 1000
    saver.close()
    assert problems == []


def test_a_disk_that_fails_is_reported_once(tmp_path: Path) -> None:
    """Evidence stays in memory; when the disk takes it again, all of it is there."""
    shard, problems = Shard(tmp_path), list[str]()
    place = tmp_path / FOLDER
    place.write_text("a file where the folder should be")
    saver = EvidenceSaver(shard.region, evidence_path(place, 0), 0, problems.append)
    shard.add([Kind.LOOP])
    saver._save()
    saver._save()
    assert len(problems) == 1
    assert "not on disk" in problems[0]
    place.unlink()
    saver.close()
    evidence_path(tmp_path / "regions", 0).unlink()
    assert shard.read(0).datagrams[0].raw == bytes(1000)


def test_a_replay_writes_into_the_data_folder(tmp_path: Path) -> None:
    """Without a folder of regions, the region is the file that is read later."""
    region = open_evidence(None, 0, SIZE, tmp_path)
    assert region is not None
    assert region.path == evidence_path(tmp_path / FOLDER, 0)
