"""A clock that never goes back."""

from __future__ import annotations

import time


class SteadyClock:
    """ns since the epoch at the start, and from there on by a clock that never goes back."""

    def __init__(self) -> None:
        self._ahead = time.time_ns() - time.monotonic_ns()

    def __call__(self) -> int:
        """The time, ns."""
        return self._ahead + time.monotonic_ns()
