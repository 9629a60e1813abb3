"""Tables without room for new keys: what each loses, what to do, and a line in the log about it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

PERIOD_SECONDS = 300.0
"""Least time between two lines about one table."""
TABLES: Mapping[str, tuple[str, str]] = {
    "flow_evictions_total": ("flows evicted while they were live", "raise detect.flow_rows"),
    "port_table_full_total": ("values without room in the table of ports", "raise detect.ports"),
    "port_evictions_total": ("queues and ports that made room for others", "raise detect.ports"),
    "source_table_full_total": ("reports not checked for loss", "raise detect.sources"),
    "source_evictions_total": ("sequence spaces that made room for others", "raise detect.sources"),
    "hop_pool_full_total": ("paths of more than 8 hops cut short", "raise detect.hop_pool"),
    "distribution_table_full_total": ("hops not counted in distributions", "raise distributions.queues"),
    "distribution_evictions_total": ("distributions that made room for others", "raise distributions.queues"),
    "postcard_evictions_total": ("paths emitted before they were complete", "raise postcards.packets"),
}
"""Counters of the tables of a collector: what they count, and what to do."""
LABEL_TABLES: Mapping[str, tuple[str, str]] = {
    "label_table_full_total": ("labels of ports without room in the table", "raise label.ports"),
    "label_evicted_ports_total": ("ports with labels that made room for others", "raise label.ports"),
}
"""The same for labels."""


class FullTables:
    """Calls `notify` with a line when a table is full, and once in PERIOD_SECONDS while it is."""

    def __init__(
        self,
        tables: Mapping[str, tuple[str, str]],
        notify: Callable[[str], object],
        counts: Iterable[int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`counts`: of `tables`, in order, up to now: they are not reported."""
        self._tables, self._notify, self._clock = tables, notify, clock
        self._reported = list(counts)
        self._due = [clock()] * len(tables)

    def update(self, counts: Iterable[int]) -> None:
        """Compare the counters of `tables`, in order, with those of the last line."""
        for place, (count, (text, advice)) in enumerate(zip(counts, self._tables.values(), strict=True)):
            more = count - self._reported[place]
            if more > 0 and (now := self._clock()) >= self._due[place]:
                self._reported[place], self._due[place] = count, now + PERIOD_SECONDS
                self._notify(f"a table is full: {more:,} {text}; {advice}, or limit what fills it")
