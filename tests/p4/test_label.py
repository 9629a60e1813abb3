"""INT-label on bmv2: packets and datagrams equal those of `wire/label`, decisions are those of the rule."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Packet, Raw

from hopscope.labels.records import EVERY, Chance
from hopscope.wire.label.codec import LabelFlow, push_flow, push_label, read_blocks, read_labels, restore
from hopscope.wire.label.layout import LABEL_PORT, LabelItem
from support.network.bmv2 import Bmv2, taken

pytestmark = [pytest.mark.e2e]
HOST, DOMAIN, LAST, CONTROLLER, NARROW = 1, 2, 3, 4, 5
"""Ports: of a sender, to the next switch, of a receiver, of the controller, to the next one, small MTU."""
NODE, EPOCH, MAX_HOP = 7, 1_700_000_000_000_000_000, 5
NEVER_AGAIN = 0xFFFFFFFF
"""An interval longer than any test, us."""


def station(port: int) -> str:
    """Address that leads to a port."""
    return f"02:00:00:00:00:{port:02x}"


class Rules:
    """The entries of ports in `label_ports`, which tests change."""

    def __init__(self, switch: Bmv2) -> None:
        self.control = switch.control
        for port in (DOMAIN, NARROW, LAST):
            self._write(port, False, {"interval": 0, "shift": 0, "rest": 0, "chance": 0})

    def _write(self, port: int, modify: bool, rule: dict[str, int]) -> None:
        action = "last_hop" if port == LAST else "label_port"
        more = {} if port == LAST else {"bytes": 200 if port == NARROW else 1700}
        self.control.insert("label_ports", {"egress_port": port}, action, modify=modify, **rule, **more)

    def set(self, port: int, *, interval: int = 0, shift: int = 0, rest: int = 0, chance: int = 0) -> None:
        """Interval and rest in us."""
        self._write(port, True, {"interval": interval, "shift": shift, "rest": rest, "chance": chance})


@pytest.fixture(scope="module")
def switch(made: Path) -> Iterator[Bmv2]:
    """A switch with a port of hosts, whose tracked flows are UDP to ports 7000 to 7999."""
    with Bmv2("label", made, ports=5) as one:
        control = one.control
        for port in (HOST, DOMAIN, LAST, CONTROLLER, NARROW):
            control.insert("station", {"destination": port + 0x020000000000}, "to_port", port=port)
        control.default("node", "set_node", id=NODE, epoch_ns=EPOCH, queue_unit=100)
        control.insert("ingress_ports", {"ingress_port": HOST}, "hosts")
        for version in (4, 6):
            control.insert(f"track_ipv{version}", {"protocol": 17, "destination_port": (7000, 7999)}, "track",
                           every=2, index=version)  # fmt: skip
        control.clone_session(2, CONTROLLER)
        control.default(
            "controller", "to_controller", source_mac=0x020000000001, destination_mac=0x020000000002,
            source=0xC0000201, destination=0xC00002FE, port=LABEL_PORT,
        )  # fmt: skip
        yield one


@pytest.fixture(scope="module")
def rules(switch: Bmv2) -> Rules:
    return Rules(switch)


@pytest.fixture(scope="module")
def ends(switch: Bmv2) -> Iterator[dict[int, socket.socket]]:
    """Raw sockets at the other ends of its ports."""
    sockets = {port: switch.raw(port) for port in range(1, 6)}
    yield sockets
    for handle in sockets.values():
        handle.close()


def packet(layers: Packet, to: int) -> bytes:
    """A frame that leaves through a port."""
    return bytes(Ether(src="02:00:00:00:01:00", dst=station(to)) / layers)


def readdressed(frame: bytes, to: int) -> bytes:
    """The frame for another port."""
    return bytes.fromhex(station(to).replace(":", "")) + frame[6:]


def sent(ends: dict[int, socket.socket], frame: bytes, at: int, out: int) -> bytes:
    """What comes out of a port of a frame that goes in at another."""
    ends[at].send(frame)
    return taken(ends[out])


def payload_of(frame: bytes) -> bytes:
    """Of a datagram to the controller, whose headers are checked."""
    found = Ether(frame)
    assert found[UDP].dport == LABEL_PORT
    assert found[UDP].len == len(frame) - 34
    assert found[IP].len == len(frame) - 14
    whole = bytes(frame)
    del found[IP].chksum
    assert bytes(found) == whole
    return frame[42:]


CASES = {
    "udp": IP(src="10.0.0.1", dst="192.0.2.1", tos=3) / UDP(sport=4000, dport=5001) / Raw(b"odd payload"),
    "tcp": IP(src="10.0.0.1", dst="192.0.2.1") / TCP(sport=1, dport=2) / Raw(b"x" * 500),
    "options": IP(src="10.0.0.1", dst="192.0.2.1", options=b"\1\1\1\1\1\1\1\1")
    / UDP(sport=1, dport=2) / Raw(b"y"),
    "fragment": IP(src="10.0.0.1", dst="192.0.2.1", frag=9, flags="MF") / Raw(b"x" * 64),
    "wrong checksum": IP(src="10.0.0.1", dst="192.0.2.1", chksum=0x1234) / ICMP(),
    "IPv6": IPv6(src="fd00::1", dst="2001:db8::2", tc=9, fl=0x54321) / TCP(sport=1, dport=2) / Raw(b"z" * 33),
    "in a VLAN": Dot1Q(vlan=7) / IP(src="10.0.0.1", dst="192.0.2.1") / UDP(sport=4000, dport=5001)
    / Raw(b"v"),
    "padded": IP(src="10.0.0.1", dst="192.0.2.1") / UDP(sport=1, dport=2, len=9) / Raw(b"a" + b"\0" * 17),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_labels_are_pushed_restored_and_exported(
    switch: Bmv2, rules: Rules, ends: dict[int, socket.socket], name: str
) -> None:
    """Two switches label a packet, the last restores it: bytes are those of `push_label` and `restore`."""
    rules.set(DOMAIN, shift=EVERY)
    rules.set(LAST, interval=NEVER_AGAIN)
    original = packet(CASES[name], DOMAIN)
    if name == "padded":
        original = original[:16] + struct.pack(">H", 29) + original[18:]
    first = sent(ends, original, HOST, DOMAIN)
    found = read_labels(first)
    assert found is not None
    (item,) = found.items
    assert isinstance(item, LabelItem)
    assert (item.node_id, item.ingress_port, item.egress_port, item.occupancy % 100) == (
        NODE,
        HOST,
        DOMAIN,
        0,
    )
    assert EPOCH < item.time_ns < EPOCH + 10**12
    assert item.latency_ns % 1000 == 0
    assert first == push_label(original, item)
    second = sent(ends, first, DOMAIN, DOMAIN)
    again = read_labels(second)
    assert again is not None
    newest = again.items[0]
    assert isinstance(newest, LabelItem)
    assert newest.time_ns > item.time_ns
    assert second == push_label(first, newest)
    assert restore(second) == original
    assert sent(ends, readdressed(second, LAST), DOMAIN, LAST) == readdressed(original, LAST)
    blocks, error = read_blocks(payload_of(taken(ends[CONTROLLER])))
    assert error is None
    (block,) = blocks
    assert block.items[-2:] == again.items
    assert block.next_header == again.next_header


def test_the_last_hop_adds_its_own_label(switch: Bmv2, rules: Rules, ends: dict[int, socket.socket]) -> None:
    """A packet without labels leaves as it came, and the datagram has one label."""
    rules.set(LAST, shift=EVERY)
    original = packet(CASES["udp"], LAST)
    assert sent(ends, original, HOST, LAST) == original
    (block,), error = read_blocks(payload_of(taken(ends[CONTROLLER])))
    assert error is None
    assert block.flow is None
    (item,) = block.items
    assert isinstance(item, LabelItem)
    assert (item.node_id, item.ingress_port, item.egress_port) == (NODE, HOST, LAST)
    rules.set(LAST, interval=NEVER_AGAIN)


@pytest.mark.parametrize("version", [4, 6])
def test_a_tracked_flow_is_labelled_everywhere(
    switch: Bmv2, rules: Rules, ends: dict[int, socket.socket], version: int
) -> None:
    """One packet in two begins at MAX_hop, is labelled within the interval, and comes with its flow."""
    rules.set(DOMAIN, interval=NEVER_AGAIN)
    rules.set(LAST, interval=NEVER_AGAIN)
    ip = IP(src="10.0.0.1", dst="192.0.2.1") if version == 4 else IPv6(src="fd00::1", dst="2001:db8::2")
    original = packet(ip / UDP(sport=4000, dport=7001) / Raw(b"followed"), DOMAIN)
    sent(ends, original, HOST, DOMAIN)
    counts = []
    for _ in range(4):
        frame = sent(ends, original, HOST, DOMAIN)
        found = read_labels(frame)
        counts.append(0 if found is None else len(found.items))
        if found is not None:
            assert found.tracked
            assert frame == push_label(original, found.items[0], tracked=True)
            tracked = frame
    assert sorted(counts[:2]) == sorted(counts[2:]) == [0, 1]
    assert sent(ends, readdressed(tracked, LAST), DOMAIN, LAST) == readdressed(original, LAST)
    payload = payload_of(taken(ends[CONTROLLER]))
    (block,), error = read_blocks(payload)
    assert error is None
    assert block.tracked
    assert [item.egress_port for item in block.items] == [LAST, DOMAIN]
    assert block.flow is not None
    expected = bytearray()
    push_flow(expected, block.flow)
    assert payload.startswith(expected)
    assert (block.flow.source_port, block.flow.destination_port, block.flow.protocol) == (4000, 7001, 17)
    source = socket.inet_pton(socket.AF_INET6, "::ffff:10.0.0.1" if version == 4 else "fd00::1")
    assert payload[2:18] == source
    assert isinstance(block.flow, LabelFlow)


def test_packets_that_cannot_take_a_label_stay_as_they_are(
    switch: Bmv2, rules: Rules, ends: dict[int, socket.socket]
) -> None:
    """Too long for the MTU, full, an IPv4 checksum of 0xffff, no IP, cut labels."""
    rules.set(DOMAIN, shift=EVERY)
    rules.set(NARROW, shift=EVERY)
    long = packet(IP(src="10.0.0.1", dst="192.0.2.1") / UDP(sport=1, dport=2) / Raw(b"x" * 140), NARROW)
    assert sent(ends, long, HOST, NARROW) == long
    fits = packet(IP(src="10.0.0.1", dst="192.0.2.1") / UDP(sport=1, dport=2) / Raw(b"x" * 138), NARROW)
    assert len(sent(ends, fits, HOST, NARROW)) == len(fits) + 34
    full = packet(CASES["udp"], DOMAIN)
    for number in range(MAX_HOP):
        full = push_label(full, LabelItem(number))
    odd = packet(IP(src="10.0.0.1", dst="192.0.2.1", chksum=0xFFFF) / UDP() / Raw(b"x"), DOMAIN)
    cut = packet(IP(src="10.0.0.1", dst="192.0.2.1", proto=253) / Raw(b"\x11\x02" + b"x" * 40), DOMAIN)
    other = bytes.fromhex(station(DOMAIN).replace(":", "")) + b"\2" * 6 + b"\x88\xb5" + b"anything" * 5
    for frame in (full, odd, cut, other):
        assert sent(ends, frame, HOST, DOMAIN) == frame


def labelled(
    ends: dict[int, socket.socket], frame: bytes, count: int, micros: int = 0
) -> list[LabelItem | None]:
    """The newest label of each of `count` copies of a frame, and of more until this time has passed; None
    where the port wrote none.
    """
    before = 0 if (found := read_labels(frame)) is None else len(found.items)
    until = time.monotonic() + micros / 1e6
    out: list[LabelItem | None] = []
    while len(out) < count or time.monotonic() < until:
        found = read_labels(sent(ends, frame, HOST, DOMAIN))
        new = found is not None and len(found.items) > before
        out.append(found.items[0] if found is not None and new else None)  # type: ignore[arg-type]
    return out


def test_base_a_and_pro_keep_the_interval(switch: Bmv2, rules: Rules, ends: dict[int, socket.socket]) -> None:
    """Times of labels are further apart than T; with Reg2 = 2, than T / 4; none is missing by much."""
    frame = packet(CASES["udp"], DOMAIN)
    for shift in (0, 2):
        interval = 40_000
        rules.set(DOMAIN, interval=interval, shift=shift)
        begin = time.monotonic()
        times = [item.time_ns // 1000 for item in labelled(ends, frame, 1, 8 * interval) if item is not None]
        gaps = [b - a for a, b in pairwise(times)]
        assert min(gaps) > interval >> shift
        assert len(times) <= (time.monotonic() - begin) * 1e6 / (interval >> shift) + 2
        assert len(times) >= 2


@pytest.mark.parametrize(
    ("chance", "carried", "expected"),
    [
        (Chance.NEVER, 3, 0.0), (Chance.F1, 0, 0.0), (Chance.F1, 1, 1.0), (Chance.F2, 1, 0.25),
        (Chance.F2, 4, 1.0), (Chance.F2_LISTING, 2, 0.4), (Chance.TABLE, 1, 0.5),
    ],
)  # fmt: skip
def test_base_b_labels_by_chance(
    switch: Bmv2, rules: Rules, ends: dict[int, socket.socket], chance: Chance, carried: int, expected: float
) -> None:
    """Within the interval a packet with i labels gets another with probability f(i): 4 standard errors."""
    if chance is Chance.TABLE:
        switch.control.insert("chance_table", {"count": (1, 255)}, "label_share",
                              share=0x80000000)  # fmt: skip
    rules.set(DOMAIN, interval=NEVER_AGAIN, chance=chance)
    frame = packet(CASES["udp"], DOMAIN)
    for number in range(carried):
        frame = push_label(frame, LabelItem(number))
    count = 150 if 0 < expected < 1 else 20
    found = sum(item is not None for item in labelled(ends, frame, count))
    assert abs(found - expected * count) <= 4 * (count * expected * (1 - expected)) ** 0.5


def test_rest_suspends_chance(switch: Bmv2, rules: Rules, ends: dict[int, socket.socket]) -> None:
    """During T1 after a label, F1 labels nothing; after it, at once (Algorithm 5)."""
    rest = 30_000
    rules.set(DOMAIN, interval=NEVER_AGAIN, rest=rest, chance=Chance.F1)
    frame = push_label(packet(CASES["udp"], DOMAIN), LabelItem(1))
    times = [item.time_ns // 1000 for item in labelled(ends, frame, 1, 8 * rest) if item is not None]
    assert min(b - a for a, b in pairwise(times)) >= rest
    assert len(times) >= 2
