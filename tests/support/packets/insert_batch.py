"""Batches of packets with INT-MD added: an INT source and its path."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hopscope.wire import layout
from hopscope.wire.dialect import DEFAULT, Dialect
from hopscope.wire.records import FrameBatch, Records

Octets = npt.NDArray[np.uint8]
_MAX_WORDS = 255
_MAX_HEADERS = 8 + 4 + 12


class Inserter:
    """Puts INT-MD 2.x into UDP packets (NPT 1: the port of INT replaces their own) and, after an added UDP
    header, in front of TCP (NPT 2).  The checksum of a UDP packet is updated.

    Any other frame passes unchanged: neither IPv4 nor IPv6, another protocol, a fragment, cut, with lengths
    that contradict each other, or too long for IP with INT.  The first one compiles its kernel, or loads it
    from the cache.  Counts are of the last call, of frames that fitted.
    """

    def __init__(
        self, instructions: int = 0xB100, remaining_hops: int = 8, dialect: Dialect = DEFAULT
    ) -> None:
        from hopscope.base.kernels.jit import readonly
        from hopscope.wire.telemetry import metadata_kernel

        from . import insert_kernel

        if not dialect.inserted_udp_ports:
            raise ValueError(f"found no port for INT in dialect {dialect.name}, expected one")
        if not 0 < instructions <= 0xFFFF or not 0 <= remaining_hops <= 255:
            raise ValueError(f"found instructions {instructions:#x} and {remaining_hops} remaining hops")
        self._kernel = insert_kernel.insert_frames
        self._readonly = readonly
        self._table = dialect.table()
        self._plans = np.zeros(metadata_kernel.PLANS, np.uint64)
        self._setup = np.zeros(insert_kernel.SETUP, np.uint64)
        self._setup[:3] = dialect.inserted_udp_ports[0], instructions, remaining_hops
        self._words = layout.metadata_size(layout.HOP_2_0, instructions) // 4
        self._counts = np.zeros(2, np.uint64)
        self._arena = np.zeros(0, np.uint8)

    @property
    def inserted(self) -> int:
        """Frames with INT added."""
        return int(self._counts[0])

    @property
    def passed(self) -> int:
        """Frames that cannot carry it; they are unchanged."""
        return int(self._counts[1])

    def room(self, hops: int) -> int:
        """Bytes by which a packet with this number of hops grows at most."""
        return _MAX_HEADERS + 4 * self._words * hops

    def insert(self, frames: FrameBatch, hops: Records) -> FrameBatch:
        """The frames with INT, one for each and in their order, valid until the next call; `hops` as for
        `insert_into`.
        """
        records = frames.frames.copy()
        more = self.room(len(hops) // max(len(frames), 1))
        offsets = np.zeros(len(records) + 1, np.uint64)
        np.cumsum(records["length"] + np.uint64(more), out=offsets[1:])
        size = int(offsets[-1])
        if size > len(self._arena):
            self._arena = np.zeros(2 * size, np.uint8)
        records["offset"] = offsets[:-1]
        lengths = self.insert_into(frames, hops, self._arena, offsets[:-1], 0xFFFFFFFF)
        records["wire_length"] += lengths - records["length"]
        records["length"] = lengths
        return FrameBatch(self._arena, records, frames.first_packet)

    def insert_into(
        self, frames: FrameBatch, hops: Records, arena: Octets, offsets: npt.NDArray[np.uint64], room: int
    ) -> npt.NDArray[np.uint32]:
        """Write the frames with INT to `arena` at `offsets`, uint64 [frames]; their lengths, uint32 [frames].
        Length 0: the frame does not fit into `room` bytes.

        `hops` are HOP [frames * n]: n of each frame, in path order.  Raises ValueError if their number is
        not a multiple of the frames', or n hops do not fit a shim.
        """
        each, rest = divmod(len(hops), max(len(frames), 1))
        if rest or each * self._words + 3 > _MAX_WORDS:
            raise ValueError(
                f"found {len(hops)} hops of {self._words} words for {len(frames)} frames, expected the same "
                f"number for each, and {(_MAX_WORDS - 3) // max(self._words, 1)} at most"
            )
        lengths = np.zeros(len(frames), np.uint32)
        places = self._readonly(np.ascontiguousarray(offsets, np.uint64))
        self._counts[:] = 0
        self._setup[3] = each
        self._kernel(
            self._readonly(frames.arena), self._readonly(frames.frames), self._readonly(hops), self._setup,
            self._table, self._plans, arena, places, np.uint64(room), lengths, self._counts,
        )  # fmt: skip
        return lengths
