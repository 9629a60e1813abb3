"""Top latency contributors of the overview, over the last minute if distributions are counted."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

from ...detect.bottleneck.place_sums import PlaceSums, gauges_of, with_gauges
from ...detect.bottleneck.shares import Queues, QueueShare, of_network, of_sums, slow_above
from ...detect.places import Place
from ...present.collector_state import CollectorState
from ...wire.records import Records
from .recent_distributions import EVERY_SECONDS, RecentDistributionsReader

ROWS = 8
MAX_FLOWS = 20_000
"""Without distributions, up to this many live flows are summed; with more, no contributors are shown."""


@dataclass(frozen=True, slots=True)
class Contributors:
    """The top contributors; `note` says what their shares refer to."""

    source: Literal["recent", "all", "flows", "none"] = "none"
    """Source: distributions of the last seconds, of all time, or live flows."""
    seconds: float = 0.0
    """Time that `recent` covers."""
    note: str = ""
    items: tuple[QueueShare, ...] = ()


class ContributorsReader:
    """Reads the state every EVERY_SECONDS; `contributors` is the newest result."""

    def __init__(
        self, state: CollectorState, recent: RecentDistributionsReader | None = None, rows: int = ROWS
    ) -> None:
        self._state, self._rows = state, rows
        self._recent = recent or RecentDistributionsReader(state)
        self._due = 0.0
        self.contributors = Contributors()

    def snapshot(self, slowest: Records, now: float | None = None) -> Contributors:
        """The newest result; searches the paths of the `slowest` live flows for slow hops. `now`: in s."""
        now = time.monotonic() if now is None else now
        if now >= self._due:
            self._due = now + EVERY_SECONDS
            self.contributors = self._find(slowest, now)
        return self.contributors

    def _find(self, slowest: Records, now: float) -> Contributors:
        recently = self._recent.snapshot(now)
        if recently.counted:
            queues = Queues(recently.parts)
            gauges = gauges_of(self._state.ports(), queues.places())
            items = of_network(queues, self._slow(queues, slowest), gauges)
            note = f"share of the latency of all packets, {recently.span}"
            source: Literal["recent", "all"] = "recent" if recently.seconds else "all"
            return Contributors(source, recently.seconds, note, tuple(items[: self._rows]))
        if not 0 < len(self._state.flows()) <= MAX_FLOWS:
            return Contributors(note="needs distributions")
        sums = PlaceSums(Queues([]), None)
        for block in self._state.paths():
            sums.add(block)
        items = with_gauges(of_sums(sums.sums(), self._rows), self._state.ports())
        note = "share of the latency of the live flows' packets"
        return Contributors("flows", note=note, items=tuple(items))

    def _slow(self, queues: Queues, slowest: Records) -> dict[Place, int] | None:
        above = slow_above(queues.end_to_end)
        if above is None:
            return None
        sums = PlaceSums(queues, above)
        paths = self._state.paths_of(slowest)
        if paths is not None:
            sums.add(paths)
        return sums.sums().slow
