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


def create_counters(folder: Path, webhooks: int) -> Region:
    """Region with one row per webhook, in the regions of the data folder; zeros."""
    path = folder / "regions" / FILE_NAME
    return Region.create(path, KIND, VERSION, {"webhooks": (COUNTER_ROW, webhooks)})


def read_counters(folder: Path) -> Records:
    """COUNTER_ROW [webhooks]; empty where no alerts are sent."""
    try:
        with Region.attach(folder / "regions" / FILE_NAME, KIND, VERSION) as region:
            return region["webhooks"].copy()
    except RegionError:
        return np.empty(0, COUNTER_ROW)
