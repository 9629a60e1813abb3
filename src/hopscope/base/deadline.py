"""One time limit for all the work of an answer, and pauses that differ between processes."""

from __future__ import annotations

import random
import time

_RANDOM = random.SystemRandom()  # has no state that a fork would copy


def jittered(seconds: float, low: float = 0.5, high: float = 1.5) -> float:
    """A pause of `low` to `high` times `seconds`, at random, so that processes do not act all at once."""
    return seconds * _RANDOM.uniform(low, high)


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
