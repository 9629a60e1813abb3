"""Reading the lake: one snapshot of it for each question, and where it ends for each shard."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

import duckdb

from ..base.deadline import Deadline, started
from ..history.errors import HistoryError
from ..history.files.segments import first_line
from ..history.sandbox.files import NAMES
from ..settings.destinations import shown
from ..settings.lake import LakeSettings
from .catalog import Lake, end, prepared
from .database import LakeError

T = TypeVar("T")
Shard = tuple[str, str, int]
"""Member, incarnation, shard."""
AWAY_SECONDS = 1.0
"""How long a lake that could not be reached is away for all questions: an attempt may take as long as a
connection to a host that does not answer."""
CLOSE_SECONDS = 1.0
SHARE = 0.6
"""Of the time for an answer, how much the lake may take to say what it has: the rest is for the members."""
_TRIES = 3
"""Snapshots tried while files are merged during a question, or the database starts again."""


@dataclass(frozen=True, slots=True)
class LakeSnapshot:
    """The lake at one moment."""

    version: int
    marks: Mapping[Shard, int]
    """First sequence that it does not have."""
    times: Mapping[str, int]
    """When each member last wrote into it, ns since the epoch."""
    gaps: Mapping[str, int]
    """Events below the marks that it lacks, and a member may still have, by member."""
    events: str
    """A SELECT of its events, with the columns NAMES."""
    files: str
    """A SELECT of the files that have them: `data_file`, and the `delete_file` of rows that do not count."""


@dataclass(frozen=True, slots=True)
class _Ready:
    """A snapshot, and a connection of its own to read it."""

    lake: Lake
    cursor: duckdb.DuckDBPyConnection
    snapshot: LakeSnapshot


class LakeReader:
    """A connection to the lake that is opened when it is needed, and again when it has failed. Threads may
    share it.

    Nothing ends a call to a database that hangs. So a question with a deadline leaves such a call to its
    thread, and until that one comes back, the lake is away for all of them.
    """

    def __init__(
        self, settings: LakeSettings, *, memory_bytes: int = 1024**3, threads: int | None = None
    ) -> None:
        self.settings = settings
        self._memory_bytes, self._threads = memory_bytes, threads or 2
        self._lock = threading.Lock()
        self._lake: Lake | None = None
        """Ends with the last question that reads it: to close it would close their cursors, too."""
        self._problem, self._retry_at = "", 0.0
        self._preparing = threading.Lock()
        self._prepared: duckdb.DuckDBPyConnection | None = None
        self._hangs: Future[_Ready] | None = None
        """A call that had not come back at the deadline of its question."""

    def close(self) -> None:
        """Close the connection; what waits for the database ends with it or the process."""
        if self._hanging:
            return
        if self._lock.acquire(timeout=CLOSE_SECONDS):
            try:
                self._lake = None
            finally:
                self._lock.release()

    def prepare(self) -> None:
        """Do what takes time, and no server, before a deadline begins."""
        with self._preparing:
            if self._lake is None and self._prepared is None and not self._away:
                with suppress(LakeError):  # the question says why
                    self._prepared = self._make()

    def ask(
        self,
        work: Callable[[duckdb.DuckDBPyConnection, LakeSnapshot], T],
        deadline: Deadline | None = None,
    ) -> T:
        """Call `work` with a snapshot, and a connection of its own to read it; again with a newer one if it
        fails with an error of DuckDB.

        LakeError: the lake is away, or has no snapshot within its share of what is left until the deadline.
        HistoryError: the question needs too much memory.
        """
        for attempt in range(_TRIES):
            ready = self._ready() if deadline is None else self._within(deadline)
            try:
                return work(ready.cursor, ready.snapshot)
            except (duckdb.OutOfMemoryException, duckdb.InterruptException) as error:
                raise HistoryError(f"the query needs too much memory: {first_line(error)}") from error
            except duckdb.Error as error:
                self._failed(ready.lake, error, last=attempt == _TRIES - 1)
            finally:
                end(ready.cursor)
        raise AssertionError

    def _within(self, deadline: Deadline) -> _Ready:
        """The same in a thread. LakeError: it takes too long."""
        place = shown.shown(self.settings.catalog)
        if self._hanging:
            raise LakeError(f"{place}: it does not answer: an earlier question still waits")
        seconds = deadline.left(SHARE)
        found = started(self._ready, seconds)
        if not found.done():
            self._hangs = found
            found.add_done_callback(_let_go)
            raise LakeError(f"{place}: no answer within {seconds:.1f} s")
        return found.result()

    @property
    def _hanging(self) -> bool:
        return self._hangs is not None and not self._hangs.done()

    @property
    def _away(self) -> bool:
        return self._hanging or time.monotonic() < self._retry_at

    def _ready(self) -> _Ready:
        for attempt in range(_TRIES):
            lake = self._opened()
            try:
                cursor = lake.connection.cursor()
                try:
                    cursor.execute("BEGIN TRANSACTION READ ONLY")  # which sees the catalog as it is now
                    return _Ready(lake, cursor, _snapshot(lake, cursor))
                except BaseException:
                    end(cursor)
                    raise
            except duckdb.Error as error:
                self._failed(lake, error, last=attempt == _TRIES - 1)
        raise AssertionError

    def _failed(self, lake: Lake, error: duckdb.Error, *, last: bool) -> None:
        """Raises LakeError if that was the last attempt."""
        if last:
            raise lake.named(error) from None
        if not isinstance(error, duckdb.HTTPException):  # a file is gone: a newer snapshot has others
            self._replace(lake)

    def _opened(self) -> Lake:
        with self._lock:
            if self._lake is None:
                self._lake = self._open()
            return self._lake

    def _open(self) -> Lake:
        """Those who waited for an attempt that failed get its reason, and wait for no further one."""
        if time.monotonic() < self._retry_at:
            raise LakeError(self._problem)
        with self._preparing:
            made, self._prepared = self._prepared, None
        try:
            return Lake(self.settings, read_only=True, connection=made or self._make())
        except LakeError as error:
            self._problem, self._retry_at = str(error), time.monotonic() + AWAY_SECONDS
            raise

    def _make(self) -> duckdb.DuckDBPyConnection:
        return prepared(self.settings, memory_bytes=self._memory_bytes, threads=self._threads)

    def _replace(self, lake: Lake) -> None:
        """Let the next question open another connection than one that failed."""
        with self._lock:
            if self._lake is lake:
                self._lake = None


def _let_go(late: Future[_Ready]) -> None:
    """End the connection of a call that came back too late."""
    if late.exception() is None:
        end(late.result().cursor)


def _snapshot(lake: Lake, cursor: duckdb.DuckDBPyConnection) -> LakeSnapshot:
    found = cursor.execute(f"SELECT id FROM {lake.name}.current_snapshot()").fetchone()
    if found is None:
        raise LakeError(f"{lake.settings.place}: the lake has no snapshot")
    version = int(found[0])
    at = f"AT (VERSION => {version})"
    marks = cursor.execute(
        "SELECT member, incarnation, shard, max(next), epoch_ns(max(time))"
        f" FROM {lake.marks} {at} GROUP BY member, incarnation, shard"
    ).fetchall()
    gaps = cursor.execute(
        f"SELECT member, sum(events) FROM {lake.gaps} {at} WHERE reason = 'missing' GROUP BY member"
    ).fetchall()
    times: dict[str, int] = {}
    for member, *_, time_ns in marks:
        times[member] = max(times.get(member, 0), int(time_ns or 0))
    return LakeSnapshot(
        version,
        {(member, incarnation, shard): int(mark) for member, incarnation, shard, mark, _ in marks},
        times,
        {member: int(events) for member, events in gaps},
        f"SELECT {NAMES} FROM {lake.events} {at}",
        "SELECT data_file, delete_file FROM ducklake_list_files("
        f"'{lake.name}', 'events', schema => 'hopscope', snapshot_version => {version})",
    )
