"""Removes INT-MD, IFA and IOAM from batches of packets that a sink forwards."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..dialect import DEFAULT, Dialect
from ..records import FRAME, FrameBatch, ReportBatch

Octets = npt.NDArray[np.uint8]


def totals(histogram: npt.NDArray[np.int64]) -> tuple[int, int, int]:
    """Numbers of frames (stripped, unverified among these, damaged) from the numbers of frames by result."""
    from . import strip_kernel

    unverified = int(histogram[strip_kernel.UNVERIFIED])
    return (
        int(histogram[strip_kernel.STRIPPED]) + unverified,
        unverified,
        int(histogram[strip_kernel.DAMAGED]),
    )


class Stripper:
    """Strips batches of frames, using the reports and trails that a decoder of the same dialect found in
    them.

    The first stripper compiles its kernel, or loads it from the cache. Results are those of the last call.
    """

    def __init__(self, dialect: Dialect = DEFAULT) -> None:
        from ...base.kernels.jit import readonly
        from . import strip_kernel

        self._kernels = strip_kernel
        self._readonly = readonly
        self._table = dialect.table()
        self.results = np.zeros(0, np.uint8)
        """Result of each frame (see `strip_kernel`)."""
        self._arena = np.zeros(0, np.uint8)
        self._records = np.zeros(0, FRAME)
        self._offsets = np.zeros(0, np.uint64)

    @property
    def stripped(self) -> int:
        """Number of frames whose INT, IFA or IOAM was removed."""
        return totals(self._histogram)[0]

    @property
    def unverified(self) -> int:
        """Number of stripped frames whose checksum was right neither with them nor without, or that are cut;
        the checksum is unchanged.
        """
        return totals(self._histogram)[1]

    @property
    def damaged(self) -> int:
        """Frames whose INT, IOAM or IFA is damaged; they are unchanged."""
        return totals(self._histogram)[2]

    @property
    def passed(self) -> int:
        """Number of frames with nothing to remove, and of reports; they are unchanged."""
        return int(self._histogram[self._kernels.PASSED])

    @property
    def _histogram(self) -> npt.NDArray[np.int64]:
        return np.bincount(self.results, minlength=8)

    def strip(self, frames: FrameBatch, reports: ReportBatch) -> FrameBatch:
        """The frames without their INT, IFA or IOAM, in the same order; valid until the next call."""
        # the work around `strip_frames` takes 3 ns per frame; with NumPy, in new arrays, 30
        count = len(frames)
        if count > len(self._records):
            self._records, self._offsets = np.zeros(2 * count, FRAME), np.zeros(2 * count, np.uint64)
        records, offsets = self._records[:count], self._offsets[:count]
        size = self._kernels.place(self._readonly(frames.frames), records, offsets)
        if size > len(self._arena):
            self._arena = np.zeros(2 * size, np.uint8)
        lengths = self.strip_into(frames, reports, self._arena, offsets, 0xFFFFFFFF)
        self._kernels.shorten(records, lengths)
        return FrameBatch(self._arena, records, frames.first_packet)

    def strip_into(
        self,
        frames: FrameBatch,
        reports: ReportBatch,
        arena: Octets,
        offsets: npt.NDArray[np.uint64],
        room: int,
        first: int = 0,
    ) -> npt.NDArray[np.uint32]:
        """Write the frames from number `first` on without their telemetry to `arena`, one at each of
        `offsets` (uint64); returns their lengths (uint32). Length 0: the frame does not fit into `room`
        bytes.

        `reports` must be raw, in the order of the frames, and have trails; `arena` must not be that of the
        frames. Raises ValueError if there are no trails.
        """
        trails = reports.trails
        if len(reports) and trails.shape[1] < len(frames):
            raise ValueError(f"found {trails.shape[1]} trails for {len(frames)} frames")
        lengths = np.zeros(len(offsets), np.uint32)
        places = self._readonly(np.ascontiguousarray(offsets, np.uint64))
        self.results = np.zeros(len(offsets), np.uint8)
        self._kernels.strip_frames(
            self._readonly(frames.arena), self._readonly(frames.frames), np.uint64(first),
            self._readonly(reports.reports), trails, self._table, arena, places, np.uint64(room), lengths,
            self.results,
        )  # fmt: skip
        return lengths
