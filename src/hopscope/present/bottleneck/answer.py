"""Latency attribution from whatever a data folder has: which source answers, and the answer.

Distributions answer best, for any time window.  Without them the network's present is summed over live flows,
and a time window, like a flow that has left, is averaged over the events of history.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ...detect.bottleneck.place_sums import PlaceSums, gauges_of
from ...detect.bottleneck.shares import (
    SLOW,
    By,
    Gauge,
    HopShare,
    LossShare,
    Place,
    QuantileRange,
    Queues,
    QueueShare,
    of_drops,
    of_flow,
    of_network,
    of_sums,
    quantile,
    slow_above,
)
from ...detect.distributions.quantiles import Distribution
from ..collector_state import CollectorState

if TYPE_CHECKING:
    from ...history.questions import HistoryLike
    from ...history.reading.filters import Flow

Source = Literal["distributions", "flows", "events", "none"]
MAX_FLOWS = 1_000_000
"""Live flows above which slow ones are not counted: reading all their hops takes seconds."""
MAX_DROPS = 100_000
"""Drop events that are counted, the newest."""


@dataclass(frozen=True, slots=True)
class NetworkAttribution:
    """Places by their share of the latency of all packets, and of the drops."""

    source: Source
    """`distributions`: of all packets; `flows`: sums of the live flows; `events`: of stored values alone."""
    since_ns: int | None
    """Start of the covered time, ns since the epoch; None: the first value."""
    until_ns: int | None
    """None: until now."""
    end_to_end: Distribution | None
    slow_above_ns: int | None
    """Latest end-to-end latency above which a flow is slow; None: not known."""
    slow_flows: int | None
    items: list[QueueShare]
    losses: list[LossShare]


@dataclass(frozen=True, slots=True)
class FlowAttribution:
    """Hops of a flow by their share of its latency."""

    source: Source
    """`flows`: the flow is live; `events`: it has left, and history knows its stored values."""
    flow: np.void | None
    """FLOW of a live flow."""
    quantile: QuantileRange | None
    """Of its latest latency among those of all packets."""
    items: list[HopShare]


def network(
    state: CollectorState | None,
    history: HistoryLike | None,
    start_ns: int | None = None,
    end_ns: int | None = None,
) -> NetworkAttribution:
    """The network's, from `start_ns` to `end_ns` (None: all that is known, up to now).

    `state` None: from history alone, as that of a cluster.

    Slow flows are counted as they are now, if the window is open.  Raises HistoryError.
    """
    parts = state.distributions() if state is not None and start_ns is None and end_ns is None else []
    if not parts and history is not None:
        parts = history.distributions(start=start_ns, end=end_ns)
    queues = Queues(parts)
    losses = [] if history is None else of_drops(_drops(history, start_ns, end_ns))
    live = state if end_ns is None else None
    sums = None if live is None else _sums(live, queues)
    slow = None if sums is None or sums.slow_above_ns is None else sums.slow
    gauges = {} if live is None else gauges_of(live.ports(), queues.places())
    items = of_network(queues, slow, gauges)
    source: Source = "distributions"
    if not items and start_ns is None and live is not None and sums is not None:
        source, gauges = "flows", gauges_of(live.ports(), sums.sums)
        if history is not None:
            gauges = _with_peaks(gauges, history)
        items = of_sums(sums.sums, slow, gauges)
    if not items and history is not None:
        source, items = "events", of_sums(_of_events(history, start_ns, end_ns))
    covers: tuple[int | None, int | None] = (None, None)
    if source == "distributions" and parts:
        covers = (parts[0].since_ns, parts[0].until_ns)
    return NetworkAttribution(
        source if items else "none",
        *covers,
        queues.end_to_end,
        None if sums is None else sums.slow_above_ns,
        None if sums is None or slow is None else sums.slow_flows,
        items,
        losses,
    )


def flow(
    state: CollectorState,
    history: HistoryLike | None,
    row: np.void | None,
    named: Flow | None,
    by: By = "latest",
) -> FlowAttribution:
    """Contributions of a flow's hops: `row` is its FLOW if live, `named` the flow for history.

    The usual latency of a queue is that of all packets since its worker started.  Raises HistoryError.
    """
    queues = Queues(state.distributions())
    path = None if row is None else state.path_of(row)
    if path is not None and row is not None:
        places = [*queues.places(), *_places(path.hops, path.queue)]
        items = of_flow(path, queues, gauges_of(state.ports(), places), by)
        mine = None
        if queues.end_to_end is not None and row["state"] & 2:
            mine = quantile(queues.end_to_end, int(row["latency_latest"]))
        return FlowAttribution("flows", row, mine, items)
    if history is None or named is None:
        return FlowAttribution("none", row, None, [])
    shares = of_sums(_of_events(history, None, None, named))
    return FlowAttribution("events" if shares else "none", None, None, _as_hops(shares))


def _as_hops(shares: Sequence[QueueShare]) -> list[HopShare]:
    """A flow's hops from its events: unweighted means of stored values."""
    total = sum(share.mean_ns for share in shares)
    hops = [
        HopShare(
            None, share.place, share.mean_ns / total if total else 0.0, None, share.mean_ns, None,
            share.packets, None, None, None, Gauge(), Gauge(),
        )
        for share in shares
    ]  # fmt: skip
    return sorted(hops, key=lambda hop: -(hop.share_mean or 0.0))


def _places(hops: np.ndarray[Any, Any], queue: np.ndarray[Any, Any]) -> list[Place]:
    columns = (hops["node_id"].tolist(), hops["egress_port"].tolist(), queue.tolist())
    return [(node, port, None if each < 0 else each) for node, port, each in zip(*columns, strict=True)]


def _sums(state: CollectorState, queues: Queues) -> PlaceSums | None:
    """Sums over live flows; None if there are none, or too many."""
    flows = state.flows()
    if not 0 < len(flows) <= MAX_FLOWS:
        return None
    above = slow_above(queues.end_to_end)
    if above is None:
        known = flows["latency_latest"][flows["state"] & 2 > 0]
        above = int(np.quantile(known, SLOW)) if len(known) else None
    sums = PlaceSums(queues, above)
    for block in state.paths():
        sums.add(block)
    return sums


def _drops(history: HistoryLike, start_ns: int | None, end_ns: int | None) -> dict[Place, int]:
    table = history.events(kinds=("drop",), start=start_ns, end=end_ns, limit=MAX_DROPS)
    found: dict[Place, int] = {}
    for row in table.rows():
        if row["node_id"] is not None:
            queue = None if row["ident"] is None else row["ident"] & 0xFF
            place = (row["node_id"], row["port"], queue)
            found[place] = found.get(place, 0) + 1
    return found


def _with_peaks(
    gauges: dict[Place, tuple[Gauge, Gauge]], history: HistoryLike
) -> dict[Place, tuple[Gauge, Gauge]]:
    """With the highest values of history: those of the port table are since the last push."""
    queues: dict[Place, int] = {}
    for row in history.peaks("queue_occupancy", limit=None).rows():
        for port in (row["port"], None):  # None: places whose queue numbers are unique in their switch
            place = (row["node_id"], port, row["ident"])
            queues[place] = max(queues.get(place, 0), row["highest"])
    links = {
        (row["node_id"], row["port"]): row["highest"]
        for row in history.peaks("link_utilization", limit=None).rows()
    }
    return {
        place: (_raised(occupancy, queues.get(place)), _raised(utilization, links.get(place[:2])))
        for place, (occupancy, utilization) in gauges.items()
    }


def _raised(gauge: Gauge, peak: int | None) -> Gauge:
    highest = max((value for value in (gauge.highest, peak) if value is not None), default=None)
    return replace(gauge, highest=highest)


def _of_events(
    history: HistoryLike, start_ns: int | None, end_ns: int | None, named: Flow | None = None
) -> dict[Place, tuple[int, int]]:
    """(Sum, number) of the stored hop latencies by place."""
    table = history.hops(limit=None, start=start_ns, end=end_ns, flow=named)
    return {
        (row["node_id"], row["port"], None): (round(row["mean"] * row["events"]), row["events"])
        for row in table.rows()
        if row["node_id"] is not None
    }
