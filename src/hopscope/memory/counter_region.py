"""Counters of a process in a region: they survive restarts, and other processes read them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..base.counter import Counter, collect
from .region import Region, RegionError


class CounterRegion:
    """Counters that start from the values of a previous process."""

    def __init__(self, path: Path | None, kind: str, version: int, counters: Sequence[Counter]) -> None:
        """Continue the counters at `path`; if the file does not fit, restart at 0. None: private memory.
        Raises RegionError if the region cannot be created.
        """
        self.values = open_counter_region(path, kind, version, len(counters))
        """uint64 [counters]."""
        self._counters = counters
        self._place = {counter.key: number for number, counter in enumerate(counters)}
        self._before = self.values.copy()
        self._before[[place for place, each in enumerate(counters) if each.gauge or each.absolute]] = 0

    def add(self, key: str, more: int) -> None:
        """Add to a counter that this process counts itself."""
        self.values[self._place[key]] += np.uint64(more)

    def put(self, key: str, total: int) -> None:
        """Set a counter; `total` is the count since the start of this process."""
        place = self._place[key]
        self.values[place] = self._before[place] + np.uint64(total)

    def collect(self, owner: object) -> None:
        """Set every counter whose declaration names an attribute of `owner`."""
        collect(self._counters, owner, self.put)

    def __getitem__(self, key: str) -> int:
        return int(self.values[self._place[key]])


def open_counter_region(path: Path | None, kind: str, version: int, count: int) -> npt.NDArray[np.uint64]:
    """uint64 [count] at `path`, continued if the file fits, else zeros; None: private memory.

    Raises RegionError if the region cannot be created.
    """
    arrays = {"counters": (np.dtype(np.uint64), count)}
    region = None
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(RegionError):
            region = Region.resume(path, kind, version, arrays)
    values: npt.NDArray[np.uint64] = (region or Region.create(path, kind, version, arrays))["counters"]
    return values


def read_counter_region(path: Path, kind: str, version: int, count: int) -> npt.NDArray[np.uint64]:
    """uint64 [count] of a `CounterRegion`; zeros if there is none, or one with other counters."""
    try:
        with Region.attach(path, kind, version) as region:
            values = region["counters"].copy()
    except RegionError:
        values = np.zeros(0, np.uint64)
    return values if len(values) == count else np.zeros(count, np.uint64)
