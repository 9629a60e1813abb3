"""Quotas by the second: buckets that a kernel takes from, and that are refilled by the clock."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_SECOND = 1_000_000_000
Tokens = npt.NDArray[np.uint64]


class Buckets:
    """Buckets of one second's worth each, full at the start.

    `tokens` uint64 [buckets] is where kernels take from; `rates` [buckets] are tokens a second.
    """

    def __init__(self, tokens: Tokens, rates: list[int]) -> None:
        self._tokens = tokens
        self._rates = np.array(rates, np.int64)
        self._rest = np.zeros(len(rates), np.int64)  # of a token, in ns times the rate
        self._last_ns: int | None = None
        tokens[:] = rates

    def refill(self, now_ns: int) -> None:
        """Put in what the time since the last call gives; a clock that goes back gives nothing."""
        passed = 0 if self._last_ns is None else min(max(now_ns - self._last_ns, 0), _SECOND)
        self._last_ns = now_ns
        more, self._rest = np.divmod(self._rest + self._rates * passed, _SECOND)
        self._tokens[:] = np.minimum(self._tokens.astype(np.int64) + more, self._rates)
