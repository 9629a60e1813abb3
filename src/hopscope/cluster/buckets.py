"""Buckets (key-value stores) of NATS JetStream: entries by key, changed by compare-and-set."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from .connection import ClusterError, Connection

if TYPE_CHECKING:
    from nats.js.api import RawStreamMsg
    from nats.js.kv import KeyValue

T = TypeVar("T")
K = TypeVar("K", str, int)
MAX_KEYS = 2000
"""Maximum number of entries read from a bucket, since anyone with credentials can write more."""
RUN_SECONDS = 20.0
"""Default timeout of one method."""
AT_ONCE = 64
"""How many requests for entries may be pending at a time."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A value, and the time when the server stored it."""

    key: str
    value: bytes
    revision: int
    time_ns: int
    """Time by the server's clock."""


def run(connection: Connection, work: Coroutine[Any, Any, T], seconds: float, what: str) -> T:
    """Run requests to JetStream about `what`. The ClusterError that it raises says if that is missing, or if
    JetStream is unavailable.
    """
    import nats.errors
    import nats.js.errors as js

    where = connection.settings.place
    try:
        return connection.run(work, seconds)
    except ClusterError as error:
        if isinstance(error.__cause__, js.NotFoundError):
            raise ClusterError(
                f"NATS at {where}: {what} is missing; `hopscope cluster init` makes it"
            ) from None
        if isinstance(error.__cause__, js.APIError) and error.__cause__.err_code in _FULL:
            raise ClusterError(
                f"NATS at {where}: {what} is full ({error.__cause__.description}); give it more room"
            ) from None
        silent = (
            TimeoutError,
            nats.errors.NoRespondersError,
            js.ServiceUnavailableError,
            js.NoStreamResponseError,
        )
        if isinstance(error.__cause__, silent):
            raise ClusterError(
                f"NATS at {where}: JetStream does not answer; it must be switched on, and more than half of "
                "its servers must run"
            ) from None
        raise


class Bucket:
    """A bucket of the cluster. Methods raise ClusterError, also if the bucket is missing."""

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection, self.name = connection, name

    def entries(self, seconds: float = RUN_SECONDS) -> dict[str, Entry]:
        """All entries by key, within `seconds`."""
        return self._run(self._entries(), seconds)

    def get(self, key: str) -> Entry | None:
        """The newest entry of a key; None: there is none."""
        return self._run(self._get(key))

    def at(self, key: str, revision: int) -> Entry | None:
        """The entry of a key at a revision; None: it is no longer kept."""
        return self._run(self._at(key, revision))

    def history(self, key: str) -> list[Entry]:
        """All kept entries of a key, oldest first."""
        return self._run(self._history(key))

    def change(self, key: str, value: bytes, revision: int) -> int | None:
        """Store a value if the key's newest entry is `revision` (0: if there is none); returns the new
        revision, or None if the key has a different one.
        """
        return self._run(self._change(key, value, revision))

    def put(self, key: str, value: bytes) -> int:
        """Store a value; returns its revision."""
        return self._run(self._write(self._values().put(key, value)))

    def delete(self, key: str, revision: int = 0) -> None:
        """Remove a key, unless `revision` is not 0 and differs from that of its newest entry."""
        delete = self._values().delete(key, revision or None, validate_keys=False)
        self._run(self._write(delete))

    def seconds(self) -> float:
        """How long entries are kept; 0: for ever."""

        async def info() -> float:
            found = await self._connection.jetstream.stream_info(self._stream)
            return found.config.max_age or 0

        return self._run(info())

    # ------------------------------------------------------------------------------------- in the loop

    @property
    def _stream(self) -> str:
        return f"KV_{self.name}"

    @property
    def _prefix(self) -> str:
        """What the subject of an entry has before its key."""
        return f"$KV.{self.name}."

    def _run(self, work: Coroutine[Any, Any, T], seconds: float = RUN_SECONDS) -> T:
        return run(self._connection, work, seconds, f"bucket {self.name}")

    def _values(self) -> KeyValue:
        from nats.js.kv import KeyValue

        return KeyValue(self.name, self._stream, self._prefix, self._connection.jetstream, False)

    async def _entries(self) -> dict[str, Entry]:
        info = await self._connection.jetstream.stream_info(self._stream, ">")
        keys = sorted(subject.removeprefix(self._prefix) for subject in info.state.subjects or ())
        if len(keys) > MAX_KEYS:
            raise ClusterError(f"bucket {self.name} has {len(keys):,} entries, expected at most {MAX_KEYS:,}")
        return {entry.key: entry for entry in await _gathered(self._get, keys)}

    async def _get(self, key: str) -> Entry | None:
        return await self._read(self._connection.jetstream.get_last_msg(self._stream, self._prefix + key))

    async def _at(self, key: str, revision: int) -> Entry | None:
        entry = await self._read(self._connection.jetstream.get_msg(self._stream, revision))
        return entry if entry is not None and entry.key == key else None

    async def _read(self, message: Coroutine[Any, Any, RawStreamMsg]) -> Entry | None:
        """The entry in a message; None: there is no such message, or it removes the key."""
        from nats.js.errors import NotFoundError

        try:
            found = await message
        except NotFoundError as error:
            if error.err_code == _NO_STREAM:
                raise
            return None
        if (found.headers or {}).get("KV-Operation") in ("DEL", "PURGE"):
            return None
        assert found.subject is not None
        return Entry(
            found.subject.removeprefix(self._prefix),
            found.data or b"",
            found.seq or 0,
            round(found.time.timestamp() * 1e9) if found.time else 0,
        )

    async def _history(self, key: str) -> list[Entry]:
        state = (await self._connection.jetstream.stream_info(self._stream)).state
        revisions = range(state.first_seq, state.last_seq + 1)[-MAX_KEYS:]
        return await _gathered(partial(self._at, key), revisions)

    async def _change(self, key: str, value: bytes, revision: int) -> int | None:
        from nats.js.errors import KeyWrongLastSequenceError

        values = self._values()
        write = values.update(key, value, revision) if revision else values.create(key, value)
        try:
            return await self._write(write)
        except KeyWrongLastSequenceError:
            return None

    async def _write(self, write: Coroutine[Any, Any, T]) -> T:
        """Write an entry. NATS does not answer if the bucket is missing; the error then says so."""
        from nats.js.errors import NoStreamResponseError

        try:
            return await write
        except NoStreamResponseError:
            await self._connection.jetstream.stream_info(self._stream)
            raise


async def _gathered(
    read: Callable[[K], Coroutine[Any, Any, Entry | None]], places: Sequence[K]
) -> list[Entry]:
    """The entries that there are at some places, read AT_ONCE at a time."""
    found: list[Entry | None] = []
    for at in range(0, len(places), AT_ONCE):
        found += await asyncio.gather(*map(read, places[at : at + AT_ONCE]))
    return [entry for entry in found if entry is not None]


_FULL = (10047, 10077)
"""Errors of JetStream: no room on the disk or in the account; the stream has its `max_bytes`."""
_NO_STREAM = 10059
"""Error of JetStream: there is no such stream."""
