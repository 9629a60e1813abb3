"""Top latency contributors on the live page: over the last minute if distributions are counted."""

from __future__ import annotations

import time
from dataclasses import dataclass
from html import escape

from ...base.names import Names
from ...detect.bottleneck.place_sums import PlaceSums, gauges_of
from ...detect.bottleneck.shares import Place, Queues, QueueShare, of_network, of_sums, slow_above
from ...detect.records import NO_PORT
from ...present.collector_state import CollectorState
from ...present.units import duration, place, si
from ...wire.records import Records
from .recent import EVERY_SECONDS, Recent

ROWS = 8
MAX_FLOWS = 20_000
"""Live flows whose sums are taken where there are no distributions."""


@dataclass(frozen=True, slots=True)
class Contributors:
    """The first places, and what their shares are of."""

    note: str = ""
    items: tuple[QueueShare, ...] = ()


class ContributorsReader:
    """Looks now and then; `contributors` is the newest answer."""

    def __init__(self, state: CollectorState, recent: Recent | None = None) -> None:
        self._state = state
        self._recent = recent or Recent(state)
        self._due = 0.0
        self.contributors = Contributors()

    def snapshot(self, slowest: Records, now: float | None = None) -> Contributors:
        """The newest answer; `slowest` are the slowest live flows, whose paths are looked at. `now`: s."""
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
            return Contributors(note, tuple(items[:ROWS]))
        if not 0 < len(self._state.flows()) <= MAX_FLOWS:
            return Contributors("needs distributions")
        sums = PlaceSums(Queues([]), None)
        for block in self._state.paths():
            sums.add(block)
        items = of_sums(sums.sums, None, gauges_of(self._state.ports(), sums.sums))
        return Contributors("share of the latency of the live flows' packets", tuple(items[:ROWS]))

    def _slow(self, queues: Queues, slowest: Records) -> dict[Place, int] | None:
        above = slow_above(queues.end_to_end)
        if above is None:
            return None
        sums = PlaceSums(queues, above)
        for flow in slowest:
            path = self._state.path_of(flow)
            if path is not None:
                sums.add(path)
        return sums.slow


def contributors_table(contributors: Contributors, names: Names) -> str:
    """The panel as HTML."""
    if not contributors.items:
        hint = "Distributions are off. Set <code>distributions.enabled = true</code>."
        empty = "No hop latencies." if contributors.note != "needs distributions" else hint
        return f'<p class="empty">{empty}</p>'
    head = (
        '<tr><th>Switch, port, queue<th class="n">Share<th class="n">Mean<th class="n">p99'
        '<th class="n">Mean queue<th class="n">Highest<th class="n">Mean link<th class="n">Packets'
        '<th class="n" title="of the 100 slowest">Slow flows</tr>'
    )
    rows = "".join(_row(one, names) for one in contributors.items)
    return (
        f'<table title="{escape(contributors.note)}"><thead>{head}</thead><tbody>{rows}</tbody></table>'
        f'<p class="note">{escape(contributors.note)}</p>'
    )


def _row(one: QueueShare, names: Names) -> str:
    node, port, queue = one.place
    where = place(names, node, NO_PORT if port is None else port)
    where += "" if queue is None else f" <em>q{queue}</em>"
    p99 = one.p99_ns
    tail = "–" if p99 is None else f"&gt; {duration(p99.lower)}" if p99.upper is None else duration(p99.upper)
    cells = (
        f'<td class="n bar" style="--w:{100 * one.share:.0f}%"><b>{one.share:.1%}</b>',
        f'<td class="n">{duration(one.mean_ns)}',
        f'<td class="n">{tail}',
        f'<td class="n">{_number(one.occupancy.mean, one.occupancy.latest)}',
        f'<td class="n">{_number(one.occupancy.highest)}',
        f'<td class="n">{_number(one.utilization.mean, one.utilization.latest)}',
        f'<td class="n">{si(one.packets)}',
        f'<td class="n">{_number(one.slow_flows)}',
    )
    return f'<tr data-node="{node}"><td>{where}{"".join(cells)}</tr>'


def _number(*values: float | None) -> str:
    """The first that is known."""
    return next((si(value) for value in values if value is not None), "–")
