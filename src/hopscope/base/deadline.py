"""One time limit over all that has to be done for an answer."""

from __future__ import annotations

import time


class Deadline:
    """`seconds` from `begin` on; it may begin again, for another question."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._until = 0.0
        self.begin()

    def begin(self) -> None:
        """Its time starts now."""
        self._until = time.monotonic() + self.seconds

    def left(self, share: float = 1.0) -> float:
        """Seconds of it that are left, or that share of them; not below 0."""
        return max(0.0, share * (self._until - time.monotonic()))
