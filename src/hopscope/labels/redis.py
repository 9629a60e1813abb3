"""The databases of INT-label's controller in Redis (section 5): the newest label of every port as a hash, and
the ageing database as keys that expire, whose time-out Redis publishes (`label_redis_server` has the keys).

A thread of its own talks to the server, so whoever takes labels never waits. What it has not written yet is
kept by port, newest only: no more than the table has ports. Notifications are sent once and to whoever is
connected, and Redis looks for keys that have expired ten times a second: so an entry that is overdue is asked
for, which makes Redis notice; and while there is no server, our own clock lets entries time out.

Redis is told how long an entry has still to live, by a clock that no step of the time touches.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ..settings.export import shown
from ..wire.records import Records
from .controller import Ints, grown
from .redis_server import TIMEOUT_SECONDS, LabelServer

PAUSE_SECONDS, LONGEST_PAUSE = 0.1, 2.0
ASK_NS = 10_000_000
"""How overdue an entry is when Redis is asked for it."""
GRACE_NS = 1_000_000_000
"""How overdue it is when our clock decides, although there is a server."""
_FAR = 2**63 - 1
_FIELDS = (
    "time_ns", "received_ns", "latency_ns", "occupancy", "ingress_port", "labels", "late", "rate", "shift",
)  # fmt: skip


class LabelRedis:
    """The ageing database of a Controller, and a copy of its INT database. `start` it, `stop` it."""

    def __init__(
        self,
        url: str,
        prefix: str,
        place: Callable[[Ints], tuple[npt.ArrayLike, npt.ArrayLike]],
        notify: Callable[[str], object] | None = None,
    ) -> None:
        """`place`: (device, port) of rows; `notify` gets a line about a server that comes or goes."""
        self._url, self._prefix = url, f"{prefix}:label"
        self._place, self._notify = place, notify or (lambda _: None)
        self.up = False
        """A server answers."""
        self.anew = True
        """It may know nothing: all ports are to be stored again. Whoever does it sets it back."""
        self.counts = dict.fromkeys(
            ("connections", "failures", "ports", "entries", "notification", "look", "clock", "foreign"), 0
        )
        self._until: Ints = np.zeros(0, np.int64)
        self._names: dict[int, str] = {}
        self._rows: dict[str, int] = {}
        self._lock = threading.Lock()
        self._to_set: dict[str, int] = {}  # what the thread is to do, by name; until when, monotonic
        self._to_ask: set[str] = set()
        self._to_store: dict[str, dict[str, Any]] = {}
        self._to_drop: set[str] = set()
        self._said: dict[str, str] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="label-redis", daemon=True)
        self._server: LabelServer | None = None
        self._state = ""

    def start(self) -> None:
        """Begin to connect."""
        self._thread.start()

    def stop(self) -> None:
        """Let the connection go; what is not written by then stays unwritten."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(3 * TIMEOUT_SECONDS)

    # ------------------------------------------------------------------------------- the controller's side

    def put(self, rows: Ints, now_ns: int, life_ns: int) -> None:
        """Set or renew the entries of these rows."""
        self._until = grown(self._until, int(rows.max(initial=-1)) + 1, _FAR)
        self._until[rows] = now_ns + life_ns
        with self._lock:
            self._to_set.update(dict.fromkeys(self._name(rows), time.monotonic_ns() + life_ns))

    def expired(self, now_ns: int) -> Ints:
        """Rows whose entry timed out, each told once."""
        overdue = np.flatnonzero(self._until <= now_ns)
        with self._lock:
            said, self._said = self._said, {}
            if self.up:
                self._to_ask.update(self._name(np.flatnonzero(self._until <= now_ns - ASK_NS)))
        gone = []
        for name, by in said.items():
            row = self._rows.get(name)
            if row is None or self._until[row] == _FAR:
                continue  # of a port that is forgotten, or told twice
            if self._until[row] > now_ns + ASK_NS:
                self.counts["foreign"] += 1  # of an entry that was renewed meanwhile, or somebody's own
                continue
            gone.append(row)
            self.counts[by] += 1
            self._until[row] = _FAR
        late = overdue[self._until[overdue] <= (now_ns - GRACE_NS if self.up else now_ns)]
        self.counts["clock"] += len(late)
        self._until[late] = _FAR
        return np.concatenate([np.array(gone, np.int64), late])

    def store(self, rows: Ints, ports: Records) -> None:
        """Keep the newest labels of these rows for the server: LABEL_PORT records."""
        names = self._name(rows)
        columns = [ports[name].tolist() for name in _FIELDS]
        each = (dict(zip(_FIELDS, values, strict=True)) for values in zip(*columns, strict=True))
        with self._lock:
            self._to_store.update(zip(names, each, strict=True))

    def forget(self, rows: Ints) -> None:
        """These rows are going to be other ports': what is here of theirs goes."""
        self._until[rows[rows < len(self._until)]] = _FAR
        with self._lock:
            for name in [self._names.pop(row) for row in rows.tolist() if row in self._names]:
                del self._rows[name]
                self._to_set.pop(name, None)
                self._to_store.pop(name, None)
                self._to_ask.discard(name)
                self._to_drop.add(name)

    def _name(self, rows: Ints) -> list[str]:
        new = [row for row in rows.tolist() if row not in self._names]
        if new:
            nodes, ports = self._place(np.array(new))
            for row, node, port in zip(new, np.asarray(nodes), np.asarray(ports), strict=True):
                self._names[row], self._rows[f"{node}:{port}"] = f"{node}:{port}", row
        return [self._names[row] for row in rows.tolist()]

    # ------------------------------------------------------------------------------- the thread's side

    def _run(self) -> None:
        import redis

        pause = PAUSE_SECONDS
        while not self._stop.is_set():
            try:
                server = self._server or self._connect()
                self._turn(server)
                pause = PAUSE_SECONDS
            except (redis.RedisError, OSError, ValueError) as error:
                self.counts["failures"] += 1
                self._report(
                    f"{shown(self._url)}: {' '.join(str(error).split())}; entries time out by our clock"
                )
                self._close()
                self._stop.wait(pause)
                pause = min(LONGEST_PAUSE, 2 * pause)
        self._close()

    def _connect(self) -> LabelServer:
        self._server = server = LabelServer(self._url, self._prefix)
        self.counts["connections"] += 1
        self.up = self.anew = True
        note = "; it may not be told to notify (notify-keyspace-events Ex), so entries are looked for"
        self._report(f"{shown(self._url)}: connected{'' if server.notifies else note}")
        return server

    def _close(self) -> None:
        self.up = False
        server, self._server = self._server, None
        if server is not None:
            server.close()

    def _turn(self, server: LabelServer) -> None:
        """Write, ask, listen."""
        with self._lock:
            entries, self._to_set = self._to_set, {}
            ports, self._to_store = self._to_store, {}
            asked, self._to_ask = sorted(self._to_ask), set()
            dropped, self._to_drop = sorted(self._to_drop), set()
        try:
            server.drop(dropped)
            server.write_entries(entries)
            self.counts["entries"] += len(entries)
            server.write_ports(ports)
            self.counts["ports"] += len(ports)
        except BaseException:
            with self._lock:  # what has become newer meanwhile stays, what was forgotten meanwhile does not
                for name in self._to_drop:
                    entries.pop(name, None)
                    ports.pop(name, None)
                self._to_set, self._to_store = entries | self._to_set, ports | self._to_store
                self._to_drop.update(dropped)
            raise
        gone = server.without_entry(asked)
        said = self._ours(server.expired())
        server.sweep()
        with self._lock:
            self._said = dict.fromkeys(gone, "look") | self._said | said

    def _ours(self, names: list[str]) -> dict[str, str]:
        """Of these, whose time-out was published, those that wait for it."""
        said: dict[str, str] = {}
        for name in names:
            row = self._rows.get(name)
            if row is None or row >= len(self._until):
                self.counts["foreign"] += 1
            elif self._until[row] != _FAR:
                said[name] = "notification"
        return said

    def _report(self, line: str) -> None:
        if line != self._state:
            self._state = line
            self._notify(line)
