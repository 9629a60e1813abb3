"""System's Cluster and Lake in a real browser, over two members with one lake; one is then killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from hopscope.capture.udp.listener import UdpSender
from hopscope.cluster.connection import Connection
from hopscope.cluster.setup import init
from hopscope.lake.catalog import create
from hopscope.settings.configuration.file import load
from hopscope.wire.encode.encoder import encode_reports
from hopscope.wire.records import Link
from support.cluster.three_members import EVENTS, reports
from support.processes.collector_process import Collector
from support.servers.postgres_server import PostgresServer
from support.servers.server_process import NatsServer
from support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.kernel, pytest.mark.timeout(600)]
SCHEMA = "hopscope"
MADE = EVENTS["new_key"]["c2"]
"""Events that ten reports of ten flows make."""


@dataclass
class Members:
    """Two collectors, and the catalog of their lake."""

    one: Collector
    two: Collector
    database: PostgresServer

    def rows(self) -> int:
        """Events in the lake, by its catalog."""
        (found,) = self.database.query(
            f"SELECT coalesce(sum(f.record_count), 0) AS count FROM {SCHEMA}.ducklake_data_file f"
            f" JOIN {SCHEMA}.ducklake_table t USING (table_id)"
            " WHERE t.table_name = 'events' AND f.end_snapshot IS NULL"
        )
        return int(found["count"])


@pytest.fixture(scope="module")
def members(tool: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Members]:
    """Both run; the first has received reports."""
    folder = tmp_path_factory.mktemp("members")
    (folder / "nats").mkdir()
    nats, database = NatsServer(tool("nats-server"), folder / "nats"), PostgresServer(tool, folder)
    made: list[Collector] = []
    try:
        nats.start()
        database.start()
        database.run("CREATE DATABASE hopscope", "postgres")
        for name in ("c1", "c2"):
            given = {
                "member": name, "cluster.name": "paged", "cluster.nats": nats.url, "cluster.replicas": 1,
                "cluster.heartbeat_seconds": 0.5, "cluster.member_seconds": 3,
                "lake.catalog": f"postgresql://hopscope@127.0.0.1:{database.port}/hopscope",
                "lake.data": str(folder / "lake"), "lake.every_seconds": 0.5,
                "detect.push_seconds": 0, "detect.idle_seconds": 3600, "detect.silent_seconds": 0,
                "serve.sql_seconds": 120,
            }  # fmt: skip
            if not made:
                settings = load(None, [("", key, value) for key, value in given.items()], {}).settings
                with Connection(settings.cluster, "tests") as connection:
                    init(connection)
                create(settings.lake)
            flags = [word for key, value in given.items() for word in ("--set", f"{key}={value}")]
            made.append(Collector(folder / name, *flags, "--listen", "udp://127.0.0.1:0", "--http-port", "0"))
            made[-1].launch()
        for each in made:
            each.wait_for('"collecting"')
        sender = UdpSender("127.0.0.1", made[0].port)
        sender.send(encode_reports(reports(range(10), np.arange(10).tolist(), 5), link=Link.UDP_PAYLOAD))
        sender.close()
        found = Members(made[0], made[1], database)
        eventually(lambda: found.rows() == MADE, lambda: f"{found.rows()} events in the lake", 0.1)
        yield found
    finally:
        for each in made:
            each.stop()
        for server in (nats, database):
            server.kill()


def facts(page: Any, panel: str) -> dict[str, str]:
    """Names and values of a panel."""
    return page.run(
        f"Object.fromEntries([...document.querySelectorAll('section[aria-label={panel}] dt')]"
        ".map((e) => [e.innerText, e.nextElementSibling.innerText]))"
    )


def test_the_lake_has_what_the_page_says(members: Members, browser: Any) -> None:
    """From the overview: the state and the place, and that no event is on this disk alone: the catalog has
    all. Ask counts them in the whole cluster.
    """
    browser.open(members.one.owner["api"])
    browser.click(".rail a", "System")
    browser.click(".tabs button", "History")
    browser.see("section[aria-label=Lake] .chip", "writing")
    browser.wait(
        "[...document.querySelectorAll('[aria-label=Lake] dd')].some((e) => e.innerText === '0 events')"
    )
    assert str(members.database.port) in facts(browser, "Lake")["place"]
    browser.open(f"{members.one.owner['api']}ask?scope=cluster&q=SELECT+count(*)+AS+n+FROM+events")
    browser.see(".answer td", str(MADE))
    assert not browser.problems


def test_a_member_that_is_gone_is_named(members: Members, browser: Any) -> None:
    """Both members and the revision; after a kill the page says that it is missing, and what to do."""
    browser.open(f"{members.one.owner['api']}system?part=cluster")
    browser.wait("document.querySelectorAll('[aria-label=Members] .chip.good').length === 2")
    assert facts(browser, "Cluster")["this member"] == "c1"
    assert [row[0] for row in browser.rows("Members")] == ["c1", "c2"]
    members.two.kill_all()
    browser.see("[aria-label=Members] tr.bad", "missing")
    browser.see(".note", "hopscope cluster forget c2")
    browser.see(".banner", "c2 is missing")
