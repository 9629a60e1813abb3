"""Redis: the latest state of flows and distributions, events as streams (`redis_commands` has the keys).

Entries of streams get ascending ids here, so that a chunk whose answer was lost is sent again with the same
ids, and no entry is in a stream twice. On every new connection, the total number of a stream's entries is
compared with the confirmed number: the difference was lost by the server, and is counted; then the whole
state is written again.
"""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...base.errors import HopscopeError
from ...base.names import Names
from ...settings.destinations.redis import RedisSettings
from ...settings.destinations.shown import secret
from ...wire.records import Records
from ..batch import ExportBatch
from ..destination import DeliveryError
from ..exporter import Exporter
from ..state import StateFeed
from .commands import Chunk, Commands

ID = 5
"""Index of the id in an XADD command."""
BUSY = ("MISCONF", "MASTERDOWN", "NOREPLICAS", "BUSY")
"""Temporary errors without a class in the client; after any other one a batch is abandoned."""


def require_redis() -> None:
    """HopscopeError if the client package is missing."""
    if importlib.util.find_spec("redis") is None:
        raise HopscopeError("redis: the client is missing; install it with: pip install 'hopscope[redis]'")


def client_of(settings: RedisSettings, **more: Any) -> Any:
    """A client of a server, which connects with its first command. Raises DeliveryError without a password
    that the settings name.
    """
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    try:
        password = secret(settings.password) if settings.password else os.environ.get(settings.password_env)
    except (ValueError, OSError) as error:
        raise DeliveryError(str(error)) from None
    if password:
        more["password"] = password
    if settings.url.startswith("rediss:") and settings.ca_file:
        more["ssl_ca_certs"] = str(settings.ca_file)
    return redis.Redis.from_url(
        settings.url,
        socket_timeout=settings.timeout_seconds,
        socket_connect_timeout=settings.timeout_seconds,
        retry=Retry(NoBackoff(), 0),  # a chunk must not be retried unnoticed
        protocol=2,
        **more,
    )


class Redis(Exporter[ExportBatch]):
    """One Redis server. `idle_seconds`: idle time after which a flow leaves the table; `sink`: the workers
    are sinks, so evicted flows are in separate rings.
    """

    max_pause = 5.0

    def __init__(
        self,
        settings: RedisSettings,
        names: Names,
        row: Records,
        state: StateFeed | None,
        idle_seconds: float,
        sink: bool,
    ) -> None:
        self.settings = settings
        wanted = (
            {"events": {"events", "sink_events"}, "flows": {"evicted"}}
            if sink
            else {"events": {"events"}, "flows": {"events"}}
        )
        self.reads = frozenset().union(*(wanted.get(what, set()) for what in settings.contents))
        self.leaving = "evicted" if sink else "events"
        self.commands = Commands(settings, names, idle_seconds + 2 * settings.flush_seconds, sink)
        self._client: Any = None
        self._fresh = False
        self._added: dict[str, int] = {}
        self._last_ms: dict[str, int] = {}
        self._batch: ExportBatch | None = None
        self._chunks: Iterator[Chunk] = iter(())
        self._chunk: Chunk | None = None
        self._sent = False
        self._done = 0
        super().__init__(row, settings.queue_bytes, state)

    @property
    def grace(self) -> float:
        """Timeout of one answer, with a margin."""
        return self.settings.timeout_seconds + 1

    def items(self, batch: ExportBatch) -> Iterator[ExportBatch]:
        """The batch itself, unless it is empty."""
        if (
            batch.count
            or batch.begins
            or batch.ends
            or batch.flows is not None
            or batch.distributions is not None
        ):
            yield batch

    def size(self, item: ExportBatch) -> int:
        """Bytes of its records."""
        return item.nbytes

    def events(self, item: ExportBatch) -> int:
        """Events and evictions that were not written yet."""
        return max(0, item.count - (self._done if item is self._batch else 0))

    def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            self._client.close()

    def deliver(self, item: ExportBatch) -> None:
        """Write a batch, or the rest of it after a failed try."""
        import redis

        if item is not self._batch:
            self._batch, self._chunks, self._chunk, self._done = item, self.commands.of(item), None, 0
        try:
            self._open().ping()
            if self._fresh:
                self._compare()
            while (chunk := self._chunk or next(self._chunks, None)) is not None:
                self._write(chunk)
        except redis.ResponseError as error:
            raise DeliveryError(_line(error), again=_passes(error)) from None
        except (redis.RedisError, OSError) as error:
            raise DeliveryError(_line(error)) from None
        self._batch = None

    def _open(self) -> Any:
        if self._client is None:
            self._client = client_of(self.settings, redis_connect_func=self._connected)
        return self._client

    def _connected(self, connection: Any) -> None:
        connection.on_connect()
        self._fresh = True
        self.count("connections_total")

    def _compare(self) -> None:
        """After a new connection: count entries that the server has lost, and write the whole state again."""
        import redis

        for key in self.commands.streams:
            try:
                found = self._client.xinfo_stream(key)
            except redis.ResponseError as error:
                if "no such key" not in str(error):
                    raise
                found = {}
            before, added = self._added.get(key, 0), int(found.get("entries-added", found.get("length", 0)))
            if not found or "entries-added" in found:  # servers before 7.0 do not count
                self.count("forgotten_total", max(0, before - added))
            self._added[key] = added
            last = _text(found.get("last-generated-id", b"0-0"))
            self._last_ms[key] = max(self._last_ms.get(key, 0), int(last.partition("-")[0]))
        self._fresh = False
        if self.state is not None:
            self.state.restart()

    def _write(self, chunk: Chunk) -> None:
        import redis

        if chunk is not self._chunk:
            self._chunk, self._sent = chunk, False
        again, self._sent = self._sent, True
        if not again:
            self._number(chunk)
        pipe = self._client.pipeline(transaction=False)
        for command in chunk.commands:
            pipe.execute_command(*command)
        answers = pipe.execute(raise_on_error=False)
        failed, written, error = [], 0, None
        for command, answer in zip(chunk.commands, answers, strict=True):
            if not isinstance(answer, redis.ResponseError):
                written += 1
            elif not (again and "equal or smaller" in str(answer)):  # otherwise it was already there
                failed.append(command)
                error = error or answer
        if chunk.stream:
            self._added[chunk.stream] += written
        if error is None:
            self._chunk = None
            self._count_delivered(chunk, chunk.count)
            if chunk.gone and self.state is not None:
                self.state.forget(np.array(chunk.gone, np.uint64))
            return
        if chunk.stream:  # rejected entries get later ids than the others
            self._count_delivered(chunk, len(chunk.commands) - len(failed))
            chunk.commands, chunk.count = failed, len(failed)
            self._fresh |= "equal or smaller" in str(error)  # another client writes to this stream
        self._sent = False
        raise error

    def _count_delivered(self, chunk: Chunk, count: int) -> None:
        if chunk.counter:
            self.count(chunk.counter, count)
        if chunk.counter in ("events_total", "evictions_total"):
            self._done += count

    def _number(self, chunk: Chunk) -> None:
        """Set the ids of a stream's entries: time in ms, and a number."""
        if chunk.stream:
            first = max(time.time_ns() // 1_000_000, self._last_ms[chunk.stream] + 1)
            self._last_ms[chunk.stream] = first
            for number, command in enumerate(chunk.commands):
                command[ID] = f"{first}-{number}"


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _passes(error: Exception) -> bool:
    from redis import exceptions

    passing = (
        exceptions.OutOfMemoryError,
        exceptions.ReadOnlyError,
        exceptions.TryAgainError,
        exceptions.ClusterDownError,
    )
    return isinstance(error, passing) or str(error).startswith(BUSY) or "equal or smaller" in str(error)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
