"""Reads the rings of one kind of all workers in a folder, with its own cursors."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from .region import Region, RegionError
from .ring import HEAD, RingReader, attach_ring

Records = npt.NDArray[np.void]
LIMIT = 16_384
SHARDS = 1024
SCAN_SECONDS = 0.05
"""Interval between scans of the folder for new or recreated rings."""


class Rings:
    """Reads the rings `worker-N.KIND` in `regions`, whose records have a `sequence` without gaps.

    `following`, uint64 [shards], has the position in each ring, 1 + the sequence of the last record read; it
    is updated, so that another reader can continue from there. At 0 or None, reading starts at the oldest
    record, or with `start` "new" at the end. Rings that appear later are read from their oldest record.
    """

    def __init__(
        self,
        regions: Path,
        kind: str,
        version: int,
        following: npt.NDArray[np.uint64] | None = None,
        start: Literal["new", "oldest"] = "oldest",
    ) -> None:
        self._regions = regions
        self._pattern = re.compile(rf"worker-(\d+)\.{re.escape(kind)}")
        self._files = f"worker-*.{kind}"
        self._version = version
        self._following = np.zeros(SHARDS, np.uint64) if following is None else following
        self._readers: dict[int, tuple[Region, RingReader]] = {}
        self._scanned_at = -SCAN_SECONDS
        self.lost = 0
        """Number of records lost so far."""
        self._attach(start)

    def read(self, limit: int = LIMIT) -> tuple[list[Records], int]:
        """New records, as a copied block of at most `limit` from each ring that has any; and the number of
        records lost before them.
        """
        if time.monotonic() - self._scanned_at >= SCAN_SECONDS:
            self._attach()
        blocks, lost = [], 0
        for shard, (_, reader) in self._readers.items():
            records, _ = reader.read(limit)
            following = int(self._following[shard])
            if following and len(records) and records["sequence"][0] < following:
                records = records[records["sequence"] >= following]
            if not len(records):
                continue
            first = int(records["sequence"][0])
            if following and first > following:
                lost += first - following
            self._following[shard] = int(records["sequence"][-1]) + 1
            blocks.append(records)
        self.lost += lost
        return blocks, lost

    def _attach(self, start: Literal["new", "oldest"] = "oldest") -> None:
        self._scanned_at = time.monotonic()
        for path in self._regions.glob(self._files):
            match = self._pattern.fullmatch(path.name)
            if match is None or int(match[1]) >= len(self._following):
                continue
            shard = int(match[1])
            known = self._readers.get(shard)
            if known is not None and known[0].is_current():
                continue
            try:
                region = attach_ring(path, self._version)
            except RegionError:
                continue  # not complete yet, so the next call tries again
            if ring_end(region) < self._following[shard]:
                self._following[shard] = 0  # its numbering restarted
            self._readers[shard] = (region, RingReader(region, start))


def newest(regions: Path, kind: str, version: int, limit: int) -> list[Records]:
    """Copies of at most `limit` newest records of each ring `worker-N.KIND` in `regions`."""
    found = []
    for path in sorted(regions.glob(f"worker-*.{kind}")):
        with suppress(RegionError), attach_ring(path, version) as region:
            reader = RingReader(region)
            reader.cursor = max(0, reader.cursor - limit)
            found.append(reader.read(limit)[0])
    return found


def ring_end(region: Region) -> int:
    """1 + the sequence of a ring's newest record; 0 if it is empty."""
    head, records = int(region["cursor"][HEAD]), region["records"]
    return int(records["sequence"][(head - 1) & (len(records) - 1)]) + 1 if head else 0


def columns(records: Records) -> dict[str, npt.NDArray[Any]]:
    """The fields of records as contiguous arrays by name, without reserved fields."""
    names = records.dtype.names or ()
    return {name: records[name].copy() for name in names if not name.startswith("reserved")}
