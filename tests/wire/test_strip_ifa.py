"""What a sink makes of packets with IFA: the packets that their source got, byte for byte."""

from __future__ import annotations

from dataclasses import replace

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Raw

from hopscope.wire.decode.decoder import Decoder
from hopscope.wire.decode.plain import decode_plain
from hopscope.wire.records import Carrier, Link
from hopscope.wire.rewrite.strip_batch import Stripper
from oracle.ifa import IfaForm, insert_ifa
from oracle.insert import Checksums, Form, insert_int
from oracle.strip import Restored
from support.packets.packet_cases import TUNNELS, Packet
from support.packets.strip_cases import HOPS, SPEC, assert_same, mutants
from support.packets.wire_cases import frame_batch, frames_of

pytestmark = pytest.mark.kernel

FORMS = (
    IfaForm(), IfaForm(nodes=0), IfaForm(nodes=31), IfaForm(inband=False), IfaForm(checksum=True),
    IfaForm(udp_length=True), IfaForm(udp_length=True, checksum=True, nodes=5),
)  # fmt: skip


def _packets() -> list[Packet]:
    return [
        Packet(version, protocol, payload, dscp, options, check, tags, trailer)
        for version in (4, 6)
        for protocol in (6, 17)
        for payload, dscp, options, check, tags, trailer in (
            (b"", 0, False, True, 0, b""), (b"payload", 0x20, True, True, 2, bytes(5)),
            (bytes(range(99)), 10, False, False, 1, b"\x01"), (bytes(1400), 0x17, False, True, 0, b""),
        )
    ]  # fmt: skip


def _pairs() -> list[tuple[bytes, bytes]]:
    """(packet, the same with IFA)."""
    found = []
    for packet in _packets():
        for form in FORMS:
            if form.checksum and packet.protocol == 17 and not form.udp_length:
                continue  # its own length leaves the stack out
            frame = packet.frame()
            found.append((frame, insert_ifa(frame, form, 14 + 4 * packet.tags)))
    return found


def _all_restored(pairs: list[tuple[bytes, bytes]], found: list[Restored]) -> None:
    assert len(found) == len(pairs)
    for (frame, inserted), one in zip(pairs, found, strict=True):
        assert one.frame == frame
        assert one.removed == len(inserted) - len(frame)
        assert not one.unverified


def test_packets_are_as_their_source_got_them() -> None:
    """TCP and UDP over IPv4 and IPv6 with and without options, tags, checksums and trailers; up to 31 nodes;
    whatever the source does with length and checksum of TCP and UDP.
    """
    pairs = _pairs()
    _all_restored(pairs, assert_same([inserted for _, inserted in pairs]))
    alone = [(frame[14:], inserted[14:]) for frame, inserted in pairs if frame[12] == 8]
    _all_restored(alone, assert_same([inserted for _, inserted in alone], link=Link.RAW_IP))


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("l4", [TCP(sport=1, dport=443, flags="PA", seq=9), UDP(sport=1, dport=2)])
def test_packets_of_scapy(version: int, l4: TCP | UDP) -> None:
    """Packets whose lengths and checksums are Scapy's, with and without a VLAN tag; their TTL stays."""
    ip = IP(src="10.0.0.1", dst="10.0.0.2", ttl=9, tos=0x28) if version == 4 else IPv6(hlim=9)
    pairs = []
    for tagged in (False, True):
        link = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
        frame = bytes((link / Dot1Q(vlan=7) if tagged else link) / ip / l4 / Raw(b"GET / HTTP/1.1"))
        pairs.append((frame, insert_ifa(frame, IfaForm(), 18 if tagged else 14)))
    _all_restored(pairs, assert_same([inserted for _, inserted in pairs]))


def _in_tunnels(packet: Packet, form: IfaForm, names: tuple[str, ...]) -> tuple[bytes, bytes]:
    """A packet in tunnels, and the same with IFA in the innermost."""
    plain = replace(packet, tags=0, trailer=b"", tunnels=()).frame()
    made = []
    for inside in (plain[14:], insert_ifa(plain, form)[14:]):
        type_, outer = int.from_bytes(plain[12:14], "big"), inside
        for name in names:
            type_, outer = packet.tunnel(name, type_, outer)
        made.append(plain[:12] + type_.to_bytes(2, "big") + outer)
    return made[0], made[1]


def test_tunnels() -> None:
    """IFA in tunnels, and around the UDP header of a tunnel: lengths and checksums outside are restored."""
    pairs = []
    for packet in _packets()[::2]:
        for name in TUNNELS:
            for names in ((name,), (name, "vxlan"), (name, "gtp_u", "gre checksum")):
                pairs += [_in_tunnels(packet, form, names) for form in (FORMS[0], FORMS[6])]
            if not name.startswith("gre") and name != "ip_in_ip":
                around = replace(packet, tunnels=(name,), tags=0).frame()
                pairs.append((around, insert_ifa(around, FORMS[0])))
    _all_restored(pairs, assert_same([inserted for _, inserted in pairs]))


def test_int_and_ifa_in_one_capture() -> None:
    """Each is removed; with another protocol for IFA, 253 is ordinary traffic."""
    plain = [Packet(4, 17).frame(), Packet(6, 6).frame(), Packet(4, 6).frame()]
    frames = [
        insert_int(plain[0], HOPS, 0xA000, dialect=SPEC), insert_ifa(plain[1], IfaForm()),
        insert_int(plain[2], HOPS, 0xA000, Form(Carrier.TCP, 0, checksums=Checksums.LEAVE), dialect=SPEC),
        plain[0], insert_ifa(plain[2], IfaForm()),
    ]  # fmt: skip
    assert [one.frame for one in assert_same(frames)] == [*plain, plain[0], plain[2]]
    other = replace(SPEC, ifa_protocol=200)
    kept = assert_same([frames[1], insert_ifa(plain[1], IfaForm(protocol=200))], other)
    assert [one.frame for one in kept] == [frames[1], plain[1]]
    assert not assert_same([frames[1]], replace(SPEC, ifa_protocol=0))[0].removed


def test_ifa_around_int() -> None:
    """Only the outer telemetry is removed, as with INT in INT."""
    inner = insert_int(Packet().frame(), HOPS, 0xA000, dialect=SPEC)
    assert assert_same([insert_ifa(inner, IfaForm())])[0].frame == inner


@pytest.mark.parametrize(
    ("at", "value", "form"),
    [
        (34, 0x2E, "namespace"), (36, 0x14, "fragments"), (36, 0x0C, "tail stamp"), (36, 5, "checksum"),
        (34 + 4 + 8 + 3, 15, "odd stack"), (34 + 4 + 8 + 3, 248, "long stack"),
    ],
)  # fmt: skip
def test_what_cannot_be_removed_stays(at: int, value: int, form: str) -> None:
    """Forms that are not decoded, and damage, are passed on unchanged, and counted."""
    raw = bytearray(insert_ifa(Packet().frame(), IfaForm()))
    raw[at] = value
    batch = frame_batch([bytes(raw)])
    stripper = Stripper(SPEC)
    out = stripper.strip(batch, decode_plain(batch, SPEC))
    assert frames_of(out) == [bytes(raw)], form
    assert (stripper.stripped, stripper.damaged, stripper.passed) == (0, 1, 0)


def test_a_checksum_that_is_wrong_stays_wrong() -> None:
    """Damage before the sink is visible after it."""
    frame = bytearray(Packet().frame())
    frame[-1] ^= 0x40
    (found,) = assert_same([insert_ifa(bytes(frame), IfaForm())])
    assert (found.frame, found.unverified) == (bytes(frame), True)


def test_cut_and_mutated() -> None:
    """Frames cut at every byte, and mutants: as the oracle, and nothing outside is read or written."""
    frames = [inserted for _, inserted in _pairs() if len(inserted) < 600]
    for packet in _packets()[::5]:
        frames += [_in_tunnels(packet, FORMS[0], (name,))[1] for name in TUNNELS]
    cut = [frame[:end] for frame in frames[::9] for end in range(len(frame))]
    assert {one.removed > 0 for one in assert_same(cut)} == {True, False}
    found = assert_same(mutants(frames, 3, 3000))
    assert {(one.removed > 0, one.unverified) for one in found} == {(0, 0), (1, 0), (1, 1)}


def test_both_decoders_leave_the_same_trails() -> None:
    """The compiled decoder's trails of packets with IFA are those of its source, uncompiled."""
    frames = [inserted for _, inserted in _pairs()]
    batch = frame_batch(frames)
    trails = Decoder(SPEC).decode(batch, trails=True).trails
    plain = decode_plain(batch, SPEC).trails
    counts = trails[0, : len(frames)] & 0xFF
    assert counts.min() >= 2
    for frame, count in enumerate(counts.tolist()):
        assert trails[: count + 1, frame].tolist() == plain[: count + 1, frame].tolist()
