"""Events of the cluster process, which have a shard of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ...detect.records import EVENT, EVENT_VERSION
from ...memory.ring import resume_ring
from ...settings.history import HistorySettings
from ..pipeline.event_writer import EventWriter
from ..pipeline.shard import open_journal

SHARD = 1022
"""Number of this shard, above those of all workers and below that of labels."""
RING_EVENTS = 1 << 14
"""Capacity of the ring of events, 2 MiB."""


def moved_events(
    history: HistorySettings, data: Path, regions: Path, notify: Callable[[str], None]
) -> EventWriter:
    """The writer of these events. Raises HistoryError and RegionError."""
    ring = resume_ring(regions / f"worker-{SHARD}.events", EVENT, RING_EVENTS, EVENT_VERSION)
    journal = open_journal(data, SHARD, history, notify)
    return EventWriter(SHARD, journal, ring, thread=True, notify=notify)
