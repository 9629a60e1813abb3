"""Logs that a table has no room for new keys, with the loss and the remedy."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

PERIOD_SECONDS = 300.0
"""Minimum time between two lines about one table."""


class FullTables:
    """Calls `notify` with a line when a table is full, and once in PERIOD_SECONDS while it is."""

    def __init__(
        self,
        tables: Mapping[str, tuple[str, str]],
        notify: Callable[[str], object],
        counts: Iterable[int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`tables`: text and advice by counter; `counts`: their present values, which are not reported."""
        self._tables, self._notify, self._clock = tables, notify, clock
        self._reported = list(counts)
        self._due = [clock()] * len(tables)

    def update(self, counts: Iterable[int]) -> None:
        """Take the counters of `tables`, in order; notify if they rose since the last line."""
        for place, (count, (text, advice)) in enumerate(zip(counts, self._tables.values(), strict=True)):
            more = count - self._reported[place]
            if more > 0 and (now := self._clock()) >= self._due[place]:
                self._reported[place], self._due[place] = count, now + PERIOD_SECONDS
                self._notify(f"a table is full: {more:,} {text}; {advice}, or limit what fills it")
