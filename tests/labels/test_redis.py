"""INT-label's controller with its databases in a real Redis server: entries time out and are reported, a
server that is killed holds nothing up and loses no decision.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from hopscope.labels import redis as label_redis
from hopscope.labels import redis_server as label_redis_server
from hopscope.labels.controller import Controller
from hopscope.labels.redis import LabelRedis
from hopscope.labels.state import LABEL_ROW, LabelRule
from hopscope.labels.table import LabelTable
from hopscope.settings.label import AdaptiveSettings, LabellingSettings
from hopscope.wire.label.records import LABEL
from support.waiting import HANG_SECONDS, eventually

pytest.importorskip("redis")
MS = 1_000_000
PORTS = [(1, 1), (1, 2), (7, 3)]


class Paced:
    """A clock that goes on by a few ms at most from one reading to the next: where the test has to wait for a
    processor, its ports have not been silent.
    """

    def __init__(self) -> None:
        self._now, self._read = time.time_ns(), time.monotonic_ns()

    def __call__(self) -> int:
        before, self._read = self._read, time.monotonic_ns()
        self._now += min(self._read - before, 20 * MS)
        return self._now


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is slow to answer is there all the same, and what it reports is waited for."""
    monkeypatch.setattr(label_redis, "GRACE_NS", 3600 * 1000 * MS)
    monkeypatch.setattr(label_redis_server, "TIMEOUT_SECONDS", 15.0)


class Controlled:
    """A table with a one-bit controller over it, and its databases in Redis; T is 200 ms."""

    def __init__(self, url: str) -> None:
        self.clock = Paced()
        self.lines: list[str] = []
        self.table = LabelTable(None, LabelRule(100 * MS, 200 * MS, 200 * MS, "one-bit"), ports=64)
        self.redis = LabelRedis(url, "test", self._place, self.lines.append)
        self.controller = Controller(
            LabellingSettings(interval=0.2), AdaptiveSettings(mode="one-bit"), self.table, self.redis,
            start_ns=self.clock(),
        )  # fmt: skip
        self.told: list[tuple[tuple[int, int], int]] = []

    def _place(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.table._rows["node_id"][rows], self.table._rows["port"][rows]

    def hear(self, *ports: tuple[int, int]) -> None:
        """A label of each of these ports, now."""
        now = self.clock()
        labels = np.zeros(len(ports), LABEL)
        labels["node_id"], labels["egress_port"] = zip(*ports, strict=True)
        labels["time_ns"], labels["latency_ns"] = now, 5
        self.controller.receive(labels, now)

    def until(self, *wanted: tuple[tuple[int, int], int], hear: tuple[tuple[int, int], ...] = ()) -> None:
        """Turn, hearing of some ports, until all of these changes were reported."""
        self.turn_until(lambda: set(wanted) <= set(self.told), hear)

    def turn_until(self, what: Callable[[], object], hear: tuple[tuple[int, int], ...] = ()) -> None:
        """Turn, hearing of some ports, until something is so."""
        end = time.monotonic() + HANG_SECONDS
        while not what():
            assert time.monotonic() < end, (self.told, self.redis.counts, self.lines)
            if hear:
                self.hear(*hear)
            rows, values = self.controller.turn(self.clock())
            places = zip(*(np.asarray(a).tolist() for a in self._place(rows)), strict=True)
            self.told += zip(places, values.tolist(), strict=True)
            time.sleep(0.002)


@contextmanager
def controlled(url: str) -> Iterator[Controlled]:
    one = Controlled(url)
    one.redis.start()
    try:
        yield one
    finally:
        one.redis.stop()


def test_entries_age_out_and_the_notification_sets_the_flag_back(
    redis_server: Callable[..., Any],
) -> None:
    """A silent port's flag is set and its entry stands in Redis, with a time to live of k T at most; reported
    again, the entry expires, Redis says so, and the flag falls. The newest label of every port is a hash.
    """
    server = redis_server()
    client = server.start()
    with controlled(server.url) as one:
        eventually(lambda: one.redis.up)
        assert {"E", "x"} <= set(client.config_get("notify-keyspace-events")["notify-keyspace-events"])
        one.hear(*PORTS)
        one.until(((7, 3), 1), hear=tuple(PORTS[:2]))
        one.turn_until(lambda: 0 < client.pttl("test:label:ageing:7:3") <= 200, tuple(PORTS[:2]))
        client.set("test:label:ageing:99:1", 1, px=1)  # of no port
        one.until(((7, 3), 0), hear=tuple(PORTS))
        assert not [told for told in one.told if told[0] != (7, 3)]
        assert one.redis.counts["notification"] + one.redis.counts["look"] == 1
        assert one.redis.counts["clock"] == 0
        used = one.table.used
        one.redis.store(np.arange(used), one.table._rows[:used])
        eventually(lambda: client.scard("test:label:ports") == 3)
        row = one.table._rows[one.table.rows_of([7], [3])[0]]
        found = client.hgetall("test:label:port:7:3")
        assert int(found["time_ns"]) == row["time_ns"]
        assert (found["latency_ns"], int(found["labels"])) == ("5", int(row["labels"]))


def test_notification_alone_is_enough(redis_server: Callable[..., Any]) -> None:
    """The time-out comes as a message of Redis, also if the entry is not polled."""
    server = redis_server()
    server.start()
    redis = LabelRedis(server.url, "test", lambda rows: (rows, rows))
    redis.start()
    eventually(lambda: redis.up)
    now = time.monotonic_ns()
    redis.put(np.arange(5), now, 50 * MS)
    eventually(lambda: redis.counts["entries"] == 5)
    eventually(lambda: len(redis._timeouts) == 5)
    assert sorted(redis.expired(now + 50 * MS).tolist()) == [0, 1, 2, 3, 4]
    assert redis.counts["notification"] == 5
    assert redis.expired(now + 60 * MS).tolist() == []
    redis.stop()


def test_ports_that_are_forgotten_leave_redis(redis_server: Callable[..., Any]) -> None:
    """Rows that become other ports': key, entry and name go, and no time-out is reported; the hash of a port
    that stays expires after a day, and then its name goes too.
    """
    server = redis_server()
    client = server.start()
    with controlled(server.url) as one:
        eventually(lambda: one.redis.up)
        one.hear(*PORTS)
        one.redis.store(np.arange(3), one.table._rows[:3])
        one.redis.put(np.arange(3), one.clock(), 3600 * 1000 * MS)
        eventually(lambda: client.scard("test:label:ports") == 3 and client.exists("test:label:ageing:7:3"))
        one.redis.forget(np.array([2, 9]))
        eventually(lambda: client.smembers("test:label:ports") == {"1:1", "1:2"})
        assert not client.exists("test:label:port:7:3")
        assert not client.exists("test:label:ageing:7:3")
        assert 80_000 < client.ttl("test:label:port:1:1") <= 86_400
        client.pexpire("test:label:port:1:1", 1)
        eventually(lambda: client.smembers("test:label:ports") == {"1:2"})
        assert sorted(one.redis.expired(one.clock() + 7200 * 1000 * MS).tolist()) == [0, 1]


def test_names_of_ports_whose_labels_expired_unseen_are_swept(
    redis_server: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If Redis cannot be configured to notify, and for what expired while no one was connected: names
    without a hash leave the set after a connection, and from time to time; the others stay.
    """
    server = redis_server("--rename-command", "CONFIG", "")
    client = server.start()
    client.sadd("test:label:ports", *(f"9:{port}" for port in range(3000)))
    monkeypatch.setattr(label_redis_server, "SWEEP_SECONDS", 0.05)
    with controlled(server.url) as one:
        one.hear(*PORTS)
        one.redis.store(np.arange(3), one.table._rows[:3])
        eventually(lambda: client.smembers("test:label:ports") == {"1:1", "1:2", "7:3"})
        client.pexpire("test:label:port:1:1", 1)
        eventually(lambda: client.smembers("test:label:ports") == {"1:2", "7:3"})
        assert one.redis.counts["failures"] == 0


def test_what_is_forgotten_while_it_is_written_stays_forgotten() -> None:
    """A server that goes away in the middle of a turn gets later what was forgotten meanwhile, and
    gets nothing of it again; what was set meanwhile counts.
    """
    redis = LabelRedis("redis://127.0.0.1:1/0", "test", lambda rows: (rows, rows))
    ports = np.zeros(2, LABEL_ROW)

    class Gone:
        def drop(self, names: list[str]) -> None:
            assert names == []

        def write_entries(self, entries: dict[str, int]) -> None:
            assert sorted(entries) == ["0:0", "1:1"]
            redis.forget(np.array([1]))
            redis.put(np.array([0]), 0, 10**15)
            raise OSError("gone")

    redis.put(np.arange(2), 0, 200 * MS)
    redis.store(np.arange(2), ports)
    with pytest.raises(OSError, match="gone"):
        redis._turn(Gone())  # type: ignore[arg-type]
    assert set(redis._to_store) == {"0:0"}
    assert redis._to_drop == {"1:1"}
    assert set(redis._to_set) == {"0:0"}
    assert redis._to_set["0:0"] > time.monotonic_ns() + 10**14


def test_a_server_that_is_killed_holds_nothing_up(redis_server: Callable[..., Any]) -> None:
    """Without a server entries time out by our clock, and what waits is bounded by ports; a
    server that is started again gets entries and ports again, and reports time-outs again.
    """
    server = redis_server()
    server.start()
    with controlled(server.url) as one:
        eventually(lambda: one.redis.up)
        one.hear(*PORTS)
        one.until(((7, 3), 1), hear=tuple(PORTS[:2]))
        server.kill()
        eventually(lambda: not one.redis.up)
        one.until(((7, 3), 0), hear=tuple(PORTS))
        assert one.redis.counts["clock"] >= 1
        assert len(one.redis._to_set) <= len(PORTS)
        one.redis.is_new = False
        client = server.start()
        eventually(lambda: one.redis.up and one.redis.is_new)
        one.told.clear()
        by_clock = one.redis.counts["clock"]
        one.until(((1, 2), 1), hear=((1, 1), (7, 3)))
        one.turn_until(lambda: client.exists("test:label:ageing:1:2"), ((1, 1), (7, 3)))
        one.until(((1, 2), 0), hear=tuple(PORTS))
        assert one.redis.counts["clock"] == by_clock
        assert one.redis.counts["connections"] == 2


def test_an_unexpected_error_is_retried(
    redis_server: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error that no server causes is logged, and does not end the thread."""
    server = redis_server()
    server.start()
    errors, sweep = [RuntimeError("no\nthread")], label_redis_server.LabelServer.sweep

    def broken(self: label_redis_server.LabelServer) -> None:
        if errors:
            raise errors.pop()
        sweep(self)

    monkeypatch.setattr(label_redis_server.LabelServer, "sweep", broken)
    with controlled(server.url) as one:
        eventually(lambda: one.redis.counts["connections"] == 2)
        one.redis.put(np.arange(1), time.monotonic_ns(), 50 * MS)
        eventually(lambda: one.redis.counts["entries"] == 1)
        assert one.redis.counts["failures"] == 1
        (line,) = (line for line in one.lines if "RuntimeError" in line)
        assert line.endswith(": RuntimeError: no thread; entries time out by the local clock")


def test_a_server_that_may_not_be_configured_is_asked(redis_server: Callable[..., Any]) -> None:
    """Where CONFIG is rejected there are no notifications: overdue entries are looked for."""
    server = redis_server("--rename-command", "CONFIG", "")
    server.start()
    with controlled(server.url) as one:
        eventually(lambda: one.redis.up)
        one.hear(*PORTS)
        one.until(((7, 3), 1), hear=tuple(PORTS[:2]))
        one.until(((7, 3), 0), hear=tuple(PORTS))
        assert (one.redis.counts["look"], one.redis.counts["notification"]) == (1, 0)
        assert "entries are polled" in one.lines[0]
