"""The thread of one destination: it connects, delivers, and retries after a failure."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from ..base.deadline import jittered
from ..base.errors import HopscopeError, described
from ..base.log import logger, with_place
from .counters import DestinationRow
from .destination import AnyDestination, DeliveryError

To = TypeVar("To", bound=AnyDestination)

MIN_PAUSE = 0.5
MAX_PAUSE = 30.0
"""Pauses between attempts double from the first to the second value; seconds."""
MAX_ASKED_PAUSE = 300.0
"""Maximum pause that a destination may request; seconds."""


class DeliveryThread(ABC, Generic[To]):
    """Delivers to one destination: `start`, then `finish` and `ended`. `row` has its counters and health.

    Subclasses deliver events (`sender`) or metrics (`metrics.sender`).
    """

    def __init__(self, destination: To, row: DestinationRow) -> None:
        self.destination = destination
        self.row = row
        self._log = logger("export")
        self._stopping = self._ending = False
        self._wake = threading.Event()
        """Set for good once the thread must finish or end."""
        self._connected = self._unreachable = False
        self._thread = threading.Thread(target=self._work, name=destination.context.name, daemon=True)
        self.row.healthy(True, "")

    # ------------------------------------------------------------------------- what the process calls

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def finish(self) -> None:
        """End the thread once everything present is delivered, or after a failure."""
        self._ending = True
        self._wake.set()

    def ended(self, timeout: float, give_up: bool = False) -> bool:
        """Whether the thread ends within `timeout` seconds; `give_up`: end it after its current delivery."""
        if give_up:
            self._stopping = True
            self._wake.set()
        self._thread.join(timeout)
        return not self._thread.is_alive()

    @property
    def grace(self) -> float:
        """Maximum duration of one delivery in seconds, for which the end waits."""
        return float(self.destination.settings.timeout_seconds) + 1

    # ------------------------------------------------------------------------- for subclasses

    @abstractmethod
    def _turn(self, ending: bool) -> bool:
        """Deliver what is due; returns whether there may be more.

        It is retried after a pause if it raises. `ending`: everything that waits is due.
        """

    @abstractmethod
    def _idle_seconds(self) -> float:
        """Time until there may be something to deliver."""

    def _wait(self, seconds: float) -> None:
        """Wait for `seconds`, or until the thread must finish."""
        self._wake.wait(seconds)

    def _close(self) -> None:
        """Close all resources; called last in the thread."""
        self.destination.close()

    # ------------------------------------------------------------------------- the thread

    def _work(self) -> None:
        pause = MIN_PAUSE
        try:
            while not self._stopping:
                ending = self._ending
                try:
                    busy = self._turn(ending)
                except Exception as error:  # also a defect: events wait, and other destinations go on
                    self._failed(error)
                    if ending:
                        return
                    asked = 0.0
                    if isinstance(error, DeliveryError):
                        asked = error.after_seconds
                        pause = MIN_PAUSE if error.delivered else pause
                    least = jittered(pause)  # other collectors retry, too
                    self._wait(max(least, min(asked, MAX_ASKED_PAUSE)))
                    pause = min(2 * pause, MAX_PAUSE)
                    continue
                pause = MIN_PAUSE
                if busy:
                    continue
                if ending:
                    return
                self._wait(self._idle_seconds())
        finally:
            self._close()

    def _connect(self) -> None:
        """Connect, unless a connection exists and nothing has failed since. Raises HopscopeError."""
        if self._connected:
            return
        try:
            self.destination.connect()
        except Exception as error:
            self._unreachable = True
            if isinstance(error, HopscopeError):
                raise
            raise DeliveryError(described(error)) from error
        self.row.count("connections_total", 1)
        self._connected = True
        if self._unreachable:
            self._unreachable = False
            self._succeeded(0)

    def _offer(self, send: Callable[[], object], what: str, count: int) -> int:
        """Connect, and `send`; returns how many of `count` items the destination accepted.

        The other items will never be accepted, and are counted as failed. Raises HopscopeError to retry all.
        """
        failed = count
        self._connect()
        try:
            send()
        except HopscopeError as error:
            if not isinstance(error, DeliveryError) or error.again:
                raise
            problem = str(error)
            if error.rejected is not None:
                failed = min(error.rejected, count)
        except Exception as error:
            problem = described(error)
        else:
            return count
        self._log.warning("rejected", to=self.row.place, what=what, reason=problem)
        self.row.healthy(False, problem)
        self.row.count("failed_total", failed)
        self._connected = False
        return count - failed

    def _succeeded(self, deliveries: int) -> None:
        self.row.count("sent_total", deliveries)
        if not self.row.ok:
            self._log.info("delivered again", to=self.row.place)
        self.row.healthy(True, "")

    def _failed(self, error: Exception) -> None:
        """Note a failure; the retry uses a new connection."""
        expected = isinstance(error, HopscopeError | OSError)
        reason = described(error) if expected else with_place(error)
        if self.row.ok:
            self._log.warning("not delivered", to=self.row.place, reason=reason)
        self.row.healthy(False, reason)
        self.row.count("retried_total", 1)
        self._connected = False


def stop_all(threads: Sequence[DeliveryThread[Any]], timeout: float) -> None:
    """Let all threads deliver what waits, in parallel, for at most `timeout` seconds, then end them."""
    until = time.monotonic() + timeout
    for thread in threads:
        thread.finish()
    left = [thread for thread in threads if not thread.ended(max(0.0, until - time.monotonic()))]
    for thread in left:
        thread.ended(0, give_up=True)
    until = time.monotonic() + max((thread.grace for thread in left), default=0.0)
    for thread in left:
        thread.ended(max(0.0, until - time.monotonic()))
