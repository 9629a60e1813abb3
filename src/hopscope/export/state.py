"""The live state for a destination: changed flows and distributions, a part at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

from ..detect.distributions.quantiles import Distribution, grouped
from ..detect.distributions.reader import DistributionReader
from ..detect.flows.flow_walk import FlowBlock, FlowWalk, Numbers, joined
from ..memory.region import RegionError
from .batch import ExportBatch

ROWS = 256
"""Rows of the flow tables read at a time."""
FLOWS = 1024
"""Flows per part, plus those of one more step; events are delivered between parts."""


class StateFeed:
    """State in `regions`: every changed flow, and all distributions, once per `seconds`.

    It belongs to the thread of one destination; only `restart` and `repeat` may be called from others.
    """

    def __init__(self, regions: Path, seconds: float, flows: bool = True, distributions: bool = True) -> None:
        self._regions = regions
        self._seconds = max(seconds, 0.01)
        self._walk = FlowWalk(regions) if flows else None
        self._counted = distributions
        self._row = 0
        self._restart, self._repeat = threading.Event(), threading.Event()
        self._restart.set()
        self._begun = False
        self._turned = time.monotonic()
        self._debt = 0.0
        self._counted_at = -self._seconds

    def restart(self) -> None:
        """Deliver everything again, since the destination's state may be lost or stale."""
        self._restart.set()

    def repeat(self) -> None:
        """Deliver everything again after the current round: evictions were lost."""
        self._repeat.set()

    def forget(self, flow_ids: Numbers) -> None:
        """Deliver these flows again if they are live, since the destination has them as evicted."""
        if self._walk is not None:
            self._walk.forget(flow_ids)

    def due(self) -> Iterator[ExportBatch]:
        """The state due now: at most one part of the flows, and all distributions once per period."""
        now = time.monotonic()
        if self._walk is not None:
            self._debt = min(1.0, self._debt + (now - self._turned) / self._seconds)
            self._turned = now
            yield from self._flows()
        if self._counted and now - self._counted_at >= self._seconds:
            self._counted_at = now
            yield ExportBatch(distributions=self.distributions())

    def rest(self) -> Iterator[ExportBatch]:
        """All changes not delivered yet; called at the end."""
        if self._walk is not None:
            for _ in range(2):  # the current walk, and a complete one
                self._debt = 1.0
                yield from self._flows()
                while self._row:
                    self._debt = 1.0
                    yield from self._flows()
        if self._counted:
            yield ExportBatch(distributions=self.distributions())

    def distributions(self) -> list[Distribution]:
        """Distributions of every switch, and end to end, since the workers started."""
        try:
            return grouped(DistributionReader.attach(self._regions).distributions(), "switch")
        except RegionError:
            return []  # not complete yet: try again next time

    def _flows(self) -> Iterator[ExportBatch]:
        """Continue the walk as far as is due, or until there are enough flows for one part."""
        assert self._walk is not None
        if self._row == 0 and self._walk.attach():
            self._restart.set()
        rows = self._walk.rows
        if rows == 0:
            return
        if self._row == 0 and not self._begun and self._repeat.is_set():
            self._restart.set()
        if self._restart.is_set():
            self._restart.clear()
            self._repeat.clear()
            self._walk.forget()
            self._row, self._begun = 0, True
            yield ExportBatch(begins=True)
        step = min(ROWS, rows) / rows
        found: list[FlowBlock] = []
        while self._debt >= step - 1e-9 and sum(map(len, found)) < FLOWS:
            found.append(self._walk.changed(self._row, self._row + ROWS))
            self._debt -= step
            self._row += ROWS
            if self._row >= rows:
                self._row = 0
                break
        ends = self._begun and bool(found) and self._row == 0
        self._begun &= not ends
        block = joined(found)
        if len(block) or ends:
            yield ExportBatch(flows=block, ends=ends)
