"""The thread of one destination of metrics: takes a round at each interval, and delivers rounds in order.

A bounded number of rounds that the destination has not accepted yet wait in memory.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable

from prometheus_client.core import Metric

from ..counters import DestinationRow
from ..delivery import DeliveryThread
from .destination import MetricsDestination, Round


class MetricsSender(DeliveryThread[MetricsDestination]):
    """Delivers what `take` returns, every `every_seconds` of the settings."""

    def __init__(
        self, destination: MetricsDestination, take: Callable[[], Iterable[Metric]], row: DestinationRow
    ) -> None:
        super().__init__(destination, row)
        self._take = take
        self._settings = destination.settings
        self._waiting: deque[Round] = deque()
        self._due = time.monotonic()
        """When to take the next round; never after the last one."""

    def _turn(self, ending: bool) -> bool:
        """Take a round if one is due, and deliver the oldest waiting round."""
        self._take_due(ending)
        if not self._waiting:
            return False
        oldest = self._waiting[0]
        taken = self._offer(lambda: self.destination.send(oldest), "round", len(oldest))
        self._waiting.popleft()
        self.row.count("samples_total", taken)
        if taken == len(oldest):
            self._succeeded(1)
        return bool(self._waiting)

    def _take_due(self, ending: bool = False) -> None:
        now = time.monotonic()
        if now < self._due and not (ending and self._due < math.inf):
            return
        self._due = math.inf if ending else now + self._settings.every_seconds
        try:
            taken = Round(time.time_ns() // 1_000_000, list(self._take()))
        except Exception as error:  # also while it waits: the next round may be read again
            self._failed(error)
            return
        self._waiting.append(taken)
        while len(self._waiting) > self._settings.queue_rounds:
            self.row.count("queue_full_total", len(self._waiting.popleft()))

    def _idle_seconds(self) -> float:
        return max(0.0, self._due - time.monotonic())

    def _wait(self, seconds: float) -> None:
        """Wait, and take the rounds that are due meanwhile."""
        until = time.monotonic() + seconds
        while not self._wake.is_set() and (left := until - time.monotonic()) > 0:
            self._wake.wait(min(left, self._idle_seconds()))
            if not self._wake.is_set():
                self._take_due()

    def _close(self) -> None:
        self.row.count("stopped_total", sum(map(len, self._waiting)))
        super()._close()
