"""Alertmanager: alerts sent to the real server, read back by its API."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopscope.base.names import Names
from hopscope.detect.records import Kind, Metric
from hopscope.export.alerts.alertmanager import Alertmanager
from hopscope.export.alerts.outbox import Message
from hopscope.export.block import EventBlock
from hopscope.export.destination import Context
from hopscope.operators.audit import Audit, Author
from hopscope.operators.database import Database
from hopscope.operators.silences import Matcher, Silences
from hopscope.settings.destinations.alerts import AlertmanagerSettings
from support.events.alert_events import event, flow, joined
from support.events.event_make import START_NS
from support.servers.http_receiver import receiving
from support.servers.server_process import NO_TLS, ServerProcess, free_port
from support.waiting import eventually

from .conftest import Rig

Make = Callable[..., Rig]
RAISED, CLEARED = Kind.RAISED, Kind.CLEARED
CONFIGURATION = """
route: {receiver: nobody, group_wait: 1s}
receivers: [{name: nobody}]
"""


class Server(ServerProcess):
    """An Alertmanager of its own, without a cluster."""

    def __init__(self, program: str, folder: Path) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        (folder / "alertmanager.yml").write_text(CONFIGURATION)
        words = ["--config.file=alertmanager.yml", "--storage.path=data", "--cluster.listen-address="]
        words.append(f"--web.listen-address=127.0.0.1:{port}")
        super().__init__([program, *words], folder, lambda: bool(self._get("/-/ready")))

    def _get(self, path: str, **parameters: list[str]) -> httpx.Response:
        return httpx.get(
            f"{self.url}{path}", params=parameters, trust_env=False, verify=NO_TLS
        ).raise_for_status()

    def alerts(self, **labels: str) -> list[dict[str, Any]]:
        """Active alerts with these labels."""
        matching = [f"{name}={json.dumps(value)}" for name, value in labels.items()]
        return self._get("/api/v2/alerts", filter=matching).json()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, tool: Callable[..., str]) -> Iterator[Server]:
    made = Server(tool("prometheus-alertmanager"), tmp_path_factory.mktemp("alertmanager"))
    made.start()
    yield made
    made.kill()


def test_alerts_are_read_back(server: Server, rig: Make) -> None:
    """An alarm is active with its labels, annotations and times until it is cleared; alarms of several flows
    at one switch are one alert, until the last one is; a changed path is one for a time.
    """
    names = Names(nodes={7: "leaf-7"}, ports={(7, 2): "to host"})
    one = rig(
        "alertmanager", names, url=server.url, expire_seconds=0, page="https://h.example/?node=$node_id"
    )
    one.write(joined(event(RAISED, 0, **flow(3))))
    one.start()
    (alert,) = eventually(lambda: server.alerts(alertname="queue_occupancy"))
    assert alert["labels"] == {
        "alertname": "queue_occupancy",
        "severity": "warning",
        "collector": "m1",
        "node": "leaf-7",
        "node_id": "7",
        "port": "to host",
        "port_id": "2",
        "queue": "1",
    }
    assert alert["annotations"] == {
        "summary": "queue_occupancy 3000 above 2500 at leaf-7 port to host queue 1, "
        "flow 10.0.0.3:4003 → 10.0.0.255:80 tcp",
        "alarms": "1",
        "value": "3000",
        "limit": "2500",
        "flow": "10.0.0.3:4003 → 10.0.0.255:80 tcp",
        "time": "2023-11-14T22:13:20.000000000Z",
    }
    assert alert["startsAt"] == datetime.fromtimestamp(START_NS / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    assert alert["generatorURL"] == "https://h.example/?node=7"
    hops = [event(RAISED, 10 + n, metric=3, **flow(n)) for n in range(1, 4)]
    one.write(joined(*hops, event(Kind.PATH_CHANGE, 20, **flow(1)), event(CLEARED, 30)))
    eventually(lambda: server.alerts(alertname="path_change"))
    eventually(lambda: not server.alerts(alertname="queue_occupancy"))
    (alert,) = server.alerts(alertname="hop_latency")
    assert alert["startsAt"] == "2023-11-14T22:13:31.000Z"
    one.write(joined(*(event(CLEARED, 40 + n, metric=3, **flow(n)) for n in (1, 2))))
    one.write(event(Kind.LOOP, 50))
    eventually(lambda: server.alerts(alertname="loop"))
    assert len(server.alerts(alertname="hop_latency")) == 1
    one.write(event(CLEARED, 60, metric=3, **flow(3)))
    eventually(lambda: not server.alerts(alertname="hop_latency"))
    one.stop()


def test_a_server_that_lost_its_alerts_has_them_again(
    tmp_path: Path, rig: Make, tool: Callable[..., str]
) -> None:
    """Killed, and started without its data, it gets alarms that last within `resend_seconds`."""
    (tmp_path / "server").mkdir()
    server = Server(tool("prometheus-alertmanager"), tmp_path / "server")
    server.start()
    one = rig("alertmanager", url=server.url, resend_seconds=1, expire_seconds=0)
    one.write(joined(*(event(RAISED, 0, ident=n) for n in range(600))))
    one.start()
    eventually(lambda: len(server.alerts()) == 600)
    server.kill()
    eventually(lambda: one.problem)
    server.start()
    eventually(lambda: len(server.alerts()) == 600)
    eventually(lambda: not one.problem)
    one.stop()
    server.kill()


@pytest.mark.parametrize(("resolve", "ends"), [(False, "lasting"), (True, "2023-11-14T22:15:00.000000000Z")])
def test_equal_labels_follow_each_other(rig: Make, resolve: bool, ends: str) -> None:
    """An alarm that began, ended and began while the server was away is posted in this order."""
    with receiving() as server:
        one = rig("alertmanager", url=server.url, expire_seconds=0)
        events = [event(RAISED, 0), event(CLEARED, 10), event(RAISED, 20)]
        one.write(joined(*events, *([event(CLEARED, 100)] if resolve else [])))
        one.start()
        eventually(lambda: one.count("events") == len(events) + resolve)
        one.stop()
    last = [post[0] for post in server.posts if post][-1]
    assert last["endsAt"] == ends or (ends == "lasting" and last["endsAt"] > "2026")
    assert {path for path, _ in server.requests} == {"/hooks/sesame/api/v2/alerts"}


def test_a_silenced_alarm_is_not_among_those_sent_again(tmp_path: Path) -> None:
    """One of two alarms that last is silenced: the server gets the other, and both when the silence ends."""
    silences = Silences(database := Database(tmp_path), Audit(database))
    made = silences.add(Matcher(node=8), time.time_ns() + 10**12, "", Author("ann"))
    with receiving() as server:
        one = Alertmanager(
            AlertmanagerSettings(kind="alertmanager", url=server.url, expire_seconds=0),
            Context("pager", "m1", Names(), lambda *_: None, data=tmp_path),
        )

        def posted() -> list[str]:
            one.connect()  # so that what lasts is sent again
            server.posts.clear()
            one.tick([], ending=True)
            return [alert["labels"]["node_id"] for post in server.posts for alert in post]

        events = joined(event(RAISED, 0, node_id=7), event(RAISED, 0, node_id=8))
        one.send(EventBlock("m1", 0, 0, 1, events))
        assert posted() == ["7", "7"]  # as new, and as one that lasts
        assert posted() == ["7"]
        silences.remove(made.id, Author("ann"))
        assert one._silences is not None
        one._silences._due = 0.0
        assert posted() == ["8", "7", "8"]
        one.close()
    database.close()


TEXT = st.text(st.characters(codec="utf-8"), max_size=30) | st.sampled_from(
    ['"', "\n", "\\", 'a"} or vector(1)', "@channel", "x" * 4096, "ü→\u2028\u202e", "\ud7ff\ue000"]
)


EXAMPLES = itertools.count()


@settings(max_examples=4, deadline=None)
@given(nodes=st.lists(TEXT, min_size=1, max_size=50))
def test_hostile_names_are_labels(server: Server, nodes: list[str]) -> None:
    """The server takes any name, and has it as the value of one label, without what is not printable."""
    destination = Alertmanager(
        AlertmanagerSettings(kind="alertmanager", url=server.url, expire_seconds=0),
        Context(
            "pager", f"example-{next(EXAMPLES)}", Names(nodes=dict(enumerate(nodes))), lambda name, more: None
        ),
    )
    member = destination.context.member
    destination.connect()
    events = [event(RAISED, metric=Metric.BUFFER_OCCUPANCY, node_id=n) for n in range(len(nodes))]
    found = list(destination.alarms.take(joined(*events)))
    destination.deliver(Message("", {}, 0, found, len(found)))
    destination.close()
    labels = {int(each["labels"]["node_id"]): each["labels"] for each in server.alerts(collector=member)}
    for number, node in enumerate(nodes):
        shown = labels[number].get("node", "")
        assert labels[number]["alertname"] == "buffer_occupancy"
        assert shown.isprintable()
        letters = [letter for letter in node or str(number) if letter.isprintable() and letter != " "]
        assert [letter for letter in shown if letter != " "] == letters[: len(shown.replace(" ", ""))]
        assert len(shown) > 200 or len(shown.replace(" ", "")) == len(letters)
