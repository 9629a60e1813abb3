"""Reads workers' distributions from another process."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ...memory.region import Region, RegionError, barrier
from ...wire.records import Records
from ..records import BINS, DISTRIBUTED, DISTRIBUTION_VERSION, NO_PORT
from ..sink.records import MEASURES, Measure
from .quantiles import Distribution, merged
from .region import KIND, shape_of

Numbers = npt.NDArray[np.uint64]


@dataclass(slots=True)
class ShardCounts:
    """Counts of one shard so far, or between two times."""

    shard: int
    generation: int
    """Random number of the region; a new region has another one, and counts from 0."""
    made_ns: int
    """Creation time of the region."""
    at: npt.NDArray[np.int64]
    """Used rows of the region, int64 [rows], ascending; a row always belongs to the same queue."""
    rows: Records
    """DISTRIBUTION [rows]."""
    bins: Numbers
    """uint64 [rows, DISTRIBUTED, BINS]."""
    edges: Numbers
    """Upper edges of the bins, uint64 [MEASURES, BINS]."""

    def since(self, before: ShardCounts | None) -> ShardCounts | None:
        """Counts after `before`; None if a count decreased, so this is not its continuation.

        `highest` remains that of all values, an upper bound for the difference.
        """
        rows, bins = self.rows.copy(), self.bins.copy()
        if before is not None and before.generation == self.generation:
            place = np.searchsorted(self.at, before.at)
            if not np.array_equal(self.at[place[place < len(self.at)]], before.at):
                return None
            if np.any(bins[place] < before.bins):
                return None
            bins[place] -= before.bins
            rows["sum"][place] -= before.rows["sum"]
        changed = bins.any(axis=(1, 2))
        return replace(self, at=self.at[changed], rows=rows[changed], bins=bins[changed])

    def distributions(self) -> list[Distribution]:
        """One for every measure and queue with values, and the end-to-end latency."""
        found = []
        for at, row, bins in zip(self.at.tolist(), self.rows, self.bins, strict=True):
            for k in np.flatnonzero(bins.any(axis=1)).tolist():
                used = np.flatnonzero(bins[k])
                measure = Measure(k) if at else Measure.END_TO_END
                lower, upper = bounds(self.edges[measure])
                port = int(row["port"])
                place = (int(row["node_id"]), None if port == NO_PORT else port, int(row["queue_id"]))
                found.append(
                    Distribution(
                        measure, lower[used], upper[used], bins[k, used].copy(),
                        int(row["sum"][k]), int(row["highest"][k]), *(place if at else ()),
                    )
                )  # fmt: skip
        return found


def bounds(edges: Numbers) -> tuple[Numbers, Numbers]:
    """Lowest and highest values of the bins with these upper edges, uint64 [BINS] each."""
    lower = np.zeros_like(edges)
    lower[1:] = edges[:-1] + np.uint64(1)  # after the last bin there is none: these stay empty
    return lower, edges


def copy_region(region: Region, shard: int) -> ShardCounts:
    """Copy a region; values counted during the copy may be in some of its numbers and not in others."""
    rows, bins = region["rows"], region["bins"].reshape(-1, DISTRIBUTED, BINS)
    at = np.flatnonzero(rows["key"])
    barrier()
    sums = rows[at]
    edges = region["edges"][: MEASURES * BINS].reshape(MEASURES, BINS).copy()
    generation, made_ns = region["origin"].tolist()
    return ShardCounts(shard, generation, made_ns, at, sums, bins[at], edges)


class DistributionReader:
    """The distributions of all shards in a folder; reading never blocks their writers."""

    def __init__(self, shards: dict[int, Region]) -> None:
        self.shards = shards
        """Regions by worker number."""

    @classmethod
    def attach(cls, folder: Path) -> DistributionReader:
        """Map the regions of all workers, if there are any. Raises RegionError for a foreign one."""
        return cls({shard_of(path): attach(path) for path in sorted(folder.glob(f"worker-*.{KIND}"))})

    def is_current(self) -> bool:
        """Whether no worker has recreated its region since they were mapped."""
        return all(region.is_current() for region in self.shards.values())

    def counts(self) -> list[ShardCounts]:
        """Copy the counts of every shard."""
        return [copy_region(region, shard) for shard, region in self.shards.items()]

    def distributions(self) -> list[Distribution]:
        """By measure and queue over all shards, since each started; see `quantiles.grouped`."""
        groups: dict[tuple[object, ...], list[Distribution]] = {}
        for counts in self.counts():
            for distribution in counts.distributions():
                groups.setdefault(
                    (distribution.measure, distribution.node, distribution.port, distribution.queue), []
                ).append(distribution)
        return [merged(group) for group in groups.values()]


def attach(path: Path, kind: str = KIND) -> Region:
    """Map a worker's region for reading. Raises RegionError if it is foreign, of another version, or
    incomplete.
    """
    region = Region.attach(path, kind, DISTRIBUTION_VERSION)
    queues = len(region["rows"]) if "rows" in region else 0
    if region.shape() != shape_of(queues):
        raise RegionError(f"{path}: its arrays are not those of distributions")
    return region


def shard_of(path: Path) -> int:
    """Worker number of a region. Raises RegionError if its name has none."""
    number = path.name.removeprefix("worker-").split(".")[0]
    if not (number.isascii() and number.isdigit()):
        raise RegionError(f"{path}: not named as a worker's region (worker-N.{KIND})")
    return int(number)
