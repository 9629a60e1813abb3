"""Counters of the webhooks, in a region that `/metrics` reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..memory.region import Region, RegionError
from ..wire.records import Records

COUNTED = (
    ("sent_total", "Posts that a webhook has taken."),
    ("events_total", "Events in these posts."),
    ("failed_total", "Posts given up after the last retry."),
    ("retried_total", "Tries after a failed one."),
    ("held_back_total", "Events held back by the rate limit per kind."),
    ("queue_full_total", "Events dropped because the queue of posts was full."),
    ("ring_lost_total", "Events that the ring had overwritten before alerts read them."),
)
COUNTER_ROW = np.dtype([(name, "<u8") for name, _ in COUNTED])
"""One webhook's counters, in the order of the configuration."""
FILE_NAME = "export.counters"
KIND = "alerts"
VERSION = 1
SHARDS = 1024


def open_counters(folder: Path, webhooks: int) -> Region:
    """Region with one row per webhook, and `next`: by shard, 1 + the sequence up to which alerts have read.

    It is continued where it is there, so that an export process that is started again posts nothing twice.
    """
    path = folder / "regions" / FILE_NAME
    arrays = {"webhooks": (COUNTER_ROW, webhooks), "next": (np.dtype(np.uint64), SHARDS)}
    try:
        region = Region.attach(path, KIND, VERSION, writable=True)
        if region.shape() == arrays:
            return region
    except RegionError:
        pass  # none yet
    return Region.create(path, KIND, VERSION, arrays)


def read_counters(folder: Path) -> Records:
    """COUNTER_ROW [webhooks]; empty where no alerts are sent."""
    try:
        with Region.attach(folder / "regions" / FILE_NAME, KIND, VERSION) as region:
            return region["webhooks"].copy()
    except RegionError:
        return np.empty(0, COUNTER_ROW)
