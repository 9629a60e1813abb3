"""A clock that never goes back, although the machine's clock may be set; and how far that one was set."""

from __future__ import annotations

import time
from collections.abc import Callable

CATCH_UP = 16
"""After the machine's clock was set back, this clock runs slower by one part in CATCH_UP until both agree. So
durations are wrong by at most that much, and a difference of one second is gone after 16 s.
"""
STEP_NS = 2_000_000_000
"""Smallest change of the clock that counts as a step; smaller differences are caused by delays."""
SETTLE_NS = 500_000_000
"""How long after a step reports with times from before it may still be on their way."""


def running_ns() -> int:
    """How long the machine has been running, ns. This clock cannot be set, and also
    counts while it sleeps.
    """
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic_ns() if clock is None else time.clock_gettime_ns(clock)


class ClockSteps:
    """Finds out how far the machine's clock was set, if asked several times per second. For use by one
    thread.
    """

    def __init__(
        self, wall: Callable[[], int] = time.time_ns, running: Callable[[], int] = running_ns
    ) -> None:
        self._wall, self._running = wall, running
        self._ahead_ns = wall() - running()
        self._step_ns = self._due_ns = 0

    def look(self) -> int:
        """How far the clock was set since the last call, ns: forward, or (below 0) back; usually 0."""
        ahead = self._wall() - self._running()
        step, self._ahead_ns = ahead - self._ahead_ns, ahead
        return step if abs(step) >= STEP_NS else 0

    def take(self) -> int | None:
        """As `look`, but only once the clock has settled. None: it was set less than SETTLE_NS ago; a later
        call returns how far.
        """
        running = self._running()
        if step := self.look():
            self._step_ns += step
            self._due_ns = running + SETTLE_NS
        if running < self._due_ns:
            return None
        step, self._step_ns = self._step_ns, 0
        return step


class SteadyClock:
    """The time, ns since the epoch, by which labels, arrivals and intervals are ordered. For use by one
    thread.

    It follows the machine's clock. If that one jumps forward (NTP, or after a suspend), so does this one; if
    it is set back, this one continues more slowly until the machine's clock has caught up. So all processes
    of a machine agree, even those that were started before the step, except for the part that is not caught
    up yet.
    """

    def __init__(
        self, wall: Callable[[], int] = time.time_ns, steady: Callable[[], int] = time.monotonic_ns
    ) -> None:
        """`wall`: the machine's clock, which may be set back; `steady`: a clock that never is; both in ns."""
        self._wall, self._steady = wall, steady
        self._read = steady()
        self._last = wall()
        self.ahead_ns = 0
        """How far this clock was ahead of the machine's when it was last read."""

    def __call__(self) -> int:
        """The time, ns since the epoch; never less than before."""
        read = self._steady()  # first: time that passes between the readings makes this clock late, not early
        wall = self._wall()
        passed = read - self._read
        self._read = read
        self._last = max(wall, self._last + passed - -(-passed // CATCH_UP))
        self.ahead_ns = self._last - wall
        return self._last
