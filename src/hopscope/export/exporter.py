"""Base of destinations: each has a bounded queue of batches, and its own thread.

Nothing waits for a destination.  The export process reads the rings and offers every destination what is new;
each has a queue of bounded size and a thread that delivers.  State (live flows, distributions) is not queued:
the thread reads it from the regions when it is due, so it is late if a destination is slow, but never lost.
Lost events and evictions are counted by reason (`counters.LOST`). A new destination is a subclass with
`reads` and `deliver`; see `redis.py`.
"""

from __future__ import annotations

import random
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Generic, TypeVar

from ..base.errors import HopscopeError
from ..base.log import logger
from ..wire.records import Records
from .batch import ExportBatch, RingRead
from .counters import DestinationRow, Health, health_of
from .delivery import stop_all as _stop_all
from .destination import DeliveryError

if TYPE_CHECKING:
    from .state import StateFeed

MIN_PAUSE = 0.5
MAX_PAUSE = 60.0
IDLE_SECONDS = 0.1
"""Interval at which an idle thread checks whether state is due."""


Item = TypeVar("Item")


class Exporter(ABC, Generic[Item]):
    """One destination: `start` it, `export` batches to it from one thread, `stop` it.

    `row` is its DESTINATION, one record that only this object writes.  An Item is one delivery: an
    ExportBatch, or what a subclass makes of it in `items`.
    """

    reads: frozenset[str] = frozenset({"events"})
    """Kinds of rings that it needs: fields of ExportBatch."""
    leaving = "evicted"
    """The kind with evicted flows: if some are lost, all live flows are exported again."""
    max_pause = MAX_PAUSE

    def __init__(self, row: Records, room: int, state: StateFeed | None = None) -> None:
        self.row = row
        self._about = DestinationRow(row)
        self.state = state
        """The live state; None: not needed."""
        self.log = logger("export")
        self._room = room
        self._taken = 0
        self._queue: deque[Item] = deque()
        self._filled = threading.Condition()
        self._ending = False
        self._stop = threading.Event()
        self._about.healthy(True, "")
        self._thread = threading.Thread(target=self._work, name=self.kind, daemon=True)

    # ------------------------------------------------------------------------- for subclasses

    @abstractmethod
    def deliver(self, item: Item) -> None:
        """Write one item, in the destination's thread. Raises DeliveryError if it was not accepted
        completely.
        """

    @abstractmethod
    def items(self, batch: ExportBatch) -> Iterator[Item]:
        """Items to deliver for a batch; called in the exporting thread, so it must not wait."""

    def size(self, item: Item) -> int:
        """Size of an item; the queue holds at most `room` in total."""
        return 1

    def events(self, item: Item) -> int:
        """Number of events and evictions in an item."""
        return 1

    def close(self) -> None:
        """Close what was opened; called last in the destination's thread."""

    # ------------------------------------------------------------------------- what the process calls

    @property
    def kind(self) -> str:
        """Kind of destination: the name of its settings."""
        return bytes(self.row["kind"][0]).decode()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def export(self, batch: ExportBatch) -> None:
        """Queue the items of a batch, or count them as lost. Never waits."""
        batch = batch.only(self.reads)
        self.count("ring_lost_total", batch.lost)
        leaving: RingRead = getattr(batch, self.leaving)
        gone = leaving.lost > 0
        for item in self.items(batch):
            with self._filled:
                fits = self._taken + self.size(item) <= self._room or not self._queue
                if fits:
                    self._taken += self.size(item)
                    self._queue.append(item)
                    self._filled.notify()
            if not fits:
                self.count("queue_full_total", self.events(item))
                gone |= len(leaving) > 0
        if gone and self.state is not None:
            self.state.repeat()

    def health(self) -> Health:
        """Whether the last delivery was accepted, and since when."""
        return health_of(self.row[0])

    def stop(self, timeout: float) -> None:
        """Deliver waiting items for at most `timeout` seconds, then end; the rest is counted."""
        _stop_all([self], timeout)

    def finish(self) -> None:
        """End the thread when everything queued is delivered."""
        with self._filled:
            self._ending = True
            self._filled.notify()

    def ended(self, timeout: float, give_up: bool = False) -> bool:
        """Whether the thread has ended within `timeout` seconds; `give_up`: drop queued items."""
        if give_up:
            self._stop.set()
        self._thread.join(timeout)
        return not self._thread.is_alive()

    @property
    def grace(self) -> float:
        """Maximum seconds of one delivery, awaited at the end."""
        return 1.0

    def count(self, name: str, more: int = 1) -> None:
        """Add to a counter of the row."""
        self._about.count(name, more)

    # ------------------------------------------------------------------------- its thread

    def _work(self) -> None:
        try:
            while not self._stop.is_set():
                item = self._next()
                if item is not None:
                    self._deliver(item)
                elif self._ending:
                    break
                if not self._stop.is_set():
                    self._refresh()
            if not self._stop.is_set():
                self._refresh(rest=True)
        finally:
            for item in self._queue:
                self.left(item)
            self.close()

    def left(self, item: Item) -> None:
        """Called for an item that was still queued at the end."""
        self.count("stopped_total", self.events(item))

    def _next(self) -> Item | None:
        with self._filled:
            if not self._queue and not self._ending:
                self._filled.wait(IDLE_SECONDS)
            if not self._queue:
                return None
            item = self._queue.popleft()
            self._taken -= self.size(item)
            return item

    def _refresh(self, rest: bool = False) -> None:
        """Deliver the due state; after a failure it is read again, after a pause."""
        if self.state is None:
            return
        try:
            for part in self.state.rest() if rest else self.state.due():
                for item in self.items(part):
                    if self._stop.is_set():
                        return
                    if not self._try(item):
                        self._stop.wait(0 if self._ending else min(MIN_PAUSE, self.max_pause))
                        return
        except HopscopeError as error:  # a foreign region
            self._about.healthy(False, str(error))

    def _deliver(self, item: Item) -> None:
        """Try until it is accepted, rejected for good, or the thread must end."""
        tried = 0
        while not self._try(item):
            if self._refused:
                self.failed(item)
                return
            pause = min(self.max_pause, MIN_PAUSE * 2 ** min(tried, 30))
            tried += 1
            self.count("retried_total")
            if self._stop.wait(pause * random.uniform(0.5, 1.5)):  # jitter against other collectors' retries
                self.left(item)
                return

    def failed(self, item: Item) -> None:
        """Called for an abandoned item."""
        self.count("failed_total", self.events(item))

    _refused = False

    def _try(self, item: Item) -> bool:
        try:
            self._give(item)
        except DeliveryError as error:
            self._refused = not error.again
            if self._refused or self.health().ok:
                self.log.warning("not delivered", to=self._about.place, reason=str(error))
            self._about.healthy(False, str(error))
            if self.state is not None:
                self.state.restart()
            return False
        self.count("sent_total")
        if not self.health().ok:
            self.log.info("delivered again", to=self._about.place)
        self._about.healthy(True, "")
        return True

    def _give(self, item: Item) -> None:
        """Deliver; an unexpected exception only affects this item."""
        try:
            self.deliver(item)
        except DeliveryError:
            raise
        except Exception as error:
            raise DeliveryError(f"{type(error).__name__}: {error}", again=False) from error
