"""Losses by place: reports that did not arrive, and packets that switches dropped."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from ...detect.counters import INDEX
from ...detect.records import Kind
from ...present.collector_state import CollectorState
from ...wire.records import Records

ROWS = 8
MAX_PLACES = 10_000
"""Places whose drops are counted; a new one replaces the one with the fewest."""
WINDOW_SECONDS = 60
_CAUSES = {
    INDEX["kernel_drops_total"]: "its socket was full",
    INDEX["detector_lost_reports_total"]: "its queue to the detector was full",
}
"""Causes of a worker's losses, by index of the counter."""

Place = tuple[int, int, int]
"""Switch, egress port (NO_PORT: unknown) and queue."""


@dataclass(frozen=True, slots=True)
class PlaceDrops:
    """Packets that a switch reported as dropped at one place."""

    place: Place
    lately: int
    """Drops in the last minute."""
    total: int
    """Drops since the process started."""


@dataclass(frozen=True, slots=True)
class Losses:
    """Places of losses, largest first."""

    drops: tuple[PlaceDrops, ...] = ()
    sources: tuple[np.void, ...] = ()
    """SOURCE rows with lost reports."""
    workers: tuple[tuple[str, str, int], ...] = ()
    """(number of the worker, cause, reports)."""

    def __bool__(self) -> bool:
        return bool(self.drops or self.sources or self.workers)


class LossReader:
    """Counts drop events by place; reads lost reports by source and worker from the state."""

    def __init__(self) -> None:
        self._total: Counter[Place] = Counter()
        self._lately: dict[int, Counter[Place]] = {}
        """Drops by place, for each second of the events."""

    def add(self, events: Records, now_ns: int) -> None:
        """Count the DROP events among EVENT records."""
        drops = events[events["kind"] == Kind.DROP]
        now = now_ns // 10**9
        oldest = now - WINDOW_SECONDS
        self._lately = {  # later seconds are from a clock that was set back
            second: found for second, found in self._lately.items() if oldest < second <= now
        }
        if not len(drops):
            return
        seconds = (drops["time_ns"] // 10**9).tolist()
        columns = (drops[name].tolist() for name in ("node_id", "port", "ident"))
        for (second, *place), count in Counter(zip(seconds, *columns, strict=True)).items():
            node, port, queue = place
            self._total[node, port, queue & 0xFF] += count
            if second > oldest:
                self._lately.setdefault(second, Counter())[node, port, queue & 0xFF] += count
        if len(self._total) > MAX_PLACES:
            self._total = Counter(dict(self._total.most_common(MAX_PLACES)))

    def losses(self, state: CollectorState, rows: int = ROWS) -> Losses:
        """The largest losses of each kind, at most `rows` of each."""
        lately: Counter[Place] = Counter()
        for found in self._lately.values():
            lately.update(found)
        ranked = sorted(self._total, key=lambda place: (-lately[place], -self._total[place], place))
        sources = state.sources()
        sources = sources[sources["lost"] > 0]
        worst = sources[np.argsort(-sources["lost"].astype(np.int64), kind="stable")[:rows]]
        workers = [
            (worker, cause, int(block[counter]))
            for worker, block in state.counters().processes.items()
            for counter, cause in _CAUSES.items()
            if block[counter]
        ]
        workers.sort(key=lambda loss: (-loss[2], loss[0]))
        return Losses(
            tuple(PlaceDrops(place, lately[place], self._total[place]) for place in ranked[:rows]),
            tuple(worst),
            tuple(workers[:rows]),
        )
