"""The process that reads the lake for a `LakeReader`: one thread, and one snapshot, for each question.

It is a process of its own since DuckDB ends the one that it is in when its database dies at the wrong
moment, and since nothing ends a call to a database that hangs.
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
from ..history.errors import HistoryError
from ..history.files.segments import first_line
from . import questions, sql  # noqa: F401 - what questions call is there before their time begins
from .catalog import Lake, end, prepared
from .database import LakeError
from .messages import Begin, Failed, Found, Work
from .snapshot import take

AWAY_SECONDS = 1.0
"""How long a lake that could not be reached is away for all questions: an attempt may take as long as a
connection to a host that does not answer."""
REFUSED = (400, 401, 403)
"""Answers of a store to a key that it does not take: the next connection reads `lake.secret` again."""


def serve() -> None:
    """Answer every question whose socket comes over stdin, until that is closed."""
    show_name("lake reader")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # it holds passwords
    control = socket.socket(fileno=0)
    reading = Reading(Connection(os.dup(0)).recv())
    while True:
        _, files, _, _ = socket.recv_fds(control, 1, 1)
        if not files:
            os._exit(0)  # whatever threads wait for
        threading.Thread(target=reading.answer, args=(Connection(files[0]),), daemon=True).start()


class Reading:
    """The connection to the lake, which is opened when it is needed, and again when it has failed."""

    def __init__(self, begin: Begin) -> None:
        self._begin = begin
        self._lock = threading.Lock()
        self._lake: Lake | None = None
        """Ends with the last question that reads it: to close it would close their cursors, too."""
        self._problem, self._retry_at = "", 0.0
        self._preparing = threading.Lock()
        self._prepared: duckdb.DuckDBPyConnection | None = None

    def answer(self, question: Connection) -> None:
        """Answer one question, which is either Work or None, for all that takes time and no server."""
        with question, suppress(EOFError, OSError):  # the asker has gone
            work: Work | None = question.recv()
            try:
                if work is None:
                    self._prepare()
                    question.send(Found(None))
                else:
                    self._read(question, work)
            except (EOFError, OSError):
                raise
            except Exception as error:
                question.send(Failed(error))

    def _read(self, question: Connection, work: Work) -> None:
        """Send a snapshot, take what the asker says of it, and send what `work` finds."""
        lake = self._opened()
        cursor = lake.connection.cursor()
        try:
            cursor.execute("BEGIN TRANSACTION READ ONLY")  # which sees the catalog as it is now
            snapshot = take(lake, cursor)
            question.send(snapshot)
            question.send(Found(work(cursor, snapshot, question.recv())))
        except (duckdb.OutOfMemoryException, duckdb.InterruptException) as error:
            question.send(Failed(HistoryError(f"the query needs too much memory: {first_line(error)}")))
        except (duckdb.FatalException, duckdb.InternalException) as error:
            question.send(Failed(lake.named(error), again=True))
            os._exit(1)  # this DuckDB can do nothing more, and ends the process with its next transaction
        except duckdb.Error as error:
            # a store that fails, or a file that a newer snapshot no longer has, needs no other connection
            if getattr(error, "status_code", None) in (None, *REFUSED):
                self._replace(lake)
            question.send(Failed(lake.named(error), again=True))
        finally:
            end(cursor)

    def _prepare(self) -> None:
        with self._preparing:
            if self._lake is None and self._prepared is None and time.monotonic() >= self._retry_at:
                with suppress(LakeError):  # the question says why
                    self._prepared = self._make()

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
            return Lake(self._begin.settings, read_only=True, connection=made or self._make())
        except LakeError as error:
            self._problem, self._retry_at = str(error), time.monotonic() + AWAY_SECONDS
            raise

    def _make(self) -> duckdb.DuckDBPyConnection:
        begin = self._begin
        return prepared(begin.settings, memory_bytes=begin.memory_bytes, threads=begin.threads)

    def _replace(self, lake: Lake) -> None:
        """Let the next question open another connection than one that failed."""
        with self._lock:
            if self._lake is lake:
                self._lake = None
