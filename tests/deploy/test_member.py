"""A real collector with the settings and the rights of deploy/cluster does all that a member does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deploy.lake_servers import LakeServers
from deploy.nats_servers import DEPLOY, ClusterServers
from hopscope.lake.catalog import Lake
from support.processes.collector_process import Collector, Load
from support.processes.command import hopscope
from support.waiting import eventually

pytestmark = pytest.mark.e2e
CONFIG = str(DEPLOY / "hopscope.toml")


def flags(servers: ClusterServers, user: str, lake: dict[str, object]) -> list[str]:
    """What differs from the example: addresses, and where files with secrets are."""
    access = servers.settings(user)
    given = {
        "serve.token": "of the deployment's test",
        "cluster.nats": " ".join(access.nats),
        **{f"cluster.{name}": getattr(access, name) for name in ("ca_file", "cert_file", "key_file")},
        **{f"lake.{name}": value for name, value in lake.items()},
    }
    return [word for key, value in given.items() for word in ("--set", f"{key}={value}")]


def test_a_member_needs_no_more_rights(
    servers: ClusterServers, lake_servers: LakeServers, tmp_path: Path
) -> None:
    """`cluster init` as admin and owner; a collector as c1 joins, its events come into the lake,
    a configuration reaches it, a reader sees it; NATS and PostgreSQL have refused nothing.
    """
    owner = lake_servers.owner()
    init = {**lake_servers.given(), "catalog": owner.catalog, "password": owner.password}
    done = hopscope("cluster", "init", "--config", CONFIG, *flags(servers, "admin", init))
    assert done.returncode == 0, done.stderr
    before, log = servers.refused(), lake_servers.folder / "server.log"
    begin = log.stat().st_size
    member = flags(servers, "c1", {**lake_servers.given(), "every_seconds": 0.5})
    options = ["--config", CONFIG, "--http-port", "0", "--listen", "udp://127.0.0.1:0", *member]
    collector = Collector(tmp_path / "data", *options)
    collector.start()
    load = Load(1000)
    try:
        load.port = collector.port
        reader = flags(servers, "reader", {})

        def joined() -> bool:
            shown = hopscope("cluster", "status", "--format", "json", "--config", CONFIG, *reader)
            assert shown.returncode in (0, 1), shown.stderr
            return bool([each for each in json.loads(shown.stdout)["members"] if each["name"] == "c1"])

        eventually(joined, collector.said, 0.2)

        def in_lake() -> int:
            with Lake(lake_servers.settings(), read_only=True) as lake:
                select = f"SELECT count(*) FROM {lake.events} WHERE member = 'c1' AND incarnation <> 'i'"
                ((count,),) = lake.connection.execute(select).fetchall()
            return int(count)

        eventually(in_lake, collector.said, 1.0)
        changed = hopscope(
            "cluster", "config", "set", "hop_latency.raise_above=2000000", "--config", CONFIG, *member
        )
        assert changed.returncode == 0, changed.stderr
        ask = ("query", "events", "--scope", "cluster", "--limit", "1", "--set", "cluster.answer_seconds=60")
        asked = hopscope(*ask, "--config", CONFIG, *member)
        assert asked.returncode == 0, asked.stderr
    finally:
        load.close()
        collector.stop()
    assert servers.refused() == before
    assert "permission denied" not in log.read_text()[begin:]
