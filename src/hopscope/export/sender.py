"""The thread of one destination of events: reads history from its position on, and delivers it in blocks.

A destination that is away costs nothing but its position: events wait in history, not in memory.  Those that
retention deletes meanwhile are counted as lost.
"""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import numpy as np

from ..base.errors import HopscopeError
from ..base.log import logger
from ..history.follow import EventFollower
from ..wire.records import Records
from .block import EventBlock, EventFilter
from .counters import DestinationRow
from .destination import Context, Destination
from .exporter import DeliveryError
from .positions import Positions

POLL_SECONDS = 0.1
"""Interval at which an idle thread looks for events; ten times longer if batches may wait for long, since it
reads again what waits."""
MIN_PAUSE = 0.5
MAX_PAUSE = 30.0
RUN_EVENTS = 65_536
"""Most events with one time; longer runs are cut."""


class Sender:
    """Delivers the events of the data folder `folder` to one destination: `start`, then `finish` and `ended`.

    `row` has its counters and health.
    """

    def __init__(self, destination: Destination, folder: Path, row: DestinationRow) -> None:
        self.destination = destination
        self.row = row
        context: Context = destination.context
        self._member = context.member
        self._settings = destination.settings
        self._filter = EventFilter(self._settings)
        self._positions = Positions(folder, context.name)
        self._follower = EventFollower(folder)
        self._log = logger("export")
        self._stop, self._ending = threading.Event(), threading.Event()
        self._connected, self._unreachable = False, False
        self._idle: set[int] = set()
        self._waiting_since: dict[int, float] = {}
        self._thread = threading.Thread(target=self._work, name=context.name, daemon=True)
        self.row.healthy(True, "")

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def finish(self) -> None:
        """End the thread when what is there now is delivered."""
        self._ending.set()

    def ended(self, timeout: float, give_up: bool = False) -> bool:
        """Whether the thread has ended within `timeout` seconds; `give_up`: the next start has the rest."""
        if give_up:
            self._stop.set()
        self._thread.join(timeout)
        return not self._thread.is_alive()

    @property
    def grace(self) -> float:
        """Maximum seconds of one delivery, awaited at the end."""
        return float(self._settings.timeout_seconds) + 1

    # ------------------------------------------------------------------------------------- the thread

    def _work(self) -> None:
        pause = MIN_PAUSE
        try:
            while not self._stop.is_set():
                try:
                    busy = self._turn()
                except HopscopeError as error:
                    self._failed(error)
                    if self._ending.is_set():
                        return  # the position is kept: the next start goes on
                    self._stop.wait(pause * random.uniform(0.5, 1.5))  # other collectors retry, too
                    pause = min(2 * pause, MAX_PAUSE)
                    continue
                pause = MIN_PAUSE
                if not busy:
                    if self._ending.is_set():
                        return
                    patient = self._settings.batch_seconds > 100 * POLL_SECONDS
                    self._stop.wait(10 * POLL_SECONDS if patient else POLL_SECONDS)
        except Exception as error:  # a defect of this destination must not end the others
            self._log.error("destination ended", to=self.row.place, reason=f"{type(error).__name__}: {error}")
            self.row.healthy(False, f"ended: {type(error).__name__}: {error}")
        finally:
            self.destination.close()
            self._follower.close()
            self._positions.close()

    def _turn(self) -> bool:
        """Deliver at most one block of every shard; returns whether there may be more."""
        if self._positions.is_new:
            if self._settings.begin == "now":
                for shard in self._follower.shards():
                    self._positions.start(shard, self._follower.end(shard))
            self._positions.begin()
        self._connect()
        self._tick()
        busy = False
        for shard in self._follower.shards():
            if self._stop.is_set():
                return False
            block = self._next(shard)
            if block is None:
                self._idle.add(shard)
                continue
            self._idle.discard(shard)
            self._deliver(block)
            busy = True
        if not busy and self._ending.is_set():
            self._tick()
        return busy

    def _connect(self) -> None:
        if self._connected:
            return
        try:
            self.destination.connect()
        except Exception as error:
            self._unreachable = True
            if isinstance(error, HopscopeError):
                raise
            raise DeliveryError(f"{type(error).__name__}: {error}") from error
        self.row.count("connections_total", 1)
        self._connected = True
        if self._unreachable:
            self._unreachable = False
            self._succeeded(0)

    def _tick(self) -> None:
        """Let the destination do what is due; what it rejected for good, it has counted."""
        try:
            delivered = self.destination.tick(self._idle, self._ending.is_set())
        except DeliveryError as error:
            if error.again:
                raise
            self._log.warning("rejected", to=self.row.place, reason=str(error))
            self.row.healthy(False, str(error))
            return
        if delivered:
            self._succeeded(delivered)

    def _next(self, shard: int) -> EventBlock | None:
        """The next block of a shard; None: too few events wait, and none for long."""
        position, end = self._positions.next(shard), self._positions.under_way(shard)
        limit = self._settings.batch_events + 1 if end is None else end - position
        files = self._follower.from_files
        events = self._read(shard, position, limit)
        if not len(events):
            self._waiting_since.pop(shard, None)
            return None
        first = int(events["sequence"][0])
        if first > position:
            self.row.count("expired_total", first - position)
            self._positions.start(shard, first)
            position, end = first, None
        if end is None:
            if len(events) <= self._settings.batch_events and not self._due(shard):
                return None
            events = self._cut(shard, position, events)
        self.row.count("replayed_total", self._follower.from_files - files)
        self._waiting_since.pop(shard, None)
        self._positions.sending(shard, position + len(events))
        wanted = self._filter.of(events)
        self.row.count("filtered_total", len(events) - len(wanted))
        return EventBlock(self._member, shard, position, position + len(events) - 1, wanted)

    def _read(self, shard: int, position: int, limit: int) -> Records:
        """At most `limit` events without a gap: ring, journal and segments may each have a part of them."""
        events = self._follower.read(shard, position, limit)
        while 0 < len(events) < limit:
            end = int(events["sequence"][-1]) + 1
            more = self._follower.read(shard, end, limit - len(events))
            if not len(more) or more["sequence"][0] != end:
                break
            events = np.concatenate([events, more])
        return events

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

    def _due(self, shard: int) -> bool:
        """Whether the events of a shard have waited long enough for a full batch."""
        if self._ending.is_set():
            return True
        now = time.monotonic()
        since = self._waiting_since.setdefault(shard, now)
        return bool(now - since >= self._settings.batch_seconds)

    def _deliver(self, block: EventBlock) -> None:
        """Send one block; it is under way until it is confirmed or given up."""
        if not len(block):
            self._positions.sent(block.shard)
            return
        try:
            self._connect()
            self.destination.send(block)
        except DeliveryError as error:
            if error.again:
                raise
            self._give_up(block, error)
            return
        except HopscopeError:
            raise
        except Exception as error:
            self._give_up(block, error)
            return
        self._positions.sent(block.shard)
        if not self.destination.buffers:
            self.row.count("events_total", len(block))
            self._succeeded(1)

    def _succeeded(self, deliveries: int) -> None:
        self.row.count("sent_total", deliveries)
        if not self.row.ok:
            self._log.info("delivered again", to=self.row.place)
        self.row.healthy(True, "")

    def _give_up(self, block: EventBlock, error: Exception) -> None:
        """The destination will never accept this block: count it, and go on with the next."""
        problem = str(error) if isinstance(error, DeliveryError) else f"{type(error).__name__}: {error}"
        self._log.warning("block rejected", to=self.row.place, block=block.id, reason=problem)
        self.row.count("failed_total", len(block))
        self.row.healthy(False, problem)
        self._positions.sent(block.shard)
        self._connected = False

    def _failed(self, error: HopscopeError) -> None:
        if self.row.ok:
            self._log.warning("not delivered", to=self.row.place, reason=str(error))
        self.row.count("retried_total", 1)
        self.row.healthy(False, str(error))
        self._connected = False
