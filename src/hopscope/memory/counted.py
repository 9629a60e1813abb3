"""Counters of one process in a region: it goes on from what an earlier one counted, others read along."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..base.counter import Counter, collect
from .region import Region, RegionError


class CountedRegion:
    """The counters of a process: what was there, from an earlier one, and what it counts itself."""

    def __init__(self, path: Path | None, kind: str, version: int, counters: Sequence[Counter]) -> None:
        """Those at `path` are continued, begun anew where the file does not fit; None: private memory. Raises
        RegionError where it cannot be made.
        """
        self.values = open_counted(path, kind, version, len(counters))
        """uint64 [counters]."""
        self._counters = counters
        self._place = {counter.key: number for number, counter in enumerate(counters)}
        self._before = self.values.copy()
        self._before[[place for place, each in enumerate(counters) if each.gauge or each.absolute]] = 0

    def put(self, key: str, total: int) -> None:
        """Set a counter; `total` counts from the start of this process."""
        place = self._place[key]
        self.values[place] = self._before[place] + np.uint64(total)

    def collect(self, owner: object) -> None:
        """Set every counter whose declaration says where in `owner` its value is."""
        collect(self._counters, owner, self.put)

    def __getitem__(self, key: str) -> int:
        return int(self.values[self._place[key]])


def open_counted(path: Path | None, kind: str, version: int, count: int) -> npt.NDArray[np.uint64]:
    """uint64 [count] at `path` to count on, begun anew where the file does not fit; None: private memory.

    Raises RegionError where it cannot be made.
    """
    arrays = {"counters": (np.dtype(np.uint64), count)}
    region = None
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(RegionError):
            region = Region.continued(path, kind, version, arrays)
    values: npt.NDArray[np.uint64] = (region or Region.create(path, kind, version, arrays))["counters"]
    return values


def read_counted(path: Path, kind: str, version: int, count: int) -> npt.NDArray[np.uint64]:
    """uint64 [count] of a `CountedRegion`; zeros where there is none, or one of other counters."""
    try:
        with Region.attach(path, kind, version) as region:
            values = region["counters"].copy()
    except RegionError:
        values = np.zeros(0, np.uint64)
    return values if len(values) == count else np.zeros(count, np.uint64)
