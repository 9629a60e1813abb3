"""Top latency contributors on the live page: over the last minute if distributions are counted."""

from __future__ import annotations

import time
from collections.abc import Sequence
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
"""Live flows that are summed if distributions are off; with more, the panel stays empty."""


@dataclass(frozen=True, slots=True)
class Contributors:
    """The top contributors; `note` says of what their shares are."""

    note: str = ""
    items: tuple[QueueShare, ...] = ()


class ContributorsReader:
    """Reads the state every EVERY_SECONDS; `contributors` is the newest result."""

    def __init__(self, state: CollectorState, recent: Recent | None = None) -> None:
        self._state = state
        self._recent = recent or Recent(state)
        self._due = 0.0
        self.contributors = Contributors()

    def snapshot(self, slowest: Records, now: float | None = None) -> Contributors:
        """The newest result; paths of the `slowest` live flows are searched for slow hops. `now`: s."""
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
    tails = any(item.p99_ns is not None for item in contributors.items)
    head = (
        '<tr><th>Switch, port, queue<th class="n">Share<th class="n">Mean'
        + '<th class="n">p99' * tails
        + f'<th class="n">{_column("queue", [item.occupancy.mean for item in contributors.items])}'
        '<th class="n">Highest queue'
        f'<th class="n">{_column("link", [item.utilization.mean for item in contributors.items])}'
        '<th class="n">Packets' + '<th class="n" title="of the 100 slowest">Slow flows' * tails + "</tr>"
    )
    rows = "".join(_row(item, names, tails) for item in contributors.items)
    return (
        f'<table title="{escape(contributors.note)}"><thead>{head}</thead><tbody>{rows}</tbody></table>'
        f'<p class="note">{escape(contributors.note)}</p>'
    )


def _column(what: str, means: Sequence[float | None]) -> str:
    """Heading of values that are means, or the newest ones if no means are known."""
    return f"Mean {what}" if any(mean is not None for mean in means) else f"{what.capitalize()} now"


def _row(item: QueueShare, names: Names, tails: bool) -> str:
    """A queue's row; `tails`: with the quantile and the slow flows, which distributions give."""
    node, port, queue = item.place
    where = place(names, node, NO_PORT if port is None else port)
    where += "" if queue is None else f" <em>q{queue}</em>"
    p99 = item.p99_ns
    tail = "–" if p99 is None else f"&gt; {duration(p99.lower)}" if p99.upper is None else duration(p99.upper)
    cells = (
        f'<td class="n bar" style="--w:{100 * item.share:.0f}%"><b>{item.share:.1%}</b>',
        f'<td class="n">{duration(item.mean_ns)}',
        f'<td class="n">{tail}' * tails,
        f'<td class="n">{_number(item.occupancy.mean, item.occupancy.latest)}',
        f'<td class="n">{_number(item.occupancy.highest)}',
        f'<td class="n">{_number(item.utilization.mean, item.utilization.latest)}',
        f'<td class="n">{si(item.packets)}',
        f'<td class="n">{_number(item.slow_flows)}' * tails,
    )
    return f'<tr data-node="{node}"><td>{where}{"".join(cells)}</tr>'


def _number(*values: float | None) -> str:
    """The first known value."""
    return next((si(value) for value in values if value is not None), "–")
