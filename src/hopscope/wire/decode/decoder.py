"""Frames to reports with compiled kernels, for streams; `plain` runs them uncompiled, for small inputs."""

from __future__ import annotations

import numpy as np

from ..dialect import DEFAULT, Dialect
from ..records import HOP, REPORT, FrameBatch, Records, ReportBatch

MARGIN = 64
"""Rows of a block in addition to those that the frames of a batch may need."""
_FIRST = np.uint64(0)
HOPS_PER_FRAME = 4
"""Hop rows of a new decoder per frame; the block grows when a batch needs more."""


class Decoder:
    """The batch decoder: its blocks are reused, so a result is valid until the next call.

    The first one compiles its kernels, or loads them from the cache.
    """

    def __init__(self, dialect: Dialect = DEFAULT, frames: int = 4096) -> None:
        from ...base.kernels.jit import readonly
        from . import decode_kernel, trail_kernel

        self.dialect = dialect
        self._kernel = decode_kernel.decode_frames
        self._readonly = readonly
        self._fixed = (dialect.table(), np.zeros(trail_kernel.MEMORY, np.uint64))
        self._keeps, self._unknown = trail_kernel.KEEPS, trail_kernel.UNKNOWN
        self._counts = np.zeros(3, np.uint64)
        self._counted, self._memory = self._counts.data, self._fixed[1].data  # plain numbers, without NumPy
        self._reports = new_block(frames + MARGIN, REPORT)
        self._hops = new_block(frames * HOPS_PER_FRAME + MARGIN, HOP)
        self._trails = self._no_trails = np.empty((trail_kernel.TRAIL, 0), np.uint64)

    def decode(self, batch: FrameBatch, trails: bool = False) -> ReportBatch:
        """Reports of all frames. Frames that are not reports are counted in `other`.

        `trails`: keep the trails of captured packets, for a `Stripper`.
        """
        arena, frames = self._readonly(batch.arena), self._readonly(batch.frames)
        if trails and self._trails.shape[1] < len(frames):
            self._trails = np.empty((len(self._trails), 2 * len(frames)), np.uint64)
        kept = self._trails if trails else self._no_trails
        if trails:
            kept[0] = 0
        counts, memory = self._counted, self._memory
        counts[0] = counts[1] = counts[2] = memory[self._unknown] = 0
        memory[self._keeps] = trails
        at = _FIRST
        while True:
            at = self._kernel(arena, frames, at, *self._fixed, self._reports, self._hops, kept, self._counts)
            if at == len(frames):
                break
            self._grow(int(frames[at]["length"]) // 4 + 2)
            at = np.uint64(at)
        reports, hops, other = counts
        return ReportBatch(
            self._reports[:reports],
            self._hops[:hops],
            batch.first_packet,
            other,
            memory[self._unknown],
            kept,
        )

    def _grow(self, room: int) -> None:
        """Make room for frames that may each hold `room` reports or hops."""
        reports, hops, _ = self._counted
        self._reports = with_room(self._reports, reports, room)
        self._hops = with_room(self._hops, hops, room)


def with_room(block: Records, used: int, room: int) -> Records:
    """The block, or, if it has no room for `room` more rows, a larger one with a copy of its `used` rows."""
    if used + room <= len(block):
        return block
    larger = new_block(2 * used + room + MARGIN, block.dtype)
    larger[:used] = block[:used]
    return larger


def new_block(rows: int, dtype: np.dtype[np.void]) -> Records:
    """Uninitialised records that begin at a cache line, so that no HOP spans two lines."""
    raw = np.empty(rows * dtype.itemsize + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + rows * dtype.itemsize].view(dtype)
