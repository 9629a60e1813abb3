"""The thread of one destination of metrics: takes a round at each interval, and delivers rounds in order.

Rounds that a destination does not take wait in memory, a bounded number of them.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable

from prometheus_client.core import Metric

from ...base.errors import HopscopeError
from ...base.log import logger
from ..counters import DestinationRow
from ..exporter import DeliveryError
from ..sender import MAX_PAUSE, MIN_PAUSE
from .destination import MetricsDestination, Round


class MetricsSender:
    """Delivers what `take` returns: `start`, then `finish` and `ended`. `row` has its counters and health."""

    def __init__(
        self, destination: MetricsDestination, take: Callable[[], Iterable[Metric]], row: DestinationRow
    ) -> None:
        self._destination = destination
        self._take = take
        self.row = row
        self._settings = destination.settings
        self._waiting: deque[Round] = deque()
        self._stop, self._ending = threading.Event(), threading.Event()
        self._wake = threading.Event()
        self._connected = False
        self._log = logger("export")
        self._thread = threading.Thread(target=self._work, name=destination.context.name, daemon=True)
        self.row.healthy(True, "")

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def finish(self) -> None:
        """End the thread when a last round, and those that wait, are delivered, or one fails."""
        self._ending.set()
        self._wake.set()

    def ended(self, timeout: float, give_up: bool = False) -> bool:
        """Whether the thread has ended within `timeout` seconds; `give_up`: rounds that wait are lost."""
        if give_up:
            self._stop.set()
            self._wake.set()
        self._thread.join(timeout)
        return not self._thread.is_alive()

    @property
    def grace(self) -> float:
        """Maximum seconds of one delivery, awaited at the end."""
        return float(self._settings.timeout_seconds) + 1

    def _work(self) -> None:
        pause, taken_at, retry_at = MIN_PAUSE, -float(self._settings.every_seconds), 0.0
        try:
            while not self._stop.is_set():
                now = time.monotonic()
                ending = self._ending.is_set()
                if ending or now - taken_at >= self._settings.every_seconds:
                    taken_at = now
                    self._add(Round(time.time_ns() // 1_000_000, list(self._take())))
                if self._waiting and (ending or now >= retry_at):
                    if self._deliver(self._waiting[0]):
                        pause, retry_at = MIN_PAUSE, 0.0
                    else:
                        retry_at = time.monotonic() + pause * random.uniform(0.5, 1.5)
                        pause = min(2 * pause, MAX_PAUSE)
                if ending:
                    break
                due = taken_at + self._settings.every_seconds
                if self._waiting:
                    due = min(due, retry_at)
                self._wake.wait(max(0.0, due - time.monotonic()))
            while self._waiting and not self._stop.is_set() and self._deliver(self._waiting[0]):
                pass
        except Exception as error:  # a defect of this destination must not end the others
            self._log.error("destination ended", to=self.row.place, reason=f"{type(error).__name__}: {error}")
            self.row.healthy(False, f"ended: {type(error).__name__}: {error}")
        finally:
            self.row.count("stopped_total", sum(map(len, self._waiting)))
            self._destination.close()

    def _add(self, taken: Round) -> None:
        self._waiting.append(taken)
        while len(self._waiting) > self._settings.queue_rounds:
            self.row.count("queue_full_total", len(self._waiting.popleft()))

    def _deliver(self, oldest: Round) -> bool:
        """Send the oldest round; False: it waits for the next try."""
        try:
            if not self._connected:
                self._destination.connect()
                self.row.count("connections_total", 1)
                self._connected = True
            self._destination.send(oldest)
        except HopscopeError as error:
            self._connected = False
            if self.row.ok:
                self._log.warning("not delivered", to=self.row.place, reason=str(error))
            self.row.healthy(False, str(error))
            if isinstance(error, DeliveryError) and not error.again:
                self.row.count("failed_total", len(self._waiting.popleft()))
            else:
                self.row.count("retried_total", 1)
            return False
        self._waiting.popleft()
        self.row.count("sent_total", 1)
        self.row.count("samples_total", len(oldest))
        if not self.row.ok:
            self._log.info("delivered again", to=self.row.place)
        self.row.healthy(True, "")
        return True
