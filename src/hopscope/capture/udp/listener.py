"""UDP listener: datagrams become frames in one arena, without an object per packet.

Receiving does not block; a caller that finds nothing sleeps for half a millisecond, since a wake-up costs
more than processing a datagram.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress

import numpy as np
import numpy.typing as npt

from ...settings.listen import ListenSettings
from ...settings.source import url
from ...wire.records import FRAME, FrameBatch, Records
from ..errors import CaptureError
from ..layout import CONTROL_BYTES, IOVEC, MMSGHDR, NAME_BYTES, SETUP_SLOTS, UNPACK_SLOTS, Setup, Unpack
from ..limits import RateLimit, source_ranges
from ..sockets import bind_share, enable_gro, granted_buffer, kernel_drops
from .counted_drops import SocketDrops
from .sender import UdpSender

__all__ = ["UdpListener", "UdpSender", "bind_share"]

MESSAGES = 512
"""Maximum number of messages per receive call."""
FRAMES = 4096
"""Maximum number of frames in one batch."""
SLOT_BYTES = 2112
"""Every message begins in a slot of this size, which holds a datagram of an Ethernet frame; all slots are in
one huge page. Compared with a buffer of 64 KiB for each message, a worker takes 8 % less time for 500 single
datagrams after a sleep, since it has fewer pages to find.
"""
TRAIN_BYTES, SINGLE_BYTES = 65_536, 9_216
"""Maximum length of a message, with and without trains. What does not fit into the slot goes to a room."""
_APART = 320
"""Bytes between rooms: if a room took a multiple of 4096, all rooms would begin in one set of the cache."""
_HUGE_PAGE = 2 * 1024 * 1024
_TOUCHED = 16_384
"""Bytes of each message's room that are resident from the start: a page's first touch costs some µs."""
_ROUNDS = 64
_MSG_DONTWAIT = 0x40
_GOT, _NEXT, _AT = int(Unpack.MESSAGES), int(Unpack.NEXT), int(Unpack.AT)
_COUNTERS = {
    "kernel_drops_total": Unpack.DROPS,
    "denied_frames_total": Unpack.DENIED,
    "rate_limited_frames_total": Unpack.LIMITED,
    "oversized_frames_total": Unpack.OVERSIZED,
}


class UdpListener:
    """Datagrams of one UDP socket, as frames (Link.UDP_PAYLOAD).

    Memory: 10 MiB of the arena are resident from the start, at most 34 MiB when long trains arrive; 6.5 MiB
    without trains. All frames of a batch have the time of the receive call, which is late by at most a pause
    of the caller. Time stamps for each datagram (SO_TIMESTAMPNS) would add 20 to 60 ns to 530 ns.
    """

    def __init__(
        self,
        settings: ListenSettings,
        worker: int = 0,
        workers: int = 1,
        sock: socket.socket | None = None,
        drops: SocketDrops | None = None,
    ) -> None:
        """`sock`: this worker's socket, from `bind_share`; without it, `open` binds one of `workers`.

        `drops`: the counted drops of `sock`, which may have been open before; this listener updates them.
        """
        self.settings = settings
        self.worker = worker
        self.workers = workers
        self._socket = sock
        self._ranges = source_ranges(settings.allow)
        self._limit = RateLimit(
            settings.rate_limit, settings.rate_burst, ipv6_prefix=settings.rate_ipv6_prefix
        )
        self.port = settings.port
        """UDP port; after `open` even if the kernel chose it."""
        self._state = np.zeros(UNPACK_SLOTS, np.uint64)
        self._drops = drops or SocketDrops()
        self._state[Unpack.DROPS_SEEN] = self._drops.before
        self._words = self._state.data  # a plain number costs a quarter of NumPy's
        self._received = 0
        self._wanted = MESSAGES
        self._finished = False
        self._time_ns = 0

    def open(self) -> None:
        """Compile, allocate, then bind, so that no datagram waits meanwhile. Raises CaptureError."""
        self.prepare()
        if self._socket is None:
            self._socket = bind_share(self.settings.model_copy(update={"workers": self.workers}), self.worker)
        self._file = self._socket.fileno()
        self._bound(self._socket)

    def prepare(self) -> None:
        """Compile and allocate, without a socket."""
        self._setup = np.zeros(SETUP_SLOTS, np.uint64)
        frames: Records = np.zeros(FRAMES, FRAME)
        self._frames = frames.view()
        self._frames.flags.writeable = False
        self._load(frames)
        self._describe()

    def _load(self, frames: Records) -> None:
        """Set up the kernel function that describes datagrams in `frames`, and its parameters."""
        from ...base.kernels.jit import readonly
        from .udp_kernel import unpack

        self._allocate(TRAIN_BYTES if self.settings.gro else SINGLE_BYTES)
        self._limit.write_setup(self._setup)
        self._unpack: Callable[..., int] = unpack
        self._unpacking = (
            self._arena,
            self._bytes,
            self._messages,
            self._names,
            self._controls,
            frames,
            readonly(self._ranges),
            self._limit.buckets,
            self._setup,
            self._state,
        )

    def _bound(self, handle: socket.socket) -> None:
        """Called once the socket is bound."""
        self.port = int(handle.getsockname()[1])
        self._setup[Setup.PORT] = self.port

    def _allocate(self, longest: int) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._recvmmsg = libc.recvmmsg
        self._recvmmsg.argtypes = [
            ctypes.c_int,
            ctypes.c_void_p,
            ctypes.c_uint,
            ctypes.c_int,
            ctypes.c_void_p,
        ]
        self._recvmmsg.restype = ctypes.c_int
        room = longest + _APART
        size = _HUGE_PAGE + MESSAGES * room
        size += -size % _HUGE_PAGE  # or the kernel would not align it
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        with suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE, 0, _HUGE_PAGE)
        arena = np.frombuffer(memory, np.uint8)
        arena[:_HUGE_PAGE:4096] = 0
        for page in range(0, min(room, _TOUCHED), 4096):
            arena[_HUGE_PAGE + page :: room] = 0
        names = np.zeros(MESSAGES * NAME_BYTES, np.uint8)
        controls = np.zeros(MESSAGES * CONTROL_BYTES, np.uint8)
        iovecs: Records = np.zeros((MESSAGES, 2), IOVEC)
        messages: Records = np.zeros(MESSAGES, MMSGHDR)
        each = np.arange(MESSAGES, dtype=np.uint64)
        iovecs["base"][:, 0] = arena.ctypes.data + each * SLOT_BYTES
        iovecs["base"][:, 1] = arena.ctypes.data + _HUGE_PAGE + each * room + SLOT_BYTES
        iovecs["length"] = SLOT_BYTES, longest - SLOT_BYTES
        messages["name"] = names.ctypes.data + each * NAME_BYTES
        messages["name_length"] = 28
        messages["iov"] = iovecs.ctypes.data + each * 2 * IOVEC.itemsize
        messages["iov_count"] = 2
        messages["control"] = controls.ctypes.data + each * CONTROL_BYTES
        messages["control_length"] = CONTROL_BYTES
        self._bytes = arena
        self._arena: npt.NDArray[np.uint8] = arena.view()
        self._arena.flags.writeable = False
        self._messages, self._iovecs, self._names, self._controls = messages, iovecs, names, controls
        self._address = messages.ctypes.data
        self._setup[Setup.SLOT] = SLOT_BYTES
        self._setup[Setup.ROOMS] = _HUGE_PAGE
        self._setup[Setup.STRIDE] = room

    def fileno(self) -> int:
        """Descriptor of the socket, to wait for."""
        return self._file

    def receive(self) -> FrameBatch | None:
        """Receive up to 4096 frames; None if none have arrived. Valid until the next call.

        Raises CaptureError if the socket fails.
        """
        words = self._words
        for _ in range(_ROUNDS):  # bounded: a flood of throttled datagrams must not block the caller
            if words[_NEXT] >= words[_GOT] and not self._fetch():
                return None
            count = self._describe()
            if count:
                first, self._received = self._received, self._received + count
                return FrameBatch(self._arena, self._frames[:count], first)
        return None

    def finish(self) -> None:
        """Return received frames, and receive no more."""
        self._finished = True

    def _fetch(self) -> int:
        """One receive call; returns the number of messages."""
        if self._finished:
            return 0
        got = self._recvmmsg(self._file, self._address, self._wanted, _MSG_DONTWAIT, None)
        if got <= 0:
            error = ctypes.get_errno()
            if got == 0 or error in (errno.EAGAIN, errno.EINTR):
                return 0
            self._failed(error)
            return 0
        words = self._words
        words[_GOT] = got
        words[_NEXT] = words[_AT] = 0
        self._time_ns = time.time_ns()
        return int(got)

    def _failed(self, error: int) -> None:
        """The receive call failed with this errno."""
        raise CaptureError(f"{url(self.settings)}: receiving failed ({os.strerror(error)})")

    def _describe(self) -> int:
        """Describe received datagrams in `_frames`; returns how many."""
        before = self._words[_NEXT]
        count = self._unpack(*self._unpacking, self._time_ns, time.monotonic_ns())
        # as many messages as make one batch: more would leave the cache before it is read
        messages = self._words[_NEXT] - before
        if count:
            self._wanted = min(MESSAGES, max(32, FRAMES * max(messages, 1) // count))
        return count

    def counts(self) -> dict[str, int]:
        """Datagrams that were not handed over since `open`, by key of `detect.counters.COUNTERS`.

        The kernel counts a dropped train once.
        """
        if self._socket is not None and (drops := kernel_drops(self._socket)) is not None:
            ahead = (drops - int(self._state[Unpack.DROPS_SEEN])) & 0xFFFFFFFF
            if ahead < 0x80000000:
                self._state[Unpack.DROPS] += np.uint64(ahead)
                self._state[Unpack.DROPS_SEEN] = drops
        self._drops.counted[0] = self._state[Unpack.DROPS_SEEN]
        return {key: int(self._state[slot]) for key, slot in _COUNTERS.items()}

    @property
    def buffer_bytes(self) -> int:
        """Receive buffer that the kernel granted, bytes; once open."""
        assert self._socket is not None
        return granted_buffer(self._socket)

    def notes(self) -> list[str]:
        """Notes for the user at the start: a buffer smaller than requested, or a missing option."""
        assert self._socket is not None
        lines: list[str] = []
        requested, granted = self.settings.receive_buffer_bytes, self.buffer_bytes
        if granted < requested:
            lines.append(
                f"{url(self.settings)}: receive buffer of {granted:,} bytes granted, {requested:,} requested;"
                f" bursts need more: sysctl -w net.core.rmem_max={requested}"
            )
        if self.settings.gro and not enable_gro(self._socket):
            lines.append(f"{url(self.settings)}: this kernel has no UDP_GRO; datagrams are taken one by one")
        return lines

    def close(self) -> None:
        """Close the socket."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
