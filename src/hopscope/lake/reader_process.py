"""The process that reads the lake for a `LakeReader`, with a thread and a snapshot for each query.

It is a separate process because DuckDB ends its process if the database dies at the wrong moment, and because
a call to a database that hangs can only be ended by killing the process.
"""

from __future__ import annotations

import os
import resource
import socket
import threading
import time
from contextlib import suppress
from multiprocessing.connection import Connection

import duckdb

from ..base.process.title import show_name
from ..history.errors import TooLargeError
from ..history.files.segments import first_line
from . import queries, sql  # noqa: F401 - what queries call is there before their time begins
from .catalog import Lake, end, prepared
from .database import LakeError
from .messages import Begin, Failed, Found, Work
from .snapshot import take

AWAY_SECONDS = 1.0
"""After a failed attempt to reach the lake, all queries fail at once for this long, because another attempt
might take as long as a connection to a host that does not answer."""
REFUSED = (400, 401, 403)
"""HTTP status of a store that rejects the key; the next connection reads `lake.secret` again."""


def serve() -> None:
    """Answer the queries whose sockets come over stdin, until it is closed."""
    show_name("lake reader")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # memory contains passwords
    control = socket.socket(fileno=0)
    connection = LakeConnection(Connection(os.dup(0)).recv())
    while True:
        _, files, _, _ = socket.recv_fds(control, 1, 1)
        if not files:
            os._exit(0)  # does not wait for threads
        threading.Thread(target=connection.answer, args=(Connection(files[0]),), daemon=True).start()


class LakeConnection:
    """The connection to the lake, which is opened when it is needed, and again after a failure."""

    def __init__(self, begin: Begin) -> None:
        self._begin = begin
        self._lock = threading.Lock()
        self._lake: Lake | None = None
        """It is never closed, since this would close the cursors of running queries; it ends with the last of
        them.
        """
        self._problem, self._retry_at = "", 0.0
        self._preparing = threading.Lock()
        self._prepared: duckdb.DuckDBPyConnection | None = None

    def answer(self, query: Connection) -> None:
        """Answer one query: Work, or None to do all work that needs no server."""
        with query, suppress(EOFError, OSError):  # the caller has ended
            work: Work | None = query.recv()
            try:
                if work is None:
                    self._prepare()
                    query.send(Found(None))
                else:
                    self._read(query, work)
            except (EOFError, OSError):
                raise
            except Exception as error:
                query.send(Failed(error))

    def _read(self, query: Connection, work: Work) -> None:
        """Send a snapshot, receive the caller's data for it, and send the result of `work`."""
        lake = self._opened()
        cursor = lake.connection.cursor()
        try:
            cursor.execute("BEGIN TRANSACTION READ ONLY")  # it sees the catalog as it is now
            snapshot = take(lake, cursor)
            query.send(snapshot)
            query.send(Found(work(cursor, snapshot, query.recv())))
        except (duckdb.OutOfMemoryException, duckdb.InterruptException) as error:
            query.send(Failed(TooLargeError(f"the query needs too much memory: {first_line(error)}")))
        except (duckdb.FatalException, duckdb.InternalException) as error:
            query.send(Failed(lake.named(error), again=True))
            os._exit(1)  # this DuckDB is unusable, and would end the process at its next transaction
        except duckdb.Error as error:
            # no new connection is needed if the store failed, or the file was deleted by a newer snapshot
            if getattr(error, "status_code", None) in (None, *REFUSED):
                self._replace(lake)
            query.send(Failed(lake.named(error), again=True))
        finally:
            end(cursor)

    def _prepare(self) -> None:
        with self._preparing:
            if self._lake is None and self._prepared is None and time.monotonic() >= self._retry_at:
                with suppress(LakeError):  # the query will report it
                    self._prepared = self._make()

    def _opened(self) -> Lake:
        with self._lock:
            if self._lake is None:
                self._lake = self._open()
            return self._lake

    def _open(self) -> Lake:
        """Open the lake. Queries that waited for an attempt that failed get its error at once."""
        if time.monotonic() < self._retry_at:
            raise LakeError(self._problem)
        with self._preparing:
            made, self._prepared = self._prepared, None
        try:
            return Lake(self._begin.settings, read_only=True, connection=made or self._make())
        except LakeError as error:
            self._problem, self._retry_at = str(error), time.monotonic() + AWAY_SECONDS
            raise

    def _make(self) -> duckdb.DuckDBPyConnection:
        begin = self._begin
        return prepared(begin.settings, memory_bytes=begin.memory_bytes, threads=begin.threads)

    def _replace(self, lake: Lake) -> None:
        """Make the next query open a new connection, because this one has failed."""
        with self._lock:
            if self._lake is lake:
                self._lake = None
