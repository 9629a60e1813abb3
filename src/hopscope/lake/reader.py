"""Queries of the lake, each of one snapshot. They run in a separate process, see `reader_process`."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, TypeVar

from ..base.deadline import Deadline
from ..base.process.child import Child
from ..settings.destinations import shown
from ..settings.lake import LakeSettings
from .database import LakeError
from .messages import Begin, Failed, Found, Work
from .snapshot import LakeSnapshot

if TYPE_CHECKING:
    import duckdb

A = TypeVar("A")
T = TypeVar("T")
SHARE = 0.6
"""Share of the time for an answer that the lake may take for its snapshot; the rest is for the members."""
HUNG_SECONDS = 30.0
"""How long a call may hang before its process is killed, together with the other queries that it runs."""
_START_SECONDS = 60.0
_TRIES = 3
"""How many snapshots a query tries if files are merged meanwhile, or the database is restarted."""


@dataclass(frozen=True, slots=True)
class _Query:
    """A connection to the process, for one query."""

    connection: Connection
    pid: int

    def send(self, message: object) -> None:
        with suppress(OSError):  # the process has ended, so there will be no answer either
            self.connection.send(message)


class LakeReader:
    """A process that reads the lake. It starts with the first query, and again if it has ended. Threads may
    share it.

    While a query is waiting for the lake beyond its deadline, all other queries fail at once.
    """

    def __init__(self, settings: LakeSettings, *, memory_bytes: int = 1024**3) -> None:
        self.settings = settings
        self._begin = Begin(settings, memory_bytes, threads=2)
        self._process = Child(f"{__package__}.reader_process", begin=self._began)
        self._prepared = 0
        """Pid of the process that is prepared."""
        self._lock = threading.Lock()
        self._hangs: _Query | None = None
        """A query that was not answered by its deadline …"""
        self._hung_at = 0.0
        """… and when that was."""

    @property
    def pid(self) -> int:
        """Pid of the process; 0 if there is none."""
        return self._process.pid

    def close(self) -> None:
        """End the process, and with it all queries."""
        self._process.end(kill=True)

    def prepare(self) -> None:
        """Do all work that needs no server, before the deadline of a query begins."""
        if self._hanging() or self.pid == self._prepared != 0:
            return
        with suppress(LakeError):  # the query will report it
            with self._query(None) as query:
                self._said(query, _START_SECONDS)
            self._prepared = self.pid

    def ask(
        self,
        tails: Callable[[LakeSnapshot], A],
        work: Callable[[duckdb.DuckDBPyConnection, LakeSnapshot, A], T],
        deadline: Deadline | None = None,
    ) -> T:
        """The result of `work` for a snapshot. `work` is called in the process, so it must be possible to
        pickle it, with the result of `tails`, which is called here. If the lake or the process fails, both
        are called again with a newer snapshot.

        LakeError: the lake cannot be reached, or does not return a snapshot within its share of the time
        until the deadline. HistoryError: the query needs too much memory.
        """
        for attempt in range(_TRIES):
            if self._hanging():
                raise LakeError(f"{self._place}: it does not answer: an earlier query still waits")
            with self._query(work) as query:
                said = self._said(query, None if deadline is None else deadline.left(SHARE))
                if isinstance(said, LakeSnapshot):
                    query.send(tails(said))
                    said = self._said(query, None)
            if isinstance(said, Found):
                return said.value
            assert isinstance(said, Failed)
            if not said.again or attempt == _TRIES - 1:
                raise said.error
        raise AssertionError

    @property
    def _place(self) -> str:
        return shown.shown(self.settings.catalog)

    def _said(self, query: _Query, seconds: float | None) -> LakeSnapshot | Found | Failed:
        """The next message from the process. LakeError: it takes too long."""
        try:
            if not query.connection.poll(seconds):
                with self._lock:
                    if self._hangs is None:
                        self._hangs, self._hung_at = query, time.monotonic()
                raise LakeError(f"{self._place}: no answer within {seconds:.1f} s")
            said: LakeSnapshot | Found | Failed = query.connection.recv()
        except (EOFError, OSError):
            self._process.end(kill=True, pid=query.pid)
            return Failed(LakeError(f"{self._place}: the process that reads it has ended"), again=True)
        return said

    def _hanging(self) -> bool:
        """Whether a query is hanging; if it has for too long, its process is killed."""
        with self._lock:
            if self._hangs is None:
                return False
            if not self._hangs.connection.poll(0):
                if time.monotonic() < self._hung_at + HUNG_SECONDS:
                    return True
                self._process.end(kill=True)
            self._hangs.connection.close()
            self._hangs = None
            return False

    @contextmanager
    def _query(self, work: Work | None) -> Iterator[_Query]:
        """Send a query to the process; its connection is closed at the end. LakeError: no process can be
        started.
        """
        try:
            connection = Connection(self._process.connect().detach())
        except OSError as error:
            raise LakeError(
                f"{self._place}: no process can be started to read it: {error.strerror}"
            ) from None
        query = _Query(connection, self._process.pid)
        try:
            query.send(work)
            yield query
        finally:
            if query is not self._hangs:
                connection.close()

    def _began(self, control: socket.socket) -> None:
        with Connection(os.dup(control.fileno())) as begin:
            begin.send(self._begin)
