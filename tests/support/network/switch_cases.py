"""A fabric of two switches, frames through one of them, and the plain switch that they are compared with."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from hopscope.labels.records import PortCounter
from hopscope.labels.registers import Registers
from hopscope.settings.label import LabellingSettings
from hopscope.testbed.forwarder import Forwarder, RoutingTables
from hopscope.wire.errors import WireError
from hopscope.wire.headers.ethernet import checksum
from hopscope.wire.label.codec import LabelFlow, push_flow, push_label, read_labels, restore
from hopscope.wire.label.layout import LabelItem
from support.packets.packet_cases import V4, V6
from support.packets.wire_cases import frame_batch

PORTS = [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2)]
"""Switch 1 has a host at its port 1 and two ways to switch 2, whose port 2 leads to the other host."""
TO_HOST = [True, False, False, False, True]
T = 1_000_000
ROOM = 4096
NOW = 10 * T


def routes() -> RoutingTables:
    addresses = [(V4[0], 0), (V4[1], 1), (V6[0], 0), (V6[1], 1)]
    return RoutingTables(addresses, {(1, 0): [0], (1, 1): [1, 2], (2, 0): [3], (2, 1): [4]})


def forwarder(registers: Registers, **labelling: object) -> Forwarder:
    settings = LabellingSettings.model_validate({"interval": T / 1e9, "max_hop": 3, **labelling})
    return Forwarder(registers, routes(), TO_HOST, settings)


@dataclass
class Moved:
    """What left a switch."""

    frames: dict[int, list[bytes]] = field(default_factory=dict)
    """By egress port."""
    blocks: list[bytes] = field(default_factory=list)


def move(
    switch: Forwarder, ingress: int, frames: list[bytes], now: int = NOW, mtu: int = 1600, free: int = 600,
    room: int = ROOM,
) -> Moved:  # fmt: skip
    """Frames through a switch, with `free` slots at every egress port; each came in 500 ns before."""
    batch, out = frame_batch(frames, gap=3, filler=0xEE), Moved()
    batch.frames["time_ns"] = now - 500
    rows = switch.route(batch, ingress)
    for egress in sorted(set(rows.tolist()) - {-1}):
        arena = np.full(free * ROOM, 0xAA, np.uint8)
        slots = np.arange(free, dtype=np.uint64) * ROOM
        lengths = switch.forward(batch, rows, egress, arena, slots, room=room, mtu=mtu, now_ns=now)
        places = zip(slots.tolist(), lengths.tolist(), strict=False)
        out.frames[egress] = [arena[at : at + size].tobytes() for at, size in places]
        for at, size in zip(slots.tolist(), lengths.tolist(), strict=False):
            assert (arena[at + size : at + ROOM] == 0xAA).all()
    out.blocks = switch.exports()
    return out


def ip_at(frame: bytes) -> int:
    """Offset of the IP header behind any VLAN tags."""
    at = 12
    while frame[at : at + 2] in (b"\x81\0", b"\x88\xa8"):
        at += 4
    return at + 2


def with_ip(frame: bytes, **values: int) -> bytes:
    """An IPv4 packet with other flags (16 bits, offset included), ttl or protocol, and its right checksum; a
    checksum can be given too.
    """
    out, ip = bytearray(frame), ip_at(frame)
    for name, value in values.items():
        at, size = {
            "flags": (6, 2),
            "ttl": (8, 1),
            "protocol": (9, 1),
            "length": (2, 2),
            "checksum": (10, 2),
        }[name]
        out[ip + at : ip + at + size] = value.to_bytes(size, "big")
    if "checksum" not in values:
        out[ip + 10 : ip + 12] = bytes(2)
        header = bytes(out[ip : ip + (out[ip] & 15) * 4])
        out[ip + 10 : ip + 12] = checksum(header).to_bytes(2, "big")
    return bytes(out)


def length_of(frame: bytes) -> int:
    """IP bytes of a packet, by its header."""
    ip = ip_at(frame)
    six = frame[ip] >> 4 == 6
    return 40 * six + int.from_bytes(frame[ip + 2 + 2 * six : ip + 4 + 2 * six], "big")


def cut(frame: bytes, mtu: int) -> tuple[bytes, bytes] | None:
    """Two fragments of a packet without labels, by RFC 791: the first with room for 3 labels; None where it
    cannot be cut.
    """
    ip = ip_at(frame)
    if frame[ip] != 0x45:
        return None
    flags, whole = int.from_bytes(frame[ip + 6 : ip + 8], "big"), length_of(frame)
    data, blocks = frame[ip + 20 : ip + whole], (mtu - 20 - 2 - 3 * 32) // 8
    forged = (flags & 0x1FFF) * 8 + whole > 65_535
    if flags & 0x4000 or blocks < 1 or len(data) <= blocks * 8 or forged:
        return None
    first = with_ip(frame[: ip + 20], flags=flags | 0x2000, length=20 + blocks * 8)
    again = (flags & 0xE000) | ((flags & 0x1FFF) + blocks)
    second = with_ip(frame[: ip + 20], flags=again, length=whole - blocks * 8)
    return first + data[: blocks * 8], second + data[blocks * 8 :]


def flow_block(frame: bytes) -> bytes:
    """The flow of a packet, as a last hop tells it; fragments and other protocols are without ports."""
    whole = restore(frame, max_hop=3)
    ip = ip_at(whole)
    six = whole[ip] >> 4 == 6
    at, size = (ip + 8, 16) if six else (ip + 12, 4)
    ends = [(0 if six else 0xFFFF << 32) | int.from_bytes(whole[at + i * size : at + (i + 1) * size], "big")
            for i in range(2)]  # fmt: skip
    behind = ip + (40 if six else (whole[ip] & 15) * 4)
    part = not six and int.from_bytes(whole[ip + 6 : ip + 8], "big") & 0x3FFF
    protocol = whole[ip + 6] if six else whole[ip + 9]
    ports = bytes(4)
    if protocol in (6, 17) and not part and behind + 4 <= ip + length_of(whole):
        ports = whole[behind : behind + 4]
    out = bytearray()
    sport, dport = (int.from_bytes(ports[i : i + 2], "big") for i in (0, 2))
    push_flow(out, LabelFlow(ends[0], ends[1], protocol, sport, dport))
    return bytes(out)


def twin(
    frame: bytes, labels: bool, row: int, ingress: int, queued: int, mtu: int, fragment: bool
) -> tuple[list[bytes], bytes, bool]:
    """(frames, block, too long) that leave a plain switch which `labels` this packet where it can."""
    item, to_host = LabelItem(PORTS[row][0], PORTS[ingress][1], PORTS[row][1], NOW, 500, queued), TO_HOST[row]
    after = frame
    if labels:
        with suppress(WireError):
            after = push_label(frame, item, max_hop=3)
    if to_host:
        found = read_labels(after, max_hop=3)
        block = after[found.at : found.end] if found and found.items else b""
        if block and found and found.tracked:
            block = flow_block(frame) + block
        return [restore(after, max_hop=3)], block, False
    if after == frame or length_of(after) <= mtu:
        return [after], b"", False
    parts = cut(frame, mtu) if fragment and read_labels(frame, max_hop=3) is None else None
    if parts is None:
        return [frame], b"", True
    return [push_label(parts[0], item, max_hop=3), parts[1]], b"", False


def assert_as_twin(ingress: int, frames: list[bytes], mtu: int = 1600, *, fragment: bool = False) -> int:
    """Through the kernel, frames become what the twin makes of them, and the counters say so; how many were
    cut. Once no port is due, once all are.
    """
    rows = forwarder(Registers.create(None, PORTS, T)).route(frame_batch(frames), ingress).tolist()
    cuts = 0
    for every in (False, True):
        registers = Registers.create(None, PORTS, T)
        registers.last[:] = NOW  # by the interval none is due
        registers.flag[:] = every
        switch = forwarder(registers, algorithm="base-a", too_long="fragment" if fragment else "skip")
        moved = move(switch, ingress, frames, mtu=mtu)
        expected: dict[int, list[bytes]] = {}
        blocks, parts, too_long = b"", 0, 0
        for frame, row in zip(frames, rows, strict=True):
            if row < 0:
                continue
            assert PORTS[row][0] == PORTS[ingress][0]
            found = read_labels(frame, max_hop=3)
            due = every or (found is not None and found.tracked)
            sent = expected.setdefault(row, [])
            out, block, refused = twin(frame, due, row, ingress, sum(map(len, sent)), mtu, fragment)
            sent += out
            blocks += block
            parts += len(out) - 1
            too_long += refused
        assert moved.frames == expected
        assert b"".join(moved.blocks) == blocks
        counted = registers.counters.sum(axis=0)
        sent_frames = sum(map(len, expected.values()))
        assert counted[PortCounter.RECEIVED] == len(frames)
        refused = counted[PortCounter.DAMAGED] + counted[PortCounter.UNROUTED]
        assert sent_frames + refused == len(frames) + parts
        assert counted[PortCounter.SENT] == sent_frames
        assert counted[PortCounter.SENT_BYTES] == sum(len(one) for many in expected.values() for one in many)
        assert (counted[PortCounter.FRAGMENTED], counted[PortCounter.TOO_LONG]) == (parts, too_long)
        cuts += parts
    return cuts
