"""A receive ring of slots (TPACKET_V2), to compare with the blocks that Hopscope uses."""

from __future__ import annotations

import mmap
import socket
import struct

import numpy as np

from hopscope.capture.ring.listener import FRAMES
from hopscope.capture.ring.socket import SOL_PACKET, VERSION, VNET_HDR, dropped
from hopscope.wire.records import FRAME, FrameBatch, Link, Records

from .slots_kernel import walk_slots

_TPACKET_V2 = 1
_RX_RING, _IGNORE_OUTGOING, _ALL_PROTOCOLS = 5, 23, 3
_BLOCK_BYTES = 1 << 17


class SlotListener:
    """Every frame in a slot of its own, which is readable at once."""

    def __init__(self, interface: str, ring_bytes: int, slot_bytes: int) -> None:
        self._interface, self._bytes, self._slot = interface, ring_bytes, slot_bytes
        self._frames: Records = np.zeros(FRAMES, FRAME)
        self._state = np.zeros(2, np.uint64)
        self._drops = 0

    def open(self) -> None:
        """Make the ring and map it."""
        self._socket = handle = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)
        handle.setsockopt(SOL_PACKET, VERSION, _TPACKET_V2)
        handle.setsockopt(SOL_PACKET, VNET_HDR, 1)
        handle.setsockopt(SOL_PACKET, _IGNORE_OUTGOING, 1)
        counts = (_BLOCK_BYTES, self._bytes // _BLOCK_BYTES, self._slot, self._bytes // self._slot)
        handle.setsockopt(SOL_PACKET, _RX_RING, struct.pack("<4I", *counts))
        flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
        self._ring = np.frombuffer(mmap.mmap(handle.fileno(), self._bytes, flags), np.uint8)
        handle.bind((self._interface, _ALL_PROTOCOLS))

    def receive(self) -> FrameBatch | None:
        """Receive up to 4096 frames; None if none came. Valid until the next call."""
        count = int(
            walk_slots(self._ring, self._frames, self._state, np.uint64(self._slot), int(Link.ETHERNET))
        )
        return FrameBatch(self._ring, self._frames[:count]) if count else None

    def counts(self) -> dict[str, int]:
        """The kernel's drops."""
        self._drops += dropped(self._socket)
        return {"kernel_drops_total": self._drops}

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
