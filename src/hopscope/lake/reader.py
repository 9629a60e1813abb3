"""Reading the lake: one snapshot of it for each question, and where it ends for each shard."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import duckdb

from ..history.files import HistoryError
from ..history.sandboxed_files import NAMES
from ..history.segments import first_line
from ..settings.lake import LakeSettings
from .catalog import Lake
from .database import LakeError

T = TypeVar("T")
Shard = tuple[str, str, int]
"""Member, incarnation, shard."""
AWAY_SECONDS = 1.0
"""How long a lake that could not be reached is away for all questions: an attempt may take as long as a
connection to a host that does not answer."""
CLOSE_SECONDS = 1.0
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


class LakeReader:
    """A connection to the lake that is opened when it is needed, and again when it has failed. Threads may
    share it.
    """

    def __init__(
        self, settings: LakeSettings, *, memory_bytes: int = 1024**3, threads: int | None = None
    ) -> None:
        self.settings = settings
        self._memory_bytes, self._threads = memory_bytes, threads or 2
        self._lock = threading.Lock()
        self._lake: Lake | None = None
        self._problem, self._retry_at = "", 0.0

    def close(self) -> None:
        """Close the connection; one that is being made ends with its attempt or the process."""
        if self._lock.acquire(timeout=CLOSE_SECONDS):
            try:
                self._end()
            finally:
                self._lock.release()

    def ask(self, work: Callable[[duckdb.DuckDBPyConnection, LakeSnapshot], T]) -> T:
        """Call `work` with a snapshot, and a connection of its own to read it; again with a newer one if it
        fails with an error of DuckDB.

        LakeError: the lake is away. HistoryError: the question needs too much memory.
        """
        for attempt in range(_TRIES):
            lake = self._opened()
            try:
                with lake.connection.cursor() as cursor:
                    cursor.execute("BEGIN TRANSACTION READ ONLY")  # which sees the catalog as it is now
                    return work(cursor, _snapshot(lake, cursor))
            except (duckdb.OutOfMemoryException, duckdb.InterruptException) as error:
                raise HistoryError(f"the query needs too much memory: {first_line(error)}") from error
            except duckdb.Error as error:
                if attempt == _TRIES - 1:
                    raise lake.named(error) from None
                if not isinstance(error, duckdb.HTTPException):  # a file is gone: a newer snapshot has others
                    self._replace(lake)
        raise AssertionError

    def _opened(self) -> Lake:
        with self._lock:
            if self._lake is None:
                self._lake = self._open()
            return self._lake

    def _open(self) -> Lake:
        """Those who waited for an attempt that failed get its reason, and wait for no further one."""
        if time.monotonic() < self._retry_at:
            raise LakeError(self._problem)
        try:
            return Lake(self.settings, read_only=True, memory_bytes=self._memory_bytes, threads=self._threads)
        except LakeError as error:
            self._problem, self._retry_at = str(error), time.monotonic() + AWAY_SECONDS
            raise

    def _replace(self, lake: Lake) -> None:
        """Let the next question open another connection than one that failed."""
        with self._lock:
            if self._lake is lake:
                self._end()

    def _end(self) -> None:
        if self._lake is not None:
            self._lake.close()
            self._lake = None


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
