"""Quotas per second: token buckets for kernels, refilled by the clock."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_SECOND = 1_000_000_000
Tokens = npt.NDArray[np.uint64]


class Buckets:
    """Token buckets with the capacity of one second, initially full.

    Kernels take from `tokens` uint64 [buckets]; `rates` [buckets] are tokens per second.
    """

    def __init__(self, tokens: Tokens, rates: list[int]) -> None:
        self._tokens = tokens
        self._rates = np.array(rates, np.int64)
        self._rest = np.zeros(len(rates), np.int64)  # fraction of a token, in ns times the rate
        self._last_ns: int | None = None
        tokens[:] = rates

    def refill(self, now_ns: int) -> None:
        """Add the tokens for the time since the last call; none if the clock went back."""
        passed = 0 if self._last_ns is None else min(max(now_ns - self._last_ns, 0), _SECOND)
        self._last_ns = now_ns
        more, self._rest = np.divmod(self._rest + self._rates * passed, _SECOND)
        self._tokens[:] = np.minimum(self._tokens.astype(np.int64) + more, self._rates)
