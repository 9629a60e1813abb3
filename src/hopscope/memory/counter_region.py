"""Counters of a process in a region, which survive restarts and can be read by other processes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..base.counter import Counter, Sources
from .region import Arrays, Region, RegionError


@dataclass(frozen=True)
class CounterFile:
    """The counters of a process, and their file in the folder of regions."""

    name: str
    kind: str
    version: int
    counters: tuple[Counter, ...]

    def open(self, folder: Path | None) -> CounterRegion:
        """Continue the counters in `folder`; if the file does not fit, start at 0. None: use private memory.
        Raises RegionError if the region cannot be created.
        """
        path = None
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            if (found := self.resume(folder)) is not None:
                return found
            path = folder / self.name
        region = Region.create(path, self.kind, self.version, self._arrays)
        return CounterRegion(region["counters"], self.counters)

    def resume(self, folder: Path) -> CounterRegion | None:
        """Continue the counters in `folder`; None if there is no file that fits."""
        with suppress(RegionError):
            region = Region.resume(folder / self.name, self.kind, self.version, self._arrays)
            if region is not None:
                return CounterRegion(region["counters"], self.counters)
        return None

    @property
    def _arrays(self) -> Arrays:
        return {"counters": (np.dtype(np.uint64), len(self.counters))}

    def read(self, folder: Path) -> dict[str, int]:
        """Counts of the running or last process in `folder`, by key; zeros if there was none."""
        keys = [counter.key for counter in self.counters]
        try:
            with Region.attach(folder / self.name, self.kind, self.version) as region:
                values = region["counters"].tolist()
        except RegionError:
            values = []
        return dict(zip(keys, values, strict=True)) if len(values) == len(keys) else dict.fromkeys(keys, 0)


class CounterRegion:
    """Counters that continue from the values of the previous process."""

    def __init__(self, values: npt.NDArray[np.uint64], counters: Sequence[Counter]) -> None:
        self.values = values
        """uint64 [counters]."""
        self._words = values.data  # access to a plain number takes a quarter of the time of NumPy's
        self._sources = Sources(counters)
        self._place = {counter.key: number for number, counter in enumerate(counters)}
        self._before = values.copy()
        self._before[[at for at, counter in enumerate(counters) if counter.gauge or counter.absolute]] = 0

    def add(self, key: str, more: int) -> None:
        """Add to a counter."""
        self._words[self._place[key]] += more

    def put(self, key: str, total: int) -> None:
        """Set a counter; `total` is the count since the start of this process."""
        place = self._place[key]
        self.values[place] = self._before[place] + np.uint64(total)

    def collect(self, owner: object) -> None:
        """Set every counter whose declaration names an attribute of `owner`."""
        found = self._sources.read(owner)
        places = np.fromiter(found, np.intp, len(found))
        self.values[places] = self._before[places] + np.fromiter(found.values(), np.uint64, len(found))

    def __getitem__(self, key: str) -> int:
        return int(self.values[self._place[key]])
