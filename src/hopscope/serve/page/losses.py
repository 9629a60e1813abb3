"""What was lost, and where: reports that did not arrive, and packets that switches dropped."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

import numpy as np

from ...base.names import Names
from ...detect.counters import INDEX
from ...detect.records import NO_NODE, NO_PORT, Kind
from ...present.collector_state import CollectorState
from ...present.units import place, si
from ...wire.address import address
from ...wire.records import Records

ROWS = 8
MAX_PLACES = 10_000
"""Places whose drops are counted; a new one replaces the one with the fewest."""
WINDOW_SECONDS = 60
_CAUSES = {
    INDEX["kernel_drops_total"]: "its socket was full",
    INDEX["detector_lost_reports_total"]: "its queue to the detector was full",
}
"""Where a worker loses reports, by the index of the counter."""

Place = tuple[int, int, int]
"""Switch, egress port (NO_PORT: unknown) and queue."""


@dataclass(frozen=True, slots=True)
class PlaceDrops:
    """Packets that a switch reported as dropped at one place."""

    place: Place
    lately: int
    """In the last minute."""
    total: int
    """Since the page's process started."""


@dataclass(frozen=True, slots=True)
class Losses:
    """Places of losses, the largest first."""

    drops: tuple[PlaceDrops, ...] = ()
    sources: tuple[np.void, ...] = ()
    """SOURCE rows with lost reports."""
    workers: tuple[tuple[str, str, int], ...] = ()
    """(Number of the worker, cause, reports)."""

    def __bool__(self) -> bool:
        return bool(self.drops or self.sources or self.workers)


class LossReader:
    """Counts drop events by place; reads lost reports by source and worker from the state."""

    def __init__(self) -> None:
        self._total: Counter[Place] = Counter()
        self._lately: deque[tuple[int, Mapping[Place, int]]] = deque()

    def add(self, events: Records, now_ns: int) -> None:
        """Count the DROP events among EVENT records."""
        drops = events[events["kind"] == Kind.DROP]
        second = now_ns // 10**9
        while self._lately and self._lately[0][0] <= second - WINDOW_SECONDS:
            self._lately.popleft()
        if not len(drops):
            return
        columns = (drops[name].tolist() for name in ("node_id", "port", "ident"))
        found = Counter((node, port, queue & 0xFF) for node, port, queue in zip(*columns, strict=True))
        self._total.update(found)
        self._lately.append((second, found))
        if len(self._total) > MAX_PLACES:
            self._total = Counter(dict(self._total.most_common(MAX_PLACES)))

    def losses(self, state: CollectorState) -> Losses:
        """The largest losses of each kind."""
        lately: Counter[Place] = Counter()
        for _, found in self._lately:
            lately.update(found)
        ranked = sorted(self._total, key=lambda place: (-lately[place], -self._total[place], place))
        sources = state.sources()
        sources = sources[sources["lost"] > 0]
        worst = sources[np.argsort(-sources["lost"].astype(np.int64), kind="stable")[:ROWS]]
        workers = [
            (worker, cause, int(block[counter]))
            for worker, block in state.counters().processes.items()
            for counter, cause in _CAUSES.items()
            if block[counter]
        ]
        workers.sort(key=lambda loss: (-loss[2], loss[0]))
        return Losses(
            tuple(PlaceDrops(place, lately[place], self._total[place]) for place in ranked[:ROWS]),
            tuple(worst),
            tuple(workers[:ROWS]),
        )


def lost_reports(losses: Losses, names: Names) -> str:
    """Reports lost by source, then by worker and cause, as rows of a table."""
    rows = [_source_row(source, names) for source in losses.sources]
    rows += [
        f'<tr><td>worker-{escape(worker)} <em>{cause}</em><td class="n"><b>{si(lost)}</b><td class="n">–</tr>'
        for worker, cause, lost in losses.workers
    ]
    return _table('<tr><th>Reports lost from, or at<th class="n">Reports<th class="n">Share</tr>', rows)


def _source_row(source: np.void, names: Names) -> str:
    lost, received, node = int(source["lost"]), int(source["received"]), int(source["node_id"])
    host = escape(address(int(source["source_hi"]), int(source["source_lo"])))
    name = "" if node == NO_NODE else escape(names.node_label(node))
    return (
        f'<tr><td><span class="node">{name}</span> {host} <em>hw {int(source["hw_id"])}</em>'
        f'<td class="n"><b>{si(lost)}</b><td class="n">{lost / (lost + received):.2%}</tr>'
    )


def dropped_packets(losses: Losses, names: Names) -> str:
    """Packets dropped by switch, port and queue, as rows of a table."""
    rows = [
        f"<tr><td>{_place(drops.place, names)}"
        f'<td class="n"><b>{si(drops.lately)}</b><td class="n">{si(drops.total)}</tr>'
        for drops in losses.drops
    ]
    head = '<tr><th>Packets dropped at<th class="n">Last minute<th class="n">Total</tr>'
    return _table(head, rows)


def _place(at: Place, names: Names) -> str:
    node, port, queue = at
    if node == NO_NODE:
        return "unknown switch"
    return f"{place(names, node, port)}{'' if port == NO_PORT else f' <em>q{queue}</em>'}"


def _table(head: str, rows: list[str]) -> str:
    return f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>" if rows else ""
