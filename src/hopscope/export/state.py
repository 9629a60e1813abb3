"""Live state for a destination: changed flows and distributions, in parts."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterator
from pathlib import Path

from ..detect.distributions.quantiles import Distribution, grouped
from ..detect.distributions.reader import DistributionReader
from ..detect.flows.reading.flow_walk import FlowBlock, FlowWalk, Numbers, joined
from ..memory.region import RegionError

ROWS = 256
"""How many rows of the flow tables are read at a time."""
FLOWS = 1024
"""Flows per part, exceeded by at most one step; events are delivered between parts."""


class StateFeed:
    """State in `regions`: every changed flow, and all distributions, once per `seconds`.

    `contents` has `flows`, `distributions`, or both. Used only in the thread of one destination.
    """

    def __init__(self, regions: Path, seconds: float, contents: Collection[str]) -> None:
        self._regions = regions
        self._seconds = max(seconds, 0.01)
        self._walk = FlowWalk(regions) if "flows" in contents else None
        self._row = 0
        self._turned = time.monotonic()
        self._debt = 0.0
        self._distributions = "distributions" in contents
        self._counted_at = -math.inf

    def restart(self) -> None:
        """Return everything again, because the destination may have lost its state."""
        self._row, self._counted_at = 0, -math.inf
        if self._walk is not None:
            self._walk.forget()

    def forget(self, flow_ids: Numbers) -> None:
        """Return these flows again if they are live, because the destination has marked them as ended."""
        if self._walk is not None:
            self._walk.forget(flow_ids)

    def flows(self, rest: bool = False) -> Iterator[FlowBlock]:
        """Changed flows that are due, at most one part; `rest`: all of them, after a complete walk."""
        if self._walk is None:
            return
        now = time.monotonic()
        self._debt = min(1.0, self._debt + (now - self._turned) / self._seconds)
        self._turned = now
        if not rest:
            yield from self._part()
            return
        self._row, self._debt = 0, 1.0
        while self._debt > 0:
            yield from self._part()

    def distributions(self, rest: bool = False) -> list[Distribution] | None:
        """Distributions of every switch, and end to end, since the workers started; None: not due."""
        now = time.monotonic()
        if not self._distributions or not (rest or now - self._counted_at >= self._seconds):
            return None
        self._counted_at = now
        try:
            return grouped(DistributionReader.attach(self._regions).distributions(), "switch")
        except RegionError:
            return []  # not complete yet: try again next time

    def _part(self) -> Iterator[FlowBlock]:
        """Continue the walk as far as is due, or until a part is full."""
        assert self._walk is not None
        if self._row == 0:
            self._walk.attach()
        rows = self._walk.rows
        if rows == 0:
            self._debt = 0.0
            return
        step = min(ROWS, rows) / rows
        found: list[FlowBlock] = []
        while self._debt >= step - 1e-9 and sum(map(len, found)) < FLOWS:
            found.append(self._walk.changed(self._row, self._row + ROWS))
            self._debt = max(0.0, self._debt - step)
            self._row += ROWS
            if self._row >= rows:
                self._row = 0
                break
        block = joined(found)
        if len(block):
            yield block
