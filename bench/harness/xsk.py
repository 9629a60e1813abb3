"""An AF_XDP socket in copy mode, as `hopscope.capture` would have one."""

from __future__ import annotations

import ctypes
import mmap
import os
import socket
import struct
import time

import numpy as np
import numpy.typing as npt

from harness.xsk_kernel import describe, refill
from hopscope.wire.records import FRAME, FrameBatch

_FAMILY, _LEVEL = 44, 283
_OFFSETS, _RX, _UMEM, _FILL, _COMPLETION = 1, 2, 4, 5, 6
_AT_FILL = 0x1_0000_0000
_COPY = 2
_CHUNK = 2048
_OFFSET_BYTES = 128
_BUSY_SECONDS = 0.01


class XskReceiver:
    """Receives what a program redirects to queue 0 of an interface; `entries` frames wait for it."""

    def __init__(self, interface: str, port: int, entries: int = 1 << 16) -> None:
        self._port = np.uint64(port)
        self._memory = mmap.mmap(
            -1, entries * _CHUNK, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
        )
        self.umem = np.frombuffer(self._memory, np.uint8)
        self._socket = socket.socket(_FAMILY, socket.SOCK_RAW, 0)
        self._set(_UMEM, struct.pack("QQIIII", self.umem.ctypes.data, len(self.umem), _CHUNK, 0, 0, 0))
        for ring in (_FILL, _COMPLETION, _RX):
            self._set(ring, struct.pack("I", entries))
        offsets = struct.unpack("16Q", self._socket.getsockopt(_LEVEL, _OFFSETS, _OFFSET_BYTES))
        self._got, self._read, taken = self._map(0, offsets[:4], entries * 16)
        self._given, _, self._room = self._map(_AT_FILL, offsets[8:12], entries * 8)
        self._taken = taken.reshape(entries, 2)
        self._room[:] = np.arange(entries, dtype=np.uint64) * np.uint64(_CHUNK)
        self._given[0] = entries
        self._frames = np.zeros(4096, FRAME)
        self._held = 0
        self._bind(socket.if_nametoindex(interface))

    def _set(self, option: int, value: bytes) -> None:
        self._socket.setsockopt(_LEVEL, option, value)

    def _map(
        self, at: int, offsets: tuple[int, ...], size: int
    ) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32], npt.NDArray[np.uint64]]:
        """Producer, consumer and entries of a ring."""
        producer, consumer, entries, _ = offsets
        memory = np.frombuffer(mmap.mmap(self._socket.fileno(), entries + size, offset=at), np.uint8)
        words = (memory[place : place + 4].view(np.uint32) for place in (producer, consumer))
        return next(words), next(words), memory[entries : entries + size].view(np.uint64)

    def _bind(self, index: int) -> None:
        """The socket before may still be on its way out."""
        address = struct.pack("HHIII", _FAMILY, _COPY, index, 0, 0)
        library = ctypes.CDLL(None, use_errno=True)
        for _ in range(500):
            if not library.bind(self._socket.fileno(), address, len(address)):
                return
            time.sleep(_BUSY_SECONDS)
        raise OSError(ctypes.get_errno(), f"AF_XDP: {os.strerror(ctypes.get_errno())}")

    def fileno(self) -> int:
        """Descriptor, for the program's map."""
        return self._socket.fileno()

    def receive(self) -> FrameBatch | None:
        """Datagrams to the port, if there are any; what the last batch held is given back."""
        read = int(self._read[0])
        if self._held:
            refill(self._room, np.uint64(self._given[0]), self._taken, np.uint64(read), self._held)
            self._given[0] = int(self._given[0]) + self._held & 0xFFFFFFFF
            read = read + self._held & 0xFFFFFFFF
            self._read[0] = read
        self._held = min(int(self._got[0]) - read & 0xFFFFFFFF, len(self._frames))
        if not self._held:
            return None
        count = describe(
            self.umem,
            self._taken,
            np.uint64(read),
            self._held,
            self._frames,
            self._port,
            np.uint64(time.time_ns()),
        )
        return FrameBatch(self.umem, self._frames[:count])

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
