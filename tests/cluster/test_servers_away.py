"""NATS, PostgreSQL and S3 away: capture counts every report, answers say so, and all catches up by itself."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pytest

from hopscope.capture.udp.listener import UdpSender
from hopscope.fabric.load import Load
from hopscope.history.follow import EventFollower
from hopscope.lake.catalog import Lake, LakeError
from hopscope.present.collector_state import CollectorState
from hopscope.settings.lake import LakeSettings
from support.processes.collector_process import Collector
from support.servers.cluster_servers import ClusterServers
from support.servers.server_process import NO_TLS
from support.waiting import eventually

pytestmark = pytest.mark.e2e
REPORTS, EVENTS, RATE = 8192, 1024, 40_000
SLACK_SECONDS = 4.0
"""A busy machine: what processes wait for a processor beyond a time limit."""


@pytest.fixture(scope="module")
def servers(tool: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterServers]:
    made = ClusterServers(
        tool, tmp_path_factory.mktemp("servers"), tool(str(Path(sys.executable).with_name("weed")))
    )
    try:
        made.make()
        yield made
    finally:
        made.kill()


class Watched:
    """A member with a load whose reports and events are known."""

    def __init__(self, folder: Path, servers: ClusterServers) -> None:
        flags = servers.flags("c1", **{"lake.every_seconds": 0.5, "cluster.answer_seconds": 0.5})
        self.collector = Collector(
            folder / "data", "--listen", "udp://127.0.0.1:0", "--http-port", "0", *flags
        )
        self.collector.start()
        self._load = Load(hops=3, flows=64, sources=16)
        self._sender = UdpSender("127.0.0.1", self.collector.port, rate=RATE)
        self._state = CollectorState(self.collector.data, fresh_seconds=0)
        self.reports = self.events = 0
        """Sent; of them, those that cause an event each by what they say."""

    def send(self, between: Callable[[], object] = lambda: None) -> None:
        """REPORTS reports, of which EVENTS cause events; half of them after `between`."""
        for half in range(2):
            if half:
                between()
            for _ in range(8):
                self._sender.send(self._load.next(REPORTS // 16, EVENTS // 16))
        self.reports += REPORTS
        self.events += EVENTS

    def counted(self) -> None:
        """Wait until all are counted: every report, every event, and nothing else."""

        def found() -> dict[str, int]:
            counters = self._state.counters()
            names = (
                "reports_total",
                "events_total.queue_report",
                "kernel_drops_total",
                "frames_total",
            )
            return {name: int(counters[name]) for name in names}

        expected = dict(zip(found(), (self.reports, self.events, 0, self.reports), strict=True))
        eventually(lambda: found() == expected, lambda: f"{found()}, expected {expected}", 0.05)

    def close(self) -> None:
        """End it."""
        self._sender.close()
        self.collector.stop()

    def get(self, path: str) -> httpx.Response:
        """An answer of its API."""
        return httpx.get(f"{self.collector.owner['api']}{path}", trust_env=False, verify=NO_TLS, timeout=60)

    def caught_up(self, settings: LakeSettings) -> int:
        """Wait until the lake has all events of history, each once; returns how many."""
        follower = EventFollower(self.collector.data)

        def whole() -> bool:
            wanted = follower.end(0)
            try:
                with Lake(settings, read_only=True) as lake:
                    select = (
                        f"SELECT count(*), count(DISTINCT sequence), max(sequence) + 1 FROM {lake.events}"
                    )
                    (row,) = lake.connection.execute(select).fetchall()
            except (LakeError, duckdb.Error):  # a server that has just been started again
                return False
            return bool(row == (wanted, wanted, wanted) and wanted == follower.end(0))

        eventually(whole, self.collector.said, 1.0)
        return follower.end(0)


def scope(answer: httpx.Response) -> dict[str, Any]:
    """Who an answer is of."""
    assert answer.status_code in (200, 503), answer.text  # 503: this member was too slow
    return answer.json()["cluster"]


def test_capture_goes_on_while_all_servers_are_away(servers: ClusterServers, tmp_path: Path) -> None:
    """Dead from the start, back, killed between two reports, back: each counter stays exact, /readyz
    stays green, cluster-wide answers state that they are local only, and the lake gets each event once.
    """
    lake = LakeSettings.model_validate(
        {
            key.removeprefix("lake."): value
            for key, value in servers.settings("c1").items()
            if key.startswith("lake.")
        }
    )
    servers.kill()
    one = Watched(tmp_path, servers)
    try:
        one.send()
        one.counted()
        assert one.get("readyz").status_code == 200
        alone = scope(one.get("api/v0/summary?scope=cluster"))
        assert alone["local_only"]
        assert not alone["complete"]
        servers.start()
        assert one.caught_up(lake) >= EVENTS
        eventually(
            lambda: scope(one.get("api/v0/summary?scope=cluster"))["complete"], one.collector.said, 0.2
        )
        one.send(between=servers.kill)
        one.counted()
        eventually(
            lambda: scope(one.get("api/v0/summary?scope=cluster"))["local_only"], one.collector.said, 0.2
        )
        assert one.get("readyz").status_code == 200
        one.send()
        one.counted()
        servers.start()
        assert one.caught_up(lake) >= 3 * EVENTS
        eventually(
            lambda: scope(one.get("api/v0/summary?scope=cluster"))["complete"], one.collector.said, 0.2
        )
        status = one.collector.status()
        assert all(not process["restarts"] for process in status.values()), (status, one.collector.said())
        assert one.collector.stop() == 0
    finally:
        one.close()


def test_nothing_waits_for_servers_that_hang(servers: ClusterServers, tmp_path: Path) -> None:
    """NATS and PostgreSQL stand still (SIGSTOP) with open connections: an answer takes `answer_seconds`, is
    of this member and says so; a stop with events that wait for the lake takes a few seconds, and loses none.
    """
    servers.start()
    one = Watched(tmp_path, servers)
    path = "api/v0/events?scope=cluster&limit=10"
    frozen = servers.nats, servers.database
    try:
        one.send()
        eventually(lambda: scope(one.get(path))["complete"], one.collector.said, 0.2)
        for server in frozen:
            server.freeze()
        one.send()
        one.counted()
        for _ in range(2):
            begin = time.monotonic()
            answer = one.get(path)
            assert time.monotonic() - begin < 0.5 + SLACK_SECONDS
            assert len(answer.json()["items"]) == 10
            assert scope(answer)["local_only"]
            assert scope(answer)["without_lake"]
        begin = time.monotonic()
        assert one.collector.stop() == 0
        assert time.monotonic() - begin < 2 * SLACK_SECONDS
        follower = EventFollower(one.collector.data)
        assert follower.end(0) >= one.events
        follower.close()
    finally:
        for server in frozen:
            server.thaw()
        one.close()
