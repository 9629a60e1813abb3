"""The sink's side of detection: packets in, flows, distributions, events and evictions out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ...config import Settings
from ...memory.region import Region
from ...wire.records import Records, ReportBatch


class SinkDetector:
    """State of one shard of the sink (SmartNIC INT sink, III-B and III-C). Takes the place of `Detector`.

    `folder` holds the regions `worker-SHARD.flows`, `.distributions`, the rings `.sink-events` and
    `.evictions`, and `control.region`; existing ones of the same settings are continued.  None: private
    memory.  `counters` is a block in the order of `metrics.COUNTERS`, which is added to.
    """

    def __init__(
        self,
        settings: Settings,
        folder: Path | None = None,
        shard: int = 0,
        counters: npt.NDArray[np.uint64] | None = None,
    ) -> None:
        self.tables: dict[str, Region] = {}
        self.next_sequence = 0
        """Of the events that go into the journal."""
        self.event_rows: npt.NDArray[np.uint32] = np.empty(0, np.uint32)
        """Rows of the last batch whose packets caused an event, each once."""

    def update(self, batch: ReportBatch) -> Iterator[Records]:
        """Take packets in: flow table, distributions, rings.

        Yields blocks of EVENT records for the journal, at most `sink.journal_events` a second; what is held
        back is counted, and in the ring all the same.
        """
        raise NotImplementedError

    def tick(self, now_ns: int) -> Iterator[Records]:
        """Expire idle flows, adapt the thresholds: every 100 ms or oftener."""
        raise NotImplementedError

    def take_gone(self) -> tuple[Records, int]:
        """EVICTED records of the flows that left since the last call, and how many were lost."""
        raise NotImplementedError

    def close(self, now_ns: int) -> None:
        """Put every live flow into the eviction ring (Why.ENDED)."""
        raise NotImplementedError
