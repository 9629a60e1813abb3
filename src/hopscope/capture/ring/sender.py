"""Sends frames through a transmit ring (TPACKET_V3), many with one system call."""

from __future__ import annotations

import errno
import mmap
import os
import socket
import struct
from contextlib import suppress

import numpy as np
import numpy.typing as npt

from ..errors import CaptureError
from ..interface import address_of, has_carrier, mtu_of
from ..layout import SLOT_HEADER, VNET_BYTES, SlotAt
from ..sockets import require_linux
from .socket import SOL_PACKET, TPACKET_V3, VERSION, VNET_HDR

_TX_RING, _QDISC_BYPASS = 13, 20
_SO_SNDBUFFORCE = 32
_AVAILABLE, _SEND_REQUEST = 0, 1
_HEADER, _TAG = 14, 4
_SMALLEST_SLOT = 2048
_BLOCK_BYTES = 1 << 17
_GONE = (errno.ENETDOWN, errno.ENXIO, errno.ENODEV)
_MARKS = 8
_AGAIN = (0, errno.EAGAIN, errno.ENOBUFS, errno.EINTR)


class RingSender:
    """Sends frames that were written into slots of `arena`, in the order of the slots; never blocks.

    Frames that the interface does not take at once wait in the ring until the next call of `send` or `flush`;
    `slots` gives the remaining room. A frame for an interface that is down or gone, or has no carrier, is
    dropped: without a carrier, the kernel accepts frames and silently discards them. The kernel copies whole
    frames: sending one directly from the ring would cost 700 ns at a veth instead of 510.
    """

    def __init__(self, interface: str, *, ring_bytes: int = 1 << 23, bypass: bool = False) -> None:
        """`bypass`: past the interface's queueing discipline (PACKET_QDISC_BYPASS). Raises CaptureError."""
        require_linux()
        self.interface = interface
        self.sent = 0
        """Frames that the interface took."""
        self.dropped = 0
        """Frames dropped because the interface was down or gone, or had no carrier."""
        self.rejected = 0
        """Frames that the interface cannot send: shorter than their header, or longer than its MTU allows."""
        self.marked = np.zeros(_MARKS, np.int64)
        """Frames that the interface took, by their mark."""
        try:
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)
        except PermissionError as error:
            raise CaptureError(
                f"{interface}: sending frames needs root or the capability CAP_NET_RAW"
            ) from error
        try:
            self._open(ring_bytes, bypass)
        except OSError as error:
            self._socket.close()
            if error.errno == errno.ENODEV:
                raise CaptureError(f"{interface}: this machine has no such interface") from error
            raise CaptureError(f"{interface}: {error.strerror or error}") from error

    def _open(self, ring_bytes: int, bypass: bool) -> None:
        from .ring_kernel import close_gaps

        self._close_gaps = close_gaps
        handle = self._socket
        handle.bind((self.interface, 0))
        self._index = socket.if_nametoindex(self.interface)
        self._most = 1 << 16
        self._read_mtu()
        slot = _SMALLEST_SLOT
        while slot < SLOT_HEADER + self.room:
            slot *= 2
        self._most = slot - SLOT_HEADER
        block = max(slot, _BLOCK_BYTES)
        blocks = max(1, ring_bytes // block)
        total = blocks * block // slot
        handle.setsockopt(SOL_PACKET, VERSION, TPACKET_V3)
        handle.setsockopt(SOL_PACKET, VNET_HDR, 1)
        handle.setsockopt(SOL_PACKET, _TX_RING, struct.pack("<7I", block, blocks, slot, total, 0, 0, 0))
        if bypass:
            handle.setsockopt(SOL_PACKET, _QDISC_BYPASS, 1)
        try:
            handle.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, 2 * blocks * block)
        except OSError:
            handle.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * blocks * block)
        flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
        ring = np.frombuffer(mmap.mmap(handle.fileno(), blocks * block, flags), np.uint8)
        self.arena: npt.NDArray[np.uint8] = ring
        """The mapped ring, writable."""
        words = ring.view(np.uint32).reshape(total, slot // 4)
        self._lengths, self._statuses = words[:, SlotAt.LENGTH // 4], words[:, SlotAt.STATUS // 4]
        self._copied = ring.view(np.uint16).reshape(total, slot // 2)[:, SlotAt.HEADER_LENGTH // 2]
        self._total = total
        self._slots = ring.reshape(total, slot)[:, SLOT_HEADER:]
        self._marks = np.zeros(total, np.uint8)
        self._offsets = np.arange(total, dtype=np.uint64) * slot + SLOT_HEADER
        self._first = self._next = 0
        self._waiting = 0
        close_gaps(ring, self._offsets[:0], np.zeros(0, np.uint32))  # loads the kernel

    def _read_mtu(self) -> None:
        self.longest = min(mtu_of(self.interface, self._socket) + _HEADER, self._most)
        """Bytes of the longest frame that the interface takes, without an 802.1Q tag."""
        self.room = min(self.longest + _TAG, self._most)
        """Bytes of the longest frame."""

    @property
    def address(self) -> bytes:
        """Ethernet address of the interface, 6 bytes. Raises OSError."""
        return address_of(self.interface, self._socket)

    @property
    def waiting(self) -> int:
        """Frames in the ring that the interface has not taken yet."""
        return self._waiting

    @property
    def waiting_bytes(self) -> int:
        """Bytes of these frames."""
        if not self._waiting:
            return 0
        lengths = self._lengths[self._places(self._first, self._waiting)]
        return int(lengths.sum(dtype=np.int64)) - VNET_BYTES * self._waiting

    def slots(self, n: int) -> npt.NDArray[np.uint64]:
        """Where to write the next frames, as indices in the arena: at most n, fewer if the ring is full.
        Returns the same slots until `send` is called.
        """
        n = min(n, self._total - self._waiting)
        places = self._places(self._next, n)
        busy = np.flatnonzero(self._statuses[places] != _AVAILABLE)
        return self._offsets[places[: busy[0]] if len(busy) else places]

    def _places(self, first: int, n: int) -> npt.NDArray[np.int64]:
        """Numbers of n slots."""
        return (first + np.arange(n)) % self._total

    def send(self, lengths: npt.NDArray[np.uint32], marks: npt.NDArray[np.uint8] | None = None) -> int:
        """Send the frames in the first slots that `slots` gave, with their lengths (0: skip the slot), and a
        mark below 8 for each by which it is counted.

        Returns how many were sent, including frames that had waited. Raises CaptureError if the interface
        fails.
        """
        self._put(lengths, marks)
        return self.flush()

    def send_rows(self, rows: npt.NDArray[np.uint8]) -> int:
        """Copy frames of one length, uint8 [frames, bytes], into the ring as far as there is room, and send
        them; returns how many. Raises CaptureError.
        """
        count, length = len(self.slots(len(rows))), rows.shape[1]
        before = min(count, self._total - self._next)  # the others begin again at the first slot
        self._slots[self._next : self._next + before, :length] = rows[:before]
        self._slots[: count - before, :length] = rows[before:count]
        self.send(np.full(count, length, np.uint32))
        return count

    def _put(self, lengths: npt.NDArray[np.uint32], marks: npt.NDArray[np.uint8] | None) -> None:
        """Ask the kernel to send. Frames that cannot be sent are closed up, since the kernel stops at gaps;
        it does not check the MTU itself.
        """
        if not len(lengths):
            return
        with suppress(OSError):  # removed: `flush` finds out
            self._read_mtu()
        offsets = self._offsets[self._places(self._next, len(lengths))]
        wrong = (lengths < _HEADER) | (lengths > self.longest)
        if wrong.any():
            wrong &= ~self._tagged(offsets, lengths)
            self.rejected += int(np.count_nonzero(wrong & (lengths != 0)))
            lengths = np.where(wrong, np.uint32(0), lengths)
            marks = None if marks is None else marks[lengths != 0]
            lengths = lengths[: self._close_gaps(self.arena, offsets, lengths)]
        places = self._places(self._next, len(lengths))
        self._marks[places] = 0 if marks is None else marks
        self._copied[places] = lengths
        self._lengths[places] = lengths + VNET_BYTES
        self._statuses[places] = _SEND_REQUEST
        self._next = (self._next + len(lengths)) % self._total
        self._waiting += len(lengths)

    def _tagged(
        self, offsets: npt.NDArray[np.uint64], lengths: npt.NDArray[np.uint32]
    ) -> npt.NDArray[np.bool_]:
        """Which frames are too long only by the 802.1Q tag that they have: the kernel accepts these."""
        tagged = (self.arena[offsets + 12] == 0x81) & (self.arena[offsets + 13] == 0)
        return tagged & (lengths > self.longest) & (lengths <= self.room)

    def flush(self) -> int:
        """Retry waiting frames; returns how many were sent. Raises CaptureError."""
        before = self.sent
        if self._waiting and not self._has_carrier():
            self._give_up()
        while waiting := self._waiting:
            error = self._kick()
            self._reap()
            if not self._waiting or (not error and self._waiting < waiting):
                continue
            if error in _GONE and not self._bind_again():
                self._give_up()
            elif error in _GONE:
                continue
            elif error in _AGAIN:
                break
            else:
                raise CaptureError(f"{self.interface}: sending failed ({os.strerror(error)})")
        return self.sent - before

    def _bind_again(self) -> bool:
        """Bind to a new interface with this name; False: there is none, or it is the same."""
        try:
            index = socket.if_nametoindex(self.interface)
            if index == self._index:
                return False
            self._socket.bind((self.interface, 0))
        except OSError:
            return False
        self._index = index
        return True

    def _has_carrier(self) -> bool:
        """Whether the interface is up and has a carrier."""
        with suppress(OSError):
            return has_carrier(self.interface, self._socket)
        return True  # removed: `_kick` finds out

    def _give_up(self) -> None:
        """Drop waiting frames."""
        self.dropped += self._waiting
        self._statuses[self._places(self._first, self._waiting)] = _AVAILABLE
        self._next, self._waiting = self._first, 0

    def _kick(self) -> int:
        """Have the kernel send requested frames; returns errno, 0 for none."""
        try:
            self._socket.send(b"", socket.MSG_DONTWAIT)
        except OSError as error:
            return error.errno or errno.EIO
        return 0

    def _reap(self) -> None:
        """Count the frames that the kernel has taken, in the order of the slots."""
        places = self._places(self._first, self._waiting)
        left = np.flatnonzero(self._statuses[places] == _SEND_REQUEST)
        taken = int(left[0]) if len(left) else self._waiting
        self.marked += np.bincount(self._marks[places[:taken]], minlength=_MARKS)
        self.sent += taken
        self._waiting -= taken
        self._first = (self._first + taken) % self._total

    def close(self) -> None:
        """Close the socket; waiting frames are not sent."""
        self.dropped += self._waiting
        self._waiting = 0
        self._socket.close()
