"""Reads workers' distributions from another process."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ...memory.region import Region, RegionError, barrier
from ...wire.records import Records
from ..records import BINS, DISTRIBUTED, DISTRIBUTION_VERSION, NO_PORT, SILENT_NS
from ..sink.records import MEASURES, Measure
from .quantiles import Distribution, merged
from .region import KIND, arrays_of

Numbers = npt.NDArray[np.uint64]


@dataclass(slots=True)
class ShardCounts:
    """Counts of one shard so far, or between two times."""

    shard: int
    generation: int
    """Random number that identifies the region; a new region has a different one, and counts from 0."""
    made_ns: int
    """Creation time of the region."""
    at: npt.NDArray[np.int64]
    """Used rows of the region, int64 [rows], ascending. A row belongs to the same queue for as long as its
    key and its `first_ns` stay the same.
    """
    rows: Records
    """DISTRIBUTION [rows]."""
    bins: Numbers
    """uint64 [rows, DISTRIBUTED, BINS]."""
    edges: Numbers
    """Upper edges of the bins, uint64 [MEASURES, BINS]."""

    def since(self, before: ShardCounts | None) -> ShardCounts | None:
        """Counts added after `before`; None if a count decreased, so that this does not continue `before`.

        Values that a row counted between `before` and its reuse for another queue are unknown. `highest` is
        still that of all values, and therefore an upper bound.
        """
        rows, bins = self.rows.copy(), self.bins.copy()
        if before is not None and before.generation == self.generation:
            now, then = self.continued(before)
            if np.any(bins[now] < before.bins[then]):
                return None
            bins[now] -= before.bins[then]
            rows["sum"][now] -= before.rows["sum"][then]
        changed = bins.any(axis=(1, 2))
        return replace(self, at=self.at[changed], rows=rows[changed], bins=bins[changed])

    def continued(self, before: ShardCounts) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Indices, here and in `before`, of the rows that belong to the same queue in both."""
        _, now, then = np.intersect1d(self.at, before.at, assume_unique=True, return_indices=True)
        same = np.ones(len(now), bool)
        for name in ("key", "first_ns"):
            same &= self.rows[name][now] == before.rows[name][then]
        return now[same], then[same]

    def distributions(self) -> list[Distribution]:
        """One distribution for each measure and queue with values, and that of the end-to-end latency."""
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
    lower[1:] = edges[:-1] + np.uint64(1)  # edges after the last bin have no bin: these stay empty
    return lower, edges


def copy_region(region: Region, shard: int) -> ShardCounts:
    """Copy a region. A value counted during the copy may be missing from some of the numbers. Rows that are
    reused for another queue during the copy are left out.
    """
    rows, bins = region["rows"], region["bins"].reshape(-1, DISTRIBUTED, BINS)
    at = np.flatnonzero(rows["key"])
    barrier()
    sums, counts = rows[at], bins[at]
    barrier()
    same = (sums["key"] != 0) & (sums["key"] == rows["key"][at])
    if not same.all():
        at, sums, counts = at[same], sums[same], counts[same]
    edges = region["edges"][: MEASURES * BINS].reshape(MEASURES, BINS).copy()
    generation, made_ns = region["origin"].tolist()
    return ShardCounts(shard, generation, made_ns, at, sums, counts, edges)


class DistributionReader:
    """The distributions of all shards in a folder; reading never blocks their writers."""

    def __init__(self, shards: dict[int, Region]) -> None:
        self.shards = shards
        """Regions by worker number."""

    @classmethod
    def attach(cls, folder: Path) -> DistributionReader:
        """Map the regions of all workers, if any exist. Raises RegionError for a foreign file."""
        return cls({shard_of(path): attach(path) for path in sorted(folder.glob(f"worker-*.{KIND}"))})

    def is_current(self) -> bool:
        """Whether no worker has recreated its region since they were mapped."""
        return all(region.is_current() for region in self.shards.values())

    def counts(self) -> list[ShardCounts]:
        """Copy the counts of every shard."""
        return [copy_region(region, shard) for shard, region in self.shards.items()]

    def fill(self) -> float:
        """Share of rows in use, not counting silent rows, in the fullest shard."""
        shares = [0.0]
        for region in self.shards.values():
            rows = region["rows"][1:]
            heard = rows["last_ns"][rows["key"] != 0]
            newest = heard.max(initial=0)
            shares.append(np.count_nonzero(heard > newest - SILENT_NS) / len(rows))
        return max(shares)

    def distributions(self) -> list[Distribution]:
        """Distributions by measure and queue over all shards, since each started; see `quantiles.grouped`."""
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
    return region.require(arrays_of(region.length("rows")))


def shard_of(path: Path) -> int:
    """Worker number of a region. Raises RegionError if its name has none."""
    number = path.name.removeprefix("worker-").split(".")[0]
    if not (number.isascii() and number.isdigit()):
        raise RegionError(f"{path}: not named as a worker's region (worker-N.{KIND})")
    return int(number)
