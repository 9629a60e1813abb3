"""Events while the disk takes none: shown at once, written later in order, or counted as lost."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopscope.detect.records import EVENT, EVENT_VERSION
from hopscope.history.query import History
from hopscope.history.writing.archive import archive_once
from hopscope.history.writing.journal import JournalFull, JournalWriter, read_journals
from hopscope.memory.data_folder import DataFolder
from hopscope.memory.region import Region
from hopscope.memory.ring import RingReader, attach_ring, resume_ring
from hopscope.runtime.pipeline import event_writer
from hopscope.runtime.pipeline.event_writer import EventWriter, store_leftovers
from hopscope.runtime.pipeline.shard import keep_leftovers
from hopscope.settings.history import HistorySettings
from support.processes.small_disk import fill, small_disk
from support.waiting import HANG_SECONDS, eventually

CAPACITY = 1024
WAITING = "history: stopped; {} events wait in memory for the next start: {}"


def some(first: int, n: int) -> np.ndarray:
    events = np.zeros(n, EVENT)
    events["value"] = np.arange(first, first + n)
    return events


class Disk:
    """Stands before `os.pwrite`: full, or slow until it is released."""

    def __init__(self) -> None:
        self.full = False
        self.released = threading.Event()
        self.released.set()
        self.threads: set[str] = set()
        self._pwrite = os.pwrite

    def pwrite(self, fd: int, block: Any, offset: int) -> int:
        self.threads.add(threading.current_thread().name)
        assert self.released.wait(HANG_SECONDS)
        if self.full:
            raise OSError(28, "No space left on device")
        return self._pwrite(fd, block, offset)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    """The disk of the test."""
    made = Disk()
    monkeypatch.setattr(os, "pwrite", made.pwrite)
    monkeypatch.setattr(event_writer, "MIN_PAUSE", 0.0)
    monkeypatch.setattr(event_writer, "MAX_PAUSE", 0.0)
    yield made
    made.released.set()


def ticked(writer: EventWriter) -> bool:
    """Let it try once more; whether nothing waits."""
    writer.tick()
    return not writer.waiting


class Made:
    """A writer over a folder, and what it reported."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.folder, self.lines = folder, list[str]()
        path = folder / "worker-0.events"
        self.path = path
        self.ring: Region = resume_ring(path, EVENT, CAPACITY, EVENT_VERSION)
        journal = JournalWriter(folder, 0, notify=self.lines.append)
        self.writer = EventWriter(0, journal, self.ring, notify=self.lines.append, **options)

    def kill(self) -> None:
        """Leave the journal as a killed process does."""
        assert self.writer._journal is not None
        self.writer._journal.close()

    def shown(self) -> list[int]:
        """Values in the ring."""
        records, _ = RingReader(attach_ring(self.path, EVENT_VERSION), "oldest").read(CAPACITY)
        assert records["sequence"].tolist() == records["value"].tolist()
        return records["value"].tolist()

    def stored(self) -> list[int]:
        """Values in the journals."""
        events = read_journals(self.folder)
        assert events["sequence"].tolist() == events["value"].tolist()
        return events["value"].tolist()


def no_sleep(seconds: float) -> None:
    raise AssertionError("the loop slept")


def test_a_full_disk_stops_nothing(tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events are shown at once, nothing sleeps, and the journal gets all of them when there is room."""
    monkeypatch.setattr(time, "sleep", no_sleep)
    made = Made(tmp_path)
    made.writer.write(some(0, 5))
    disk.full = True
    for first in range(5, 500, 5):
        made.writer.write(some(first, 5))
        made.writer.tick()
        assert made.shown()[-1] == first + 4
    assert made.stored() == list(range(5))
    assert (made.writer.waiting, made.writer.failing) == (495, True)
    assert made.writer.failed_writes > 3
    disk.full = False
    made.writer.tick()
    assert (made.writer.waiting, made.writer.failing) == (0, False)
    made.writer.write(some(500, 5))
    assert made.stored() == made.shown() == list(range(505))
    made.writer.close()
    assert made.writer.lost == 0
    assert made.lines == [
        "history: No space left on device; events wait in memory, the newest 1,024 at most",
        "history: events are written again; 0 were lost",
    ]


def test_the_oldest_are_lost_and_counted(tmp_path: Path, disk: Disk) -> None:
    """More events than memory has room for: the newest stay, the others are a counted gap in history."""
    made = Made(tmp_path)
    made.writer.write(some(0, 7))
    disk.full = True
    for first in range(7, 3007, 100):
        made.writer.write(some(first, 100))
        made.writer.tick()
    assert made.writer.waiting == CAPACITY
    disk.full = False
    while made.writer.waiting:
        made.writer.tick()
    made.writer.write(some(3007, 3))
    made.writer.close()
    kept = [*range(7), *range(3007 - CAPACITY, 3010)]
    assert made.stored() == kept
    assert made.writer.lost == 3010 - len(kept)
    assert made.lines[-1] == f"history: events are written again; {made.writer.lost:,} were lost"
    settings = HistorySettings()
    assert archive_once(tmp_path, settings).segments == 2  # a segment has all numbers of its name
    with History(tmp_path) as history:
        assert history.events(limit=None, order="sequence")["sequence"].tolist() == kept
    with JournalWriter(tmp_path, 0) as journal:
        assert journal.next_sequence == 3010


def test_a_killed_worker_loses_nothing_that_waits(tmp_path: Path, disk: Disk) -> None:
    """The next writer finds in the ring what its journal lacks, also if the disk is still full."""
    made = Made(tmp_path)
    made.writer.write(some(0, 10))
    disk.full = True
    made.writer.write(some(10, 10))
    made.kill()
    again = Made(tmp_path)
    again.writer.write(some(20, 10))
    assert again.shown() == list(range(30))
    again.kill()
    disk.full = False
    last = Made(tmp_path)
    last.writer.write(some(30, 1))
    last.writer.tick()
    last.writer.close()
    assert last.stored() == last.shown() == list(range(31))


def test_what_a_killed_worker_had_no_room_for_is_counted_once(tmp_path: Path, disk: Disk) -> None:
    """Every event is in history or counted as lost, also if the writer was killed before it published its
    counters: then the next one counts it.
    """
    made = Made(tmp_path)
    made.writer.write(some(0, 10))
    disk.full = True
    written, counted = 10, 0
    for published in (True, False, True):
        for _ in range(30):
            made.writer.write(some(written, 100))
            made.writer.tick()
            written += 100
        if published:
            counted += made.writer.lost
            made.writer.settle()
        made.kill()
        made = Made(tmp_path)
    disk.full = False
    while made.writer.waiting:
        made.writer.tick()
    made.writer.close()
    assert made.stored()[-CAPACITY:] == list(range(written - CAPACITY, written))
    assert len(made.stored()) + counted + made.writer.lost == written


def test_leftovers_of_a_killed_collector(tmp_path: Path, disk: Disk) -> None:
    """Before its rings are deleted, events that waited there are written."""
    made = Made(tmp_path)
    disk.full = True
    made.writer.write(some(0, 10))
    made.kill()
    assert store_leftovers(tmp_path, tmp_path, made.lines.append) == [made.path]
    assert made.lines[-1] == WAITING.format(10, "No space left on device")
    disk.full = False
    assert store_leftovers(tmp_path, tmp_path, made.lines.append) == []
    assert made.stored() == list(range(10))
    (tmp_path / "worker-1.events").write_bytes(b"damaged")
    assert store_leftovers(tmp_path, tmp_path, made.lines.append) == []
    assert "worker-1.events" in made.lines[-1]


def test_no_number_is_used_twice_after_all_was_killed(tmp_path: Path, disk: Disk) -> None:
    """Events that a reader saw while the disk was full keep their numbers, though the collector was killed
    and started again, and its disk was still full: they stay in memory until it takes them.
    """
    data, shared = tmp_path / "data", tmp_path / "shared"
    shared.mkdir()
    with DataFolder(data, shared, keep_leftovers) as folder:
        path = folder.regions / "worker-0.events"
        ring = resume_ring(path, EVENT, CAPACITY, EVENT_VERSION)
        journal = JournalWriter(data, 0)
        writer = EventWriter(0, journal, ring)
        writer.write(some(0, 5))
        disk.full = True
        writer.write(some(5, 10))
        journal.close()
        killed = tmp_path / "killed"
        shutil.copytree(folder.regions, killed)
    shutil.copytree(killed, folder.regions)
    (data / "regions").symlink_to(folder.regions)
    for _ in range(2):
        with DataFolder(data, shared, keep_leftovers) as folder:
            assert folder.events_wait
            assert [path.name for path in folder.regions.iterdir()] == ["worker-0.events"]
    disk.full = False
    with DataFolder(data, shared, keep_leftovers) as folder:
        assert not folder.events_wait
        assert list(folder.regions.iterdir()) == []
        assert read_journals(data)["value"].tolist() == list(range(15))
        with JournalWriter(data, 0) as journal:
            assert journal.next_sequence == 15
    assert not folder.regions.exists()


def test_an_end_with_a_full_disk_keeps_what_waits(tmp_path: Path, disk: Disk) -> None:
    """What cannot be written at the end waits for the next start, and the log says so."""
    made = Made(tmp_path)
    disk.full = True
    made.writer.write(some(0, 10))
    made.writer.close()
    assert (made.writer.waiting, made.writer.lost) == (10, 0)
    assert made.lines[-1] == WAITING.format(10, "No space left on device")
    disk.full = False
    again = Made(tmp_path)
    again.writer.write(some(10, 1))
    again.writer.close()
    assert again.stored() == list(range(11))


def test_without_a_ring_a_full_disk_is_an_error(tmp_path: Path, disk: Disk) -> None:
    """A replay has nowhere to keep events."""
    disk.full = True
    writer = EventWriter(0, JournalWriter(tmp_path, 0), None)
    with pytest.raises(JournalFull, match="No space left on device"):
        writer.write(some(0, 1))
    writer.close()


def test_a_thread_writes_for_a_loop_that_must_not_wait(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that does not answer delays neither the loop nor readers; nothing is lost when it does."""
    monkeypatch.setattr(event_writer, "HANG_SECONDS", 0.05)
    made = Made(tmp_path, thread=True)
    disk.released.clear()
    for first in range(0, 500, 5):
        made.writer.write(some(first, 5))
    assert made.shown() == list(range(500))

    def reported() -> bool:
        made.writer.tick()
        return made.writer.failing

    eventually(reported)
    assert made.lines == [
        "history: the disk does not answer; events wait in memory, the newest 1,024 at most"
    ]
    disk.released.set()
    eventually(lambda: not made.writer.failing)
    disk.full = True
    made.writer.write(some(500, 5))
    eventually(lambda: made.writer.failed_writes > 3)
    disk.full = False
    eventually(lambda: made.writer.waiting == 0)
    made.writer.write(some(505, 5))
    made.writer.close()
    assert made.stored() == list(range(510))
    assert made.writer.lost == 0
    assert disk.threads == {"journal"}


def test_a_machine_that_is_busy_loses_nothing(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the thread does not come to run, and the disk is sound, `write` lets it before it overwrites."""
    monkeypatch.setattr(event_writer, "THREAD_SECONDS", HANG_SECONDS)
    monkeypatch.setattr(event_writer, "STALL_SECONDS", HANG_SECONDS)
    made = Made(tmp_path, thread=True)
    for first in range(0, 10 * CAPACITY, 100):
        made.writer.write(some(first, 100))
    made.writer.close()
    assert made.writer.lost == 0
    assert made.stored() == list(range(first + 100))
    assert made.lines == []


def test_a_thread_that_is_too_slow_loses_and_counts(tmp_path: Path, disk: Disk) -> None:
    """Written, lost, and nothing else: the sum is what was given."""
    made = Made(tmp_path, thread=True)
    disk.released.clear()
    for first in range(0, 5000, 100):
        made.writer.write(some(first, 100))
    disk.released.set()
    made.writer.close()
    stored = made.stored()
    assert stored[-CAPACITY:] == list(range(5000 - CAPACITY, 5000))
    assert len(stored) + made.writer.lost == 5000
    assert made.writer.lost > 0
    assert made.lines[0].startswith("history: the disk is too slow")


def test_an_end_does_not_wait_for_a_disk_that_hangs(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it did not take waits for the next start."""
    monkeypatch.setattr(event_writer, "CLOSE_SECONDS", 0.05)
    made = Made(tmp_path, thread=True)
    disk.released.clear()
    made.writer.write(some(0, 10))
    made.writer.close()
    assert (made.writer.waiting, made.writer.lost) == (10, 0)
    assert made.lines[-1] == WAITING.format(10, "the disk does not answer")


def test_a_real_disk_that_is_full(tmp_path: Path) -> None:
    """A tmpfs of 1 MiB: full, with room, full by its own journals until the archive makes room."""
    with small_disk(tmp_path / "small", "1m") as folder:
        regions = tmp_path / "regions"
        regions.mkdir()
        lines: list[str] = []
        settings = HistorySettings(keep_free="50%", ring_events=65_536)
        journal = JournalWriter(folder, 0, keep_free=settings.keep_free)
        ring = resume_ring(regions / "worker-0.events", EVENT, settings.ring_events, EVENT_VERSION)
        writer = EventWriter(0, journal, ring, notify=lines.append)
        writer.write(some(0, 100))
        ballast = fill(folder)
        writer.write(some(100, 900))
        assert 900 >= writer.waiting > 800  # the last page of the file may have room
        ballast.unlink()
        eventually(lambda: ticked(writer))
        for first in range(1000, 51_000, 1000):  # 6.5 MB
            writer.write(some(first, 1000))
        assert writer.failing
        assert "less than half of history.keep_free (50%) is free" in lines[-1]

        def archived() -> bool:
            archive_once(folder, settings, lines.append)
            writer.tick()
            return not writer.waiting

        eventually(archived)
        writer.close()
        assert writer.lost == 0
        archive_once(folder, settings, lines.append)
        with History(folder) as history:
            events = history.events(limit=None, order="sequence")
        assert events["sequence"].tolist()[-1] == 50_999
        assert not [line for line in lines if "cannot be written" in line]


def test_the_thread_looks_less_often_while_nothing_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look that finds nothing doubles the wait, up to IDLE_SECONDS; after an event it is the shortest. Only
    an event after such a look wakes the thread, and only the first one.
    """
    monkeypatch.setattr(event_writer, "leave", lambda: None)
    made = Made(tmp_path)
    writer, waits, woken = made.writer, list[float](), list[int]()

    class Wake:
        """Stands for the time that passes: events come in the first and in the eighth wait."""

        def wait(self, seconds: float) -> None:
            waits.append(seconds)
            if len(waits) in (1, 8):
                writer.write(some(len(made.shown()), 1))
                writer.write(some(len(made.shown()), 1))
            writer._stop = len(waits) == 10

        def set(self) -> None:
            woken.append(len(waits))

        def clear(self) -> None:
            pass

    writer._wake = Wake()  # type: ignore[assignment]
    writer._thread = threading.current_thread()
    writer._read_from(0)
    writer._work()
    shortest, longest = event_writer.THREAD_SECONDS, event_writer.IDLE_SECONDS
    doubled = [shortest * 2**look for look in range(6)]
    assert doubled[-1] == longest
    assert waits == [shortest, *doubled, longest, *doubled[:2]]
    assert woken == [8]
    assert made.stored() == [0, 1, 2, 3]
