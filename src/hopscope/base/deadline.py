"""One time limit for all the work of an answer."""

from __future__ import annotations

import time


class Deadline:
    """A deadline `seconds` after `begin`, which may be called again for another query."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._until = 0.0
        self.begin()

    def begin(self) -> None:
        """Start the time now."""
        self._until = time.monotonic() + self.seconds

    def left(self, share: float = 1.0) -> float:
        """The remaining seconds, or a share of them; never below 0."""
        return max(0.0, share * (self._until - time.monotonic()))
