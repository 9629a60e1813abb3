"""Ages of waiting entries, by a clock that the caller advances."""

from __future__ import annotations

from collections import deque


class Ticks:
    """Numbers the intervals between calls; waiting entries are stamped with their interval's number.

    This way kernels need no clock, and no entry appears older than it is.
    """

    def __init__(self) -> None:
        self.current = 0
        """The current interval, below 2^32."""
        self._ended: deque[tuple[int, int]] = deque()

    def before(self, now_ns: int, idle_ns: int) -> int:
        """The interval before which entries are at least `idle_ns` old. Starts a new interval if time has
        passed.
        """
        if not self._ended or now_ns > self._ended[-1][1]:
            self._ended.append((self.current, now_ns))
            self.current += 1
        return max((tick + 1 for tick, ended in self._ended if ended + idle_ns <= now_ns), default=0)

    def forget(self, before: int) -> None:
        """Forget intervals before `before`: no entry with a lower number waits."""
        while len(self._ended) > 1 and self._ended[0][0] < before:
            self._ended.popleft()

    def restart(self) -> None:
        """Reset: no entry waits."""
        self.current = 0
        self._ended.clear()
