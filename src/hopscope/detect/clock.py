"""The clock of recorded reports: times of periodic work in a replay, as by the wall clock in a worker."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from ..settings.detect import DetectSettings

TICK_NS = 100_000_000
"""Interval between a worker's ticks."""


class CaptureClock:
    """Splits batches of a capture where the detector must `tick`, so that a replay finds the same as live."""

    def __init__(self, settings: DetectSettings) -> None:
        periods = (settings.silent_seconds, settings.push_seconds, settings.idle_seconds)
        # a table is swept within an eighth of a period
        self._due_ns = sorted(int(seconds * 1.125e9) + TICK_NS for seconds in periods if seconds)
        self._last_ns: int | None = None
        self.newest_ns = 0
        """Latest report time so far."""

    def cut(self, times: npt.NDArray[np.int64]) -> Iterator[tuple[list[int], int, int]]:
        """Split a batch by its times, int64 [n], ns, into (ticks, start, end).

        First `tick` at each of the ticks, then process rows `start` to `end`. In a pause of the capture these
        are the times at which sources become silent, values are pushed, and keys expire.
        """
        slots = times // TICK_NS
        bounds = np.flatnonzero(np.diff(slots)) + 1
        for start, end in zip([0, *bounds.tolist()], [*bounds.tolist(), len(times)], strict=True):
            if start == end:
                return
            first, last = int(times[start]), self._last_ns
            ticks = [] if last is None else [last + due for due in self._due_ns if last + due < first]
            self._last_ns = int(times[end - 1])
            self.newest_ns = max(self.newest_ns, int(times[start:end].max()))
            yield [*ticks, first], start, end
