"""Syslog: messages sent to the real rsyslog, over UDP, TCP and TLS, as it parses them."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopscope.base.names import Names
from hopscope.detect.records import Kind, Metric
from hopscope.export.alerts.outbox import Message
from hopscope.export.alerts.syslog import DATAGRAM, Syslog, syslog_message
from hopscope.export.destination import Context, DeliveryError
from hopscope.settings.destinations.alerts import SyslogSettings
from support.events.alert_events import SECOND, event, flow, joined
from support.events.event_make import START_NS
from support.servers.server_process import ServerProcess, free_port
from support.waiting import eventually

from .conftest import Rig

Make = Callable[..., Rig]
RAISED, CLEARED = Kind.RAISED, Kind.CLEARED
CONFIGURATION = """
global(
    workDirectory="{folder}"
    maxMessageSize="64k"
    parser.escapeControlCharactersOnReceive="off"
    defaultNetstreamDriverCAFile="{folder}/certificate.pem"
    defaultNetstreamDriverCertFile="{folder}/certificate.pem"
    defaultNetstreamDriverKeyFile="{folder}/key.pem"
)
module(load="imudp")
module(load="imtcp")
module(load="mmpstrucdata")
template(name="parsed" type="list" option.jsonf="on") {{
    property(outname="pri" name="pri" format="jsonf")
    property(outname="time" name="timereported" dateFormat="rfc3339" date.inUTC="on" format="jsonf")
    property(outname="host" name="hostname" format="jsonf")
    property(outname="app" name="app-name" format="jsonf")
    property(outname="id" name="msgid" format="jsonf")
    property(outname="data" name="$!rfc5424-sd" format="jsonf")
    property(outname="text" name="msg" format="jsonf")
}}
ruleset(name="kept") {{
    action(type="mmpstrucdata" sd_name.lowercase="off")
    action(type="omfile" file="{folder}/log.jsonl" template="parsed" asyncWriting="off" flushOnTXEnd="on")
}}
input(type="imudp" address="127.0.0.1" port="{udp}" ruleset="kept")
input(type="imtcp" address="127.0.0.1" port="{tcp}" ruleset="kept")
input(type="imtcp" address="127.0.0.1" port="{tls}" ruleset="kept"
      streamDriver.name="gtls" streamDriver.mode="1" streamDriver.authMode="anon")
"""


class Server(ServerProcess):
    """An rsyslog of its own, that writes every message as JSON."""

    def __init__(self, program: str, folder: Path) -> None:
        self.ports = {scheme: free_port() for scheme in ("udp", "tcp", "tls")}
        self.log = folder / "log.jsonl"
        (folder / "rsyslog.conf").write_text(CONFIGURATION.format(folder=folder, **self.ports))
        words = [program, "-n", "-f", f"{folder}/rsyslog.conf", "-i", f"{folder}/pid"]
        super().__init__(words, folder, self._listens)

    def _listens(self) -> bool:
        for scheme in ("tcp", "tls"):
            socket.create_connection(("127.0.0.1", self.ports[scheme]), 5).close()
        return True

    def url(self, scheme: str) -> str:
        return f"{scheme}://127.0.0.1:{self.ports[scheme]}"

    def messages(self, host: str) -> list[dict[str, Any]]:
        """What it has parsed of one host."""
        lines = self.log.read_text().split("\n") if self.log.exists() else [""]
        lines.pop()  # not whole yet, or empty
        return [each for each in map(json.loads, lines) if each["host"] == host]

    def wait(self, host: str, count: int) -> list[dict[str, Any]]:
        """The same, when there are at least `count`."""
        eventually(lambda: len(self.messages(host)) >= count)
        return self.messages(host)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, tool: Callable[..., str]) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("rsyslog")
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", f"{folder}/key.pem", "-out", f"{folder}/certificate.pem"]
    command = [tool("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names, *files]
    subprocess.run(command, check=True, capture_output=True)
    made = Server(tool("rsyslogd"), folder)
    made.start()
    yield made
    made.kill()


def made(server: Server, scheme: str, member: str, names: Names | None = None, **more: Any) -> Syslog:
    given = {"kind": "syslog", "url": server.url(scheme), "ca_file": server.log.with_name("certificate.pem")}
    settings = SyslogSettings.model_validate(given | more)
    return Syslog(settings, Context("logs", member, names or Names(), lambda name, more: None))


@pytest.mark.parametrize("scheme", ["udp", "tcp", "tls"])
def test_messages_are_parsed(server: Server, rig: Make, scheme: str) -> None:
    """Priority, time, host, program, kind, every value, and the text; in order."""
    destination = made(server, scheme, f"host-{scheme}", Names(nodes={7: "leaf-7"}), critical=["loop"])
    events = [event(RAISED, 0.5, **flow(3)), event(CLEARED, 2, value=10), event(Kind.LOOP, 3)]
    alerts = list(destination.alarms.take(joined(*events, event(Kind.PATH_CHANGE, 4, **flow(3)))))
    destination.connect()
    destination.deliver(Message("", {}, 0, alerts, len(alerts)))
    destination.close()
    found = server.wait(f"host-{scheme}", 4)
    assert [(each["pri"], each["id"], each["app"]) for each in found] == [
        (str(16 * 8 + severity), kind, "hopscope")
        for severity, kind in ((4, "raised"), (4, "cleared"), (2, "loop"), (6, "path_change"))
    ]
    first = found[0]
    assert first["time"].startswith("2023-11-14T22:13:20.5")
    assert first["text"].removeprefix("\ufeff") == (
        "raised: queue_occupancy 3000 above 2500 at leaf-7 port 2 queue 1, "
        "flow 10.0.0.3:4003 → 10.0.0.255:80 tcp"
    )
    (data,) = (
        first["data"].values() if isinstance(first["data"], dict) else json.loads(first["data"]).values()
    )
    assert data == {
        "alarm": f"host-{scheme}-0-0-{START_NS + SECOND // 2}",
        "kind": "raised",
        "metric": "queue_occupancy",
        "id": "0-0",
        "severity": "warning",
        "value": "3000",
        "limit": "2500",
        "node": "leaf-7",
        "node_id": "7",
        "port": "2",
        "port_id": "2",
        "queue": "1",
        "flow": "10.0.0.3:4003 → 10.0.0.255:80 tcp",
        "since": "2023-11-14T22:13:20.500000000Z",
        "collector": f"host-{scheme}",
    }


TEXT = st.text(st.characters(codec="utf-8"), max_size=30) | st.sampled_from(
    ['"', "]", "\\", '"] [x@1 a="', "\n<13>1 - - - - - -", "@channel", "x" * 4096, "ü→\u2028\u202e", "\0"]
)


@settings(max_examples=3, deadline=None)
@given(nodes=st.lists(TEXT, min_size=1, max_size=40))
def test_hostile_names_are_values(server: Server, nodes: list[str]) -> None:
    """Any name is one value of one message: as many arrive as were sent, with their values."""
    member = f"hostile-{free_port()}"
    destination = made(server, "tcp", member, Names(nodes=dict(enumerate(nodes))))
    events = [event(RAISED, metric=Metric.BUFFER_OCCUPANCY, node_id=n) for n in range(len(nodes))]
    alerts = list(destination.alarms.take(joined(*events)))
    destination.connect()
    destination.deliver(Message("", {}, 0, alerts, len(alerts)))
    destination.close()
    found = server.wait(member, len(nodes))
    assert len(found) == len(nodes)
    for number, (node, message) in enumerate(zip(nodes, found, strict=True)):
        parsed = message["data"] if isinstance(message["data"], dict) else json.loads(message["data"])
        (data,) = parsed.values()
        assert (data["node_id"], data["kind"]) == (str(number), "raised")
        letters = [each for each in node or str(number) if each.isprintable() and each != " "]
        shown = [each for each in data.get("node", "") if each != " "]
        assert shown == letters[: len(shown)]
        assert len(shown) == len(letters) or len(data["node"]) > 200


def test_a_datagram_is_short() -> None:
    """At most 2,048 bytes, whole characters, with the severity and the kind; over TCP a message is whole."""
    names = Names(nodes={7: "ü" * 4096}, ports={(7, 2): "→" * 4096})
    destination = Syslog(SyslogSettings(kind="syslog"), Context("logs", "m1", names, lambda name, more: None))
    (alert,) = destination.alarms.take(joined(event(RAISED)))
    whole = syslog_message(alert, "x" * 1000, "m1", "local0", 32473)
    short = syslog_message(alert, "x" * 1000, "m1", "local0", 32473, DATAGRAM)
    assert len(short) <= DATAGRAM < len(whole)
    assert short.decode().startswith("<132>1 2023-11-14T22:13:20.000000Z m1 hopscope ")
    assert "x" * 1000 in short.decode()


def test_a_server_that_is_killed_gets_every_alert(
    tmp_path: Path, server: Server, rig: Make, tool: Callable[..., str]
) -> None:
    """What was not confirmed when it was killed is sent again when it is back."""
    for name in ("certificate.pem", "key.pem"):
        (tmp_path / name).write_bytes(server.log.with_name(name).read_bytes())
    other = Server(tool("rsyslogd"), tmp_path)
    other.start()
    one = rig("syslog", url=other.url("tcp"))
    one.start()
    one.write(event(Kind.LOOP))
    eventually(lambda: len(other.messages("m1")) == 1)
    other.kill()
    for _ in range(5):
        one.write(event(Kind.LOOP))
    eventually(lambda: one.problem)
    other.start()
    eventually(lambda: len(other.messages("m1")) >= 6)
    one.stop()
    alarms = {json.dumps(each["data"]) for each in other.messages("m1")}
    assert len(alarms) == 6
    other.kill()


def test_another_server_is_not_trusted(server: Server) -> None:
    """TLS: without its certificate nothing is sent."""
    destination = made(server, "tls", "m1", ca_file=None)
    with pytest.raises(DeliveryError, match="certificate verify failed"):
        destination.connect()
