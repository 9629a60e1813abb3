"""Rate limit of a translator."""

from __future__ import annotations


class TokenBucket:
    """Token bucket that counts reports; the caller passes monotonic time in ns."""

    def __init__(self, per_second: float, burst: int = 0) -> None:
        """`burst` 0: as many reports as in 0.1 s. Raises ValueError unless the rate is positive."""
        if per_second <= 0:
            raise ValueError(f"{per_second} reports per second, expected more than 0")
        self._per_ns = per_second / 1e9
        self.burst = float(burst) if burst else max(1.0, per_second // 10)
        self._tokens = self.burst
        self._then_ns: int | None = None

    def take(self, reports: int, now_ns: int) -> int:
        """Number of `reports` that may pass now."""
        if self._then_ns is not None and now_ns > self._then_ns:
            earned = (now_ns - self._then_ns) * self._per_ns
            self._tokens = min(self.burst, self._tokens + earned)
        self._then_ns = now_ns if self._then_ns is None else max(now_ns, self._then_ns)
        allowed = min(reports, int(self._tokens))
        self._tokens -= allowed
        return allowed
