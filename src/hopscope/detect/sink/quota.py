"""Quotas by the second: buckets that a kernel takes from, and that are refilled by the clock."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Tokens = npt.NDArray[np.uint64]


class Buckets:
    """Buckets of one second's worth each, full at the start.

    `tokens` uint64 [buckets] is where kernels take from; `rates` [buckets] are tokens a second.
    """

    def __init__(self, tokens: Tokens, rates: list[int]) -> None:
        self._tokens = tokens
        self._rates = np.array(rates, np.float64)
        self._rest = np.zeros(len(rates))
        self._last_ns: int | None = None
        tokens[:] = rates

    def refill(self, now_ns: int) -> None:
        """Put in what the time since the last call gives; a clock that goes back gives nothing."""
        passed = 0 if self._last_ns is None else max(now_ns - self._last_ns, 0)
        self._last_ns = now_ns
        full = np.minimum(self._tokens + self._rest + self._rates * passed / 1e9, self._rates)
        self._tokens[:] = full
        self._rest = full - self._tokens
