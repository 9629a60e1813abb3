"""The databases of INT-label's controller in Redis (section 5): the newest label of every port as a hash, and
the ageing database as keys that expire, whose timeouts Redis publishes (`redis_server` has the keys).

A separate thread talks to the server, so the label process never waits. Of labels that are not written yet,
only the newest of each port is kept. Redis looks for expired keys ten times per second, and notifies once,
only clients that are connected. Overdue entries are therefore polled, which makes Redis expire them.
Without a server, entries time out by the local clock.

Redis gets the remaining lifetime of an entry, computed with a clock that does not jump.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ..base.errors import described
from ..settings.destinations.shown import shown
from ..wire.records import Records
from .controller import Ints, extended
from .redis_server import TIMEOUT_SECONDS, LabelServer

RETRY_SECONDS, MAX_RETRY_SECONDS = 0.1, 2.0
POLL_NS = 10_000_000
"""An entry is polled when it is overdue by this."""
GRACE_NS = 1_000_000_000
"""An entry times out by the local clock when it is overdue by this, even if a server answers."""
_INF = 2**63 - 1
_FIELDS = (
    "time_ns", "received_ns", "latency_ns", "occupancy", "ingress_port", "labels", "late", "rate", "shift",
)  # fmt: skip


class LabelRedis:
    """The ageing database of a Controller, and a copy of its INT database; `start` first, `stop` last."""

    def __init__(
        self,
        url: str,
        prefix: str,
        place: Callable[[Ints], tuple[npt.ArrayLike, npt.ArrayLike]],
        notify: Callable[[str], object] | None = None,
    ) -> None:
        """`place` gives (devices, ports) of rows; `notify` gets a line when the connection comes or goes."""
        self._url, self._prefix = url, f"{prefix}:label"
        self._place, self._notify = place, notify or (lambda _: None)
        self.up = False
        """Whether a server answers."""
        self.is_new = True
        """Whether the server may be empty, so that all ports must be stored again. The caller resets this."""
        self.counts = dict.fromkeys(
            ("connections", "failures", "ports", "entries", "notification", "look", "clock", "unexpected"), 0
        )
        self._until: Ints = np.zeros(0, np.int64)
        self._names: dict[int, str] = {}
        self._rows: dict[str, int] = {}
        self._lock = threading.Lock()
        self._to_set: dict[str, int] = {}  # work of the thread: expiry (monotonic) by name
        self._to_poll: set[str] = set()
        self._to_store: dict[str, dict[str, Any]] = {}
        self._to_drop: set[str] = set()
        self._timeouts: dict[str, str] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="label-redis", daemon=True)
        self._server: LabelServer | None = None
        self._state = ""

    def start(self) -> None:
        """Start the thread, which connects."""
        self._thread.start()

    def stop(self) -> None:
        """Close the connection; anything not written yet is dropped."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(3 * TIMEOUT_SECONDS)

    # ------------------------------------------------------------------------------- the controller's side

    def put(self, rows: Ints, now_ns: int, life_ns: int) -> None:
        """Set or renew the entries of these rows."""
        self._until = extended(self._until, int(rows.max(initial=-1)) + 1, _INF)
        self._until[rows] = now_ns + life_ns
        with self._lock:
            self._to_set.update(dict.fromkeys(self._name(rows), time.monotonic_ns() + life_ns))

    def expired(self, now_ns: int) -> Ints:
        """Rows whose entry timed out, each once."""
        overdue = np.flatnonzero(self._until <= now_ns)
        with self._lock:
            timeouts, self._timeouts = self._timeouts, {}
            if self.up:
                self._to_poll.update(self._name(np.flatnonzero(self._until <= now_ns - POLL_NS)))
        gone = []
        for name, by in timeouts.items():
            row = self._rows.get(name)
            if row is None or self._until[row] == _INF:
                continue  # belongs to an evicted port, or is a duplicate
            if self._until[row] > now_ns + POLL_NS:
                self.counts["unexpected"] += 1  # the entry was renewed, or belongs to another client
                continue
            gone.append(row)
            self.counts[by] += 1
            self._until[row] = _INF
        late = overdue[self._until[overdue] <= (now_ns - GRACE_NS if self.up else now_ns)]
        self.counts["clock"] += len(late)
        self._until[late] = _INF
        return np.concatenate([np.array(gone, np.int64), late])

    def store(self, rows: Ints, ports: Records) -> None:
        """Queue the newest labels of these rows, LABEL_ROW records, for the server."""
        names = self._name(rows)
        columns = [ports[name].tolist() for name in _FIELDS]
        each = (dict(zip(_FIELDS, values, strict=True)) for values in zip(*columns, strict=True))
        with self._lock:
            self._to_store.update(zip(names, each, strict=True))

    def forget(self, rows: Ints) -> None:
        """Drop everything about these rows, which are given to other ports."""
        self._until[rows[rows < len(self._until)]] = _INF
        with self._lock:
            for name in [self._names.pop(row) for row in rows.tolist() if row in self._names]:
                del self._rows[name]
                self._to_set.pop(name, None)
                self._to_store.pop(name, None)
                self._to_poll.discard(name)
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
        pause = RETRY_SECONDS
        while not self._stop.is_set():
            try:
                server = self._server or self._connect()
                self._turn(server)
                pause = RETRY_SECONDS
            except Exception as error:  # also a defect of the client
                self.counts["failures"] += 1
                reason = " ".join(described(error).split())
                self._report(f"{shown(self._url)}: {reason}; entries time out by the local clock")
                self._close()
                self._stop.wait(pause)
                pause = min(MAX_RETRY_SECONDS, 2 * pause)
        self._close()

    def _connect(self) -> LabelServer:
        self._server = server = LabelServer(self._url, self._prefix)
        self.counts["connections"] += 1
        self.up = self.is_new = True
        note = "; notifications cannot be enabled (notify-keyspace-events Ex), so entries are polled"
        self._report(f"{shown(self._url)}: connected{'' if server.notifies else note}")
        return server

    def _close(self) -> None:
        self.up = False
        server, self._server = self._server, None
        if server is not None:
            server.close()

    def _turn(self, server: LabelServer) -> None:
        """One turn of the thread: write, poll, listen."""
        with self._lock:
            entries, self._to_set = self._to_set, {}
            ports, self._to_store = self._to_store, {}
            polled, self._to_poll = sorted(self._to_poll), set()
            dropped, self._to_drop = sorted(self._to_drop), set[str]()
        try:
            server.drop(dropped)
            server.write_entries(entries)
            self.counts["entries"] += len(entries)
            server.write_ports(ports)
            self.counts["ports"] += len(ports)
        except BaseException:
            with self._lock:  # newer values win, and dropped ports stay dropped
                for name in self._to_drop:
                    entries.pop(name, None)
                    ports.pop(name, None)
                self._to_set, self._to_store = entries | self._to_set, ports | self._to_store
                self._to_drop.update(dropped)
            raise
        gone = server.without_entry(polled)
        timeouts = self._known(server.expired())
        server.sweep()
        with self._lock:
            self._timeouts = dict.fromkeys(gone, "look") | self._timeouts | timeouts

    def _known(self, names: list[str]) -> dict[str, str]:
        """Published timeouts by name, of names that are in the ageing database."""
        timeouts: dict[str, str] = {}
        for name in names:
            row = self._rows.get(name)
            if row is None or row >= len(self._until):
                self.counts["unexpected"] += 1
            elif self._until[row] != _INF:
                timeouts[name] = "notification"
        return timeouts

    def _report(self, line: str) -> None:
        if line != self._state:
            self._state = line
            self._notify(line)
