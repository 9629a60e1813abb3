"""A worker's region of histograms by queue."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ...base.hash_keys import hash_keys
from ...memory.region import Region
from ...wire.records import Records, ReportBatch
from ..records import BINS, DISTRIBUTED, DISTRIBUTION, DISTRIBUTION_VERSION, KEYS
from ..sink.records import MEASURES, Measure
from .quantiles import NO_BOUND

if TYPE_CHECKING:  # importing pydantic would delay the start of the process that answers SQL by 0.1 s
    from ...settings.sink import DistributionSettings

KIND = "distributions"
Edges = npt.NDArray[np.uint64]


def log_edges() -> Edges:
    """Upper edges of the logarithmic bins, uint64 [BINS]: one bin per value below 8, then four per octave."""
    lowest = [bin_at if bin_at < 8 else (4 + bin_at % 4) << (bin_at // 4 - 1) for bin_at in range(1, BINS)]
    return np.array([value - 1 for value in lowest] + [NO_BOUND], np.uint64)


def padded(edges: Sequence[int]) -> Edges:
    """Upper edges in the kernels' form, uint64 [BINS]; the logarithmic edges if `edges` is empty."""
    if not edges:
        return log_edges()
    return np.array([*edges, *[NO_BOUND] * (BINS - len(edges))], np.uint64)


def edges_of(settings: DistributionSettings) -> Edges:
    """`edges` of `distribution_kernel`: the upper edges by Measure, then for each 1 if it is logarithmic."""
    configured = [getattr(settings, measure.label) for measure in Measure]
    flags = np.array([not edges for edges in configured], np.uint64)
    return np.concatenate([*map(padded, configured), flags])


def arrays_of(queues: int) -> dict[str, tuple[np.dtype[Any], int]]:
    """Arrays of a region; `origin` is a random number, and the creation time of the region (ns since the
    epoch).
    """
    number = np.dtype(np.uint64)
    return {
        "rows": (DISTRIBUTION, queues),
        "bins": (number, queues * DISTRIBUTED * BINS),
        "edges": (number, MEASURES * BINS + MEASURES),
        "origin": (number, 2),
    }


class Distributions:
    """Counts of one shard, in the region `worker-SHARD.distributions` of a folder; None: private memory.

    An existing region with the same settings is continued; one with other settings is recreated. The keys of
    the hash table are derived from `secret`. Raises RegionError for a foreign file.
    """

    def __init__(
        self,
        settings: DistributionSettings,
        folder: Path | None = None,
        shard: int = 0,
        *,
        secret: bytes = b"",
    ) -> None:
        self.region = _open(settings, folder, shard)
        self.rows: Records = self.region["rows"]
        """DISTRIBUTION [queues]."""
        self.bins: npt.NDArray[np.uint64] = self.region["bins"]
        """uint64 [queues * DISTRIBUTED * BINS]."""
        self.edges: Edges = self.region["edges"]
        """See `edges_of`."""
        self._keys = hash_keys(secret, KEYS)
        self._tally = np.zeros(2, np.uint64)
        self.evictions = 0
        """Rows that `update` has replaced with rows of other queues so far."""

    def update(self, batch: ReportBatch) -> int:
        """Count the hops of accepted reports; returns how many found no room in the table."""
        from ...base.kernels.jit import readonly
        from .distribution_kernel import count_batch

        reports, hops = readonly(batch.reports), readonly(batch.hops)
        self._tally[:] = 0
        count_batch(reports, hops, self.rows, self.bins, self.edges, self._keys, self._tally)
        full, evictions = self._tally.tolist()
        self.evictions += evictions
        return int(full)


def _open(settings: DistributionSettings, folder: Path | None, shard: int) -> Region:
    shape, edges = arrays_of(settings.queues), edges_of(settings)
    path = None if folder is None else folder / f"worker-{shard}.{KIND}"
    if path is not None:
        found = Region.resume(path, KIND, DISTRIBUTION_VERSION, shape)
        if found is not None and np.array_equal(found["edges"], edges):
            return found
    region = Region.create(path, KIND, DISTRIBUTION_VERSION, shape)
    region["edges"][:] = edges
    region["origin"][:] = secrets.randbits(64), time.time_ns()
    region["rows"]["key"][0] = 1
    return region
