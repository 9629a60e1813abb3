"""A clock that never goes back, and otherwise follows the machine's."""

from __future__ import annotations

import time
from collections.abc import Callable

CATCH_UP = 16
"""After the machine's clock was put back, this one runs a sixteenth slower until both agree: durations are
wrong by no more than that, and one second is caught up in 16.
"""


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
