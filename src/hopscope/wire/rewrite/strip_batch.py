"""Batches of packets without their INT-MD: what a sink sends on. `strip` is the same for one packet."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..dialect import DEFAULT, Dialect
from ..records import FrameBatch, ReportBatch

Octets = npt.NDArray[np.uint8]


class Stripper:
    """Strips batches of frames whose reports a `Decoder` of the same dialect has read.

    The first one compiles its kernel, or loads it from the cache.  The counts are of the last call, of frames
    that fitted.
    """

    def __init__(self, dialect: Dialect = DEFAULT) -> None:
        from ...base.jit import readonly
        from . import locate_kernel as way_kernel
        from . import strip_kernel

        self._kernel = strip_kernel.strip_frames
        self._readonly = readonly
        self._table = dialect.table()
        self._trail = np.zeros(way_kernel.TRAIL, np.uint64)
        self._counts = np.zeros(4, np.uint64)
        self._arena = np.zeros(0, np.uint8)

    @property
    def stripped(self) -> int:
        """Frames whose INT was taken out."""
        return int(self._counts[0])

    @property
    def unverified(self) -> int:
        """Of these, frames with a checksum that fitted neither with INT nor without, or that are cut; it is
        as it came.
        """
        return int(self._counts[1])

    @property
    def damaged(self) -> int:
        """Frames whose INT or IOAM is damaged; they are as they came."""
        return int(self._counts[2])

    @property
    def passed(self) -> int:
        """Frames without INT-MD, and reports; they are as they came."""
        return int(self._counts[3])

    def strip(self, frames: FrameBatch, reports: ReportBatch) -> FrameBatch:
        """The frames without their INT, one for each and in their order, valid until the next call."""
        records = frames.frames.copy()
        offsets = np.zeros(len(records) + 1, np.uint64)
        np.cumsum(records["length"], out=offsets[1:])
        size = int(offsets[-1])
        if size > len(self._arena):
            self._arena = np.zeros(2 * size, np.uint8)
        records["offset"] = offsets[:-1]
        lengths = self.strip_into(frames, reports, self._arena, offsets[:-1], 0xFFFFFFFF)
        records["wire_length"] -= records["length"] - lengths
        records["length"] = lengths
        return FrameBatch(self._arena, records, frames.first_packet)

    def strip_into(
        self,
        frames: FrameBatch,
        reports: ReportBatch,
        arena: Octets,
        offsets: npt.NDArray[np.uint64],
        room: int,
    ) -> npt.NDArray[np.uint32]:
        """Write the frames without their INT to `arena` at `offsets`, uint64 [frames]; their lengths, uint32
        [frames].  Length 0: the frame does not fit into `room` bytes.

        `reports` are as decoded, raw and in the order of the frames. `arena` is another than the frames'.
        """
        lengths = np.zeros(len(frames), np.uint32)
        places = self._readonly(np.ascontiguousarray(offsets, np.uint64))
        self._counts[:] = 0
        self._kernel(
            self._readonly(frames.arena), self._readonly(frames.frames), self._readonly(reports.reports),
            self._table, self._trail, arena, places, np.uint64(room), lengths, self._counts,
        )  # fmt: skip
        return lengths
