"""The number of copies for a store's load (DART 5.1): many while it is empty, one when it is full.

Load is the number of distinct keys per slot. It is estimated by linear counting: a key marks its first slot
if that is one of the store's first 64 Ki, of which a share of exp(-load) stays unmarked. An epoch starts with
the last one's final load, since its first keys have to share the store with those that follow.
"""

from __future__ import annotations

import math

import numpy as np

from ..theory import optimum

WINDOW = 1 << 16
"""Observed slots: the standard error is below 1 % of the load between 0.02 and 3."""


class AdaptiveCopies:
    """The best number of copies for one writer's stores."""

    def __init__(self, slots: int, copies: int, collectors: int) -> None:
        self.seen = np.zeros(min(slots, WINDOW), np.uint8)
        """Marks of observed slots, uint8 [slots], set by the writer's kernel."""
        self._collectors = collectors
        self._bounds = optimum(copies)
        self._last = 0.0

    @property
    def load(self) -> float:
        """Distinct keys per slot since the epoch began, mean over its collectors."""
        empty = max(1, len(self.seen) - int(np.count_nonzero(self.seen)))
        return -math.log(empty / len(self.seen)) / self._collectors

    @property
    def copies(self) -> int:
        """The number of copies with which most keys are found at this load, or at the last epoch's load if
        that was higher.
        """
        load = max(self.load, self._last)
        return next(copies for copies, bound in self._bounds if load <= bound)

    def begin(self) -> None:
        """Start a new epoch with an empty store."""
        self._last = self.load
        self.seen[:] = 0
