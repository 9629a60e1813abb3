"""Journals into segments: nothing lost, nothing twice, whatever stops it and where."""

from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from hopscope.detect.records import EVENT, EVENT_VERSION
from hopscope.history.counters import HISTORY_COUNTERS
from hopscope.history.errors import DamagedError, HistoryError
from hopscope.history.files.layout import reject_later
from hopscope.history.files.names import (
    all_segments,
    damaged_files,
    list_journals,
    list_segments,
    noted_path,
    segment_path,
)
from hopscope.history.files.segment_index import index_path
from hopscope.history.files.segments import VERSION_KEY, check_footers, write_segment
from hopscope.history.query import History
from hopscope.history.writing import archive as archive_module
from hopscope.history.writing.archive import MERGE, archive_once, run
from hopscope.history.writing.journal import JournalWriter, read_journals
from hopscope.history.writing.retention import LEAD_NS, AgeClock
from hopscope.history.writing.space import free_bytes
from hopscope.runtime.supervisor.process import Supervisor
from hopscope.settings.collector import Settings
from hopscope.settings.history import HistorySettings
from hopscope.settings.serve import ServeSettings
from support.processes.crash_steps import crashes
from support.processes.small_disk import fill, small_disk

SETTINGS = HistorySettings()


def journals(folder: Path, sizes: list[int], shard: int = 0, **more: Any) -> None:
    """Closed journals with so many events; `value` counts on through them."""
    with JournalWriter(folder, shard, **more) as writer:
        for size in sizes:
            events = np.zeros(size, EVENT)
            events["value"] = writer.next_sequence + np.arange(size, dtype=np.uint64)
            events["time_ns"] = 1_700_000_000_000_000_000 + events["value"]
            writer.append(events)
            writer.rotate()


def values(folder: Path) -> list[int]:
    """`value` of every event, by sequence."""
    with History(folder) as history:
        return [int(v) for v in history.events(limit=None, order="sequence")["value"]]


def test_a_copy_under_the_lock_lacks_nothing(tmp_path: Path) -> None:
    """The backup in docs/guides/data-folder.md: while it has the archive's lock, no journal becomes a segment
    and none are merged, so the order in which folders are copied does not matter.
    """
    data, copy = tmp_path / "data", tmp_path / "copy"
    for _ in range(MERGE - 1):
        journals(data, [3, 2])
        archive_once(data, SETTINGS)
    journals(data, [4, 5])
    held = subprocess.Popen(["flock", data / "segments/archive.lock", "cat"], stdin=-1, stdout=-1, text=True)
    assert held.stdin is not None
    assert held.stdout is not None
    with held:
        print("locked", file=held.stdin, flush=True)
        assert held.stdout.readline() == "locked\n"
        shutil.copytree(data / "segments", copy / "segments")
        journals(data, [6])
        with pytest.raises(HistoryError, match="another process archives"):
            archive_once(data, SETTINGS)
        shutil.copytree(data / "journal", copy / "journal")
    assert values(copy) == list(range((MERGE - 1) * 5 + 15))
    assert archive_once(data, SETTINGS).merged
    assert values(data) == values(copy)


def test_a_folder_of_a_later_version_is_left_alone(tmp_path: Path) -> None:
    """Its events may all be in segments, which a start does not read: owner.json says who wrote them."""
    owner = tmp_path / "owner.json"
    reject_later(tmp_path)
    for layout in (1, EVENT_VERSION):
        owner.write_text(json.dumps({"schema": 1, "version": "0.1", "events": layout}))
        reject_later(tmp_path)
    owner.write_text(json.dumps({"schema": 1, "version": "9.1", "events": EVENT_VERSION + 1}))
    supervisor = Supervisor(Settings(data=tmp_path, serve=ServeSettings(enabled=False)))
    with pytest.raises(HistoryError, match=r"owner.json: version 9.1 has written events of layout"):
        supervisor.start()
    assert [path.name for path in tmp_path.iterdir()] == ["owner.json"]


def test_journals_become_one_segment(tmp_path: Path) -> None:
    """Adjacent closed journals of a shard are one segment, another shard's another; the journals go."""
    journals(tmp_path, [5, 1, 7])
    journals(tmp_path, [4], shard=2)
    result = archive_once(tmp_path, SETTINGS)
    assert (result.segments, result.events, result.journals) == (2, 17, 4)
    assert [(s.shard, s.first, s.last) for s in list_segments(tmp_path)] == [(0, 0, 12), (2, 0, 3)]
    assert list_journals(tmp_path) == []
    assert len(read_journals(tmp_path)) == 0
    assert values(tmp_path) == [*range(13), *range(4)]
    assert archive_once(tmp_path, SETTINGS).segments == 0


def test_a_slow_shard_expires(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one event in two hours, `keep_days` and an eighth of it stay: a segment that took up every later
    event would never be too old.
    """
    monkeypatch.setattr(archive_module, "MERGE", 2)
    kept = []
    for turn in range(20):
        for path in (tmp_path / "segments").glob("*"):  # two hours pass
            os.utime(path, ns=(0, path.stat().st_mtime_ns - 2 * 3600 * 10**9))
        journals(tmp_path, [1])
        archive_once(tmp_path, HistorySettings(keep_days=1))
        kept.append(turn + 1 - min(segment.first for segment in list_segments(tmp_path)))
    assert kept[:12] == list(range(1, 13)), "events were deleted early"
    assert min(kept[12:]) >= 12
    assert max(kept) <= 13
    assert len(list_segments(tmp_path)) < 10
    assert values(tmp_path) == list(range(20 - kept[-1], 20))


def test_a_small_part_goes_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above `keep_bytes` no more is deleted than is needed, and an eighth: a merged segment that had most of
    what is kept took most of history with it.
    """
    monkeypatch.setattr(archive_module, "MERGE", 2)
    settings = HistorySettings(keep_bytes=1024**2)
    random, kept = np.random.default_rng(1), []
    with JournalWriter(tmp_path, 0, fsync_seconds=0) as writer:
        for _ in range(30):
            events = np.zeros(5000, EVENT)
            events["value"] = random.integers(0, 2**62, len(events), dtype=np.uint64)
            writer.append(events)
            writer.rotate()
            archive_once(tmp_path, settings)
            kept.append(sum(segment.path.stat().st_size for segment in list_segments(tmp_path)))
    assert max(kept) <= settings.keep_bytes
    full = next(at for at in range(len(kept)) if kept[at + 1] < kept[at])
    assert min(kept[full:]) > settings.keep_bytes * 0.8


def test_an_open_journal_stays(tmp_path: Path) -> None:
    """What a live writer has open is left to it; what it has closed is taken."""
    with JournalWriter(tmp_path, 0, fsync_seconds=0) as writer:
        writer.append(np.zeros(3, EVENT))
        writer.rotate()
        writer.append(np.zeros(2, EVENT))
        assert archive_once(tmp_path, SETTINGS).events == 3
        assert [journal.first for journal in list_journals(tmp_path)] == [3]
        assert writer.append(np.zeros(1, EVENT)) == 5
    assert archive_once(tmp_path, SETTINGS).events == 3
    with JournalWriter(tmp_path, 0) as writer:
        assert writer.next_sequence == 6


@pytest.mark.e2e
def test_a_crash_at_every_step(tmp_path: Path) -> None:
    """Killed before each fsync, rename and removal: every event is there once, then, and a round later."""
    journals(tmp_path / "before", [4, 3])
    archive_once(tmp_path / "before", SETTINGS)
    journals(tmp_path / "before", [2, 1])
    ends = crashes(
        tmp_path,
        "from hopscope.history.writing import archive\n"
        "from hopscope.settings.history import HistorySettings\n"
        "archive.MERGE = 2",
        "archive.archive_once(folder, HistorySettings())",
    )
    assert len(ends) > 8
    for folder in ends:
        assert values(folder) == list(range(10)), f"after a crash at step {folder.name}"
        with JournalWriter(folder, 0) as writer:
            assert writer.next_sequence == 10
        archive_once(folder, SETTINGS)
        assert values(folder) == list(range(10)), f"a round after a crash at step {folder.name}"
        assert list_journals(folder) == []
        assert not list(folder.rglob("*.part"))


def test_small_segments_are_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Adjacent segments of about one size become one; a gap or another shard is not bridged."""
    monkeypatch.setattr(archive_module, "SEGMENT_EVENTS", 8)
    for _ in range(9):
        journals(tmp_path, [1])
        archive_once(tmp_path, SETTINGS)
    assert [(s.first, s.last) for s in all_segments(tmp_path)] == [(0, 7), (8, 8)]
    assert values(tmp_path) == list(range(9))


def test_a_merge_keeps_the_age(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Retention goes by when events were archived first, also after a merge."""
    monkeypatch.setattr(archive_module, "MERGE", 2)
    old = time.time_ns() - 86_400 * 10**9
    for _ in range(2):
        journals(tmp_path, [1])
        archive_once(tmp_path, HistorySettings(keep_days=30))
        for segment in all_segments(tmp_path):
            os.utime(segment.path, ns=(old, old))
    archive_once(tmp_path, HistorySettings(keep_days=30))
    (segment,) = all_segments(tmp_path)
    assert segment.last == 1
    assert segment.path.stat().st_mtime_ns == old


def test_retention_by_age(tmp_path: Path) -> None:
    """Old segments go and are counted; the sequence goes on where it was, even after the last one is gone."""
    journals(tmp_path, [4])
    archive_once(tmp_path, SETTINGS)
    old = time.time_ns() - 8 * 86_400 * 10**9
    os.utime(list_segments(tmp_path)[0].path, ns=(old, old))
    result = archive_once(tmp_path, SETTINGS)
    assert (result.expired_segments, result.expired_events) == (1, 4)
    assert result.expired_bytes > 0
    assert list_segments(tmp_path) == []
    journals(tmp_path, [2])
    archive_once(tmp_path, SETTINGS)
    assert [(s.first, s.last) for s in list_segments(tmp_path)] == [(4, 5)]


def test_a_clock_that_jumps_deletes_nothing() -> None:
    """A month forward counts as an hour at most; backward it is followed; running time makes older."""
    wall, running = [10**18], [0]
    clock = AgeClock(lambda: wall[0], lambda: running[0])
    assert clock.now_ns() == 10**18
    wall[0] += 30 * 86_400 * 10**9
    assert clock.now_ns() == 10**18 + LEAD_NS
    running[0] += 86_400 * 10**9
    assert clock.now_ns() == 10**18 + LEAD_NS + 86_400 * 10**9
    wall[0] = 10**18 - 10**15
    assert clock.now_ns() == 10**18 - 10**15


@pytest.mark.parametrize("hours", [1, 24])
def test_a_clock_that_was_set_back_does_not_delete_the_newest(tmp_path: Path, hours: int) -> None:
    """Above the size the segments go by their numbers, though the newest has the earliest time."""
    for _ in range(3):
        journals(tmp_path, [4])
        archive_once(tmp_path, SETTINGS)
    journals(tmp_path, [4], shard=1)
    archive_once(tmp_path, SETTINGS)
    now = time.time_ns()
    for minute, segment in enumerate(list_segments(tmp_path)):
        ahead = 60 * hours if minute < 2 else 0
        os.utime(segment.path, ns=(now, now + (minute + ahead) * 60 * 10**9))
    for path in (tmp_path / "segments").glob("*.index"):
        path.write_bytes(bytes(1024**2))
    kept = []
    for count in (4, 3, 2):
        archive_once(tmp_path, HistorySettings(keep_bytes=count * (1024**2 + 65_536)))
        kept.append([(segment.shard, segment.first) for segment in list_segments(tmp_path)])
    assert kept == [[(0, 0), (0, 4), (0, 8), (1, 0)], [(0, 4), (0, 8), (1, 0)], [(0, 8), (1, 0)]]


def test_retention_by_size(tmp_path: Path) -> None:
    """Above the size the oldest segments go, the newer ones stay."""
    for _ in range(3):
        rng = np.random.default_rng(1)
        events = np.zeros(40_000, EVENT)
        for field in ("value", "previous", "flow_id"):
            events[field] = rng.integers(0, 2**63, len(events))
        with JournalWriter(tmp_path, 0) as writer:
            writer.append(events)
        archive_once(tmp_path, SETTINGS)
    sizes = [segment.path.stat().st_size for segment in list_segments(tmp_path)]
    assert len(sizes) == 3
    result = archive_once(tmp_path, HistorySettings(keep_bytes=max(1024**2, sum(sizes) - 1)))
    assert result.expired_segments == 1
    assert [segment.first for segment in list_segments(tmp_path)] == [40_000, 80_000]


def test_retention_of_damaged_files(tmp_path: Path) -> None:
    """What was set aside, or cut from a journal, counts as the rest does, and goes by age and by size, the
    oldest first; younger files stay, and the log names what went.
    """
    journals(tmp_path, [4])
    archive_once(tmp_path, SETTINGS)
    folders = [tmp_path / name for name in ("journal", "segments", "distributions")]
    folders[2].mkdir(exist_ok=True)
    aside = [folders[0] / "00000-00000000000000000001.cut", *(folder / "1.damaged" for folder in folders)]
    now = time.time_ns()

    def put(path: Path, days: float) -> None:
        path.write_bytes(bytes(1024**2 // 2))
        os.utime(path, ns=(now, now - round(days * 86_400e9)))

    for path in aside:
        put(path, SETTINGS.keep_days + 1)
    fresh = folders[1] / "2.damaged"
    put(fresh, SETTINGS.keep_days - 1)
    told: list[str] = []
    result = archive_once(tmp_path, SETTINGS, told.append)
    assert (result.expired_damaged, result.expired_segments) == (4, 0)
    assert damaged_files(tmp_path) == [fresh]
    assert sorted(line.split()[0] for line in told) == sorted(map(str, aside))

    put(aside[0], 2)
    put(aside[1], 1)
    result = archive_once(tmp_path, HistorySettings(keep_bytes=1024**2 + 65_536), told.append)
    assert (result.expired_damaged, result.expired_segments) == (1, 0)
    assert sorted(damaged_files(tmp_path)) == sorted(aside[:2])


def test_retention_counts_what_is_beside_a_file(tmp_path: Path) -> None:
    """Checksums and indexes are part of `keep_bytes`, and go with their segment."""
    for _ in range(2):
        journals(tmp_path, [4])
        archive_once(tmp_path, SETTINGS)
    first, second = (segment.path for segment in list_segments(tmp_path))
    index_path(first).write_bytes(bytes(1024**2))
    beside = sum(path.stat().st_size for path in (tmp_path / "segments").glob("*.parquet*"))
    assert archive_once(tmp_path, HistorySettings(keep_bytes=beside)).expired_segments == 0
    result = archive_once(tmp_path, HistorySettings(keep_bytes=beside - 1))
    assert (result.expired_segments, [segment.path for segment in list_segments(tmp_path)]) == (1, [second])
    assert not list((tmp_path / "segments").glob(f"{first.name}*"))
    assert result.expired_bytes > 1024**2


@contextmanager
def protected(*paths: Path) -> Iterator[None]:
    """Files that cannot be deleted, renamed or written: they are mounted over themselves, read-only. The test
    is skipped if nothing can be mounted.
    """
    for path in paths:
        for how in (["--bind", str(path)], ["-o", "remount,bind,ro"]):
            command = ["mount", *how, str(path)]
            if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
                pytest.skip("only root can mount, where that is allowed")
    try:
        yield
    finally:
        subprocess.run(["umount", *paths], check=True)


def test_a_file_that_cannot_be_deleted(tmp_path: Path) -> None:
    """Retention goes on with the others, journals become segments, and numbers are not noted again and again;
    one log line and a counter say so, until it can be deleted.
    """
    for _ in range(3):
        journals(tmp_path, [4])
        archive_once(tmp_path, SETTINGS)
    old = time.time_ns() - 8 * 86_400 * 10**9
    paths = [segment.path for segment in list_segments(tmp_path)]
    for path in paths:
        os.utime(path, ns=(old, old))
    journals(tmp_path, [4])
    told: list[str] = []
    with protected(paths[1]):
        result = archive_once(tmp_path, SETTINGS, told.append)
        assert [segment.first for segment in list_segments(tmp_path)] == [4, 12]
        assert (result.expired_segments, result.expired_events, result.events) == (2, 8, 4)
        assert result.undeleted
        assert set(told) == {f"{paths[1]} cannot be deleted: Device or resource busy"}
        noted = noted_path(tmp_path, 0).stat()
        archive_once(tmp_path, SETTINGS)
        assert noted_path(tmp_path, 0).stat() == noted
    result = archive_once(tmp_path, SETTINGS)
    assert (result.expired_segments, result.undeleted) == (1, 0)
    assert [segment.first for segment in list_segments(tmp_path)] == [12]


def test_a_journal_that_cannot_be_deleted(tmp_path: Path) -> None:
    """Its events are in one segment, and each is found once; later journals become segments, too."""
    journals(tmp_path, [4, 3])
    stuck = list_journals(tmp_path)[0].path
    with protected(stuck):
        first = archive_once(tmp_path, SETTINGS)
        journals(tmp_path, [5])
        second = archive_once(tmp_path, SETTINGS)
        assert (first.events, second.events) == (7, 5)
        assert (first.undeleted, second.undeleted) == (1, 1)
        assert [(s.first, s.last) for s in list_segments(tmp_path)] == [(0, 6), (7, 11)]
        assert [journal.path for journal in list_journals(tmp_path)] == [stuck]
        assert values(tmp_path) == list(range(12))
    assert archive_once(tmp_path, SETTINGS).undeleted == 0
    assert list_journals(tmp_path) == []


def test_segments_that_cannot_be_deleted_after_a_merge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The merged one counts; what it covers, and a draft, is deleted when that is possible again."""
    monkeypatch.setattr(archive_module, "MERGE", 2)
    journals(tmp_path, [4])
    archive_once(tmp_path, SETTINGS)
    draft = tmp_path / "segments" / "1.part"
    draft.touch()
    with protected(list_segments(tmp_path)[0].path, draft):
        journals(tmp_path, [3])
        assert archive_once(tmp_path, SETTINGS).merged == 2
        assert archive_once(tmp_path, SETTINGS).undeleted == 2
        assert len(all_segments(tmp_path)) == 2
        assert values(tmp_path) == list(range(7))
    assert archive_once(tmp_path, SETTINGS).undeleted == 0
    assert len(all_segments(tmp_path)) == 1


def test_a_damaged_segment_that_cannot_be_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other damaged ones are set aside, journals become segments, the others are merged and indexed, and
    events that it should have are kept; each round says so and counts it, until it can be renamed.
    """
    monkeypatch.setattr(archive_module, "MERGE", 2)
    monkeypatch.setattr(archive_module, "_checked", {})
    for shard in (1, 0):
        journals(tmp_path, [4], shard)
        journal = list_journals(tmp_path)[0].path
        content = journal.read_bytes()
        archive_once(tmp_path, SETTINGS)
    stuck, other = (segment.path for segment in list_segments(tmp_path))
    for path in (stuck, other):
        path.write_bytes(path.read_bytes()[:-1])
        index_path(path).unlink()
    with protected(stuck):
        for size in (4, 4):
            journals(tmp_path, [size])
            told: list[str] = []
            result = archive_once(tmp_path, SETTINGS, told.append)
            assert result.events == 4
            assert result.failures == 1
            assert f"{stuck} is damaged" in told[0]
            assert told[0].endswith("it cannot be set aside: Device or resource busy")
        assert result.merged == 2
        assert not other.exists()
        assert values(tmp_path) == list(range(4, 12))
        journal.write_bytes(content)  # as if the archive had been killed before it deleted this
        archive_once(tmp_path, SETTINGS)
        assert journal.exists()
    result = archive_once(tmp_path, SETTINGS)
    assert (result.quarantined, result.failures, result.events) == (1, 0, 4)
    assert values(tmp_path) == list(range(12))


def test_a_damaged_segment_that_cannot_be_renamed_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in every round, which would read a large file every two seconds, but again after it was changed."""
    monkeypatch.setattr(archive_module, "_checked", {})
    monkeypatch.setattr(archive_module, "_damaged", {})
    journals(tmp_path, [4])
    archive_once(tmp_path, SETTINGS)
    stuck = list_segments(tmp_path)[0].path
    content = stuck.read_bytes()
    stuck.write_bytes(content[:-1])
    read: list[Path] = []

    def check(connection: Any, paths: Sequence[Path]) -> dict[Path, DamagedError]:
        read.extend(paths)
        return check_footers(connection, paths)

    monkeypatch.setattr(archive_module, "check_footers", check)
    with protected(stuck):
        told: list[list[str]] = [[], [], []]
        for lines in told:
            assert archive_once(tmp_path, SETTINGS, lines.append).failures == 1
    assert read == [stuck]
    assert len(told[0]) == 1
    assert told[0] == told[1] == told[2]
    stuck.write_bytes(content)
    result = archive_once(tmp_path, SETTINGS)
    assert (result.quarantined, result.failures) == (0, 0)
    assert read == [stuck, stuck]
    assert values(tmp_path) == list(range(4))


def test_journals_that_cannot_be_mended(tmp_path: Path) -> None:
    """One with a damaged header, one with a torn record, an empty one: a writer starts after their numbers,
    each is named, and later journals become segments. What the torn one has can be read.
    """
    journals(tmp_path, [4, 4])
    journals(tmp_path, [4], shard=1)
    damaged, torn, other = (journal.path for journal in list_journals(tmp_path))
    empty = tmp_path / "journal" / f"{0:05d}-{8:020d}.journal"
    empty.touch()
    damaged.write_bytes(bytes(range(16)) + damaged.read_bytes()[16:])
    torn.write_bytes(torn.read_bytes() + b"x" * 200)
    told: list[str] = []
    with protected(damaged, torn, empty):
        journals(tmp_path, [4], notify=told.append)
        assert [sum(str(path) in line for line in told) for path in (damaged, torn, empty)] == [1, 1, 1]
        told.clear()
        result = archive_once(tmp_path, SETTINGS, told.append)
        assert (result.events, result.failures) == (8, 2)
        assert [sum(str(path) in line for line in told) for path in (damaged, torn, empty)] == [1, 1, 0]
        assert not other.exists()
        assert not damaged_files(tmp_path)
        first = list_segments(tmp_path)[0].first
        assert first > 8
        assert sorted(values(tmp_path)) == [0, 1, 2, 3, 4, 5, 6, 7, *range(first, first + 4)]
    result = archive_once(tmp_path, SETTINGS)
    assert (result.events, result.quarantined, result.failures) == (4, 1, 0)


def test_retention_by_free_space(tmp_path: Path) -> None:
    """While too little of the disk is free the oldest segments go, also from a full one."""
    with small_disk(tmp_path / "small", "2m") as folder:
        for _ in range(3):
            events = np.zeros(10_000, EVENT)
            events["value"] = np.random.default_rng(1).integers(0, 2**63, len(events))
            with JournalWriter(folder, 0) as writer:
                writer.append(events)
            archive_once(folder, SETTINGS)
        assert len(list_segments(folder)) == 3
        free = free_bytes(folder)
        assert archive_once(folder, HistorySettings(keep_free=free)).expired_segments == 0
        assert archive_once(folder, HistorySettings(keep_free=free + 1)).expired_segments == 1
        fill(folder)
        assert archive_once(folder, HistorySettings(keep_free="90%")).expired_segments == 2
        with JournalWriter(folder, 0) as writer:
            assert writer.next_sequence == 30_000


def test_nothing_is_deleted_from_a_full_disk_without_keep_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A journal for which there is no room stays one, and all segments stay, until something else makes
    room.
    """
    monkeypatch.setattr(archive_module, "_checked", {})
    settings = HistorySettings(keep_free=0)
    with small_disk(tmp_path / "small", "1m") as folder:
        for _ in range(2):
            journals(folder, [400])
            archive_once(folder, settings)
        journals(folder, [3000])
        fill(folder)
        assert archive_once(folder, settings).failures == 1
        assert [segment.last for segment in list_segments(folder)] == [399, 799]


def test_a_full_disk_with_a_damaged_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no room to note its last number before it is renamed; retention makes some all the same."""
    monkeypatch.setattr(archive_module, "_checked", {})
    with small_disk(tmp_path / "small", "1m") as folder:
        for _ in range(5):
            journals(folder, [3000])
            archive_once(folder, SETTINGS)
        damaged = list_segments(folder)[-1].path
        damaged.write_bytes(damaged.read_bytes()[:-1])
        archive_module._checked.clear()
        fill(folder)
        tight = HistorySettings(keep_free="1%")
        told: list[str] = []
        assert archive_once(folder, tight, told.append).failures == 1
        assert told[0].endswith("it cannot be set aside: No space left on device")
        assert archive_once(folder, tight).quarantined == 1
        assert damaged not in [segment.path for segment in list_segments(folder)]
        with JournalWriter(folder, 0) as writer:
            assert writer.next_sequence == 15_000


@pytest.mark.parametrize("damage", ["cut", "footer", "key", "version", "range"])
def test_a_damaged_segment_is_set_aside(tmp_path: Path, damage: str) -> None:
    """It is reported and renamed; the other events stay readable, and its sequences are not given out
    again.
    """
    journals(tmp_path, [3])
    archive_once(tmp_path, SETTINGS)
    journals(tmp_path, [3])
    archive_once(tmp_path, SETTINGS)
    bad = list_segments(tmp_path)[1].path
    content = bad.read_bytes()
    if damage == "cut":
        bad.write_bytes(content[: len(content) // 2])
    elif damage == "footer":
        bad.write_bytes(content[:-40] + b"\xff" * 32 + content[-8:])
    elif damage == "key":
        bad.write_bytes(content.replace(VERSION_KEY.encode(), VERSION_KEY.upper().encode()))
    elif damage == "version":
        at = content.rindex(VERSION_KEY.encode()) + len(VERSION_KEY) + 2
        bad.write_bytes(content[:at] + b"9" + content[at + 1 :])
    else:
        bad.write_bytes(list_segments(tmp_path)[0].path.read_bytes())
    if damage != "range":
        with History(tmp_path) as history:  # before the archive sees it
            assert len(history.events(limit=None)) == 3
            assert "is damaged" in history.problems[0]
    told: list[str] = []
    assert archive_once(tmp_path, SETTINGS, told.append).quarantined == 1
    assert bad.name in told[0]
    assert "set aside" in told[0]
    assert bad.with_suffix(".parquet.damaged").exists()
    assert values(tmp_path) == [0, 1, 2]
    with JournalWriter(tmp_path, 0) as writer:
        assert writer.next_sequence == 6


def test_damage_inside_a_segment_is_found_by_the_query(
    tmp_path: Path, make_events: Callable[..., Any]
) -> None:
    """Pages are not read before they are asked for: the query leaves it out, says so, and answers."""
    for start in (0, 5000):
        with JournalWriter(tmp_path, 0) as writer:
            writer.append(make_events(5000, start=start))
        archive_once(tmp_path, SETTINGS)  # once it is closed: two segments, whatever the disk is doing
    bad = list_segments(tmp_path)[0].path
    content = bytearray(bad.read_bytes())
    content[100:20_000] = bytes(19_900)
    bad.write_bytes(content)
    with History(tmp_path) as history:
        assert set(history.events(limit=None)["value"].tolist()) == set(range(5000, 10_000))
        assert bad.name in history.problems[0]
        assert history.sql("SELECT max(value) AS m FROM events")["m"].tolist() == [9999]


def test_damage_keeps_nothing_alive(tmp_path: Path) -> None:
    """Of a damaged file, a history keeps the message, not the error, whose traceback has what was read."""
    journals(tmp_path, [3, 3])
    archive_once(tmp_path, SETTINGS)
    journals(tmp_path, [3])
    bad = list_segments(tmp_path)[0].path
    bad.write_bytes(bad.read_bytes()[:-1])
    journal = list_journals(tmp_path)[0].path
    journal.write_bytes(b"x" + journal.read_bytes()[1:])
    with History(tmp_path) as history:
        assert len(history.events(limit=None)) == 0
        assert all(str(path) in line for path, line in zip((journal, bad), history.problems, strict=True))
        gc.collect()
        errors = [each for each in gc.get_objects() if isinstance(each, DamagedError)]
        assert not [error for error in errors if str(tmp_path) in str(error)]


def test_foreign_and_other_segments_are_rejected(tmp_path: Path) -> None:
    """A Parquet file of somebody else's, or of another version, is named; nothing is renamed or deleted."""
    import duckdb

    journals(tmp_path, [3])
    archive_once(tmp_path, SETTINGS)
    path = segment_path(tmp_path, 0, 3, 3)
    for options, message in (
        ("", "not a segment of Hopscope"),
        (", KV_METADATA {hopscope_event_version: '9'}", "layout 9"),
    ):
        with duckdb.connect() as connection:
            connection.execute(f"COPY (SELECT 3 AS sequence) TO '{path}' (FORMAT parquet{options})")
        for use in (lambda: archive_once(tmp_path, SETTINGS), lambda: values(tmp_path)):
            with pytest.raises(HistoryError, match=message):
                use()
        assert path.exists()
    path.rename(path.with_name("mine.parquet"))
    with pytest.raises(HistoryError, match="not named as a segment"):
        values(tmp_path)


def test_a_segment_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk: the journals stay, the failure is reported and counted, the next round succeeds."""
    journals(tmp_path, [3])

    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    told: list[str] = []
    assert archive_once(tmp_path, SETTINGS, told.append).failures == 1
    assert "No space left on device" in told[0]
    assert not list(tmp_path.rglob("*.part"))
    assert values(tmp_path) == [0, 1, 2]
    monkeypatch.undo()
    assert archive_once(tmp_path, SETTINGS).events == 3


def test_one_archive_at_a_time(tmp_path: Path) -> None:
    """A second archive of a folder is rejected."""
    import fcntl

    journals(tmp_path, [1])
    archive_once(tmp_path, SETTINGS)
    with (tmp_path / "segments" / "archive.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(HistoryError, match="another process archives"):
            archive_once(tmp_path, SETTINGS)


def test_run_goes_on_until_it_is_stopped(tmp_path: Path) -> None:
    """`run` archives what comes, reports a lasting problem once, counts both, and ends when asked."""
    journals(tmp_path, [2])
    (tmp_path / "segments").mkdir()
    (tmp_path / "segments" / "x.parquet").write_bytes(b"")
    told: list[str] = []
    calls: list[int] = []

    def stop() -> bool:
        calls.append(1)
        if len(calls) == 40:
            (tmp_path / "segments" / "x.parquet").unlink()
        return not list_journals(tmp_path)

    counters = HISTORY_COUNTERS.open(None)
    result = run(tmp_path, SETTINGS, stop, told.append, counters=counters)
    assert result.events == counters["history_archived_events_total"] == 2
    assert result.failures == counters["history_failures_total"] > 0
    assert len(told) == 1
    assert "not named as a segment" in told[0]


def test_a_journal_without_events_stays(tmp_path: Path) -> None:
    """Its writer may be about to replace it by one of the same name."""
    journals(tmp_path, [1])
    path = list_journals(tmp_path)[0].path
    os.truncate(path, 128)
    assert archive_once(tmp_path, SETTINGS).segments == 0
    assert path.exists()


def test_addresses_of_every_form_survive(tmp_path: Path, make_events: Callable[..., Any]) -> None:
    """A segment shows exactly what the journal showed, column by column."""
    with JournalWriter(tmp_path, 0) as writer:
        writer.append(make_events(3000))
    with History(tmp_path) as history:
        before = list(history.events(limit=None, order="sequence").rows())
        archive_once(tmp_path, SETTINGS)
        assert list_journals(tmp_path) == []
        assert list(history.events(limit=None, order="sequence").rows()) == before
    assert {type(row["src"]) for row in before} == {str, type(None)}


def test_a_segment_names_its_range(tmp_path: Path, make_events: Callable[..., Any]) -> None:
    """The name is what the events say."""
    events = make_events(5)
    events["sequence"] = np.arange(7, 12)
    events["shard"] = 3
    (tmp_path / "journal").mkdir()
    assert write_segment(tmp_path, events).path.name == f"00003-{7:020d}-{11:020d}.parquet"


def test_other_readers_see_the_same_numbers(tmp_path: Path, make_events: Callable[..., Any]) -> None:
    """Arrow reads a segment: also the smallest and largest numbers of 64 bits, and neighbours far apart."""
    parquet = pytest.importorskip("pyarrow.parquet")
    events = make_events(500)
    events["sequence"], events["shard"] = np.arange(500), 0
    for name in ("value", "previous"):
        events[name][:6] = [0, 2**64 - 1, 2**63, 2**63 - 1, 1, 2**64 - 2]
    (tmp_path / "journal").mkdir()
    table = parquet.read_table(write_segment(tmp_path, events).path).sort_by("sequence")
    for name in ("value", "previous", "sequence", "src_lo", "dst_lo"):
        assert table[name].to_pylist() == events[name].tolist()
    assert table["time"].cast("int64").to_pylist() == events["time_ns"].tolist()


def test_a_flipped_bit_is_no_answer(tmp_path: Path, make_events: Callable[..., Any]) -> None:
    """Any bit of a page: readers of Parquet notice few, the checksum all. Queries and SQL answer from the
    other segments and name the file; the archive sets it aside.
    """
    for start in (0, 5000):
        with JournalWriter(tmp_path, 0) as writer:
            writer.append(make_events(5000, start=start))
        archive_once(tmp_path, SETTINGS)
    bad = list_segments(tmp_path)[0].path
    content = bad.read_bytes()
    chance = Random(3)
    for _ in range(20):
        flipped = bytearray(content)
        flipped[chance.randrange(4, len(content) // 2)] ^= 1 << chance.randrange(8)
        bad.write_bytes(flipped)
        with History(tmp_path) as history:
            assert set(history.events(limit=None)["value"].tolist()) == set(range(5000, 10_000))
            assert history.problems == [f"{bad} is damaged: its bytes do not have the checksum beside it"]
    with History(tmp_path) as history:
        assert history.sql("SELECT count(*) AS n FROM events")["n"].tolist() == [5000]
        assert len(history.problems) == 1
    told: list[str] = []
    assert archive_once(tmp_path, SETTINGS, told.append).quarantined == 1
    assert bad.name in told[0]
    left = {f"{segment.path.name}.crc32" for segment in list_segments(tmp_path)}
    assert {path.name for path in bad.parent.glob("*.crc32")} == left


def test_damage_is_not_merged(tmp_path: Path) -> None:
    """A segment that decays after it was checked, with its time unchanged, is not merged, but set aside."""
    for number in range(MERGE):
        if number == MERGE - 1:
            bad = list_segments(tmp_path)[0].path
            stat, flipped = bad.stat(), bytearray(bad.read_bytes())
            flipped[100] ^= 1
            bad.write_bytes(flipped)
            os.utime(bad, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        journals(tmp_path, [10])
        result = archive_once(tmp_path, SETTINGS)
    assert (result.merged, result.failures) == (0, 1)
    assert archive_once(tmp_path, SETTINGS).quarantined == 1
    assert values(tmp_path) == list(range(10, 10 * MERGE))
