"""Distributions of about the last minute, as the difference from earlier copies."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass

from ...detect.distributions.quantiles import Distribution, grouped
from ...detect.distributions.reader import DistributionReader, ShardCounts
from ...memory.region import RegionError
from ...present.collector_state import CollectorState

EVERY_SECONDS = 5.0
WINDOW_SECONDS = 60.0
MAX_QUEUES = 8192
"""Maximum number of queues of a worker that are copied, at 3 KiB per queue and copy."""
_COPIES = 5
_GAP_SECONDS = WINDOW_SECONDS / _COPIES


@dataclass(frozen=True, slots=True)
class RecentDistributions:
    """Distributions of the last seconds."""

    parts: tuple[Distribution, ...] = ()
    """By measure, switch, port and queue."""
    seconds: float = 0.0
    """Covered time; 0: all time."""
    counted: bool = False
    """Whether distributions are on."""

    @property
    def span(self) -> str:
        """The window in words."""
        return f"in the last {round(self.seconds)} s" if self.seconds else "so far"


class RecentDistributionsReader:
    """Reads the distributions of a collector every EVERY_SECONDS."""

    def __init__(self, state: CollectorState) -> None:
        self._state = state
        self._reader: DistributionReader | None = None
        self._copies: deque[tuple[float, dict[int, ShardCounts]]] = deque(maxlen=_COPIES)
        self._due = 0.0
        self._recently = RecentDistributions()

    def snapshot(self, now: float | None = None) -> RecentDistributions:
        """The newest result, the same object until there is a newer one; `now`: in s."""
        now = time.monotonic() if now is None else now
        if now >= self._due:
            self._due = now + EVERY_SECONDS
            self._recently = self._window(self._counts(), now)
        return self._recently

    def _counts(self) -> dict[int, ShardCounts]:
        try:
            if self._reader is None or not self._reader.shards or not self._reader.is_current():
                self._reader = DistributionReader.attach(self._state.regions)
            if any(len(region["rows"]) > MAX_QUEUES for region in self._reader.shards.values()):
                return {}
            return {counts.shard: counts for counts in self._reader.counts()}
        except (RegionError, OSError):
            self._reader = None
            return {}

    def _window(self, counts: dict[int, ShardCounts], now: float) -> RecentDistributions:
        before = self._copies[0] if self._copies else None
        if counts and (before is None or now - self._copies[-1][0] >= _GAP_SECONDS):
            self._copies.append((now, counts))
        parts: list[Distribution] = []
        for shard, each in counts.items():
            old = None if before is None else before[1].get(shard)
            parts += (each.since(old) or each).distributions()
        seconds = 0.0 if before is None else now - before[0]
        return RecentDistributions(tuple(grouped(parts, "queue")), seconds, bool(counts))
