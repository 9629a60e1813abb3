"""When what waits in a writer has waited for long: a clock that moves when somebody tells the time."""

from __future__ import annotations

from collections import deque


class Ticks:
    """Numbers the intervals between two times told; what waits is stamped with the number of its interval.

    So a hot loop needs no clock, and nothing is taken for older than it is.
    """

    def __init__(self) -> None:
        self.current = 0
        """The interval that runs now, below 2^32."""
        self._ended: deque[tuple[int, int]] = deque()

    def before(self, now_ns: int, idle_ns: int) -> int:
        """What is stamped with a lower number is at least `idle_ns` old. Ends an interval if time moved."""
        if not self._ended or now_ns > self._ended[-1][1]:
            self._ended.append((self.current, now_ns))
            self.current += 1
        return max((tick + 1 for tick, ended in self._ended if ended + idle_ns <= now_ns), default=0)

    def forget(self, before: int) -> None:
        """Nothing waits that was stamped with a lower number."""
        while len(self._ended) > 1 and self._ended[0][0] < before:
            self._ended.popleft()

    def restart(self) -> None:
        """Nothing waits at all."""
        self.current = 0
        self._ended.clear()
