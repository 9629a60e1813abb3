"""Addresses of listeners as users write them."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from hopscope.settings.collector import Settings
from hopscope.settings.dialects import with_listeners
from hopscope.settings.listen import ListenSettings
from hopscope.settings.source import SourceError, parse, url
from hopscope.wire.address import with_port
from hopscope.wire.dialect import Dialect


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("udp://127.0.0.1:32766", ListenSettings()),
        ("udp://0.0.0.0:54321?workers=2&dialect=spec", ListenSettings(host="0.0.0.0", port=54321, workers=2)),
        ("udp://[::1]:0", ListenSettings(host="::1", port=0)),
        ("sflow://0.0.0.0", ListenSettings(kind="sflow", host="0.0.0.0", port=6343)),
        ("ipfix://[::]?workers=2", ListenSettings(kind="ipfix", host="::", port=4739, workers=2)),
        ("ipfix://0.0.0.0:2055", ListenSettings(kind="ipfix", host="0.0.0.0", port=2055)),
        ("mirror://Eth1.100", ListenSettings(kind="mirror", interface="Eth1.100")),
        (
            "mirror://lo?dialect=auto&promiscuous=no&ring_bytes=2097152&workers=2&filter=1,6%200%200%200",
            ListenSettings(
                kind="mirror",
                interface="lo",
                dialect="auto",
                promiscuous=False,
                ring_bytes=2**21,
                workers=2,
                filter="1,6 0 0 0",
            ),
        ),
        ("ring://eth1?port=5000", ListenSettings(kind="ring", interface="eth1", port=5000)),
        (
            "ring://eth1?workers=2&ring_bytes=2097152&promiscuous=yes&allow=192.0.2.0/24&rate_limit=9",
            ListenSettings(
                kind="ring",
                interface="eth1",
                workers=2,
                ring_bytes=2**21,
                promiscuous=True,
                allow=("192.0.2.0/24",),
                rate_limit=9,
            ),
        ),
        ("udp://localhost", ListenSettings(host="localhost")),
        (
            "udp://127.0.0.1:1?allow=10.0.0.0/8,2001:db8::/32&allow=192.0.2.1&gro=false&rate_limit=100",
            ListenSettings(
                port=1, allow=("10.0.0.0/8", "2001:db8::/32", "192.0.2.1"), gro=False, rate_limit=100
            ),
        ),
    ],
)
def test_addresses(text: str, expected: ListenSettings) -> None:
    """Host, port and every option arrive in the settings; what is not given has its default."""
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("127.0.0.1:32766", "expected udp://HOST:PORT, as in udp://127.0.0.1:32766?workers=2"),
        ("tcp://127.0.0.1:32766", "expected udp://HOST:PORT"),
        (
            "mirror://",
            "expected udp://HOST:PORT, as in udp://127.0.0.1:32766?workers=2, ring://INTERFACE or mirror://INT",
        ),
        ("mirror://eth0:1", "found interface 'eth0:1', expected a name such as eth1"),
        ("mirror://eth0?allow=::1", "unknown option 'allow'; options are dialect, workers, ring_bytes"),
        ("mirror://eth0?ring_bytes=1", "ring_bytes: found '1', expected at least 1048576"),
        ("ring://eth0:1", "found interface 'eth0:1', expected a name such as eth1"),
        ("ring://eth0?filter=udp", "unknown option 'filter'; options are port, dialect, workers, ring_bytes"),
        ("ring://eth0?port=0", "found port 0 with kind ring, expected a port from 1 to 65535"),
        ("ring://eth0?dialect=auto", "found dialect auto without allow, so that strangers would choose"),
        ("udp://", "expected udp://HOST:PORT"),
        ("udp://127.0.0.1:70000", "found no port from 0 to 65535"),
        ("udp://127.0.0.1:abc", "expected udp://HOST:PORT"),
        ("udp://[::1", "expected brackets around IPv6, as in udp://[::1]:32766"),
        ("udp://[::1]:70000", "found no port from 0 to 65535"),
        ("udp://::1:32766", "expected brackets around IPv6, as in udp://[::1]:32766"),
        ("udp://127.0.0.1:1/path", "expected udp://HOST:PORT"),
        ("udp://127.0.0.1:1?worker=2", "unknown option 'worker'; did you mean workers?"),
        (
            "sflow://127.0.0.1?nodes=192.0.2.7=7",
            "unknown option 'nodes'; set it in [[listen]]",
        ),
        ("udp://127.0.0.1:1?zzz=2", "unknown option 'zzz'; options are dialect, workers"),
        ("udp://127.0.0.1:1?workers=two", "workers: found 'two', expected a whole number"),
        ("udp://127.0.0.1:1?workers=0", "workers: found '0', expected at least 1"),
        ("udp://127.0.0.1:1?workers=1&workers=2", "workers is given twice"),
        ("udp://127.0.0.1:1?allow=10.0.0", "allow[0]: found '10.0.0', expected a network"),
        (
            "sflow://0.0.0.0?dialect=bmv2",
            "unknown option 'dialect'; options are workers, receive_buffer_bytes",
        ),
        ("ipfix://", "expected udp://HOST:PORT"),
    ],
)
def test_mistakes(text: str, line: str) -> None:
    """One line that repeats the address, says what was found and what was expected."""
    with pytest.raises(SourceError) as caught:
        parse(text)
    assert str(caught.value).startswith(f"{text}: ")
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("host", "text"), [("::1", "[::1]:9"), ("a.b", "a.b:9")])
def test_a_host_with_its_port(host: str, text: str) -> None:
    """IPv6 is in brackets (RFC 3986), and what is printed is read as the same listener."""
    assert with_port(host, 9) == text
    assert url(parse(f"udp://{text}")) == f"udp://{text}"


def test_strangers_choose_no_dialect() -> None:
    """Whoever sends first would fix it: beyond loopback `auto` needs to know who may."""
    for host in ("0.0.0.0", "[::]", "192.0.2.1"):
        with pytest.raises(SourceError, match="without allow, so that strangers would choose the dialect"):
            parse(f"udp://{host}:32766?dialect=auto")
        assert parse(f"udp://{host}:32766?dialect=auto&allow=192.0.2.0/24").dialect == "auto"
    assert parse("udp://[::1]:32766?dialect=auto").dialect == "auto"
    assert parse("mirror://lo?dialect=auto").dialect == "auto"
    assert parse("ring://lo?dialect=auto&allow=192.0.2.0/24").dialect == "auto"


def test_a_ring_reads_what_is_for_this_machine() -> None:
    """Unlike a mirror, by default, however it is written; its address is read again as the same settings."""
    ring = ListenSettings(kind="ring", interface="eth1", port=5000)
    assert not ring.promiscuous
    assert ListenSettings(kind="mirror", interface="eth1").promiscuous
    assert parse(url(ring)) == ring


def test_ports_and_nodes_of_samples() -> None:
    """sFlow and IPFIX have ports of their own; node ids are given by address."""
    kinds = ("sflow", "ipfix", "ipfix+tcp")
    ports = [ListenSettings.model_validate({"kind": kind}).port for kind in kinds]
    assert ports == [6343, 4739, 4739]
    listen = ListenSettings(kind="sflow", nodes={"192.0.2.7": 7, "2001:db8::1": 8})
    assert listen.node_ids == {0xFFFFC0000207: 7, 0x20010DB8 << 96 | 1: 8}
    for given, line in (
        ({"nodes": {"192.0.2.7": 7}}, "found nodes with kind udp, expected kind sflow, ipfix or ipfix"),
        ({"kind": "sflow", "nodes": {"leaf": 7}}, "found 'leaf', expected an address, such as 192.0.2.7"),
        ({"kind": "sflow", "nodes": {"192.0.2.7": -1}}, "found node -1 of 192.0.2.7"),
        ({"kind": "ipfix", "dialect": "bmv2"}, "found dialect with kind ipfix"),
        ({"kind": "ipfix", "interface": "eth1"}, "found interface with kind ipfix"),
        ({"kind": "ipfix+tcp", "rate_limit": 1}, "found rate_limit with kind ipfix.tcp"),
        ({"kind": "ipfix", "connections": 9}, "found connections with kind ipfix, expected kind ipfix.tcp"),
    ):
        with pytest.raises(ValidationError, match=line):
            ListenSettings.model_validate(given)
    text = "ipfix+tcp://[::1]:4740?connections=9&allow=192.0.2.0/24"
    address = parse(text)
    assert (url(address), address.connections, address.over_tcp) == ("ipfix+tcp://[::1]:4740", 9, True)
    both = Settings.model_validate({"listen": [{"kind": "ipfix"}, {"kind": "ipfix+tcp"}]})
    assert len(both.listen) == 2
    with pytest.raises(ValidationError, match="found kind sflow in a sink, expected kind mirror"):
        Settings.model_validate({"listen": [{"kind": "sflow"}], "sink": {"enabled": True}})


def test_ports_of_listeners_are_for_one_format() -> None:
    """Ports of listeners are added to the dialect's, and taken from other formats; a mirror has none."""
    texts = ("udp://127.0.0.1:4739", "sflow://127.0.0.1:7777", "ipfix+tcp://127.0.0.1:1", "mirror://lo")
    found = with_listeners(Dialect("mine", "", ports=(54321, 7777, 9)), [parse(text) for text in texts])
    assert (found.ports, found.sflow_ports) == ((54321, 9, 4739), (6343, 7777))
    assert found.ipfix_ports == (2055, 9995, 9996)
    assert found.packets
    first = with_listeners(Dialect("mine", "", ports=(1, 2, 3)), [parse("udp://127.0.0.1:2")])
    assert first.ports == (1, 2, 3)
