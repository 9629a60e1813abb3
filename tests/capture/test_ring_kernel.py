"""The walk over a receive ring against a plain one, on rings that no kernel has to fill."""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from hopscope.capture.layout import RING_SETUP_SLOTS, RING_SLOTS, BlockAt, Ring, RingSetup
from hopscope.wire.records import FRAME

pytestmark = pytest.mark.kernel
BLOCK = 4096
BLOCKS = 5
HEAD = 64
FIRST = 96


@dataclass
class Packet:
    """A packet as the kernel describes it, and what is to come of it."""

    octets: bytes
    tag: tuple[int, int] | None = None
    """TPID (0: not told), TCI."""
    partial: tuple[int, int] | None = None
    """Where its checksum is summed from, and where it stands from there."""
    outgoing: bool = False
    cut: bool = False
    time_ns: int = 0

    def wanted(self) -> bytes | None:
        """The frame that it is, plainly; None where it is left out."""
        if self.outgoing or self.cut:
            return None
        octets = bytearray(self.octets)
        if self.partial is not None:
            at, offset = self.partial
            if at + offset + 2 <= len(octets) and offset != 8:
                summed = bytes(octets[at:]) + b"\0" * ((len(octets) - at) % 2)
                total = sum(struct.unpack(f">{len(summed) // 2}H", summed))
                while total >> 16:
                    total = (total & 0xFFFF) + (total >> 16)
                octets[at + offset : at + offset + 2] = struct.pack(
                    ">H", (~total & 0xFFFF) or (0xFFFF if offset == 6 else 0)
                )
        if self.tag is not None and len(octets) >= 12:
            octets[12:12] = struct.pack(">HH", self.tag[0] or 0x8100, self.tag[1])
        return bytes(octets)

    def header(self, following: int, start: int) -> bytes:
        """struct tpacket3_hdr, sockaddr_ll."""
        status = 1 if self.tag is None else 0x11 | (0x40 if self.tag[0] else 0)
        tpid, tci = self.tag or (0, 0)
        seconds, rest = divmod(self.time_ns, 10**9)
        whole = len(self.octets) + self.cut
        words = struct.pack(
            "<6I2HIIHH8x",
            following,
            seconds,
            rest,
            len(self.octets),
            whole,
            status,
            start,
            0,
            0,
            tci,
            tpid,
            0,
        )
        return words + struct.pack("<HHiHBB8x", 17, 3, 1, 1, 4 if self.outgoing else 0, 6)

    def vnet(self) -> bytes:
        """struct virtio_net_hdr."""
        return struct.pack("<BBHHHH", self.partial is not None, 0, 0, 0, *(self.partial or (0, 0)))


@dataclass
class Kernel:
    """What fills blocks, in order, as long as they are its own."""

    ring: np.ndarray
    block: int = 0
    given: list[Packet] = field(default_factory=list)

    def fill(self, draw: random.Random) -> bool:
        """Fill the next block; False where it is not handed back."""
        base = self.block * BLOCK
        if self.ring[base + BlockAt.STATUS]:
            return False
        assert not self.ring[base + BlockAt.TAKEN : base + BlockAt.TAKEN + 8].any()
        at, packets = base + FIRST, []
        while draw.random() < 0.9:
            packet = drawn(draw)
            start = 82 + draw.randrange(3) * 4
            size = (start + len(packet.octets) + 7) & ~7
            if at + size > base + BLOCK:
                break
            self._put(at, packet.header(size, start))
            self._put(at + start - 10, packet.vnet())
            self._put(at + start, packet.octets)
            at += size
            packets.append(packet)
        self._put(base + BlockAt.PACKETS, struct.pack("<II", len(packets), FIRST))
        self._put(base + BlockAt.STATUS, struct.pack("<I", 1 | draw.choice((0, 32))))
        self.given += packets
        self.block = (self.block + 1) % BLOCKS
        return True

    def _put(self, at: int, octets: bytes) -> None:
        self.ring[at : at + len(octets)] = np.frombuffer(octets, np.uint8)


def drawn(draw: random.Random) -> Packet:
    """A packet of any kind."""
    octets = draw.randbytes(draw.choice((0, 11, 12, 14, 60, draw.randrange(1500))))
    return Packet(
        octets,
        tag=(draw.choice((0, 0x8100, 0x88A8)), draw.randrange(65536)) if draw.random() < 0.3 else None,
        partial=(draw.randrange(80), draw.choice((0, 6, 8, 16))) if draw.random() < 0.4 else None,
        outgoing=draw.random() < 0.1,
        cut=draw.random() < 0.1,
        time_ns=draw.randrange(2**32) * 10**9 + draw.randrange(10**9),
    )


def walker(room: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, Any]:
    """A ring, frames, state, and a function that walks once."""
    from hopscope.capture.ring.ring_kernel import walk

    ring, frames = np.zeros(BLOCKS * BLOCK, np.uint8), np.zeros(room, FRAME)
    setup, state = np.zeros(RING_SETUP_SLOTS, np.uint64), np.zeros(RING_SLOTS, np.uint64)
    setup[RingSetup.BLOCKS], setup[RingSetup.BLOCK_BYTES], setup[RingSetup.MOST] = BLOCKS, BLOCK, 2
    return ring, frames, state, lambda: walk(ring, frames, setup, state, 1)


@pytest.mark.parametrize("seed", range(8))
def test_it_is_the_plain_walk(seed: int) -> None:
    """Frames, times, tags, checksums and counts are those of a plain reading, whatever the ring holds and
    whenever it is looked at; every block is handed back once, and in order.
    """
    draw = random.Random(seed)
    ring, frames, state, walk = walker(room=draw.choice((1, 3, 50)))
    kernel, got = Kernel(ring), []
    for _ in range(60):
        for _ in range(draw.randrange(BLOCKS + 1)):
            kernel.fill(draw)
        for _ in range(draw.randrange(20)):
            got += read(ring, frames, walk())
            assert state[Ring.DONE] <= 2
    while any(ring[BlockAt.STATUS :: BLOCK]):
        got += read(ring, frames, walk())
    wanted = [(packet.time_ns, packet.wanted()) for packet in kernel.given if packet.wanted() is not None]
    assert len(wanted) > 100
    assert got == wanted
    assert state[Ring.OVERSIZED] == sum(packet.cut for packet in kernel.given)
    assert not any(ring[BlockAt.STATUS :: BLOCK])


def read(ring: np.ndarray, frames: np.ndarray, count: int) -> list[tuple[int, bytes]]:
    """Times and bytes of what was described."""
    return [
        (int(frame["time_ns"]), ring[int(frame["offset"]) :][: int(frame["length"])].tobytes())
        for frame in frames[:count]
    ]


def test_nothing_outside_a_block_is_read() -> None:
    """Packets of a damaged ring that do not lie in their block are counted, and the walk goes on."""
    draw = random.Random(1)
    for _ in range(200):
        ring, frames, state, walk = walker(room=50)
        kernel = Kernel(ring)
        while not kernel.given or kernel.block == 0:
            kernel.block = 0
            ring[:] = 0
            kernel.given.clear()
            kernel.fill(draw)
        for _ in range(3):  # next, length, start, or number of packets
            at = draw.choice((FIRST, FIRST + 12, FIRST + 16, FIRST + 24, BlockAt.FIRST, BlockAt.PACKETS))
            kernel._put(at, struct.pack("<H", draw.randrange(2**16)))
        for _ in range(3000):
            for frame in frames[: walk()]:
                assert frame["offset"] >= HEAD
                assert frame["offset"] + frame["length"] <= BLOCK
            if state[Ring.BLOCK] == 1:
                break
        assert state[Ring.BLOCK] == 1
        walk()
        assert not ring[BlockAt.STATUS]
