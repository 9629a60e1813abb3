"""Writes the events of a shard into its journal and its ring, even while the disk does not accept them.

With a thread, the writer never touches the disk in the caller's thread: forwarding, detection, live state and
alerts go on while the disk hangs. Events go into the ring, where readers see them, and the thread reads them
from there like any other reader. Without a thread (replays, the library, the end of a process), events go to
the journal first.

While the disk is full, broken or slow, events wait in the ring. Events that are overwritten there before they
are on disk are lost to history, and counted. The ring is in shared memory, so waiting events outlive the
worker and the collector: the next collector writes them.

The number of a lost event is not reused; history has a gap there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from ...base.process.affinity import leave
from ...detect.records import EVENT_VERSION
from ...history.errors import HistoryError
from ...history.files.journal_file import number_events, read_journals
from ...history.writing.journal import JournalFull, JournalWriter
from ...memory.region import Region, RegionError
from ...memory.ring import RingReader, RingWriter, attach_ring
from ...wire.records import Records

CHUNK = 8192
"""How many events are copied from the ring and written at a time."""
CHUNKS_PER_TICK = 4
MIN_PAUSE, MAX_PAUSE = 0.1, 1.0
"""Seconds between two attempts to write to a failing disk."""
THREAD_SECONDS, IDLE_SECONDS = 0.01, 0.32
"""Interval at which a writer's thread looks for events. It doubles after each look that finds none, up to
IDLE_SECONDS, since a look takes 70 us of CPU time; then the next event wakes the thread. Readers of the ring
see events at once; readers of history see them once they are written.
"""
STALL_SECONDS = 0.05
"""How long `write` waits for the thread if the ring is full: once, then not until the thread has written."""
HANG_SECONDS = 2.0
"""Time after which a write that has not returned is reported."""
CLOSE_SECONDS = 5.0
"""How long the end waits for the thread, whose disk may hang."""
HANGS = "the disk does not answer"


class EventWriter:
    """Numbers the events of one shard and writes them to `journal` and `ring`; either may be None.

    Without a ring, a failed write raises JournalFull. `ring` may be that of a killed writer: events that are
    only in the ring or only in the journal are copied to the other. `thread`: a separate thread writes the
    journal. `notify` gets a line when the disk begins to fail, and when all events are written again.
    """

    def __init__(
        self,
        shard: int,
        journal: JournalWriter | None,
        ring: Region | None,
        *,
        thread: bool = False,
        notify: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.lost = 0
        """Events that the journal will never have."""
        self.failed_writes = 0
        """Failed attempts to write."""
        self.problem = ""
        """Why the journal lacks events; empty: it has all."""
        self._shard = shard
        self._journal = journal
        self._notify = notify
        self._ring = None if ring is None else RingWriter(ring)
        self._following = 0 if journal is None else journal.next_sequence
        self._backlog: RingReader | None = None
        """Reads the events that the journal lacks; None: it has all."""
        self._stored = 0
        """Position in the ring of the first event that the journal lacks, if there is a backlog."""
        self._pause, self._retry_at = MIN_PAUSE, 0.0
        self._progress_at = time.monotonic()
        self._lost_before = 0  # `lost` when the problem began
        self._stop = False
        self._wake = threading.Event()
        """Set for the thread: it is time to write."""
        self._idle = False
        """Whether the last look of the thread found nothing."""
        self._moved = threading.Event()
        """Set by the thread: it has written."""
        self._stalled = False
        """Whether `write` waited in vain for the thread, which has not written since."""
        self._thread: threading.Thread | None = None
        if ring is None or journal is None:
            return
        self._region = ring
        if (end := _end(ring)) is not None and end < self._following:
            self._show_missed(journal, end)
        elif end is not None and end > self._following:
            self._resume(end)
        if thread:
            if self._backlog is None:
                self._read_from(RingReader(ring).cursor)
            self._thread = threading.Thread(target=self._work, name="journal", daemon=True)
            self._thread.start()
        else:
            self._catch_up()

    @property
    def waiting(self) -> int:
        """Events in memory that the journal lacks."""
        if self._backlog is None or self._ring is None:
            return 0
        return min(self._ring.head - self._stored, self._ring.capacity)

    def settle(self) -> None:
        """Note that events stored or in `lost` are counted, so that the next writer does not repeat it."""
        if self._ring is not None:
            self._ring.settled = self._ring.head if self._backlog is None else self._stored

    @property
    def failing(self) -> bool:
        """Whether the journal cannot be written."""
        return bool(self.problem)

    def write(self, events: Records) -> None:
        """Number EVENT records, journal them if the disk accepts them, and put them into the ring."""
        if self._thread is not None:
            self._await_room(len(events))
        if self._journal is None or self._backlog is not None:
            number_events(events, self._shard, self._following)
        else:
            try:
                self._journal.append(events)
            except JournalFull as full:
                if self._ring is None:
                    raise
                self._read_from(self._ring.head + full.written)
                self._failed(full)
        self._following += len(events)
        if self._ring is not None:
            self._ring.write(events)
        if self._idle:
            self._idle = False
            self._wake.set()

    def tick(self) -> None:
        """Retry failed writes; close an old journal. Call it regularly."""
        if self._thread is not None:
            if self.waiting and not self.problem and time.monotonic() - self._progress_at > HANG_SECONDS:
                self._report(HANGS)
            return
        self._round()

    def end_thread(self) -> None:
        """Unless the disk hangs, end the thread once all events are written; `write` then does its work."""
        if self._thread is None:
            return
        self._stop = True
        self._wake.set()
        self._thread.join(CLOSE_SECONDS)
        if not self._thread.is_alive():
            self._thread = None
            if not self.waiting:
                self._backlog = None

    def close(self) -> None:
        """Write all waiting events, and close the journal. Events that the disk does not accept stay in the
        ring. It may be called twice.
        """
        journal = self._journal
        if journal is None:
            return
        self.end_thread()
        if self._thread is None:
            self._finish()
        if self.waiting and self._ring is not None:
            self.lost += self._ring.head - self._stored - self.waiting
            self._notify(
                f"history: stopped; {self.waiting:,} events wait in memory for the next start: "
                f"{self.problem or HANGS}"
            )
        self._journal = None
        if self._thread is None:
            journal.close()

    # ------------------------------------------------------------------ events that the journal lacks

    def _work(self) -> None:
        """The thread, not on the worker's processor: follow the ring until `close`, then write the rest."""
        leave()
        seconds = THREAD_SECONDS
        while not self._stop:
            self._wake.wait(seconds)
            self._wake.clear()
            self._progress_at = time.monotonic()
            self._idle = True  # before the look, or an event in between would wait for the next one
            if self.waiting:
                self._idle, seconds = False, THREAD_SECONDS
            else:
                seconds = min(2 * seconds, IDLE_SECONDS)
            self._round()
        self._finish()

    def _await_room(self, more: int) -> None:
        """Wait until the thread has written what `more` events would overwrite, so that a busy machine loses
        none. If the thread makes no progress, the disk hangs, and `write` no longer waits for it.
        """
        assert self._ring is not None
        room = self._ring.capacity - min(more, self._ring.capacity)
        while self.waiting > room and not self.problem and not self._stalled:
            self._moved.clear()
            self._wake.set()
            self._stalled = self.waiting > room and not self._moved.wait(STALL_SECONDS)

    def _round(self) -> None:
        for _ in range(CHUNKS_PER_TICK):
            if not self.waiting or not self._catch_up():
                break
        if self._journal is not None:
            self._journal.tick()

    def _finish(self) -> None:
        """Write all waiting events, unless the disk fails."""
        self._retry_at = 0.0
        while self.waiting and self._catch_up():
            pass

    def _catch_up(self) -> bool:
        """Write the next CHUNK that the journal lacks; False: the write failed, or no retry is due."""
        backlog, journal = self._backlog, self._journal
        if backlog is None or journal is None or time.monotonic() < self._retry_at:
            return False
        events, lost = backlog.read(CHUNK)
        self.lost += lost
        self._stored += lost
        try:
            for block in _runs(events):
                journal.skip_to(int(block["sequence"][0]))
                journal.append(block)
                self._stored += len(block)
        except JournalFull as full:
            self._stored += full.written
            backlog.cursor = self._stored
            self._failed(full)
            return False
        self._stalled = False
        self._moved.set()
        if lost and not self.problem:
            self._report("the disk is too slow")
        if not self.waiting:
            self._recovered()
        return True

    def _failed(self, full: JournalFull) -> None:
        self.failed_writes += 1
        self._pause = min(MAX_PAUSE, 2 * self._pause) if self.problem else MIN_PAUSE
        self._retry_at = time.monotonic() + self._pause
        self._report(full.reason)

    def _report(self, problem: str) -> None:
        if not self.problem and self._ring is not None:
            self._notify(
                f"history: {problem}; events wait in memory, the newest {self._ring.capacity:,} at most"
            )
        self.problem = problem

    def _recovered(self) -> None:
        """The journal has all events again."""
        if self._thread is None:
            self._backlog = None
        if self.problem:
            self.problem = ""
            self._notify(f"history: events are written again; {self.lost - self._lost_before:,} were lost")
        self._lost_before = self.lost

    def _resume(self, end: int) -> None:
        """Continue after a killed writer whose journal lacks events up to number `end`. Those that are no
        longer in memory are counted as lost, unless that writer did so.
        """
        assert self._ring is not None
        position = _position(self._region, self._following)
        missing = self._ring.head - (end - self._following)
        self.lost += max(0, position - max(missing, self._ring.settled))
        self._read_from(position)
        self._following = end

    def _read_from(self, position: int) -> None:
        """Note that the journal lacks the events from this position of the ring on."""
        self._backlog, self._stored = RingReader(self._region, position), position

    def _show_missed(self, journal: JournalWriter, end: int) -> None:
        """Copy events into the ring that its killed writer had only written to the journal."""
        assert self._ring is not None
        events = read_journals(journal.folder)
        self._ring.write(events[(events["shard"] == self._shard) & (events["sequence"] >= end)])


def store_leftovers(folder: Path, regions: Path, notify: Callable[[str], None]) -> list[Path]:
    """Write into history the events that still wait in the rings of an ended collector; returns the rings
    whose events the disk does not accept.
    """
    kept = []
    for path in sorted(regions.glob("worker-*.events")):
        try:
            shard = int(path.name[len("worker-") : -len(".events")])
            with JournalWriter(folder, shard, notify=notify) as journal:
                ring = attach_ring(path, EVENT_VERSION, writable=True)
                writer = EventWriter(shard, journal, ring, notify=notify)
                writer.close()
                if writer.waiting:
                    kept.append(path)
                if writer.lost:
                    notify(f"{path}: {writer.lost:,} events are lost: memory had no room for them")
                    writer.settle()
        except HistoryError as error:
            notify(f"{path}: {error}; events that wait there are kept")
            kept.append(path)
        except (RegionError, ValueError) as error:
            notify(f"{path}: {error}; events that waited there are left out")
    return kept


def _end(ring: Region) -> int | None:
    """1 + the number of the newest event of a ring; None: it has none."""
    head = RingReader(ring).head
    records = ring["records"]
    return int(records[(head - 1) % len(records)]["sequence"]) + 1 if head else None


def _position(ring: Region, sequence: int) -> int:
    """Position in a ring of the first event with this number or a higher one."""
    reader = RingReader(ring, "oldest")
    events, _ = reader.read(reader.capacity)
    return reader.cursor - int(np.count_nonzero(events["sequence"] >= sequence))


def _runs(events: Records) -> Iterator[Records]:
    """Blocks of events whose numbers have no gaps."""
    if len(events):
        yield from np.split(events, np.flatnonzero(np.diff(events["sequence"]) != 1) + 1)
