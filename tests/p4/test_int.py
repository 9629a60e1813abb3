"""INT on bmv2: what leaves a switch equals, byte for byte, what `wire/` makes of the same values.

One switch plays all switches of a path: each port is one of them, and a packet comes in again where it would
at the next one. A station's address selects the port that a packet leaves through.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Packet, Raw

from hopscope.wire import layout
from hopscope.wire.craft.frames import craft
from hopscope.wire.decode.as_json import report_objects
from hopscope.wire.decode.plain import decode_plain
from hopscope.wire.dialect import DEFAULT
from support.network.bmv2 import Bmv2, taken
from support.packets.wire_cases import frame_batch, frames_of

pytestmark = [pytest.mark.e2e]
HOST, DOMAIN, LAST, COLLECTOR, NARROW = 1, 2, 3, 4, 5
"""Ports: of a sender, to the next switch, of a receiver, of reports, to the next switch with a small MTU."""
NODE, EPOCH = 7, 1_700_000_000_000_000_000
EVERYTHING = 0xFFFF
USUAL = 0xEC00
"""Node, interfaces, latency, both timestamps."""
NOTHING_MATCHES: dict[str, Any] = {}
REPORT_PORT = 32766
PACKETS = replace(DEFAULT, packets=True, ports=())


def station(port: int) -> str:
    """Address that leads to a port."""
    return f"02:00:00:00:00:{port:02x}"


@pytest.fixture(scope="module")
def switch(made: Path) -> Iterator[Bmv2]:
    """A switch whose port `HOST` gets INT, and `LAST` is towards a host."""
    with Bmv2("int", made, ports=5) as one:
        control = one.control
        for port in (HOST, DOMAIN, LAST, COLLECTOR, NARROW):
            control.insert("station", {"destination": port + 0x020000000000}, "to_port", port=port)
        control.default("node", "set_node", id=NODE, epoch_ns=EPOCH, queue_unit=1, congestion=0xFFFFFF)
        control.insert("egress_ports", {"egress_port": DOMAIN}, "domain", bytes=1700)
        control.insert("egress_ports", {"egress_port": NARROW}, "domain", bytes=200)
        control.insert("egress_ports", {"egress_port": LAST}, "host")
        for table, source in (("watch_ipv4", 0x0A000000), ("watch_ipv6", 0xFD << 120)):
            mask = 0xFF000000 if table == "watch_ipv4" else 0xFF << 120
            control.insert(table, {"source": (source, mask), "destination_port": (5000, 5999)}, "start",
                           instructions=EVERYTHING, hop_limit=4, sample=0xFFFFFFFF)  # fmt: skip
            control.insert(table, {"source": (source, mask), "destination_port": (6000, 6999)}, "start",
                           instructions=USUAL, hop_limit=1, sample=0xFFFFFFFF)  # fmt: skip
            control.insert(table, {"source": (source, mask), "destination_port": (7000, 7999)}, "report_only",
                           instructions=USUAL, sample=0xFFFFFFFF)  # fmt: skip
        control.clone_session(1, COLLECTOR)
        control.default(
            "collector", "to_collector", source_mac=0x020000000001, destination_mac=0x020000000002,
            source=0xC0000201, destination=0xC00002FE, port=REPORT_PORT, hw_id=3, bytes=0,
        )  # fmt: skip
        yield one


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


def sent(ends: dict[int, socket.socket], frame: bytes, at: int, out: int) -> bytes:
    """What comes out of a port of a frame that goes in at another."""
    ends[at].send(frame)
    return taken(ends[out])


def readdressed(frame: bytes, to: int) -> bytes:
    """The frame for another port."""
    return bytes.fromhex(station(to).replace(":", "")) + frame[6:]


def checked(frame: bytes) -> bytes:
    """A frame whose checksums and lengths are what scapy computes."""
    whole: Any = Ether(frame)
    for layer in whole.layers():
        for field in ("chksum", "len", "plen"):
            if field in whole[layer].fields and not (
                layer is UDP and field == "chksum" and not whole[layer].chksum
            ):
                delattr(whole[layer], field)
    assert bytes(whole) == frame
    return frame


CASES = {
    "udp": IP(src="10.0.0.1", dst="192.0.2.1", tos=0x2B, id=77) / UDP(sport=4000, dport=5001)
    / Raw(b"odd payload"),
    "no checksum": IP(src="10.0.0.1", dst="192.0.2.1") / UDP(sport=4000, dport=5001, chksum=0) / Raw(b"even"),
    "empty": IP(src="10.0.0.1", dst="192.0.2.1") / UDP(sport=4000, dport=5001),
    "udp over IPv6": IPv6(src="fd00::1", dst="2001:db8::2", tc=5, fl=0x12345)
    / UDP(sport=1, dport=5002) / Raw(b"x" * 77),
    "tcp": IP(src="10.0.0.1", dst="192.0.2.1") / TCP(sport=1, dport=5003, flags="PA") / Raw(b"y" * 301),
    "tcp with options": IP(src="10.0.0.1", dst="192.0.2.1")
    / TCP(sport=1, dport=5003, options=[("Timestamp", (1, 2)), ("NOP", None), ("NOP", None)])
    / Raw(b"z" * 64),
    "tcp over IPv6": IPv6(src="fd00::1", dst="2001:db8::2") / TCP(sport=1, dport=5003) / Raw(b"z" * 5),
    "in a VLAN": Dot1Q(vlan=9) / IP(src="10.0.0.1", dst="192.0.2.1") / UDP(sport=4000, dport=5001)
    / Raw(b"v"),
}  # fmt: skip


def insert_at(frame: bytes) -> int:
    """Where INT begins: after the L4 header."""
    whole = Ether(frame)
    payload = whole[TCP].payload if TCP in whole else whole[UDP].payload
    return len(frame) - len(bytes(payload))


def words_at(frame: bytes, at: int) -> tuple[dict[str, int], dict[str, int], bytes]:
    """(shim, MD header, newest hop) of the INT at an offset."""
    shim, md = layout.SHIM_2_0.unpack(frame, at), layout.MD_2_0.unpack(frame, at + 4)
    return shim, md, frame[at + 16 : at + 16 + 4 * md["hop_words"]]


def hop_of(instructions: int, raw: bytes) -> dict[str, int]:
    """Values of a hop; what is left over would be an error of its size."""
    values: dict[str, int] = {}
    at = 0
    for bit, item in enumerate(layout.HOP_2_0):
        if instructions >> (15 - bit) & 1:
            values |= {f"{name}": value for name, value in item.fields.unpack(raw, at).items()}
            at += item.size
    assert at == len(raw)
    return values


def packed(instructions: int, values: dict[str, int]) -> bytes:
    """A hop as `wire/` has it; fillers are all ones."""
    parts = []
    for bit, item in enumerate(layout.HOP_2_0):
        if instructions >> (15 - bit) & 1:
            made = item.fields.pack({name: values[name] for name, _, _ in item.fields.shifts})
            parts.append(made if item is not layout.FILLER else b"\xff" * 4)
    return b"".join(parts)


@pytest.mark.parametrize("name", CASES)
def test_a_packet_gets_int_grows_and_is_restored(
    switch: Bmv2, ends: dict[int, socket.socket], name: str
) -> None:
    """Source, transit, sink: bytes are those of `wire/`, checksums scapy's; the host gets what was sent."""
    original = checked(packet(CASES[name], DOMAIN))
    at = insert_at(original)
    first = checked(sent(ends, original, HOST, DOMAIN))
    _, md, hop = words_at(first, at)
    words = layout.metadata_size(layout.HOP_2_0, EVERYTHING) // 4
    dscp = (
        (original[15 + 4 * (name == "in a VLAN")] >> 2)
        if "IPv6" not in name
        else int.from_bytes(original[14:16]) >> 6 & 63
    )
    values = hop_of(EVERYTHING, hop)
    assert values["node_id"] == NODE
    assert (values["ingress_port"], values["egress_port"]) == (HOST, DOMAIN)
    assert (values["l2_ingress_port"], values["l2_egress_port"]) == (HOST, DOMAIN)
    assert values["egress_time"] - values["ingress_time"] == values["hop_latency"]
    assert EPOCH < values["ingress_time"] <= values["egress_time"] < EPOCH + 10**12
    assert values["tx_utilization"] == values["checksum_complement"] == 0xFFFFFFFF
    expected = (
        layout.SHIM_2_0.pack({"type": 1, "length": 3 + words, "original": dscp << 2})
        + layout.MD_2_0.pack(
            {"version": 2, "hop_words": words, "remaining_hops": 3, "instructions": EVERYTHING}
        )
        + packed(EVERYTHING, values)
    )
    assert first[at:] == expected + original[at:]
    second = checked(sent(ends, first, DOMAIN, DOMAIN))
    _, grown, newest = words_at(second, at)
    again = hop_of(EVERYTHING, newest)
    assert grown == md | {"remaining_hops": 2}
    assert again["ingress_time"] > values["egress_time"]
    assert second[at + 1 : at + 2] == bytes([3 + 2 * words])
    assert second[at + 16 :] == packed(EVERYTHING, again) + hop + original[at:]
    restored = sent(ends, readdressed(second, LAST), DOMAIN, LAST)
    assert restored == readdressed(original, LAST)
    report = checked(taken(ends[COLLECTOR]))
    assert report.endswith(readdressed(second, LAST))
    assert_as_crafted(report)
    found = objects_of(report)
    assert [hop["node_id"] for hop in found["hops"]] == [NODE, NODE]
    assert found["hops"][0]["hop_latency"] == values["hop_latency"]
    assert found["report"]["metadata"]["egress_port"] == LAST


def objects_of(report: bytes) -> dict[str, Any]:
    """What our decoder reads of a report."""
    batch = frame_batch([report])
    found = list(report_objects(decode_plain(batch), batch, DEFAULT))
    assert len(found) == 1
    return found[0]


def assert_as_crafted(report: bytes) -> None:
    """A report's headers and metadata equal what `wire/` makes of what it reads of them; its length is that
    of the packet in it, which `wire/` does not make again.
    """
    again = bytearray(frames_of(craft([objects_of(report)]))[0])
    fields = layout.REPORT_2_0.unpack(report, 50)
    inner = 62 + 4 * fields["metadata_length"]
    again[51] = 2 + fields["metadata_length"] + (len(report) - inner + 3) // 4
    assert report[42:inner] == again[42:inner]


def test_a_packet_beyond_the_hop_limit_says_so(switch: Bmv2, ends: dict[int, socket.socket]) -> None:
    """With a limit of 1 the second switch adds nothing but the E bit."""
    original = packet(IP(src="10.0.0.1", dst="192.0.2.1") / UDP(sport=1, dport=6000) / Raw(b"x" * 9), DOMAIN)
    first = checked(sent(ends, original, HOST, DOMAIN))
    second = checked(sent(ends, first, DOMAIN, DOMAIN))
    at = insert_at(original)
    _, before, hop = words_at(first, at)
    _, after, same = words_at(second, at)
    assert before["remaining_hops"] == 0
    assert after == before | {"hops_exceeded": 1}
    assert same == hop
    assert len(second) == len(first)


def test_a_hop_that_does_not_fit_the_mtu_says_so(switch: Bmv2, ends: dict[int, socket.socket]) -> None:
    """A transit sets the M bit; a source leaves the packet alone."""
    layers = IP(src="10.0.0.1", dst="192.0.2.1") / UDP(sport=1, dport=5001) / Raw(b"x" * 100)
    first = sent(ends, packet(layers, DOMAIN), HOST, DOMAIN)
    second = checked(sent(ends, readdressed(first, NARROW), DOMAIN, NARROW))
    _, before, _ = words_at(first, 42)
    _, after, _ = words_at(second, 42)
    assert after == before | {"mtu_exceeded": 1}
    untouched = packet(layers, NARROW)
    assert sent(ends, untouched, HOST, NARROW) == untouched


def test_what_the_program_does_not_understand_leaves_as_it_came(
    switch: Bmv2, ends: dict[int, socket.socket]
) -> None:
    """Unwatched packets, fragments, IP options, damaged and foreign INT, cut headers."""
    udp = UDP(sport=1, dport=5001) / Raw(b"x" * 40)
    marked = IP(src="10.0.0.1", dst="192.0.2.1", tos=0x17 << 2)

    def int_of(shim: bytes, md: bytes, rest: bytes = b"") -> Any:
        return marked / UDP(sport=1, dport=99) / Raw(shim + md + rest)

    good = layout.SHIM_2_0.pack({"type": 1, "length": 4})
    md = {"version": 2, "hop_words": 1, "remaining_hops": 3, "instructions": 0x8000}
    cases = [
        packet(IP(src="11.0.0.1", dst="192.0.2.1") / udp, DOMAIN),
        packet(IP(src="10.0.0.1", dst="192.0.2.1", flags="MF") / udp, DOMAIN),
        packet(IP(src="10.0.0.1", dst="192.0.2.1", frag=7) / udp, DOMAIN),
        packet(IP(src="10.0.0.1", dst="192.0.2.1", options=b"\x01\x01\x01\x01") / udp, DOMAIN),
        packet(int_of(b"", b""), DOMAIN),
        packet(int_of(good, layout.MD_2_0.pack(md | {"version": 1}), b"\0" * 4), DOMAIN),
        packet(int_of(good, layout.MD_2_0.pack(md | {"hop_words": 2}), b"\0" * 4), DOMAIN),
        packet(int_of(layout.SHIM_2_0.pack({"type": 3, "length": 3}), layout.MD_2_0.pack(md)), DOMAIN),
        packet(int_of(layout.SHIM_2_0.pack({"type": 1, "length": 2}), layout.MD_2_0.pack(md)), DOMAIN),
        packet(int_of(layout.SHIM_2_0.pack({"type": 1, "length": 200}), layout.MD_2_0.pack(md)), DOMAIN),
        bytes.fromhex(station(DOMAIN).replace(":", "")) + b"\2" * 6 + b"\x08\0" + b"\x45\0",
        bytes.fromhex(station(DOMAIN).replace(":", "")) + b"\2" * 6 + b"\x88\xb5" + b"anything" * 5,
    ]
    for frame in cases:
        assert sent(ends, frame, HOST, DOMAIN) == frame


def test_a_switch_reports_packets_without_changing_them(switch: Bmv2, ends: dict[int, socket.socket]) -> None:
    """INT-XD: the packet stays as it is, and its report has this switch's values and all of the packet."""
    original = packet(IP(src="10.0.0.1", dst="192.0.2.1") / UDP(sport=1, dport=7000) / Raw(b"x" * 33), DOMAIN)
    assert sent(ends, original, HOST, DOMAIN) == original
    report = checked(taken(ends[COLLECTOR]))
    assert report.endswith(original)
    assert_as_crafted(report)
    found = objects_of(report)["report"]
    assert found["node_id"] == NODE
    assert (found["metadata"]["ingress_port"], found["metadata"]["egress_port"]) == (HOST, DOMAIN)


def test_a_dropped_packet_is_reported(switch: Bmv2, ends: dict[int, socket.socket]) -> None:
    """A watched packet to an unknown station: a drop report with its reason."""
    original = packet(IP(src="10.0.0.1", dst="192.0.2.1") / UDP(sport=1, dport=5000) / Raw(b"x" * 33), 99)
    ends[HOST].send(original)
    report = checked(taken(ends[COLLECTOR]))
    assert report.endswith(original)
    assert_as_crafted(report)
    found = objects_of(report)["report"]
    assert found["kind"] == "drop"
    assert found["drop_reason"] == 1


def test_reports_are_numbered(switch: Bmv2, ends: dict[int, socket.socket]) -> None:
    """The sequence number of a report is the next one."""
    frame = packet(IP(src="10.0.0.1", dst="192.0.2.1") / UDP(sport=1, dport=7000), DOMAIN)
    numbers = []
    for _ in range(3):
        sent(ends, frame, HOST, DOMAIN)
        numbers.append(layout.GROUP_2_0.unpack(taken(ends[COLLECTOR]), 42)["sequence"])
    assert [number - numbers[0] for number in numbers] == [0, 1, 2]
