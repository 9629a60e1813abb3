"""As many copies as a store's load allows (DART 5.1): many while it is empty, one when it is full.

Load is the number of distinct keys per slot. It is estimated by linear counting: a key marks its first slot
where that is one of the store's first 64 Ki, of which a share of exp(-load) stays without a mark. An epoch
begins with what the last one came to, since its first keys have to share the store with those that follow.
"""

from __future__ import annotations

import math

import numpy as np

from ..theory import optimum

WINDOW = 1 << 16
"""Slots that are looked at: the standard error is below 1 % of the load between 0.02 and 3."""


class Adaptive:
    """The best number of copies for one writer's stores."""

    def __init__(self, slots: int, copies: int, collectors: int) -> None:
        self.seen = np.zeros(min(slots, WINDOW), np.uint8)
        """Marks, uint8 [slots that are looked at]; the writer's loop sets them."""
        self._collectors = collectors
        self._bounds = optimum(copies)
        self._last = 0.0

    @property
    def load(self) -> float:
        """Distinct keys per slot since the epoch began, in the mean over its collectors."""
        empty = max(1, len(self.seen) - int(np.count_nonzero(self.seen)))
        return -math.log(empty / len(self.seen)) / self._collectors

    @property
    def copies(self) -> int:
        """With which most keys are found at this load, or at the last epoch's where that was higher."""
        load = max(self.load, self._last)
        return next(copies for copies, bound in self._bounds if load <= bound)

    def begin(self) -> None:
        """A new epoch: an empty store."""
        self._last = self.load
        self.seen[:] = 0
