"""Stages of a sink other than its reports: adaptation to slow destinations, and the end of its flows."""

from __future__ import annotations

import time
from pathlib import Path

from ...detect.sink.adaptive import AdaptiveThresholds
from ...detect.sink.detector import SinkDetector
from ...export.counters import read_counters
from ..pipeline.shard import Shard
from ..pipeline.steps import Stage

LOOK_NS = 1_000_000_000
"""Interval at which destinations are checked."""


class Lag:
    """Detects that destinations lose events because they are too slow; `folder` is a data folder.

    A destination that does not answer does not count: fewer events would not help.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lost: int | None = None

    def look(self) -> bool:
        """Whether, since the last call, retention has deleted events that a destination had not received."""
        rows = read_counters(self._folder)
        lost = int(rows["expired_total"].sum())
        before, self._lost = self._lost, lost
        return before is not None and lost > before and bool(rows["ok"].all())


class Adapt(Stage):
    """Has the sink raise its limits while destinations lag."""

    def __init__(self, folder: Path, adaptive: AdaptiveThresholds) -> None:
        self._lag, self._adaptive = Lag(folder), adaptive
        self._look_ns = 0

    def tick(self, now_ns: int) -> None:
        """Check the destinations once per second."""
        if abs(now_ns - self._look_ns) >= LOOK_NS:
            self._look_ns = now_ns
            self._adaptive.note_lag(self._lag.look())


class EndFlows(Stage):
    """At the end, evicts the remaining flows, so that later stages and readers of the ring get them, and
    writes CLEARED to `shard` for their alarms.
    """

    def __init__(self, detector: SinkDetector, shard: Shard) -> None:
        self._detector, self._shard = detector, shard
        self._now_ns = time.time_ns()

    def tick(self, now_ns: int) -> None:
        """Remember the time, which is that of the packets."""
        self._now_ns = now_ns

    def close(self) -> None:
        """Put all live flows into the eviction ring."""
        for events in self._detector.close(self._now_ns):
            self._shard.write(events)
