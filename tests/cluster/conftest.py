"""A NATS server for all tests of clusters: each has a cluster of its own name."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator

import pytest

from hopscope.capture.udp.listener import UdpSender
from hopscope.cluster.status import read_status
from hopscope.wire.encode.encoder import encode_reports
from hopscope.wire.records import Link
from support.cluster.members import make, settings_of
from support.cluster.three_members import EVENTS, SENT, Three, reports
from support.forgotten import collect_forgotten
from support.servers.server_process import NatsServer
from support.waiting import eventually

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def nats(tmp_path_factory: pytest.TempPathFactory, tool: Callable[[str], str]) -> Iterator[NatsServer]:
    """The server: Debian's."""
    made = NatsServer(tool("nats-server"), tmp_path_factory.mktemp("nats"))
    made.start()
    yield made
    made.kill()


@pytest.fixture
def cluster() -> str:
    """A name that no other test has."""
    return f"test{next(_NUMBERS)}"


@pytest.fixture(scope="module")
def three(nats: NatsServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Three]:
    """Three members that have received their reports, one after the other."""
    found = Three(nats, tmp_path_factory.mktemp("three"))
    make(settings_of(nats.url, found.cluster, "c1", member_seconds=60))
    try:
        for collector in found.collectors.values():
            collector.launch()
        for collector in found.collectors.values():
            collector.wait_for('"collecting"')
        for name, collector in found.collectors.items():  # from now on it asks about flows that are new to it
            eventually(lambda c=collector: read_status(c.data / "regions").get("moved"), name)
        for name, parts in SENT.items():
            sender = UdpSender("127.0.0.1", found.collectors[name].port)
            for numbers, flows, occupancy in parts:
                sender.send(encode_reports(reports(numbers, flows, occupancy), link=Link.UDP_PAYLOAD))
            sender.close()
            sent = sum(len(numbers) for numbers, _, _ in parts)
            eventually(lambda name=name, sent=sent: found.get(name, "/summary")["reports"] == sent)
        for kind, of_member in EVENTS.items():
            for name, count in of_member.items():
                eventually(lambda k=kind, n=name, c=count: len(found.events(n, kind=k)) == c)
        eventually(lambda: found.ask("c1", "/summary", scope="cluster").json()["cluster"]["complete"])
        yield found
    finally:
        for collector in found.collectors.values():
            if collector.process is not None:
                with contextlib.suppress(ProcessLookupError):
                    collector.kill_all()


@pytest.fixture(autouse=True, scope="module")
def _forgotten() -> Iterator[None]:
    yield
    collect_forgotten()
