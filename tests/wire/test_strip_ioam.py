"""What a sink makes of packets with IOAM: a hop-by-hop header that only IOAM needs is removed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from scapy.layers.inet import TCP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrHopByHop, PadN, RouterAlert
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Raw

from hopscope.wire.records import Link
from support.packets.ioam_cases import NEW, OLD, OPTIONS, PAD, extension, insert, trace
from support.packets.packet_cases import TUNNELS, Packet
from support.packets.strip_cases import assert_same, mutants

pytestmark = pytest.mark.kernel

TRACE = trace([NEW, OLD], 0xF00000, 4, free=4)


def _packets() -> list[Packet]:
    return [
        Packet(6, protocol, payload, options=options, tags=tags, trailer=trailer)
        for protocol in (6, 17) for options in (False, True)
        for payload, tags, trailer in ((b"", 0, b""), (b"payload", 1, bytes(5)), (bytes(900), 2, b"\x01"))
    ]  # fmt: skip


def _pairs() -> list[tuple[bytes, bytes]]:
    """(packet, the same with IOAM)."""
    return [
        (packet.frame(), insert(packet.frame(), extension(option), 14 + 4 * packet.tags))
        for packet in _packets()
        for option in OPTIONS.values()
    ]


def _in_tunnels(packet: Packet, names: tuple[str, ...]) -> tuple[bytes, bytes]:
    """A packet in tunnels, and the same with IOAM in the innermost."""
    plain = replace(packet, tags=0, trailer=b"").frame()
    made = []
    for inside in (plain[14:], insert(plain, extension(TRACE))[14:]):
        type_, outer = 0x86DD, inside
        for name in names:
            type_, outer = packet.tunnel(name, type_, outer)
        made.append(plain[:12] + type_.to_bytes(2, "big") + outer)
    return made[0], made[1]


def _assert_restored(pairs: list[tuple[bytes, bytes]], link: int = Link.ETHERNET) -> None:
    found = assert_same([inserted for _, inserted in pairs], link=link)
    for (frame, inserted), one in zip(pairs, found, strict=True):
        assert one.frame == frame
        assert (one.removed, one.unverified) == (len(inserted) - len(frame), False)


def test_packets_are_as_their_source_got_them() -> None:
    """Traces and direct export, before TCP and UDP, other extension headers, tags and trailers."""
    _assert_restored(_pairs())
    _assert_restored([(a[14:], b[14:]) for a, b in _pairs() if a[12] == 0x86], Link.RAW_IP)


@pytest.mark.parametrize("l4", [TCP(sport=1, dport=443, flags="PA"), UDP(sport=1, dport=2)])
def test_packets_of_scapy(l4: TCP | UDP) -> None:
    """Packets whose lengths and checksums are Scapy's."""
    link = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    ip = IPv6(src="2001:db8::1", dst="2001:db8::2", hlim=9)
    frames = [bytes(link / ip / l4 / Raw(b"data")), bytes(link / Dot1Q(vlan=7) / ip / l4 / Raw(b"data"))]
    _assert_restored([
        (frames[0], insert(frames[0], extension(TRACE))), (frames[1], insert(frames[1], extension(TRACE), 18))
    ])  # fmt: skip


def test_tunnels() -> None:
    """IOAM in tunnels, and in the IPv6 header of a tunnel."""
    pairs = [_in_tunnels(packet, (name, *more)) for packet in _packets()[::3] for name in TUNNELS
             for more in ((), ("vxlan",), ("gre checksum",))]  # fmt: skip
    for name in TUNNELS:
        frame = Packet(6, 6, tunnels=(name,)).frame()
        pairs.append((frame, insert(frame, extension(TRACE))))
    _assert_restored(pairs)


@pytest.mark.parametrize("other", [PAD[3], b"\x05\x02\0\0"])
def test_a_header_with_other_options_stays(other: bytes) -> None:
    """Nothing states how it was padded before."""
    area = other + TRACE + b"\x01\x04" + bytes(4)
    header = bytes([17, (2 + len(area)) // 8 - 1]) + area
    assert len(header) % 8 == 0
    frame = insert(Packet(6, 17).frame(), header)
    (found,) = assert_same([frame])
    assert (found.frame, found.removed) == (frame, 0)


def test_a_destination_header_stays() -> None:
    """It is for the destination, not for the nodes on the path."""
    frame = bytearray(insert(Packet(6, 17).frame(), extension(TRACE)))
    frame[20] = 60
    assert assert_same([bytes(frame)])[0].frame == bytes(frame)


def test_no_ioam() -> None:
    """Hop-by-hop headers without IOAM stay, among them those of MLD."""
    link, ip = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02"), IPv6(dst="ff02::16")
    for options in ([RouterAlert()], [PadN(optdata=b"\0\0\0\0")]):
        frame = bytes(link / ip / IPv6ExtHdrHopByHop(options=options) / UDP() / Raw(b"data"))
        assert assert_same([frame])[0].frame == frame


def test_cut_and_mutated() -> None:
    """Frames cut at every byte, and mutants: as the oracle, and nothing outside is read or written."""
    frames = [inserted for _, inserted in _pairs() if len(inserted) < 600]
    frames += [_in_tunnels(_packets()[0], (name,))[1] for name in TUNNELS]
    cut = [frame[:end] for frame in frames[::9] for end in range(len(frame))]
    assert {one.removed > 0 for one in assert_same(cut)} == {True, False}
    found = assert_same(mutants(frames, 3, 3000))
    assert {(one.removed > 0, one.unverified) for one in found} >= {(0, 0), (1, 0), (1, 1)}
