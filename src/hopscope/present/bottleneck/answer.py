"""Latency attribution from the best source that a data folder has.

Distributions are the best source, for any time window. Without them, the present of the network is summed
over live flows, while a time window, or a flow that has left, is averaged over the events of history.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ...detect.bottleneck.place_sums import PlaceSums, gauges_of, with_gauges
from ...detect.bottleneck.shares import (
    SLOW,
    By,
    Gauge,
    HopShare,
    LossShare,
    QuantileRange,
    Queues,
    QueueShare,
    of_flow,
    of_network,
    of_sums,
    quantile,
    slow_above,
)
from ...detect.distributions.quantiles import Distribution
from ...detect.flows.reading.flow_hops import NO_QUEUE
from ...detect.places import Place
from ...detect.records import NO_PORT
from ..collector_state import CollectorState
from ..series.places import times_ns

if TYPE_CHECKING:
    from ...history.history_like import HistoryLike
    from ...history.reading.filters import Filters, Flow
    from ...history.reading.highest import Highest

Source = Literal["distributions", "flows", "events", "none"]
MAX_FLOWS = 1_000_000
"""With more live flows, slow flows are not counted, because reading all hops takes seconds."""
MAX_NODES = 1000
"""Up to this many switches, their peaks are selected in history by id; with more, all peaks are read."""
LATELY_NS = 3600 * 10**9
"""Without a time window, this much of history is read, up to its newest event."""


@dataclass(frozen=True, slots=True)
class NetworkAttribution:
    """Places with their share of the latency of all packets, and of the drops."""

    source: Source
    """`distributions`: all packets; `flows`: sums over the live flows; `events`: only stored values."""
    since_ns: int | None
    """Start of the covered time, ns since the epoch; None: the first value."""
    until_ns: int | None
    """None: until now."""
    history_ns: int | None
    """Start of the events of history that are included (drops, highest values, stored values); None: none
    are.
    """
    end_to_end: Distribution | None
    slow_above_ns: int | None
    """A flow is slow if its latest end-to-end latency is above this; None: not known."""
    slow_flows: int | None
    items: list[QueueShare]
    losses: list[LossShare]
    truncated: bool
    """Whether there are more places (of one kind) than listed."""


@dataclass(frozen=True, slots=True)
class FlowAttribution:
    """Hops of a flow with their share of its latency."""

    source: Source
    """`flows`: the flow is live; `events`: it has left, and history has stored values of it."""
    flow: np.void | None
    """FLOW of a live flow."""
    quantile: QuantileRange | None
    """The quantile of its latest latency among the latencies of all packets."""
    items: list[HopShare]


def network(
    state: CollectorState | None,
    history: HistoryLike | None,
    start_ns: int | None = None,
    end_ns: int | None = None,
    limit: int | None = None,
) -> NetworkAttribution:
    """The attribution of the network's latency from `start_ns` to `end_ns`, with at most `limit` places of
    each kind. Without `start_ns`, it covers the whole live state, and the last LATELY_NS of history.

    `state` None: from history alone, as for a cluster.

    Slow flows are counted as of now, and only if the window has no end. Raises HistoryError.
    """
    begin_ns = start_ns
    if start_ns is None and history is not None:
        begin_ns = _lately(history, end_ns)
    window: Filters = {"start": begin_ns, "end": end_ns}
    parts = state.distributions() if state is not None and start_ns is None and end_ns is None else []
    if not parts and history is not None:
        parts = history.distributions(start=begin_ns, end=end_ns)
    queues = Queues(parts)
    drops = None if history is None else history.sums("drop", limit=limit, **window)
    live = state if end_ns is None else None
    flows = None if live is None else _sums(live, queues)
    sums = None if flows is None else flows.sums()
    gauges = {} if live is None else gauges_of(live.ports(), queues.places())
    slow = sums.slow if sums is not None and parts else None
    items = of_network(queues, slow, gauges)
    source: Source = "distributions"
    places = len(items)
    covers: tuple[int | None, int | None] = (None, None)
    if items:
        covers = (parts[0].since_ns, parts[0].until_ns)
    if not items and start_ns is None and live is not None and sums is not None:
        source, places = "flows", sums.count
        items = with_gauges(of_sums(sums, limit), live.ports())
        if history is not None:
            items = _with_peaks(items, history, window)
    if not items and history is not None:
        stored = history.sums("hop_latency", limit=limit, **window)
        source, places, items, covers = "events", stored.total, _of_events(stored), (begin_ns, end_ns)
    return NetworkAttribution(
        source if items else "none",
        *covers,
        begin_ns,
        queues.end_to_end,
        None if flows is None else flows.slow_above_ns,
        None if flows is None or flows.slow_above_ns is None else flows.slow_flows,
        items[:limit],
        [] if drops is None else _losses(drops),
        limit is not None and max(places, 0 if drops is None else drops.total) > limit,
    )


def flow(
    state: CollectorState,
    history: HistoryLike | None,
    row: np.void | None,
    named: Flow | None,
    by: By = "latest",
) -> FlowAttribution:
    """The attribution of a flow's latency to its hops. `row`: its FLOW if it is live; `named`: how history
    finds it.

    The usual latency of a queue is the latency of all packets since its worker started. Raises HistoryError.
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
    shares = _of_events(history.sums("hop_latency", limit=None, flow=named))
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
    return [
        (node, None if port == NO_PORT else port, None if queue_id == NO_QUEUE else queue_id)
        for node, port, queue_id in zip(*columns, strict=True)
    ]


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


def _lately(history: HistoryLike, end_ns: int | None) -> int | None:
    """Start of the last LATELY_NS of history; None: it has no events."""
    newest = times_ns(history.events(limit=1, end=end_ns)["time"])
    return max(0, newest[0] - LATELY_NS) if newest else None


def _losses(drops: Highest) -> list[LossShare]:
    return [LossShare(row.place, row.highest / drops.sum, row.highest) for row in drops.rows]


def _with_peaks(shares: Sequence[QueueShare], history: HistoryLike, window: Filters) -> list[QueueShare]:
    """The shares, with the highest values of history; the port table has only those since the last push."""
    nodes = sorted({share.place[0] for share in shares})
    chosen: Filters = {**window, "nodes": nodes if len(nodes) <= MAX_NODES else ()}
    queues: dict[Place, int] = {}
    for (node, port, queue), highest in _peaks(history, "queue_occupancy", chosen):
        for known in (port, None):  # None: places whose queue numbers are unique in their switch
            queues[node, known, queue] = max(queues.get((node, known, queue), 0), highest)
    links = {place[:2]: highest for place, highest in _peaks(history, "link_utilization", chosen)}
    return [
        replace(
            share,
            occupancy=_raised(share.occupancy, queues.get(share.place)),
            utilization=_raised(share.utilization, links.get(share.place[:2])),
        )
        for share in shares
    ]


def _peaks(history: HistoryLike, metric: str, chosen: Filters) -> Iterator[tuple[Place, int]]:
    """Highest values of a metric at the places of some switches."""
    table = history.peaks(metric, limit=None, **chosen)
    columns = (table[name].tolist() for name in ("node_id", "port", "ident", "highest"))
    for *place, highest in zip(*columns, strict=True):
        yield (place[0], place[1], place[2]), highest


def _raised(gauge: Gauge, peak: int | None) -> Gauge:
    highest = max((value for value in (gauge.highest, peak) if value is not None), default=None)
    return replace(gauge, highest=highest)


def _of_events(found: Highest) -> list[QueueShare]:
    """Shares of the stored hop latencies."""
    return [
        QueueShare(
            row.place, row.highest / (found.sum or 1), row.highest, row.events, row.highest / row.events,
            None, None, None, Gauge(), Gauge(),
        )
        for row in found.rows
    ]  # fmt: skip
