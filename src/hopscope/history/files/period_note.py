"""A note of which distributions of a shard are archived: `worker-N.archived`, beside their region."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...detect.distributions.reader import ShardCounts
from ...detect.records import BINS, DISTRIBUTED, DISTRIBUTION, DISTRIBUTION_VERSION
from ...detect.sink.records import MEASURES
from ...memory.region import Region

NOTE = "archived"


@dataclass(slots=True)
class PeriodNote:
    """The part of a region's counts that is in the files of its shard."""

    counts: ShardCounts | None
    """Counts of the region at the end of the last period; None before the first."""
    number: int
    """Number of the next period."""
    until_ns: int
    """End of the last period."""


def read_note(regions: Path, shard: int) -> PeriodNote | None:
    """The note of a shard, or None if it has none. RegionError: it is damaged."""
    path = regions / f"worker-{shard}.{NOTE}"
    if not path.exists():
        return None
    region = Region.attach(path, NOTE, DISTRIBUTION_VERSION)
    region.require(_arrays(region.length("at")))
    generation, made_ns, number, until_ns = region["note"].tolist()
    counts = ShardCounts(
        shard,
        generation,
        made_ns,
        region["at"],
        region["rows"],
        region["bins"].reshape(-1, DISTRIBUTED, BINS),
        region["edges"].reshape(-1, BINS),
    )
    return PeriodNote(counts, number, until_ns)


def write_note(regions: Path, note: PeriodNote) -> None:
    """Replace the note of a shard atomically. RegionError, OSError: it failed."""
    counts = note.counts
    assert counts is not None
    path = regions / f"worker-{counts.shard}.{NOTE}"
    region = Region.create(path.with_suffix(".next"), NOTE, DISTRIBUTION_VERSION, _arrays(len(counts.at)))
    region["note"][:] = counts.generation, counts.made_ns, note.number, note.until_ns
    region["at"][:] = counts.at
    region["rows"][:] = counts.rows
    region["bins"][:] = counts.bins.reshape(-1)
    region["edges"][:] = counts.edges.reshape(-1)
    region.rename(path)


def _arrays(used: int) -> dict[str, tuple[np.dtype[Any], int]]:
    number = np.dtype(np.uint64)
    return {
        "note": (number, 4),
        "at": (np.dtype(np.int64), used),
        "rows": (DISTRIBUTION, used),
        "bins": (number, used * DISTRIBUTED * BINS),
        "edges": (number, MEASURES * BINS),
    }
