"""The thread of one destination of events: reads history from its position on, and delivers it in blocks.

An unreachable destination uses no memory: events wait in history, and only the position is kept. Events that
retention deletes meanwhile are counted as lost.
"""

from __future__ import annotations

import time
from contextlib import closing, suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np

from ..history.follow import EventFollower
from ..memory.region import RegionError
from ..present.events import when
from ..wire.records import Records
from .block import EventBlock, EventFilter
from .counters import DestinationRow
from .delivery import DeliveryThread
from .destination import DeliveryError, Destination
from .positions import Positions

POLL_SECONDS = 0.1
"""Interval at which an idle thread looks for events; ten times longer if batches may wait for long, since
each look reads the waiting events again.
"""
RUN_EVENTS = 65_536
"""Maximum number of events with the same time in a block; longer runs are cut."""
RECALLED_EVENTS = 16_384
"""How many events `recall` shows at a time."""
EXPIRED_SECONDS = 3600.0
"""Minimum time between log lines about events that were deleted before they were sent."""


class Sender(DeliveryThread[Destination]):
    """Delivers the events of the data folder `folder` to one destination."""

    def __init__(self, destination: Destination, folder: Path, row: DestinationRow) -> None:
        super().__init__(destination, row)
        self._settings = destination.settings
        self._filter = EventFilter(self._settings)
        self._folder = folder
        self._follower = EventFollower(folder)
        self._known: set[int] = set()
        """Shards whose position has been checked against history."""
        self._idle: set[int] = set()
        self._waiting_since: dict[int, float] = {}
        self._given: dict[int, tuple[int, int]] = {}
        """By shard, the begin of the last offered block, and the position after it."""
        self._expired, self._expired_at = 0, -EXPIRED_SECONDS
        """Events deleted before they were sent since the last log line, and the time of that line."""

    @cached_property
    def _positions(self) -> Positions:
        """Opened in the thread, so that a disk without room for the file does not end other destinations."""
        return Positions(self._folder, self.destination.context.name)

    def _idle_seconds(self) -> float:
        patient = self._settings.batch_seconds > 100 * POLL_SECONDS
        return 10 * POLL_SECONDS if patient else POLL_SECONDS

    def _close(self) -> None:
        super()._close()
        self._follower.close()
        with suppress(RegionError):
            self._positions.close()

    def _turn(self, ending: bool) -> bool:
        """Deliver at most one block of every shard."""
        if self._positions.is_new:
            for shard in self._follower.shards():
                self._positions.start(shard, self._beginning(shard))
            self._positions.begin()
        self._connect()
        shards = self._follower.shards()
        self._idle.update(set(self._positions.shards()).difference(shards))  # these shards have left history
        self._tick(ending)
        busy = False
        for shard in shards:
            if self._stopping:
                return False
            block = self._next(shard, ending)
            if block is None:
                self._idle.add(shard)
                continue
            self._idle.discard(shard)
            self._deliver(block)
            busy = True
        if not busy and ending:
            self._tick(ending)
        return busy

    def _tick(self, ending: bool) -> None:
        """Let the destination do what is due; it has itself counted what it rejected for good."""
        try:
            delivered = self.destination.tick(self._idle, ending)
        except DeliveryError as error:
            self.row.count("sent_total", error.delivered)
            if error.again:
                raise
            self._log.warning("rejected", to=self.row.place, reason=str(error))
            self.row.healthy(False, str(error))
            return
        if delivered:
            self._succeeded(delivered)

    def _next(self, shard: int, ending: bool) -> EventBlock | None:
        """The next block of a shard; None: too few events wait, and none has waited long enough."""
        if shard not in self._known:
            self._check(shard)
        position, end = self._positions.next(shard), self._positions.under_way(shard)
        limit = self._settings.batch_events + 1 if end is None else end - position
        files = self._follower.from_files
        events = self._follower.run(shard, position, limit)
        if not len(events):
            self._waiting_since.pop(shard, None)
            return None
        if self._pass_deleted(shard, events):
            position, end = self._positions.next(shard), None
        if end is None:
            if len(events) <= self._settings.batch_events and not (ending or self._due(shard)):
                return None
            events = self._cut(shard, position, events)
        self.row.count("replayed_total", self._follower.from_files - files)
        self._waiting_since.pop(shard, None)
        self._positions.sending(shard, position + len(events))
        wanted = self._filter.of(events)
        self.row.count("filtered_total", len(events) - len(wanted))
        member, last = self.destination.context.member, position + len(events) - 1
        return EventBlock(member, shard, position, last, wanted, events)

    def _beginning(self, shard: int) -> int:
        """Where a new destination begins: events that retention deleted earlier do not count as lost."""
        following = self._follower.following(shard)  # read first, so that events written meanwhile are sent
        if self._settings.begin == "oldest" and len(oldest := self._follower.read(shard, 0, 1)):
            return int(oldest["sequence"][0])
        return following

    def _check(self, shard: int) -> None:
        """If history never had an event at the position of a shard, begin with the next event: the position
        is damaged, or history was restored from an older copy.
        """
        position, end = self._positions.next(shard), self._follower.following(shard)
        if position > end:
            self._log.warning(
                "position after the end of history",
                to=self.row.place,
                shard=shard,
                position=position,
                end=end,
            )
            self._positions.start(shard, end)
        self._known.add(shard)

    def _failed(self, error: Exception) -> None:
        """Open history again after a failure, so that events deleted meanwhile are noticed and counted."""
        super()._failed(error)
        before, self._follower = self._follower, EventFollower(self._folder)
        with suppress(Exception):  # the next turn raises it
            before.close()  # it may hold deleted files open
            for shard in () if self._positions.is_new else self._follower.shards():
                if shard not in self._known:
                    self._check(shard)
                self._pass_deleted(shard, self._follower.read(shard, self._positions.next(shard), 1))

    def _pass_deleted(self, shard: int, events: Records) -> bool:
        """Whether the next `events` of a shard begin after its position, which then moves to their begin."""
        if not len(events):
            return False
        position, first = self._positions.next(shard), int(events["sequence"][0])
        if first <= position:
            return False
        self._positions.start(shard, first)
        self.row.count("expired_total", first - position)
        self._expired += first - position
        if time.monotonic() - self._expired_at >= EXPIRED_SECONDS:
            self._log.warning(
                "events were gone from history before they were sent",
                to=self.row.place,
                events=self._expired,
                oldest_kept=when(events["time_ns"][0]),
            )
            self._expired, self._expired_at = 0, time.monotonic()
        return True

    def _cut(self, shard: int, position: int, events: Records) -> Records:
        """At most a batch of events; those with the same time stay together."""
        most = self._settings.batch_events
        if len(events) <= most:
            return events
        times = events["time_ns"]
        if times[most] != times[most - 1]:
            return events[:most]
        others = np.flatnonzero(times[:most] != times[most - 1])
        if len(others):
            return events[: int(others[-1]) + 1]
        events = self._follower.read(shard, position, RUN_EVENTS)  # a whole batch has one time
        others = np.flatnonzero(events["time_ns"] != times[0])
        return events[: int(others[0])] if len(others) else events

    def _recall(self, block: EventBlock) -> None:
        """Show the destination the events before a block, unless they were in its last block."""
        first, after = self._given.get(block.shard, (-1, -1))
        self._given[block.shard] = block.first, block.last + 1
        if not self.destination.remembers or block.first in (first, after):
            return
        at = max(0, block.first - self.destination.remembers)
        with closing(EventFollower(self._folder)) as follower:
            while at < block.first:
                events = follower.read(block.shard, at, min(RECALLED_EVENTS, block.first - at))
                events = events[events["sequence"] < block.first]
                if not len(events):
                    return
                begin, at = int(events["sequence"][0]), int(events["sequence"][-1]) + 1
                self.destination.recall(EventBlock(block.member, block.shard, begin, at - 1, events))

    def _due(self, shard: int) -> bool:
        """Whether the events of a shard have waited long enough for a full batch."""
        now = time.monotonic()
        since = self._waiting_since.setdefault(shard, now)
        return bool(now - since >= self._settings.batch_seconds)

    def _deliver(self, block: EventBlock) -> None:
        """Send one block; it stays pending until it is confirmed or given up."""
        taken = 0
        self._recall(block)
        if len(block):
            taken = self._offer(lambda: self.destination.send(block), block.id, len(block))
        elif self.destination.remembers:
            self.destination.recall(replace(block, records=block.every))
        self._positions.sent(block.shard)
        if taken and not self.destination.buffers:
            self.row.count("events_total", taken)
            if taken == len(block):
                self._succeeded(1)
