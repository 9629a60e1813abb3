"""What lies around a report that was built by hand: link types, VLAN, IP, and pcapng."""

from __future__ import annotations

import struct

import pytest

from support.packets.by_hand import (
    EXTENSIONS,
    ONES,
    PATH_2,
    SIMPLE,
    STACK_2,
    decode,
    decode_file,
    error_of,
    ethernet,
    group,
    int_2,
    ipv4,
    ipv6,
    one,
    outer,
    single,
    tcp,
    udp,
)

pytestmark = pytest.mark.kernel


@pytest.mark.parametrize(
    ("linktype", "frame"),
    [
        (1, ethernet(ipv4(udp(SIMPLE, 54321), outer=True), tags=(0x8100,))),
        (1, ethernet(ipv4(udp(SIMPLE, 8090), outer=True), tags=(0x88A8, 0x8100))),
        (1, ethernet(ipv4(udp(SIMPLE, 8086), outer=True, options=b"\x01" * 40))),
        (1, ethernet(ipv4(udp(SIMPLE, 1234), outer=True)) + bytes(30)),
        (113, bytes(14) + b"\x08\x00" + ipv4(udp(SIMPLE, 556), outer=True)),
        (276, b"\x08\x00" + bytes(18) + ipv4(udp(SIMPLE, 5900), outer=True)),
        (101, ipv4(udp(SIMPLE, 32766), outer=True)),
        (228, ipv4(udp(SIMPLE, 32766), outer=True)),
        (0, b"\x02\x00\x00\x00" + ipv4(udp(SIMPLE, 32766), outer=True)),
        (0, b"\x00\x00\x00\x02" + ipv4(udp(SIMPLE, 32766), outer=True)),
        (1, ethernet(ipv6(udp(SIMPLE, 32766)), 0x86DD)),
        (1, ethernet(ipv6(udp(SIMPLE, 32766), extensions=EXTENSIONS), 0x86DD)),
        (101, ipv6(udp(SIMPLE, 32766), extensions=EXTENSIONS[:3])),
        (0, b"\x1e\x00\x00\x00" + ipv6(udp(SIMPLE, 32766))),
    ],
)
def test_outer_layers(linktype: int, frame: bytes) -> None:
    """VLAN, QinQ, options, extension headers, link types, every port: the report is found."""
    found = one(frame, linktype)
    assert found["source"] in ("192.0.2.1", "2001:db8::1")
    assert found["hops"] == PATH_2


@pytest.mark.parametrize("tags", [(), (0x8100,), (0x88A8, 0x8100)])
def test_inner_layers(tags: tuple[int, ...]) -> None:
    """VLAN and QinQ, IPv4 options and IPv6 extension headers around INT."""
    telemetry = int_2(0xA000, STACK_2, 2)
    for type_, inner in (
        (0x0800, ipv4(udp(telemetry), dscp=0x17, options=b"\x01" * 12)),
        (0x86DD, ipv6(udp(telemetry), dscp=0x17, extensions=EXTENSIONS)),
        (0x86DD, ipv6(tcp(telemetry, b"\x01" * 40), 6, dscp=0x17)),
    ):
        assert one(outer(group(single(ethernet(inner, type_, tags)))))["hops"] == PATH_2


def test_fragments_of_a_report() -> None:
    """The first fragment of a report is refused by name; a later one has no port."""
    first = ethernet(ipv4(udp(SIMPLE, 32766), outer=True, fragment=0x2000))
    assert error_of(one(first)) == ("fragment", "outer ip")
    assert decode(ethernet(ipv4(udp(SIMPLE, 32766), outer=True, fragment=9))) == []
    six = ipv6(udp(SIMPLE, 32766), extensions=((44, b"\x00\x00\x01" + bytes(4)),))
    assert error_of(one(ethernet(six, 0x86DD))) == ("fragment", "outer ip")


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0" * 13,
        outer(SIMPLE, 32767),
        ethernet(ipv4(tcp(SIMPLE), 6)),
        ethernet(b"\0" * 28, 0x0806),
        bytes(60),
    ],
)
def test_what_is_no_report(frame: bytes) -> None:
    """Other packets print nothing."""
    assert decode(frame) == []


# ------------------------------------------------------------------------------------------------------ files


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    """A block of a pcapng."""
    body = body.ljust(-(-len(body) // 4) * 4, b"\0")
    length = struct.pack(f"{order}I", len(body) + 12)
    return struct.pack(f"{order}I", kind) + length + body + length


@pytest.mark.parametrize("order", ["<", ">"])
def test_pcapng(order: str) -> None:
    """Two interfaces with clocks of their own, unknown blocks between, and a simple packet block."""
    frame = outer(SIMPLE)

    def interface(linktype: int, options: bytes = b"") -> bytes:
        return block(1, struct.pack(f"{order}HHI", linktype, 0, 0) + options, order)

    def packet(index: int, time: int, raw: bytes) -> bytes:
        head = struct.pack(f"{order}IIIII", index, time >> 32, time & ONES, len(raw), len(raw))
        return block(6, head + raw, order)

    nanoseconds = struct.pack(f"{order}HHB3xHH", 9, 1, 9, 0, 0)
    raw = block(0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1), order)
    raw += interface(1) + interface(101, nanoseconds) + packet(0, 1_700_000_000_000_001, frame)
    raw += block(0xBAD, b"any", order) + packet(1, 1_700_000_000_000_000_005, frame[14:])
    raw += block(3, struct.pack(f"{order}I", len(frame)) + frame, order)
    found = decode_file(raw)
    assert [f["packet"] for f in found] == [0, 1, 2]
    assert [f["time_ns"] for f in found[:2]] == [1_700_000_000_000_001_000, 1_700_000_000_000_000_005]
    assert all(f["hops"] == PATH_2 for f in found)
