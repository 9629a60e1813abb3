"""The XDP program of a wire: the same frames, byte for byte, and the same reports as the sink without it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from hopscope.bpf.wire_layout import UNREAD_PROTOCOLS, WireCount
from hopscope.wire.dialect import DIALECTS, Dialect
from hopscope.wire.records import Carrier, Hop, Link
from oracle.ifa import IfaForm, insert_ifa
from oracle.insert import Checksums, Form, insert_int
from support.packets.corpus import corpus
from support.packets.mutants import Mutator
from support.packets.packet_cases import Packet
from support.packets.wire_make import PACKETS, XDP_PASS, XDP_REDIRECT, Wire
from support.packets.xdp_make import built, frames_of

pytestmark = pytest.mark.kernel
HOPS = [Hop(node_id=1, hop_latency=7), Hop(node_id=2, hop_latency=9)]
PAYLOADS = (0, 1, 7, 99, 511, 512, 513, 1500, 3001)
BITMAPS = (0xA000, 0x8000, 0xFF80)


@pytest.fixture
def wire(tool: Callable[..., str]) -> Iterator[Wire]:
    """The program for the INT of the specification."""
    built(tool)
    made = Wire()
    yield made
    made.close()


def plain_packets() -> list[Packet]:
    """IPv4 and IPv6, TCP and UDP, with and without options, tags, checksums and trailers."""
    random = np.random.default_rng(1)
    return [
        Packet(version, protocol, random.bytes(size), dscp, options, check, tags, trailer, ())
        for version, protocol, size in product((4, 6), (6, 17), PAYLOADS)
        for dscp, options, check, tags, trailer in (
            (0, False, True, 0, b""), (0x20, version == 4, True, 2, bytes(5)), (10, False, False, 1, b"\x01"),
        )
    ]  # fmt: skip


def forms(protocol: int) -> list[Form]:
    """Every way of INT 2.x into TCP and UDP, by what happens to checksums."""
    own = Carrier.TCP if protocol == 6 else Carrier.UDP
    found = [Form(own, 0), Form(Carrier.UDP_INSERTED, 2)]
    if protocol == 6:
        found.append(Form(Carrier.UDP_INSERTED, 0, 20))
    else:
        found.append(Form(own, 1))
    return [replace(form, checksums=how) for form in found for how in Checksums]


def with_int(hops: int = 2, dialect: Dialect = PACKETS) -> list[bytes]:
    """All of these, in all forms."""
    return [
        insert_int(packet.frame(), HOPS[:1] * hops, BITMAPS[number % 3], form, dialect=dialect)
        for number, packet in enumerate(plain_packets())
        for form in forms(packet.protocol)
    ]


def test_plain_int_is_stripped(wire: Wire) -> None:
    """Plain packets with INT leave as the sink forwards them, and their heads are read as the whole frames;
    almost all are stripped here: UDP headers without a checksum and lengths have their exceptions.
    """
    frames = with_int()
    passage = wire.give(frames)
    assert wire.unlike(passage) == ""
    counts = wire.program.counts()
    assert counts[WireCount.STRIPPED] > 0.95 * len(passage.frames)
    assert counts[WireCount.STRIPPED] == passage.verdicts.count(XDP_REDIRECT)
    taken = [frame for frame, v in zip(passage.frames, passage.verdicts, strict=True) if v == XDP_REDIRECT]
    assert counts[WireCount.UNVERIFIED] == wire.stripped(taken)[1]


def test_the_longest_stacks(wire: Wire) -> None:
    """Every number of hops up to what a shim can say, and the whole of them is in the head."""
    packet = Packet(4, 17, bytes(300), 0, False, True, 0, b"", ())
    for hops in (0, 1, 5, 17, 24, 64):
        bitmap = 0xFF80 if hops < 18 else 0xA000
        passage = wire.give(
            [insert_int(packet.frame(), HOPS[:1] * hops, bitmap, form, dialect=PACKETS) for form in forms(17)]
        )
        assert wire.unlike(passage) == ""
        assert set(passage.verdicts) == {XDP_REDIRECT}
        assert set(passage.heads.reports["hop_count"].tolist()) == {hops}


def test_packets_without_int(wire: Wire) -> None:
    """Ordinary packets are redirected as they are, without a head."""
    frames = [replace(packet, dscp=packet.dscp % 0x20).frame() for packet in plain_packets()]
    frames += [bytes(12) + type_ + bytes(46) for type_ in (b"\x08\x06", b"\x88\xcc", b"\x00\x2e")]
    passage = wire.give(frames)
    assert wire.unlike(passage) == ""
    assert passage.out == passage.frames
    assert wire.program.counts()[WireCount.FORWARDED] == len(passage.frames)
    assert set(passage.verdicts) == {XDP_REDIRECT}


def test_ifa_is_passed_up(wire: Wire) -> None:
    """Packets with IFA are passed up unchanged, whatever they carry; protocols that are forwarded unread are
    those that `UNREAD_PROTOCOLS` names.
    """
    packets = [packet for packet in plain_packets() if len(packet.payload) < 512]
    frames = [insert_ifa(packet.frame(), IfaForm(), 14 + 4 * packet.tags) for packet in packets]
    passage = wire.give(frames)
    assert passage.out == passage.frames
    assert set(passage.verdicts) == {XDP_PASS}
    assert wire.program.counts()[WireCount.FORM] == len(frames)
    alone = [insert_ifa(Packet().frame(), IfaForm(protocol=protocol)) for protocol in range(256)]
    verdicts = wire.give(alone).verdicts
    redirected = [number for number, verdict in enumerate(verdicts) if verdict == XDP_REDIRECT]
    assert sorted({*redirected} - {6, 17}) == list(UNREAD_PROTOCOLS)


@pytest.mark.parametrize("name", ["spec", "bmv2", "int-0.4"])
def test_every_form_and_mutants(tool: Callable[..., str], name: str) -> None:
    """What the decoder of a dialect reads in any way, whole and damaged: passed up as it came, or forwarded
    as the sink does it.
    """
    built(tool)
    wire = Wire(replace(DIALECTS[name], packets=True, ports=()))
    seeds = [seed for seed in corpus(DIALECTS[name]) if seed.link == Link.ETHERNET]
    frames = [seed.raw for seed in seeds]
    passage = wire.give(frames)
    assert wire.unlike(passage) == ""
    mutants = Mutator(seeds, seed=7)
    for block in range(3):
        passage = wire.give(frames_of(mutants.block(1000 * block, 1000)))
        assert wire.unlike(passage) == ""
    assert {XDP_PASS, XDP_REDIRECT} == set(passage.verdicts)
    wire.close()


def test_mutants_of_plain_int(wire: Wire) -> None:
    """Plain packets with one to three bytes changed, and cut at every byte."""
    frames, random = [frame for frame in with_int() if len(frame) < 400], np.random.default_rng(3)
    mutants = []
    for number in random.integers(0, len(frames), 6000).tolist():
        raw = bytearray(frames[number])
        for at in random.integers(12, min(len(raw), 120), random.integers(1, 4)).tolist():
            raw[at] = (
                random.integers(0, 256)
                if random.random() < 0.5
                else raw[at] ^ 1 << int(random.integers(0, 8))
            )
        mutants.append(bytes(raw))
    stripped = 0
    for at in range(0, len(mutants), 2000):
        passage = wire.give(mutants[at : at + 2000])
        assert wire.unlike(passage) == ""
        stripped += len(passage.heads.reports)
    assert len(mutants) / 10 < stripped < len(mutants)
    assert wire.program.counts()[WireCount.UNVERIFIED]
    passage = wire.give([frame[:end] for frame in frames[::60] for end in range(14, len(frame))])
    assert wire.unlike(passage) == ""


def test_a_checksum_left_to_a_card_goes_up(wire: Wire) -> None:
    """A checksum that holds only the sum of the pseudo header, of packets with INT and without."""
    given = []
    for version, protocol in product((4, 6), (6, 17)):
        plain = Packet(version, protocol, bytes(range(100)), 0, False, True, 0, b"", ()).frame()
        carrier = Carrier.TCP if protocol == 6 else Carrier.UDP
        for frame in (plain, insert_int(plain, HOPS, 0xA000, Form(carrier, 0), dialect=PACKETS)):
            first, l4 = (26, 34) if version == 4 else (22, 54)
            total = protocol + len(frame) - l4
            total += sum(int.from_bytes(frame[at : at + 2], "big") for at in range(first, l4, 2))
            total = (total & 0xFFFF) + (total >> 16)
            at = l4 + (16 if protocol == 6 else 6)
            given.append(frame[:at] + ((total & 0xFFFF) + (total >> 16)).to_bytes(2, "big") + frame[at + 2 :])
    passage = wire.give(given)
    assert set(passage.verdicts) == {XDP_PASS}
    assert wire.program.counts()[WireCount.CHECKSUM] == len(given) == 8


def test_frames_longer_than_the_output_takes(tool: Callable[..., str]) -> None:
    """The length without INT counts, with 4 bytes more for an 802.1Q tag; the rest is passed up."""
    built(tool)
    wire = Wire(mtu=500)
    plain = Packet(4, 17, bytes(472), 0, False, True, 0, b"", ()).frame()
    tagged = plain[:12] + bytes.fromhex("81000007") + plain[12:]
    assert len(plain) == 514
    stripped = insert_int(plain, HOPS, 0xA000, Form(Carrier.UDP, 0), dialect=PACKETS)
    passage = wire.give([plain, stripped, plain + b"1", stripped + b"1", tagged, tagged + b"1"])
    assert passage.verdicts == [4, 4, 2, 2, 4, 2]
    assert wire.unlike(passage) == ""
    assert wire.program.counts()[WireCount.LONG] == 3
    wire.close()


def test_a_full_ring_stops_nothing(tool: Callable[..., str]) -> None:
    """Without room for heads frames go on without their INT, and the missing heads are counted."""
    built(tool)
    wire = Wire(ring_bytes=1 << 16)
    frame = insert_int(
        Packet(4, 17, bytes(64), 0, False, True, 0, b"", ()).frame(),
        HOPS,
        0xA000,
        Form(Carrier.UDP, 0),
        dialect=PACKETS,
    )
    passage = wire.give([frame] * 600)
    assert set(passage.verdicts) == {XDP_REDIRECT}
    counts = wire.program.counts()
    assert counts[WireCount.STRIPPED] == len(passage.frames)
    assert counts[WireCount.LOST_HEAD] == len(passage.frames) - len(passage.heads.reports) > 0
    assert len(set(passage.out)) == 1
    assert wire.heads.receive() is None, "what was read gives its place back"
    assert wire.give([frame]).heads.reports["reason"].tolist() == [0]
    wire.close()


def test_off(tool: Callable[..., str]) -> None:
    """Before it is on, and when the output cannot send, everything is passed up; with `strip` off, INT stays
    in the frames, and the heads come.
    """
    built(tool)
    wire = Wire(strip=False)
    frames = with_int()[:20]
    passage = wire.give(frames)
    assert passage.out == passage.frames
    assert len(passage.heads.reports) == passage.verdicts.count(XDP_REDIRECT) > 15
    wire.program.turn_on(0)
    assert set(wire.give(frames).verdicts) == {XDP_PASS}
    counts, redirected = wire.program.counts(), passage.verdicts.count(XDP_REDIRECT)
    assert counts[WireCount.OFF] == len(frames)
    assert (counts[WireCount.KEPT], counts[WireCount.FORWARDED]) == (redirected, 0)
    taken = (f for f, verdict in zip(frames, passage.verdicts, strict=True) if verdict == XDP_REDIRECT)
    assert wire.program.forwarded_bytes == sum(map(len, taken))
    wire.close()
