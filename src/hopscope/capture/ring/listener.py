"""Frames of an interface, in a ring that the kernel fills and a worker reads in place (TPACKET_V3).

The supervisor makes the socket with its ring, and a worker maps it. While a worker is restarted, frames wait
in the ring, and the next worker continues where the last one ended.
"""

from __future__ import annotations

import mmap
import socket

import numpy as np
import numpy.typing as npt

from ...settings.listen import ListenSettings
from ...wire.records import FRAME, FrameBatch, Link, Records
from ..errors import CaptureError
from ..layout import BLOCK_PRIVATE, RING_SETUP_SLOTS, RING_SLOTS, BlockAt, Ring, RingSetup
from ..sockets import bind_share
from .sender import RingSender
from .socket import Geometry, apply_filter, check_socket, dropped

__all__ = ["RingListener", "RingSender"]

FRAMES = 4096
"""Maximum number of frames in one batch."""
_READY = 1


class RingListener:
    """All frames that arrive at one interface (Link.ETHERNET), except those that this machine sends.

    The arena of a batch is the ring itself. VLAN tags that the kernel took off are put back, and checksums
    that a sender on this machine left to its card are completed, both in the ring. Each frame has the
    kernel's time. Memory: the ring; a batch holds at most a quarter of it until the next call.
    """

    def __init__(
        self,
        settings: ListenSettings,
        worker: int = 0,
        workers: int = 1,
        sock: socket.socket | None = None,
        *,
        block_bytes: int = 0,
    ) -> None:
        """`sock`: this worker's socket, from `bind_share`; without it, `open` makes the only one.

        `block_bytes`: block size of the ring of `sock`.
        """
        self.settings = settings
        self.worker = worker
        self.workers = workers
        self._socket = sock
        self._geometry = Geometry.of(settings, block_bytes)
        self._block_bytes = self._geometry.block_bytes
        self._received = self._abandoned = 0

    def open(self) -> None:
        """Compile, make the ring if there is none, map it, and let frames in. Raises CaptureError."""
        self.prepare()
        if self._socket is None:
            self._socket = bind_share(self.settings.model_copy(update={"workers": 1}))
        flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
        self._map(np.frombuffer(mmap.mmap(self._socket.fileno(), self._geometry.nbytes, flags), np.uint8))
        self._go_on()
        try:
            apply_filter(self._socket, self.settings)
        except CaptureError:
            self.close()
            raise

    def prepare(self) -> None:
        """Compile and allocate, without a socket."""
        from .ring_kernel import walk

        self._walk = walk
        self._allocate()
        self._fill()

    def _allocate(self) -> None:
        """Allocate the kernel function's memory, and a ring of one empty block."""
        self._frames: Records = np.zeros(FRAMES, FRAME)
        self._setup = np.zeros(RING_SETUP_SLOTS, np.uint64)
        self._state = np.zeros(RING_SLOTS, np.uint64)
        self._map(np.zeros(self._block_bytes, np.uint8))

    def _map(self, ring: npt.NDArray[np.uint8]) -> None:
        self._ring = ring
        self._arena = ring.view()
        self._arena.flags.writeable = False
        blocks = len(ring) // self._block_bytes
        self._setup[RingSetup.BLOCKS] = blocks
        self._setup[RingSetup.BLOCK_BYTES] = self._block_bytes
        self._setup[RingSetup.MOST] = max(1, blocks // 4)
        heads = ring.reshape(blocks, self._block_bytes)[:, : BlockAt.TAKEN + BLOCK_PRIVATE]
        self._statuses = heads[:, BlockAt.STATUS : BlockAt.STATUS + 4].view(np.uint32)[:, 0]
        self._packets = heads[:, BlockAt.PACKETS : BlockAt.PACKETS + 4].view(np.uint32)[:, 0]
        self._sequences = heads[:, BlockAt.SEQUENCE : BlockAt.SEQUENCE + 8].view(np.uint64)[:, 0]
        self._taken = heads[:, BlockAt.TAKEN : BlockAt.TAKEN + 8].view(np.uint64)[:, 0]
        self._drops = heads[0, BlockAt.DROPS : BlockAt.DROPS + 8].view(np.uint64)

    def _go_on(self) -> None:
        """Find where to continue reading: the kernel numbers the blocks that it fills, from 1.

        Blocks that an earlier worker held when it died are handed back unread, so that a frame that kills its
        reader cannot do so again; frames taken from other kinds of sockets are lost with their worker, too.
        The frames in these blocks are counted as abandoned, although the worker may have forwarded some of
        them.
        """
        taken = self._taken != 0
        ready = (self._statuses & _READY) != 0
        newest = int(self._sequences.argmax())
        waiting = np.flatnonzero(ready & ~taken)
        if len(waiting):
            block = int(waiting[self._sequences[waiting].argmin()])
        else:
            block = (newest + 1) % len(taken) if ready[newest] else newest
        self._abandoned = int(self._packets[taken].sum())
        self._taken[taken] = 0
        self._statuses[taken] = 0
        self._state[Ring.BLOCK] = self._state[Ring.HELD] = block

    def _fill(self) -> int:
        return int(self._walk(self._ring, self._frames, self._setup, self._state, int(Link.ETHERNET)))

    def receive(self) -> FrameBatch | None:
        """Receive up to 4096 frames; None if none have arrived. Valid until the next call.

        Raises CaptureError if the interface is gone.
        """
        count = self._fill()
        if not count:
            assert self._socket is not None
            check_socket(self._socket, self.settings)
            return None
        first, self._received = self._received, self._received + count
        return FrameBatch(self._arena, self._frames[:count], first)

    def counts(self) -> dict[str, int]:
        """Frames that were not handed over, by key of `detect.counters.COUNTERS`; the kernel's drops are
        counted since the socket was made, including those under earlier workers.
        """
        if self._socket is not None:
            self._drops[0] += np.uint64(dropped(self._socket))
        return {
            "kernel_drops_total": int(self._drops[0]),
            "oversized_frames_total": int(self._state[Ring.OVERSIZED]),
            "abandoned_frames_total": self._abandoned,
            "completed_checksums_total": int(self._state[Ring.COMPLETED]),
        }

    def finish(self) -> None:
        """Start no new block: once `receive` has returned None, all blocks have been handed back."""
        self._setup[RingSetup.MOST] = 0

    def fileno(self) -> int:
        """Descriptor of the socket, once open: readable when a block of frames is ready."""
        assert self._socket is not None
        return self._socket.fileno()

    @property
    def buffer_bytes(self) -> int:
        """Bytes of the ring; once open."""
        return len(self._ring)

    def notes(self) -> list[str]:
        """Lines for the log at startup."""
        return []

    def close(self) -> None:
        """Close the socket; the ring is freed with the last batch."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
