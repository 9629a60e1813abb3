"""A real collector as a member: NATS is not in its way, and its configuration is that of the cluster."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from hopscope.base.process.control_client import request
from hopscope.cluster.status import read_status
from hopscope.present.collector_state import CollectorState
from support.processes.collector_process import Collector, Load
from support.processes.command import hopscope
from support.servers.server_process import NO_TLS, NatsServer
from support.waiting import HANG_SECONDS, eventually

pytestmark = pytest.mark.e2e
DETAIL = "joined, 1 present, revision 1 of the configuration"


@pytest.fixture
def server(tmp_path: Path, tool: Callable[[str], str]) -> Iterator[NatsServer]:
    """A server that is not started yet."""
    (tmp_path / "nats").mkdir()
    made = NatsServer(tool("nats-server"), tmp_path / "nats")
    yield made
    made.kill()


def test_a_collector_and_its_cluster(server: NatsServer, tmp_path: Path) -> None:
    """Without NATS it collects; with it, it joins, and commands configure it; a killed cluster process comes
    back as the same member; after a restart without NATS the configuration of the cluster is in force.
    """
    given = ("--nats", server.url, "--cluster", "dc1", "--set", "cluster.replicas=1")
    collector = Collector(
        tmp_path / "c1", "--listen", "udp://127.0.0.1:0", "--set", "serve.port=0", "--set", "member=c1",
        "--set", "detect.flow_rows=256", "--set", "detect.ports=1024", "--set", "history.ring_events=4096",
        "--set", f"cluster.nats={server.url}", "--set", "cluster.name=dc1",
        "--set", "cluster.heartbeat_seconds=0.3", "--set", "cluster.member_seconds=2",
    )  # fmt: skip
    regions = tmp_path / "c1" / "regions"
    load = Load(1000)

    def state() -> str:
        return str(read_status(regions).get("state"))

    def members() -> list[dict[str, Any]]:
        return json.loads(hopscope("cluster", "status", "--format", "json", *given).stdout)["members"]

    def raise_above() -> int | None:
        found = CollectorState(tmp_path / "c1", fresh_seconds=0).limits()
        assert found is not None
        return found.limits.general.hop_latency.raise_above

    try:
        collector.start()
        load.port = collector.port
        eventually(lambda: CollectorState(tmp_path / "c1").counters()["reports_total"] > 500)
        eventually(lambda: state() == "away")
        assert hopscope("cluster", "status", *given).returncode == 2

        server.start()
        assert hopscope("cluster", "init", *given).returncode == 0
        eventually(lambda: state() == "joined")
        done: dict[str, Any] = eventually(lambda: next(iter(members()), {}))
        assert (done["name"], done["ready"], done["address"]) == ("c1", True, collector.owner["api"])
        eventually(lambda: members()[0]["reports_per_second"] > 100)

        changed = hopscope(
            "cluster", "config", "set", "hop_latency.raise_above=50us", "--note", "why", *given
        )
        assert changed.stdout.splitlines() == ["revision 1", "applied by c1"], changed.stderr
        assert raise_above() == 50_000
        refused = hopscope("limits", "set", "hop_latency.raise_above=1us", "--data", str(tmp_path / "c1"))
        assert refused.returncode == 2
        assert "hopscope cluster config set" in refused.stderr
        assert (
            hopscope("cluster", "config", "set", "hop_latency.change=1", "--after", "7", *given).returncode
            == 1
        )
        shown = hopscope("cluster", "config", "history", "-f", "json", *given).stdout
        assert [
            (row["revision"], row["limits"], row["note"]) for row in map(json.loads, shown.splitlines())
        ] == [(1, 1, "why")]
        readyz = f"{collector.owner['api']}readyz"
        ready = {"name": "cluster dc1", "ready": True, "detail": DETAIL, "advice": ""}
        eventually(
            lambda: ready in httpx.get(readyz, verify=NO_TLS, timeout=HANG_SECONDS).json()["components"]
        )

        before = collector.status()["cluster"]["pid"]
        os.kill(before, signal.SIGKILL)
        eventually(lambda: collector.status()["cluster"]["pid"] not in (before, None))
        incarnation = done["incarnation"]
        eventually(lambda: state() == "joined" and read_status(regions)["configuration"]["revision"] == 1)
        assert [each["incarnation"] for each in members()] == [incarnation]

        server.kill()
        assert collector.stop() == 0
        collector.start()
        assert raise_above() == 50_000
        assert request(tmp_path / "c1", {"cluster": {}})["cluster"]["revision"] == 1
    finally:
        load.close()
        collector.stop()
