"""Commands to a Redis server for `redis`: write, delete, poll and sweep keys.

With PREFIX = `hopscope`:

=================================== ======== ==============================================================
key                                 type     content
=================================== ======== ==============================================================
`hopscope:label:port:NODE:PORT`     hash     its newest label (LABEL_ROW, by field); expires after a day
`hopscope:label:ports`              set      names of all ports, as `NODE:PORT`
`hopscope:label:ageing:NODE:PORT`   string   entry of the ageing database; expires after k T
=================================== ======== ==============================================================

A name is removed from the set when its hash has expired. Redis notifies once, only clients that are
connected, and not at all if notifications cannot be enabled. So the set is also swept, a part at a time,
after every connection and every hour.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

CHUNK = 1000
"""Commands sent together."""
POLL_SECONDS = 0.005
TIMEOUT_SECONDS = 1.0
"""Timeout for connecting, and for an answer."""
PORT_SECONDS = 86_400
"""Lifetime of the newest label of a port."""
SWEEP_SECONDS = 3_600.0
"""Time between two sweeps of the set of names."""


class LabelServer:
    """A connection, used by one thread.

    Every method but `close` raises redis.RedisError, OSError or ValueError if the server is gone or rejects a
    command.
    """

    def __init__(self, url: str, prefix: str) -> None:
        """Connect. `prefix`: start of every key, without the colon after it."""
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        self._prefix = prefix
        self._client: Any = redis.Redis.from_url(
            url,
            socket_timeout=TIMEOUT_SECONDS,
            socket_connect_timeout=TIMEOUT_SECONDS,
            retry=Retry(NoBackoff(), 0),
            protocol=2,
            decode_responses=True,
        )
        self._events: Any = None
        self.notifies = True
        """Whether notifications about expired keys could be enabled."""
        self._cursor, self._sweep_at = 0, 0.0
        try:
            self._client.ping()
            self._listen()
        except BaseException:
            self.close()
            raise

    def _listen(self) -> None:
        import redis

        try:
            name = "notify-keyspace-events"
            flags = self._client.config_get(name).get(name) or ""
            if not {"E", "x"} <= set(flags.replace("A", "x")):
                self._client.config_set(name, "".join(sorted({*flags, "E", "x"})))
        except redis.ResponseError:
            self.notifies = False
        self._events = self._client.pubsub(ignore_subscribe_messages=True)
        database = self._client.connection_pool.connection_kwargs.get("db", 0)
        self._events.subscribe(f"__keyevent@{database}__:expired")

    def close(self) -> None:
        """Close the connection."""
        for each in (self._events, self._client):
            if each is not None:
                each.close()

    def write_entries(self, entries: Mapping[str, int]) -> None:
        """Set or renew entries of the ageing database: expiry by name, ns on the monotonic clock."""
        for some in _parts(entries.items()):
            pipe = self._client.pipeline(transaction=False)
            now = time.monotonic_ns()
            for name, until in some:
                pipe.set(self._key("ageing", name), 1, px=max(1, (until - now) // 1_000_000))
            pipe.execute()

    def write_ports(self, ports: Mapping[str, Mapping[str, Any]]) -> None:
        """Write the newest labels of ports: fields by name."""
        for some in _parts(ports.items()):
            pipe = self._client.pipeline(transaction=False)
            for name, fields in some:
                pipe.hset(self._key("port", name), mapping=fields)
                pipe.expire(self._key("port", name), PORT_SECONDS)
            pipe.sadd(self._key("ports"), *(name for name, _ in some))
            pipe.execute()

    def drop(self, names: Iterable[str]) -> None:
        """Delete all keys of these ports."""
        for some in _parts(names):
            self._client.delete(*(self._key(kind, name) for kind in ("port", "ageing") for name in some))
            self._client.srem(self._key("ports"), *some)

    def without_entry(self, names: Iterable[str]) -> list[str]:
        """The ports among `names` that have no entry in the ageing database."""
        return self._without("ageing", names)

    def expired(self) -> list[str]:
        """Ports whose entry timed out, as published since the last call; waits up to POLL_SECONDS.

        Ports whose newest label has expired are removed from the set of names.
        """
        said, gone = list[str](), list[str]()
        start, port = self._key("ageing", ""), self._key("port", "")
        timeout = POLL_SECONDS
        for _ in range(CHUNK):
            message = self._events.get_message(timeout=timeout)
            if message is None:
                break
            timeout = 0.0
            key = str(message["data"])
            if key.startswith(port):
                gone.append(key[len(port) :])
            elif key.startswith(start):
                said.append(key[len(start) :])
        self._unname(self._without("port", gone))  # some may have been written again meanwhile
        return said

    def sweep(self) -> None:
        """If due, check a part of the set of names, and remove names without a hash."""
        if not self._cursor and time.monotonic() < self._sweep_at:
            return
        self._cursor, names = self._client.sscan(self._key("ports"), self._cursor, count=CHUNK)
        self._unname(self._without("port", names))
        self._sweep_at = time.monotonic() + SWEEP_SECONDS

    def _unname(self, names: Iterable[str]) -> None:
        for some in _parts(names):
            self._client.srem(self._key("ports"), *some)

    def _without(self, kind: str, names: Iterable[str]) -> list[str]:
        gone: list[str] = []
        for some in _parts(names):
            pipe = self._client.pipeline(transaction=False)
            for name in some:
                pipe.exists(self._key(kind, name))
            gone += [name for name, there in zip(some, pipe.execute(), strict=True) if not there]
        return gone

    def _key(self, *parts: str) -> str:
        return ":".join([self._prefix, *parts])


def _parts(items: Iterable[Any]) -> Iterable[list[Any]]:
    source = iter(items)
    while some := list(islice(source, CHUNK)):
        yield some
