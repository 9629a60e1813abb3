"""A clock that never goes back, and is the machine's wherever that does not."""

from __future__ import annotations

import time
from collections.abc import Callable

CATCH_UP = 16
"""After the machine's clock was put back this one goes a sixteenth slower, until both agree: durations that
are measured by it are wrong by no more, and a second is made good in 16.
"""


class SteadyClock:
    """Time, ns since the epoch, for what is ordered by it: labels, arrivals, intervals. Of one thread.

    It follows the machine's clock. Where that is put forward (NTP, or the machine had slept) so is this one;
    where it is put back this one goes on, slower, until the other has caught up. So processes of one machine
    agree, also those that were started before the step, within what is still to be made good.
    """

    def __init__(
        self, wall: Callable[[], int] = time.time_ns, steady: Callable[[], int] = time.monotonic_ns
    ) -> None:
        """`wall`: the machine's time, which may be put back; `steady`: one that never is; both ns."""
        self._wall, self._steady = wall, steady
        self._read = steady()
        self._last = wall()
        self.ahead_ns = 0
        """What this clock was ahead of the machine's, when it was read last."""

    def __call__(self) -> int:
        """The time, ns; never less than before."""
        read = self._steady()  # first: what passes between both readings makes us late, not early
        wall = self._wall()
        passed = read - self._read
        self._read = read
        self._last = max(wall, self._last + passed - -(-passed // CATCH_UP))
        self.ahead_ns = self._last - wall
        return self._last
