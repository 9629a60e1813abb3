"""Reads the events of all rings, with cursors of its own, for whoever must see each event once."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..detect.records import EVENT_VERSION
from ..memory.region import Region, RegionError
from ..memory.ring import RingReader, attach_ring
from ..wire.records import Records

_RING = re.compile(r"worker-(\d+)\.events")
LIMIT = 16_384


class Rings:
    """Rings of the regions' folder; `following` [shards] is where each goes on, 0: at its oldest event."""

    def __init__(self, regions: Path, following: npt.NDArray[np.uint64]) -> None:
        self._regions = regions
        self._following = following
        self._readers: dict[int, tuple[Region, RingReader]] = {}

    def read(self) -> tuple[list[Records], int]:
        """New events by ring, and how many were lost: those that no ring has any more."""
        self._attach()
        blocks, lost = [], 0
        for shard, (_, reader) in self._readers.items():
            records, _ = reader.read(LIMIT)
            following = int(self._following[shard])
            if following:
                records = records[records["sequence"] >= following]
            if not len(records):
                continue
            if following:
                lost += int(records["sequence"][0]) - following
            self._following[shard] = int(records["sequence"][-1]) + 1
            blocks.append(records)
        return blocks, lost

    def _attach(self) -> None:
        for path in self._regions.glob("worker-*.events"):
            match = _RING.fullmatch(path.name)
            if match is None or int(match[1]) >= len(self._following):
                continue
            shard = int(match[1])
            known = self._readers.get(shard)
            if known is not None and known[0].is_current():
                continue
            try:
                region = attach_ring(path, EVENT_VERSION)
            except RegionError:
                continue  # half made: next time
            self._readers[shard] = (region, RingReader(region, "oldest"))
