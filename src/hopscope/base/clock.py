"""The machine's clock may be set: a clock that never goes back, and what finds how far it was set."""

from __future__ import annotations

import time
from collections.abc import Callable

CATCH_UP = 16
"""After the machine's clock was put back, this one runs a sixteenth slower until both agree: durations are
wrong by no more than that, and one second is caught up in 16.
"""
STEP_NS = 2_000_000_000
"""By how much the clock must be set to be a step; less than this is a delay of what depends on it."""
SETTLE_NS = 500_000_000
"""How long after a step reports with times of before it may still be on their way."""


def running_ns() -> int:
    """Time for which the machine runs, ns; nobody sets it, and it goes on while the machine sleeps."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic_ns() if clock is None else time.clock_gettime_ns(clock)


class ClockSteps:
    """Finds how far the clock of the machine is set, if asked several times per second. For one thread."""

    def __init__(
        self, wall: Callable[[], int] = time.time_ns, running: Callable[[], int] = running_ns
    ) -> None:
        self._wall, self._running = wall, running
        self._ahead_ns = wall() - running()
        self._step_ns = self._due_ns = 0

    def look(self) -> int:
        """How far the clock was set since the last call, ns, forward or (below 0) back; mostly 0."""
        ahead = self._wall() - self._running()
        step, self._ahead_ns = ahead - self._ahead_ns, ahead
        return step if abs(step) >= STEP_NS else 0

    def take(self) -> int | None:
        """The same, once it has settled. None: it was set within SETTLE_NS, a later call says how far."""
        running = self._running()
        if step := self.look():
            self._step_ns += step
            self._due_ns = running + SETTLE_NS
        if running < self._due_ns:
            return None
        step, self._step_ns = self._step_ns, 0
        return step


class SteadyClock:
    """Time, ns since the epoch, that orders labels, arrivals and intervals. For one thread.

    It follows the machine's clock. If that jumps forward (NTP, or after a suspend), so does this one; if it
    is put back, this one continues, slower, until the other has caught up. So processes of one machine agree,
    even those that were started before the step, except for the part not yet caught up.
    """

    def __init__(
        self, wall: Callable[[], int] = time.time_ns, steady: Callable[[], int] = time.monotonic_ns
    ) -> None:
        """`wall`: the machine's time, which may be put back; `steady`: one that never is; both ns."""
        self._wall, self._steady = wall, steady
        self._read = steady()
        self._last = wall()
        self.ahead_ns = 0
        """How far this clock was ahead of the machine's when it was last read."""

    def __call__(self) -> int:
        """The time, ns; never less than before."""
        read = self._steady()  # first: time that passes between the readings makes this clock late, not early
        wall = self._wall()
        passed = read - self._read
        self._read = read
        self._last = max(wall, self._last + passed - -(-passed // CATCH_UP))
        self.ahead_ns = self._last - wall
        return self._last
