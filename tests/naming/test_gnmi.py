"""Names and counters of a gNMI server, over TLS and without; hostile answers, and devices without any."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
import trustme
from finsy.proto import gnmi

from hopscope.base.names import MAX_NAME, Names
from hopscope.naming.client import ask, client_of
from hopscope.naming.counters import NAMES_COUNTERS
from hopscope.naming.device import DeviceError, PortCounters
from hopscope.naming.gnmi import leaves_of
from hopscope.naming.interfaces import read_interfaces
from hopscope.naming.poller import Poller
from hopscope.runtime.checks.connect import connections
from hopscope.runtime.checks.environment import Finding, Verdict
from hopscope.settings.collector import Settings
from hopscope.settings.configuration.errors import ConfigError
from hopscope.settings.names_from import GnmiSettings
from support.servers.gnmi_server import Device

NODE = 0x7F000001
HOSTILE = r"""to 'core' \3</b>, {x="1"}""" + "\n\x1b[31m" + "x" * 4096
Start = Callable[..., GnmiSettings]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a device; gives the settings of the table that asks it."""
    servers: list[grpc.Server] = []

    def serve(
        device: Device, certificates: grpc.ServerCredentials | None = None, **more: Any
    ) -> GnmiSettings:
        server, port = device.start(certificates)
        servers.append(server)
        table = {"kind": "gnmi", "hosts": ["127.0.0.1"], "port": port, "tls": certificates is not None}
        return GnmiSettings.model_validate(table | more)

    yield serve
    for server in servers:
        server.stop(None).wait()


def names_of(settings: GnmiSettings) -> Names:
    """Names of the first device."""
    ((node, host),) = settings.devices.items()
    return asyncio.run(ask("names_from.lab", settings, node, host))


def counters_of(settings: GnmiSettings) -> PortCounters:
    async def read() -> PortCounters:
        return await client_of("names_from.lab", settings).counters(settings.hosts[0])

    return asyncio.run(read())


@pytest.mark.parametrize("encoding", [gnmi.PROTO, gnmi.JSON_IETF])
def test_names_and_counters(start: Start, encoding: int) -> None:
    """In both encodings; a port without a description has the name of its interface."""
    settings = start(Device(encoding))
    assert names_of(settings) == Names({NODE: "leaf-7"}, {(NODE, 1): "Ethernet1", (NODE, 2): "Ethernet2"})
    alias = settings.model_copy(update={"interfaces": "alias"})
    assert names_of(alias) == Names({NODE: "leaf-7"}, {(NODE, 1): "to core", (NODE, 2): "Ethernet2"})
    expected = {"in_bytes": 1 << 40, "out_bytes": 7, "in_errors": 1, "out_errors": 2, "in_discards": 3}
    assert counters_of(settings) == {1: expected}


def test_a_configured_host_name_is_read_if_there_is_no_other(start: Start) -> None:
    device = Device()
    device.system = {"config": {"hostname": "spine-1"}}
    assert names_of(start(device)).nodes == {NODE: "spine-1"}
    device.system = {}
    assert names_of(start(device)).nodes == {}


def test_names_and_numbers_of_a_hostile_device(start: Start) -> None:
    device = Device()
    device.system["state"]["hostname"] = HOSTILE
    device.interfaces = {
        HOSTILE: {"ifindex": 1, "name": HOSTILE, "counters": {"in-octets": "12"}},
        "no number": {"ifindex": "one", "name": "a", "counters": {"in-octets": 1}},
        "no port": {"ifindex": 65535, "name": "b", "counters": {"in-octets": 1}},
        "zero": {"ifindex": 0, "name": "c"},
        "text": {"ifindex": 4, "name": "d", "counters": {"in-octets": "many", "out-octets": "9" * 20}},
    }
    settings = start(device)
    found = names_of(settings)
    assert set(found.ports) == {(NODE, 1), (NODE, 4)}
    for name in (found.nodes[NODE], found.ports[NODE, 1]):
        assert name.isprintable()
        assert len(name) <= MAX_NAME
    assert counters_of(settings) == {1: {"in_bytes": 12}}


def test_a_tree_in_json_has_the_same_leaves() -> None:
    """Some devices answer with a tree above what was asked for, lists of interfaces included."""
    item = {
        "name": "Ethernet1",
        "state": {"ifindex": 1, "openconfig-interfaces:counters": {"in-octets": "5"}},
    }
    tree = {"openconfig-interfaces:interfaces": {"interface": [item]}}
    value = gnmi.TypedValue(json_ietf_val=json.dumps(tree).encode())
    assert list(leaves_of(gnmi.Notification(update=[gnmi.Update(path=gnmi.Path(), val=value)]))) == [
        ("Ethernet1", "interfaces/interface/name", "Ethernet1"),
        ("Ethernet1", "interfaces/interface/state/ifindex", 1),
        ("Ethernet1", "interfaces/interface/state/counters/in-octets", "5"),
    ]


@pytest.mark.parametrize(
    "value", [b"[" * 100_000, b"{", b"\xff", b"null", b"[1, [2]]", b'{"interface": [[], 1]}']
)
def test_damaged_json_is_an_error_or_nothing(
    start: Start, value: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = gnmi.TypedValue(json_ietf_val=value)
    path = gnmi.Path(elem=[gnmi.PathElem(name="interfaces")])
    answer = gnmi.SubscribeResponse(update=gnmi.Notification(update=[gnmi.Update(path=path, val=typed)]))
    monkeypatch.setattr(Device, "_answer", lambda *_: answer)
    settings = start(Device())
    found = Names()
    with suppress(DeviceError):
        found = names_of(settings)
    assert found == Names()


def test_a_device_is_verified_and_asks_for_a_password(start: Start, tmp_path: Path) -> None:
    """TLS with a certificate of either side; a wrong password is in no message."""
    authority, other = trustme.CA(), trustme.CA()
    cert, own = authority.issue_cert("leaf-7.example"), authority.issue_cert("hopscope")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    other.cert_pem.write_to_path(tmp_path / "other.pem")
    own.private_key_and_cert_chain_pem.write_to_path(tmp_path / "own.pem")
    pair = (cert.private_key_pem.bytes(), cert.cert_chain_pems[0].bytes())
    credentials = grpc.ssl_server_credentials([pair], authority.cert_pem.bytes(), require_client_auth=True)
    good = start(
        Device(credentials=("reader", "open-sesame")), credentials,
        ca_file=tmp_path / "ca.pem", cert_file=tmp_path / "own.pem", server_name="leaf-7.example",
        user="reader", password="open-sesame", timeout_seconds=10,
    )  # fmt: skip
    bad = {
        "password": good.model_copy(update={"password": "wrong-sesame"}),
        "address": good.model_copy(update={"server_name": ""}),
        "authority": good.model_copy(update={"ca_file": tmp_path / "other.pem"}),
        "certificate": good.model_copy(update={"cert_file": None}),
    }
    tables = {name: {**table.model_dump(), "nodes": {"127.0.0.1": at}}
              for at, (name, table) in enumerate({"good": good, **bad}.items())}  # fmt: skip
    settings = {"data": tmp_path, "listen": [], "serve": {"enabled": False}, "names_from": tables}
    first, *others = connections(Settings.model_validate(settings))
    assert first == Finding("names_from.good 127.0.0.1", "leaf-7, 2 ports")
    assert [found.verdict for found in others] == [Verdict.BAD] * 4
    assert others[0].found == "unauthenticated: wrong user or password"
    assert all(found.found.startswith("unavailable: ") for found in others[1:])
    assert "sesame" not in str(others)


def test_a_device_that_says_nothing_is_given_up() -> None:
    """It accepts the connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        table = {"kind": "gnmi", "hosts": ["127.0.0.1"], "port": server.getsockname()[1], "tls": False}
        with pytest.raises(DeviceError, match="deadline exceeded"):
            names_of(GnmiSettings.model_validate(table | {"timeout_seconds": 0.2}))


def test_a_missing_certificate_is_named(tmp_path: Path) -> None:
    settings = GnmiSettings(kind="gnmi", hosts=("192.0.2.7",), ca_file=tmp_path / "none.pem")
    with pytest.raises(ConfigError, match=r"^names_from\.lab\.ca_file: .*none\.pem: No such file"):
        names_of(settings)


def test_counters_of_a_device_that_stops_to_answer_go_and_its_names_stay(
    start: Start, tmp_path: Path
) -> None:
    messages: list[str] = []
    device = Device(credentials=("reader", "open-sesame"))
    settings = start(device, user="reader", password="open-sesame", counters_seconds=30)
    poller = Poller(
        {"lab": settings}, tmp_path, tmp_path, NAMES_COUNTERS.open(tmp_path),
        changed=lambda: messages.append("changed"), notify=messages.append, warn=messages.append,
    )  # fmt: skip
    poller.prune()
    asyncio.run(poller.poll("lab"))
    asyncio.run(poller.read_counters("lab"))
    (row,) = read_interfaces(tmp_path)
    assert (int(row["node_id"]), int(row["port"]), int(row["known"])) == (NODE, 1, 0b011111)
    assert (int(row["in_bytes"]), int(row["in_discards"])) == (1 << 40, 3)
    device.credentials = ("reader", "another")
    asyncio.run(poller.read_counters("lab"))
    asyncio.run(poller.poll("lab"))
    assert len(read_interfaces(tmp_path)) == 0
    assert Names.load(None, tmp_path).node(NODE) == "leaf-7"
    counts = NAMES_COUNTERS.read(tmp_path)
    assert counts["names_counter_polls_total.answered"] == counts["names_counter_polls_total.failed"] == 1
    assert counts["names_silent_devices"] == 1
    device.credentials = None
    asyncio.run(poller.read_counters("lab"))
    assert messages == [
        "changed",
        "counters of 127.0.0.1: unauthenticated: wrong user or password",
        "names of 127.0.0.1: unauthenticated: wrong user or password; its last names stay",
        "counters of 127.0.0.1: it answers again",
    ]
