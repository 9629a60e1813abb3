"""The software switch's kernel against a plain switch, and what packets are like after several of them."""

from __future__ import annotations

import random

import numpy as np
import pytest

from hopscope.labels.records import PortCounter
from hopscope.labels.registers import Registers
from hopscope.settings.label import LabellingSettings
from hopscope.testbed.forwarder import Forwarder, RoutingTables
from hopscope.wire.headers.ethernet import checksum
from hopscope.wire.label.codec import LabelFlow, push_label, read_blocks, read_labels, restore
from hopscope.wire.label.layout import LabelItem
from support.network.switch_cases import NOW, PORTS, ROOM, TO_HOST, T, assert_as_twin, forwarder, move, routes
from support.packets.packet_cases import V4, V6, Packet
from support.packets.wire_cases import frame_batch

pytestmark = pytest.mark.kernel


def _packets(rng: random.Random, count: int) -> list[bytes]:
    """Packets for both hosts, some labelled, some damaged."""
    out = []
    for _ in range(count):
        packet = Packet(
            version=rng.choice((4, 4, 6)), protocol=rng.choice((6, 17, 1)),
            payload=rng.randbytes(rng.randrange(90)), options=rng.random() < 0.2,
            tags=rng.choice((0, 0, 1)), trailer=rng.choice((b"", b"trailer")),
        )  # fmt: skip
        frame = packet.frame()
        tracked = rng.random() < 0.2
        for _ in range(rng.choice((0, 0, 1, 2, 3))):
            item = LabelItem(rng.getrandbits(32), 1, 2, rng.getrandbits(60), 7, 8)
            frame = push_label(frame, item, max_hop=3, tracked=tracked)
        if rng.random() < 0.3:
            broken = bytearray(frame)
            broken[rng.randrange(12, min(60, len(broken)))] = rng.choice((0, 255, 253, rng.randrange(256)))
            frame = bytes(broken[: rng.choice((len(broken), rng.randrange(len(broken))))])
        out.append(frame)
    return out


@pytest.mark.parametrize("ingress", [0, 1, 3])
def test_as_a_plain_switch(ingress: int) -> None:
    """Every packet leaves as the scalar codec would have labelled or restored it, in both directions; of
    what comes in, every frame is sent or counted.
    """
    assert_as_twin(ingress, _packets(random.Random(ingress), 400))


@pytest.mark.parametrize("version", [4, 6])
def test_through_two_switches(version: int) -> None:
    """Labels of the whole path reach the controller, newest first; the host gets the packet as it was sent,
    and Reg1 and the counters say who labelled. Within T no one labels again, by Base B those that carry one.
    """
    registers = Registers.create(None, PORTS, T)
    switch = forwarder(registers, chance="f2", protocol=200)
    frame = Packet(version=version, trailer=b"pad").frame()
    first = move(switch, 0, [frame])
    ((egress, (labelled,)),) = first.frames.items()
    assert egress in (1, 2)
    assert read_labels(labelled, max_hop=3, protocol=200) is not None
    second = move(switch, 3, [labelled], NOW + 900)
    assert second.frames == {4: [frame]}
    ((block,), error) = read_blocks(second.blocks[0], max_hop=3)
    assert error is None
    assert block.path() == (
        LabelItem(1, 1, PORTS[egress][1], NOW, 500), LabelItem(2, 1, 2, NOW + 900, 500),
    )  # fmt: skip
    assert (block.next_header, block.tracked) == (17, False)
    assert registers.last.tolist() == [0] * egress + [NOW] + [0] * (3 - egress) + [NOW + 900]
    again = move(switch, 0, [frame, frame], NOW + T)
    assert again.frames == {egress: [frame, frame]}
    assert registers.counters[:, PortCounter.LABELS].sum() == 2
    assert registers.counters[4, [PortCounter.RESTORED, PortCounter.EXPORTED]].tolist() == [1, 2]


def test_registers_are_obeyed() -> None:
    """Reg2 shortens the interval and the bit labels all; loss drops what was labelled, in its share."""
    registers = Registers.create(None, PORTS, T)
    switch = forwarder(registers, algorithm="base-a")
    frame = Packet(version=4).frame()
    registers.last[:] = NOW - T // 4
    assert move(switch, 3, [frame]).blocks == []
    registers.set_shift(2, 2, 3)
    assert len(move(switch, 3, [frame, frame]).blocks) == 1
    registers.flag[registers.row(2, 2)] = 1
    (datagram,) = move(switch, 3, [frame] * 5).blocks
    assert len(read_blocks(datagram)[0]) == 5
    registers.set_loss(2, 2, 0.25)
    sent = len(move(switch, 3, [frame] * 500).frames[4])
    assert 340 < sent < 410
    assert registers.count(PortCounter.LOST)[4] == 500 - sent


def test_tracked_flows() -> None:
    """Every third packet of a tracked flow is labelled by all its switches, by Base A too; no other is."""
    registers = Registers.create(None, PORTS, T)
    registers.last[:] = NOW
    settings = LabellingSettings(interval=T / 1e9, max_hop=3, algorithm="base-a")
    switch = Forwarder(registers, routes(), TO_HOST, settings)
    registers.track(V4[0], V4[1], 3)
    frame, other = Packet().frame(), Packet(version=6).frame()
    ((_, sent),) = move(switch, 0, [frame, other] * 6).frames.items()
    assert [one not in (frame, other) for one in sent] == [False] * 4 + [True] + [False] * 5 + [True] + [
        False
    ]
    (datagram,) = move(switch, 3, sent).blocks
    blocks, _ = read_blocks(datagram, max_hop=3)
    assert [(one.tracked, [item.node_id for item in one.path()]) for one in blocks] == [(True, [1, 2])] * 2
    assert [one.flow for one in blocks] == [LabelFlow(V4[0], V4[1], 17, 40_000, 53_000)] * 2
    registers.untrack(V4[0], V4[1])
    assert [*move(switch, 0, [frame, other] * 6).frames.values()] == [[frame, other] * 6]
    registers.track(V6[0], V6[1], 1)
    ((_, sent),) = move(switch, 0, [frame, other]).frames.items()
    assert [one in (frame, other) for one in sent] == [True, False]


def test_a_table_of_chances() -> None:
    """Base B by a table in the settings: certain with one label in the second half of the interval, never
    before, nor without a label.
    """
    registers = Registers.create(None, PORTS, T)
    switch = forwarder(registers, chance_table=[[0, 0], [0, 1], [1, 1]])
    bare = Packet().frame()
    labelled = push_label(bare, LabelItem(1, 1, 2, NOW, 7, 8), max_hop=3)
    for share, labels in ((0.2, 1), (0.49, 1), (0.51, 2), (0.99, 2)):
        registers.last[4] = NOW - int(share * T)
        (datagram,) = move(switch, 3, [labelled]).blocks
        ((block,), _) = read_blocks(datagram, max_hop=3)
        assert len(block.path()) == labels, share
        registers.last[4] = NOW - int(share * T)
        assert move(switch, 3, [bare]).blocks == []


def test_other_routes() -> None:
    """With other tables, packets leave by other ports; without a next hop they are counted as unrouted."""
    registers = Registers.create(None, PORTS, T)
    registers.last[:] = NOW
    switch = forwarder(registers, algorithm="base-a")
    frames = [Packet(version=version, payload=bytes([n])).frame() for n in range(20) for version in (4, 6)]
    addresses = [(V4[0], 0), (V4[1], 1), (V6[0], 0), (V6[1], 1)]
    for hops in ([1], [2]):
        switch.set_routes(RoutingTables(addresses, {(1, 1): hops}))
        assert move(switch, 0, frames).frames == {hops[0]: frames}
    switch.set_routes(RoutingTables(addresses, {(1, 0): [0]}))
    assert move(switch, 0, frames).frames == {}
    assert registers.counters[0, PortCounter.UNROUTED] == len(frames)


def test_too_long_packets() -> None:
    """A packet that a label makes too long is sent without one, or in two fragments, of which the first has
    the label; restored alone, they are fragments of the original. DF and IPv6 are never cut.
    """
    packet = Packet(payload=bytes(range(256)) * 5)
    frame = packet.frame()
    whole = frame[:20] + b"\x40" + frame[21:24] + b"\0\0" + frame[26:]
    whole = whole[:24] + checksum(whole[14:34]).to_bytes(2, "big") + whole[26:]
    six = Packet(version=6, payload=bytes(1240)).frame()
    for setting in ("skip", "fragment"):
        registers = Registers.create(None, PORTS, T)
        registers.flag[:] = True
        switch = forwarder(registers, too_long=setting)
        ((egress, sent),) = move(switch, 0, [frame, whole, six, Packet().frame()], mtu=1320).frames.items()
        counted = registers.counters[egress]
        if setting == "skip":
            assert sent[:3] == [frame, whole, six]
            assert counted[PortCounter.TOO_LONG] == 3
            continue
        assert (counted[PortCounter.TOO_LONG], counted[PortCounter.FRAGMENTED]) == (2, 1)
        assert sent[2:4] == [whole, six]
        assert [len(one) <= 14 + 1320 for one in sent] == [True] * 5
        assert read_labels(sent[0], max_hop=3) is not None
        assert read_labels(sent[1], max_hop=3) is None
        parts = [restore(one, max_hop=3) for one in sent[:2]]
        assert [checksum(part[14:34]) for part in parts] == [0, 0]
        flags = [int.from_bytes(part[20:22], "big") for part in parts]
        assert flags == [0x2000, (len(parts[0]) - 34) // 8]
        assert b"".join(part[34:] for part in parts) == frame[34:]
        assert move(switch, 3, sent[:2]).frames == {4: parts}
        (again, rest) = move(switch, 3, [parts[0], parts[1]], mtu=1320).frames[4]
        assert (again, rest) == (parts[0], parts[1])


@pytest.mark.parametrize("setting", ["skip", "fragment"])
def test_every_frame_is_counted(setting: str) -> None:
    """Damaged frames, short slots, few of them, any MTU, loss: a frame is sent, in one piece or two, or one
    counter says why not; nothing is written outside the slots, and no byte around a frame is looked at.
    """
    rng = random.Random(11)
    frames = _packets(rng, 600)
    for mtu, room, free in ((1500, 600, 700), (140, 600, 700), (120, 100, 700), (300, 400, 20), (1500, 0, 9)):
        seen = []
        for filler in (0x00, 0xFF):
            registers = Registers.create(None, PORTS, T)
            registers.flag[:] = [0, 1, 0, 1, 1]
            for node, number in PORTS:
                registers.set_loss(node, number, 0.1)
            switch = forwarder(registers, too_long=setting)
            out = []
            for ingress in (0, 1, 3, 4):
                batch = frame_batch(frames, gap=50, filler=filler)
                rows = switch.route(batch, ingress)
                for egress in range(len(PORTS)):
                    arena = np.full(free * 700, 0xAA, np.uint8)
                    slots = np.arange(free, dtype=np.uint64) * 700
                    lengths = switch.forward(
                        batch, rows, egress, arena, slots, room=room, mtu=mtu, now_ns=NOW
                    )
                    for at, size in zip(slots.tolist(), lengths.tolist(), strict=False):
                        assert size <= room
                        assert (arena[at + size : at + 700] == 0xAA).all()
                    out.append(arena.tobytes())
                switch.exports()
            total = dict(zip(PortCounter, registers.counters.sum(axis=0).tolist(), strict=True))
            dropped = (PortCounter.LOST, PortCounter.NO_ROOM, PortCounter.DAMAGED, PortCounter.UNROUTED)
            assert total[PortCounter.RECEIVED] + total[PortCounter.FRAGMENTED] == (
                total[PortCounter.SENT] + sum(total[one] for one in dropped)
            )
            assert (total[PortCounter.FRAGMENTED] > 0) == (setting == "fragment" and mtu == 140)
            seen.append((out, registers.counters.tolist()))
        assert seen[0] == seen[1]


def test_a_full_port_and_foreign_labels() -> None:
    """What finds no slot is dropped and counted, and not labelled; labels that a host sends are rejected."""
    registers = Registers.create(None, PORTS, T)
    registers.flag[:] = True
    switch = forwarder(registers)
    frame = Packet().frame()
    ((egress, sent),) = move(switch, 0, [frame] * 5, free=2).frames.items()
    assert len(sent) == 2
    assert registers.counters[egress, [PortCounter.NO_ROOM, PortCounter.LABELS]].tolist() == [3, 2]
    assert move(switch, 0, [sent[0]]).frames == {}
    assert registers.count(PortCounter.DAMAGED)[0] == 1
    for _ in range(3):  # nothing reads the datagrams
        batch = frame_batch([frame] * 10_000)
        rows = switch.route(batch, 3)
        arena, slots = np.zeros(10_000 * 128, np.uint8), np.arange(10_000, dtype=np.uint64) * 128
        switch.forward(batch, rows, 4, arena, slots, room=128, mtu=1500, now_ns=NOW)
    counted = registers.counters[4, [PortCounter.EXPORTED, PortCounter.UNSENT]].tolist()
    assert counted[1] > 0
    assert sum(counted) == 30_000
    assert sum(len(read_blocks(one)[0]) for one in switch.exports()) == counted[0]
    longer = Packet(payload=bytes(ROOM)).frame()
    assert move(switch, 3, [longer]).frames == {4: []}


def test_a_host_needs_room_for_the_restored_packet_alone() -> None:
    """The last hop's slot is as large as a host's longest packet: the same packet with labels comes through,
    and one that is longer itself is counted.
    """
    registers = Registers.create(None, PORTS, T)
    longest, longer = (Packet(payload=bytes(size)).frame() for size in (1000, 1001))
    labelled = [push_label(one, LabelItem(9), max_hop=3) for one in (longest, longer)]
    moved = move(forwarder(registers), 3, labelled, room=len(longest))
    assert moved.frames == {4: [longest]}
    assert registers.count(PortCounter.NO_ROOM).tolist() == [0, 0, 0, 0, 1]


def test_flows_keep_their_path() -> None:
    """Packets of one flow take one of the equal paths, labelled or not; flows take both."""
    switch = forwarder(Registers.create(None, PORTS, T))
    ways = set()
    for port in range(40):
        frame = bytearray(Packet().frame())
        frame[34:36] = port.to_bytes(2, "big")
        labelled = push_label(bytes(frame), LabelItem(9), max_hop=3)
        one, other = switch.route(frame_batch([bytes(frame)]), 0), switch.route(frame_batch([labelled]), 1)
        assert one.tolist() == other.tolist()
        ways |= set(one.tolist())
    assert ways == {1, 2}
