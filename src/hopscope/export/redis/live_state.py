"""Redis: the latest state of flows and distributions (`commands` has the keys).

Live flows and distributions are read from the regions when they are due; flow records, which are events, mark
the end of flows. After each new connection the whole state is written again, since the server may have lost
it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from ...detect.distributions.quantiles import Distribution, grouped
from ...detect.distributions.reader import DistributionReader
from ...detect.flows.reading.flow_walk import FlowBlock, FlowWalk, Numbers, joined
from ...detect.records import Kind, Metric
from ...memory.region import RegionError
from ...settings.destinations.redis import RedisStateSettings
from ..block import EventBlock, EventFilter
from ..destination import Context, DeliveryError, Destination
from .client import redis_client
from .commands import Command, Commands

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


class RedisState(Destination):
    """One Redis server."""

    Settings = RedisStateSettings

    def __init__(self, settings: RedisStateSettings, context: Context) -> None:
        super().__init__(settings, context)
        live_seconds = context.idle_seconds + 2 * settings.flush_seconds
        self._commands = Commands(settings, context.names, live_seconds)
        self._filter = EventFilter(settings)
        self._state = StateFeed(context.regions, settings.flush_seconds, settings.contents)

    def connect(self) -> None:
        """Connect; all state is due again."""
        self.close()
        self._client = redis_client(self.settings, self.settings.timeout_seconds)
        self._state.restart()

    def send(self, block: EventBlock) -> None:
        """Mark the flows of flow records as ended."""
        records = block.records
        left = records[(records["kind"] == Kind.FLOW_RECORD) & (records["metric"] == Metric.FLOW_PATH)]
        self._write(self._commands.ended(left))
        self._state.forget(left["flow_id"])  # flows that are live again are written again

    def tick(self, idle: Collection[int], ending: bool) -> int:
        """Write the state that is due; at the end, write everything that has changed."""
        deliveries = 0
        for block in self._state.flows(ending):
            wanted = self._filter.flows(block)
            if len(wanted):
                self._write(self._commands.flows(wanted))
                self.context.count("flows_total", len(wanted))
                deliveries += 1
        found = self._state.distributions(ending)
        if found is not None:
            self._write(self._commands.distributions(found))
            self.context.count("distributions_total", len(found))
            deliveries += 1
        return deliveries

    def _write(self, parts: Iterable[list[Command]]) -> None:
        """Send each part as one pipeline, without a transaction."""
        import redis

        for commands in parts:
            pipe = self._client.pipeline(transaction=False)
            for command in commands:
                pipe.execute_command(*command)
            try:
                pipe.execute()
            except (redis.RedisError, OSError) as error:
                raise DeliveryError(error) from None
