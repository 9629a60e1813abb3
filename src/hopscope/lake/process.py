"""The lake process: a thread that writes events, a thread that maintains the lake, and their status.

Only the threads wait for servers; the main thread never does. If a thread has been waiting for a server for
too long, the process ends, and is started again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..base.clock import running_ns
from ..base.deadline import jittered
from ..base.errors import HopscopeError, described
from ..base.log import logger
from ..base.process.stop import Stop
from ..settings.lake import LakeSettings
from .backlog import Backlog
from .counters import LAKE_COUNTERS
from .database import LakeError
from .maintenance import MaintenanceResult, maintain
from .members import RefusedError
from .status import asked_to_flush, write_status
from .writer import LakeWriter

TURN_SECONDS = 0.2
LOOK_SECONDS = 1.0
"""Interval at which the ends of history are read and the status is written."""
CLOSE_SECONDS = 8.0
"""How long the last commits may take when the process ends …"""
SILENT_SECONDS = 3.0
"""… unless a server has not answered for this long. Events that are not committed stay in history."""
STUCK_SECONDS = 300.0
"""How long a thread may wait for a server; longer than all time limits of the clients that it uses."""
WORK_SECONDS = 0.05
"""A thread that has used this much CPU time since the last check is working, for example on a large merge,
and not waiting for a server."""
MIN_PAUSE = 0.5
MAX_PAUSE = 30.0
"""Pauses between attempts double from MIN_PAUSE to MAX_PAUSE, seconds."""


class LakeProcess:
    """Writes the events of the data folder `folder` into the lake until `run` ends."""

    def __init__(self, settings: LakeSettings, folder: Path, member: str, incarnation: str) -> None:
        self._settings, self._folder, self._regions = settings, folder, folder / "regions"
        self._member, self._incarnation = member, incarnation
        self._log = logger("lake")
        self._writer = LakeWriter(settings, folder, member, incarnation)
        self._backlog = Backlog(folder)
        self._counters = LAKE_COUNTERS.open(self._regions)
        self.counts = self._writer.counts
        self._wake = threading.Event()
        self._ending = False
        self._problem = ""
        self._since_ns = time.time_ns()
        self._committed_ns = 0
        self._next_commit = 0.0
        self._refill_at = 0.0
        self._moved_at = {"write": time.monotonic(), "maintain": time.monotonic()}
        """When each thread last returned from a call to a server, or was working."""
        self._clocks: dict[str, int] = {}
        """Clock of each thread's CPU time."""
        self._worked = {"write": 0.0, "maintain": 0.0}
        """CPU time of each thread at the last check."""
        self._maintained: dict[str, Any] = {"by": "", "ended_ns": 0, "problem": "", "notes": []}

    # --------------------------------------------------------------------------------- the process

    def run(self, stop: Stop) -> None:
        """Write and maintain until `stop` is set; then commit the remaining events, for at most CLOSE_SECONDS
        and while servers answer.
        """
        threads = {
            name: threading.Thread(target=self._work, args=(name, work), name=name, daemon=True)
            for name, work in self._works()
        }
        for thread in threads.values():
            thread.start()
        looked_at = -LOOK_SECONDS
        while not stop.wait(TURN_SECONDS):
            now = time.monotonic()
            if now - looked_at >= LOOK_SECONDS:
                looked_at = now
                self._look()
                self._look_for_work()
            for name, moved_at in self._moved_at.items():
                if threads[name].is_alive() and now - moved_at > STUCK_SECONDS:
                    self._ending = True
                    raise LakeError(
                        f"{self._settings.place}: no answer for {STUCK_SECONDS:.0f} s; the process ends"
                    )
        self._look()
        self._ending = True
        self._wake.set()
        until = time.monotonic() + CLOSE_SECONDS
        while threads["write"].is_alive() and (now := time.monotonic()) < until:
            self._look_for_work()
            if now - self._moved_at["write"] > SILENT_SECONDS:
                break
            threads["write"].join(TURN_SECONDS)
        self._look()
        self._backlog.close()

    def _works(self) -> list[tuple[str, Callable[[], None]]]:
        return [("write", self._write), ("maintain", self._maintain)]

    def _work(self, name: str, work: Callable[[], None]) -> None:
        self._clocks[name] = time.pthread_getcpuclockid(threading.get_ident())
        work()

    def _look_for_work(self) -> None:
        """Note which threads have worked since the last check."""
        for name, clock in list(self._clocks.items()):
            with suppress(OSError):  # the thread has ended
                worked = time.clock_gettime(clock)
                if worked - self._worked[name] >= WORK_SECONDS:
                    self._moved_at[name] = time.monotonic()
                self._worked[name] = worked

    def _look(self) -> None:
        """Read how many events wait, and write counters and status."""
        try:
            self._backlog.look()
            status = self.status()
        except HopscopeError as error:  # history is damaged; the writer's error names the file
            self._log.warning("history cannot be read", reason=str(error))
            return
        self.waiting, self.waiting_seconds = status["lag_events"], round(status["lag_seconds"])
        self._counters.collect(self)
        write_status(self._regions, status)

    waiting = 0
    waiting_seconds = 0

    @property
    def connected(self) -> bool:
        """Whether events can be written into the lake."""
        return not self._problem and self._writer.connected

    def status(self) -> dict[str, Any]:
        """The status, for other processes. `lag_events`: events that are not in the lake yet, and would be
        lost with the disk.
        """
        marks = dict(self._writer.marks)
        return {
            "place": self._settings.place,
            "member": self._member,
            "incarnation": self._incarnation,
            "state": "away" if self._problem else "writing" if self._writer.connected else "connecting",
            "since_ns": self._since_ns,
            "problem": self._problem,
            "lag_events": self._backlog.waiting(marks),
            "lag_seconds": round(self._backlog.age_seconds(marks), 3),
            "committed_ns": self._committed_ns,
            "lost_events": self.counts["lost"],
            "shards": {
                str(shard): {"next": marks.get(shard, 0), "end": end}
                for shard, end in self._backlog.ends.items()
            },
            "maintenance": self._maintained,
            "time_ns": time.time_ns(),
            "running_ns": running_ns(),
        }

    # ---------------------------------------------------------------------------------- the writer

    def _write(self) -> None:
        pause = MIN_PAUSE
        try:
            while True:
                self._moved_at["write"] = time.monotonic()
                try:
                    busy = self._turn()
                except Exception as error:  # whatever failed, events wait in history
                    self._failed(error)
                    if self._ending:
                        return
                    self._wait(MAX_PAUSE if isinstance(error, RefusedError) else jittered(pause))
                    pause = min(2 * pause, MAX_PAUSE)
                    continue
                pause = MIN_PAUSE
                if self._ending and not busy:
                    return
                if not busy:
                    self._wait(TURN_SECONDS)
        finally:
            self._writer.close()

    def _wait(self, seconds: float) -> None:
        """Pause, unless the process ends; a pause does not count as waiting for a server."""
        until = time.monotonic() + seconds
        while not self._ending and (left := until - time.monotonic()) > 0:
            self._wake.wait(min(left, LOOK_SECONDS))
            self._moved_at["write"] = time.monotonic()

    def _turn(self) -> bool:
        """Commit if a commit is due; returns whether there may be more to do right away."""
        self._writer.connect()
        now = time.monotonic()
        if now >= self._refill_at and not self._ending:
            if self._writer.refill():
                self._succeeded()
                return True
            self._refill_at = now + self._settings.maintain_seconds
        if not self._due(now):
            self._succeeded()
            return False
        self._next_commit = now + jittered(self._settings.every_seconds, 0.9, 1.0)
        committed = self._writer.commit()
        self._succeeded()
        if committed:
            self._committed_ns = time.time_ns()
        return committed > 0 and self._due(time.monotonic())

    def _due(self, now: float) -> bool:
        """Whether the waiting events are to be committed now."""
        marks = self._writer.marks
        waiting = self._backlog.waiting(marks)
        if not waiting:
            return False
        if self._ending or self._problem:
            return True
        if now >= self._next_commit or waiting >= self._settings.batch_events:
            return True
        asked = asked_to_flush(self._regions)
        return any(marks.get(shard, 0) < end for shard, end in asked.items())

    def _succeeded(self) -> None:
        if self._problem:
            self._log.info("the lake takes events again", lake=self._settings.place)
            self._problem, self._since_ns = "", time.time_ns()

    def _failed(self, error: Exception) -> None:
        problem = described(error)
        self.counts["failures"] += 1
        if not isinstance(error, HopscopeError):
            self._writer.disconnect()
        if not self._problem:
            self._log.warning("events do not come into the lake", reason=problem)
            self._since_ns = time.time_ns()
        self._problem = problem

    # --------------------------------------------------------------------------------- maintenance

    def _maintain(self) -> None:
        every = self._settings.maintain_seconds
        pause = jittered(every, 0.1, 1.0)
        while True:
            until = time.monotonic() + pause
            while time.monotonic() < until:
                if self._ending:
                    return
                self._moved_at["maintain"] = time.monotonic()
                time.sleep(TURN_SECONDS)
            pause = jittered(every, 0.8, 1.2)
            self._round()

    def _round(self) -> None:
        try:
            found = maintain(self._settings, self._progress)
        except Exception as error:  # the next round tries again
            problem = described(error)
            self.counts["round_failures"] += 1
            self._maintained = {**self._maintained, "problem": problem, "ended_ns": time.time_ns()}
            self._log.warning("maintenance of the lake failed", reason=problem)
            return
        if found is not None:
            self._count(found)

    def _progress(self) -> None:
        self._moved_at["maintain"] = time.monotonic()

    def _count(self, found: MaintenanceResult) -> None:
        self.counts["rounds"] += 1
        self.counts["merged"] += found.merged_files
        self.counts["expired"] += found.expired_events
        notes = found.notes
        if notes and notes != self._maintained["notes"]:
            self._log.warning("the lake needs attention", reason="; ".join(notes))
        self._maintained = {"by": self._member, "ended_ns": time.time_ns(), "problem": "", "notes": notes}
