"""Users' SQL, each query in a process of its own; `query` describes what the process may do.

The processes are forks of one that has imported DuckDB and has no threads, because a new interpreter would
take half a second to start. A query is ended when its client closes the socket for the answer.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import struct
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...base.process.child import Child
from ...base.process.title import show_name
from ..reading.table import Table
from .query import ParquetFile, SqlError, answer, pull

__all__ = ["Sandbox", "SqlError"]

_START_SECONDS = 60.0
"""Time for a process to start and read journals, in addition to the time limit of the query."""
_LOOK_SECONDS = 0.2
"""Interval at which `stop` is checked."""
_LENGTH = struct.Struct("<Q")
"""The length of an answer (bytes), sent before the answer."""


class Sandbox:
    """Runs queries. Its process starts with the first query. Threads may share a sandbox."""

    def __init__(self) -> None:
        environment = {name: text for name, text in os.environ.items() if not name.startswith("HOPSCOPE_")}
        self._server = Child(__name__, environment)

    def close(self) -> None:
        """End its processes, and with them all queries."""
        self._server.end()

    def run(
        self,
        text: str,
        source: Mapping[str, Any],
        body: bytes = b"",
        *,
        limit: int,
        seconds: float,
        memory_bytes: int,
        stop: threading.Event | None = None,
    ) -> Table:
        """Run one SELECT, unless `stop` is set meanwhile. `source` and `body`: the data to read, see `query`.

        SqlError: the query is invalid, failed, or was stopped.
        """
        found = self._answer(text, source, body, limit, seconds, memory_bytes, stop)
        assert isinstance(found, Table)
        return found

    def parquet(
        self,
        text: str,
        source: Mapping[str, Any],
        *,
        limit: int,
        seconds: float,
        memory_bytes: int,
        stop: threading.Event | None = None,
    ) -> ParquetFile:
        """As `run`, but the answer is a Parquet file; `source` must be a folder."""
        found = self._answer(text, {**source, "parquet": True}, b"", limit, seconds, memory_bytes, stop)
        assert isinstance(found, ParquetFile)
        return found

    def _answer(
        self,
        text: str,
        source: Mapping[str, Any],
        body: bytes,
        limit: int,
        seconds: float,
        memory_bytes: int,
        stop: threading.Event | None,
    ) -> Table | ParquetFile:
        stop = stop or threading.Event()
        if stop.is_set():
            raise SqlError("the query was stopped")
        request = {
            **source,
            "text": text,
            "limit": limit,
            "seconds": seconds,
            "memory": memory_bytes,
        }
        with self._begin() as connection:
            connection.settimeout(_START_SECONDS)
            with suppress(OSError):  # the process has ended, so there will be no answer either
                connection.sendall(json.dumps(request).encode() + b"\n")
                connection.sendall(body)
                connection.shutdown(socket.SHUT_WR)
            received = _receive(connection, seconds, stop)
        head, body = received[: _LENGTH.size], received[_LENGTH.size :]
        if len(head) < _LENGTH.size or len(body) != _LENGTH.unpack(head)[0]:
            raise SqlError("the query needs more memory or time than it may have")
        return pull(body)

    def _begin(self) -> socket.socket:
        """A connection to a new process. SqlError: none can be started."""
        try:
            return self._server.connect()
        except OSError as error:
            raise SqlError(f"no process can be started for the query: {error.strerror}") from None


def _receive(connection: socket.socket, seconds: float, stop: threading.Event) -> bytes:
    """Everything that the process writes. SqlError: it takes too long, or was stopped."""
    until = time.monotonic() + seconds + _START_SECONDS
    connection.settimeout(_LOOK_SECONDS)
    received = bytearray()
    while True:
        try:
            part = connection.recv(1 << 20)
        except TimeoutError as error:
            if stop.is_set():
                raise SqlError("the query was stopped") from error
            if time.monotonic() > until:
                raise SqlError(f"the query took longer than {seconds:g} s") from error
        except ConnectionError:
            return b""
        else:
            if not part:
                return bytes(received)
            received += part


@dataclass(frozen=True, slots=True)
class _Query:
    """A process that runs a query, and the client's socket."""

    pid: int
    process: int
    """A descriptor that becomes readable when the process ends (pidfd_open(2))."""
    client: socket.socket


def serve() -> None:
    """The server: forks a process for every socket that it receives over stdin, until stdin is closed."""
    show_name("sql")
    requests = socket.socket(fileno=0)
    queries: dict[int, _Query] = {}
    """Each query under two descriptors: that of its process, and that of its client's socket."""
    poll = select.poll()
    poll.register(requests, select.POLLIN)
    while True:
        for ready, _ in poll.poll():
            if ready == requests.fileno():
                clients = socket.recv_fds(requests, 1, 1)[1]
                if not clients:
                    break
                query = _forked(socket.socket(fileno=clients[0]), requests, queries)
                queries[query.process] = queries[query.client.fileno()] = query
                poll.register(query.process, select.POLLIN)
                poll.register(query.client, 0)  # POLLHUP is always reported
            elif ready in queries:  # else the query was already removed in this round
                query = queries.pop(ready)
                poll.unregister(ready)
                if ready == query.process:
                    os.waitpid(query.pid, 0)
                    os.close(query.process)
                    if query.client.fileno() in queries:
                        del queries[query.client.fileno()]
                        poll.unregister(query.client)
                    query.client.close()
                else:
                    signal.pidfd_send_signal(query.process, signal.SIGKILL)
        else:
            continue
        for query in set(queries.values()):
            signal.pidfd_send_signal(query.process, signal.SIGKILL)
        return


def _forked(client: socket.socket, requests: socket.socket, queries: Mapping[int, _Query]) -> _Query:
    pid = os.fork()
    if pid:
        return _Query(pid, os.pidfd_open(pid), client)
    try:
        requests.close()
        for query in queries.values():  # a client waits until no process has its socket open
            query.client.close()
        with Path(os.devnull).open("w") as nothing:
            os.dup2(nothing.fileno(), 2)
        client.setblocking(True)
        with client.makefile("rb") as request:
            found = answer(json.loads(request.readline()), request.read())
        client.sendall(_LENGTH.pack(len(found)) + found)
        os._exit(0)
    finally:
        os._exit(1)
