"""Odd frames, and lengths around the MTU, through the software switch's kernel: as through a plain switch."""

from __future__ import annotations

import random

import numpy as np
import pytest

from hopscope.labels.records import PortCounter
from hopscope.labels.registers import Registers
from hopscope.settings.label import LabellingSettings
from hopscope.testbed.forwarder import Forwarder
from hopscope.wire.label.codec import push_label, read_blocks, read_labels, restore
from hopscope.wire.label.layout import LabelItem
from support.network.switch_cases import (
    NOW,
    PORTS,
    TO_HOST,
    T,
    assert_as_twin,
    cut,
    forwarder,
    ip_at,
    length_of,
    move,
    routes,
    with_ip,
)
from support.packets.packet_cases import V4, Packet
from support.packets.wire_cases import frame_batch

pytestmark = pytest.mark.kernel

MTU = 600
FIRST = 20 + (MTU - 20 - 2 - 3 * 32) // 8 * 8
"""IP bytes of a first fragment with room for 3 labels."""
SIZES = (
    20, 28, FIRST - 1, FIRST, FIRST + 1, FIRST + 8, MTU - 35, MTU - 34, MTU - 33, MTU - 27, MTU - 26, MTU - 1,
    MTU, MTU + 1, 2 * MTU,
)  # fmt: skip
"""IP bytes of packets: around all limits that a switch knows."""


def _sized(size: int, tags: int = 0, trailer: bytes = b"") -> bytes:
    """An IPv4 packet of `size` bytes."""
    return Packet(
        protocol=1, payload=random.Random(size).randbytes(size - 20), tags=tags, trailer=trailer
    ).frame()


def _odd() -> list[bytes]:
    """Right IP packets of which none is ordinary."""
    out = []
    for version in (4, 6):
        out += [Packet(version=version, protocol=protocol).frame() for protocol in (0, 1, 59, 255)]
        out += [
            Packet(version=version, protocol=0, payload=b"", trailer=one).frame() for one in (b"", bytes(26))
        ]
        for tags in (1, 2):
            out += [Packet(version=version, tags=tags, options=one).frame() for one in (False, True)]
            out.append(Packet(version=version, tags=tags, payload=b"", protocol=1).frame())
            service = Packet(version=version, tags=tags, payload=bytes(9)).frame()
            out.append(service[:12] + b"\x88\xa8" + service[14:])
    plain, six = Packet().frame(), bytearray(Packet(version=6).frame())
    out += [with_ip(plain, ttl=ttl) for ttl in (0, 1, 255)]
    for limit in (0, 1, 255):
        six[14 + 7] = limit
        out.append(bytes(six))
    out += [with_ip(plain, flags=flags) for flags in (0x2000, 0x1FFF, 0x3FFF, 0x8000, 0x4000)]
    out += [with_ip(plain, checksum=value) for value in (0, 1, 0xFFFE, 0xFFFF)]
    return out


def _empty_option(frame: bytes) -> bytes:
    """The packet with an option that counts no labels."""
    labelled = push_label(frame, LabelItem(9), max_hop=3)
    ip = ip_at(frame)
    if frame[ip] >> 4 == 6:
        at, short = ip + 40, bytearray(labelled)
        short[ip + 4 : ip + 6] = (length_of(labelled) - 40 - 32).to_bytes(2, "big")
        return bytes(short[: at + 1]) + b"\0" + labelled[at + 34 :]
    at = ip + (frame[ip] & 15) * 4
    cut = with_ip(labelled, length=length_of(labelled) - 32)
    return cut[: at + 1] + b"\0" + labelled[at + 34 :]


@pytest.mark.parametrize("ingress", [0, 1, 3])
def test_odd_frames(ingress: int) -> None:
    """Protocol 0, no payload, TTL 0 and 1, VLAN tags of both kinds, fragments, checksums that are none: what
    the switch writes of them, labelled before or not, is what the plain one writes.
    """
    frames = _odd()
    right = [one for one in frames if one[24:26] != b"\xff\xff"]
    labels = [LabelItem(9, time_ns=count) for count in range(4)]
    for count in (1, 3, 4):
        for tracked in (False, True):
            some = right
            for item in labels[: count if tracked else min(count, 3)]:
                some = [push_label(one, item, max_hop=3, tracked=tracked) for one in some]
            frames = frames + some
    frames += [_empty_option(one) for one in right]
    assert assert_as_twin(ingress, frames) == 0


@pytest.mark.parametrize("fragment", [False, True])
def test_sizes_around_the_mtu(fragment: bool) -> None:
    """Packets of all lengths around the MTU, with up to two VLAN tags (which it does not count) and with a
    trailer: labelled, sent without, or cut as RFC 791 says, at MTUs of every remainder by 8 and at some that
    have hardly or no room for a first fragment. Labelled packets are never cut.
    """
    frames = [_sized(size, tags) for size in SIZES for tags in (0, 1, 2)]
    frames += [_sized(size, trailer=b"end") for size in SIZES]
    frames += [
        with_ip(_sized(size), flags=flags) for size in SIZES for flags in (0x2000, 0x0007, 0x4000, 0x8000)
    ]
    frames += [
        Packet(version=6, protocol=1, payload=bytes(size - 40)).frame() for size in SIZES if size >= 40
    ]
    frames += [
        Packet(protocol=1, payload=bytes(size - 24), options=True).frame() for size in SIZES if size > 23
    ]
    carrying = [push_label(_sized(size), LabelItem(9), max_hop=3) for size in SIZES]
    frames += carrying + [push_label(one, LabelItem(8), max_hop=3) for one in carrying]
    for mtu in (*range(MTU, MTU + 8), 118, 126, 68):
        cuts = assert_as_twin(0, frames[: len(frames) - 2 * len(SIZES)], mtu, fragment=fragment)
        assert (cuts > 0) == (fragment and mtu >= 126)
        assert_as_twin(1, frames, mtu, fragment=fragment)


def test_forged_fragments_are_not_cut() -> None:
    """A fragment that ends beyond 65,535 bytes is never cut: the second offset would run into the flags, and
    say "don't fragment" or "more fragments". One that ends there is.
    """
    frame = _sized(1000)
    last = (65_535 - 1000) // 8
    good, forged = [0, 1, last - 1, last], [last + 1, 0x1FFF - 60, 0x1FFF - 59, 0x1FFF]
    for more in (0, 0x2000):
        frames = [with_ip(frame, flags=more | offset) for offset in good + forged]
        assert assert_as_twin(0, frames, MTU, fragment=True) == len(good)


def test_the_longest_packets() -> None:
    """No label makes per packet longer than its length can say, whatever the MTU is."""
    for longer, too_long in ((_sized(65_501), 0), (_sized(65_502), 1), (_sized(65_535), 1)):
        registers = Registers.create(None, PORTS, T)
        registers.flag[:] = True
        batch, switch = frame_batch([longer]), forwarder(registers)
        arena, slots = np.zeros(70_000, np.uint8), np.zeros(1, np.uint64)
        (row,) = rows = switch.route(batch, 0)
        lengths = switch.forward(batch, rows, row, arena, slots, room=70_000, mtu=70_000, now_ns=NOW)
        out = arena[: lengths[0]].tobytes()
        assert registers.count(PortCounter.TOO_LONG)[row] == too_long
        assert len(out) == len(longer) + 34 * (1 - too_long)
        assert restore(out, max_hop=3) == longer


def test_tracked_packets_over_the_mtu() -> None:
    """As in the simulation, a tracked packet is cut at its first label to where MAX_hop labels have room:
    all switches label what stays, and none cuts again or labels beyond the MTU. What was cut off carries no
    count, and is nothing that the next switches follow.
    """
    registers = Registers.create(None, PORTS, T)
    registers.last[:] = NOW
    settings = LabellingSettings(interval=T / 1e9, max_hop=3, algorithm="base-a", too_long="fragment")
    switch = Forwarder(registers, routes(), TO_HOST, settings)
    registers.track(V4[0], V4[1], 1)
    frame = _sized(MTU)
    ((_, (first, second)),) = move(switch, 0, [frame], mtu=MTU).frames.items()
    labelled = read_labels(first, max_hop=3)
    assert labelled is not None
    assert labelled.tracked
    assert (restore(first, max_hop=3), second) == cut(frame, MTU)
    hops = [first]
    for _ in range(3):
        ((egress, sent),) = move(switch, 1, [hops[-1], second], mtu=MTU).frames.items()
        assert sent[1] == second
        hops.append(sent[0])
    assert [length_of(one) for one in hops] == [FIRST + 34, FIRST + 66, FIRST + 98, FIRST + 98]
    assert registers.counters[egress, [PortCounter.FRAGMENTED, PortCounter.TOO_LONG]].tolist() == [1, 1]
    moved = move(switch, 3, [hops[-1], second], mtu=MTU)
    assert moved.frames == {4: [restore(first, max_hop=3), second]}
    ((block,), _) = read_blocks(moved.blocks[0], max_hop=3)
    assert [item.node_id for item in block.path()] == [1, 1, 1, 2]
