"""A BPF ring: datagrams that a program passes up, read in place."""

from __future__ import annotations

import mmap
import time

import numpy as np
import numpy.typing as npt

from ..wire.records import FRAME, FrameBatch, Link, Records

FRAMES = 4096
"""Most datagrams in one batch."""


def epoch_ns() -> int:
    """Offset from the kernel's monotonic clock to the time since 1970, ns."""
    return time.time_ns() - time.monotonic_ns()


class BpfRing:
    """Datagrams, or other frames, in a BPF ring. The arena of a batch is the ring itself; the next call
    returns its space to the kernel.
    """

    def __init__(self, sources: int = 1, link: Link = Link.UDP_PAYLOAD) -> None:
        """`sources`: number of rows of the program's table of sources."""
        from .ring_kernel import walk

        self._walk = walk
        self._link = np.uint64(link)
        self._frames: Records = np.zeros(FRAMES, FRAME)
        self.marks = np.zeros(FRAMES, np.uint8)
        """Mark of each datagram of the last batch."""
        self.rows = np.zeros(FRAMES, np.uint32)
        """Row of the source of each datagram, or NOWHERE."""
        self.received = np.zeros(FRAMES, np.uint64)
        """Its source's reports in sequence so far, for each datagram."""
        self.count = 0
        """Number of datagrams of the last batch."""
        self.more = False
        """Whether datagrams that had arrived were left in the ring."""
        self._met = np.zeros(sources, np.uint64)
        self._done = np.zeros(1, np.uint64)
        self._received = 0
        self._use(np.zeros(2 * mmap.PAGESIZE, np.uint8), np.zeros(1, np.uint64), np.zeros(1, np.uint64))
        self.receive()  # loads the kernel

    def map(self, descriptor: int, nbytes: int) -> None:
        """Use the ring with this descriptor and a size of `nbytes`. Raises OSError."""
        page = mmap.PAGESIZE
        consumer = mmap.mmap(descriptor, page)
        rest = mmap.mmap(
            descriptor,
            page + 2 * nbytes,
            flags=mmap.MAP_SHARED | mmap.MAP_POPULATE,
            prot=mmap.PROT_READ,
            offset=page,
        )
        whole = np.frombuffer(rest, np.uint8)
        self._use(whole[page:], np.frombuffer(consumer, np.uint64, 1), whole[:8].view(np.uint64))

    def _use(
        self, arena: npt.NDArray[np.uint8], consumer: npt.NDArray[np.uint64], producer: npt.NDArray[np.uint64]
    ) -> None:
        self._arena = arena.view()
        self._arena.flags.writeable = False
        self._consumer, self._producer = consumer, producer
        self._done[0] = consumer[0]

    @property
    def start(self) -> int:
        """Position at which the last batch begins."""
        return int(self._consumer[0])

    @property
    def position(self) -> int:
        """Position up to which batches were received."""
        return int(self._done[0])

    @property
    def written(self) -> int:
        """Position up to which the program has written datagrams."""
        return int(self._producer[0])

    def receive(self, until: int | None = None) -> FrameBatch | None:
        """Up to 4096 datagrams that begin before position `until`; None if there are none. Valid until the
        next call.
        """
        self._consumer[0] = self._done[0]
        end = self.written if until is None else until
        count = int(
            self._walk(
                self._arena,
                self._consumer[0],
                np.uint64(end),
                self._frames,
                self.marks,
                self.rows,
                self.received,
                self._met,
                np.uint64(epoch_ns()),
                self._link,
                self._done,
            )
        )
        self.count = count
        self.more = self.position < end
        if not count:
            return None
        first, self._received = self._received, self._received + count
        return FrameBatch(self._arena, self._frames[:count], first)
