"""Latency attribution from whatever a data folder has: which source answers, and the answer.

Distributions answer best, for any time window.  Without them the network's present is summed over live flows,
and a time window, like a flow that has left, is averaged over the events of history.
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
    Place,
    QuantileRange,
    Queues,
    QueueShare,
    Sums,
    keys_of,
    of_drops,
    of_flow,
    of_network,
    of_sums,
    place_of,
    quantile,
    slow_above,
)
from ...detect.distributions.quantiles import Distribution
from ...detect.flows.reading.flow_hops import NO_QUEUE
from ...detect.records import NO_PORT
from ..collector_state import CollectorState
from ..series.places import integers

if TYPE_CHECKING:
    from ...history.questions import HistoryLike
    from ...history.reading.filters import Flow

Source = Literal["distributions", "flows", "events", "none"]
MAX_FLOWS = 1_000_000
"""Live flows above which slow ones are not counted: reading all their hops takes seconds."""
MAX_NODES = 64
"""Switches whose peaks are looked for in history by their ids; of more, all peaks are read."""
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
    truncated: bool
    """There are more places of one kind."""


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
    limit: int | None = None,
) -> NetworkAttribution:
    """The network's, from `start_ns` to `end_ns` (None: all that is known, up to now), with at most `limit`
    places of each kind.

    `state` None: from history alone, as that of a cluster.

    Slow flows are counted as they are now, if the window is open.  Raises HistoryError.
    """
    parts = state.distributions() if state is not None and start_ns is None and end_ns is None else []
    if not parts and history is not None:
        parts = history.distributions(start=start_ns, end=end_ns)
    queues = Queues(parts)
    losses = [] if history is None else of_drops(_drops(history, start_ns, end_ns))
    live = state if end_ns is None else None
    flows = None if live is None else _sums(live, queues)
    sums = None if flows is None else flows.sums()
    gauges = {} if live is None else gauges_of(live.ports(), queues.places())
    items = of_network(queues, None if sums is None else sums.slow, gauges)
    source: Source = "distributions"
    places = len(items)
    if not items and start_ns is None and live is not None and sums is not None:
        source, places = "flows", sums.count
        items = with_gauges(of_sums(sums, limit), live.ports())
        if history is not None:
            items = _with_peaks(items, history)
    if not items and history is not None:
        stored = _of_events(history, start_ns, end_ns)
        source, places, items = "events", stored.count, of_sums(stored, limit)
    covers: tuple[int | None, int | None] = (None, None)
    if source == "distributions" and parts:
        covers = (parts[0].since_ns, parts[0].until_ns)
    return NetworkAttribution(
        source if items else "none",
        *covers,
        queues.end_to_end,
        None if flows is None else flows.slow_above_ns,
        None if flows is None or flows.slow_above_ns is None else flows.slow_flows,
        items[:limit],
        losses[:limit],
        limit is not None and max(places, len(losses)) > limit,
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
    return [
        (node, None if port == NO_PORT else port, None if each == NO_QUEUE else each)
        for node, port, each in zip(*columns, strict=True)
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


def _drops(history: HistoryLike, start_ns: int | None, end_ns: int | None) -> dict[Place, int]:
    table = history.events(kinds=("drop",), start=start_ns, end=end_ns, limit=MAX_DROPS)
    node, port, ident = (integers(table[name]) for name in ("node_id", "port", "ident"))
    known = node >= 0
    queue = np.where(ident < 0, NO_QUEUE, ident & 0xFF)
    keys, drops = np.unique(keys_of(node, port, queue)[known], return_counts=True)
    return {place_of(key): count for key, count in zip(keys.tolist(), drops.tolist(), strict=True)}


def _with_peaks(shares: Sequence[QueueShare], history: HistoryLike) -> list[QueueShare]:
    """With the highest values of history: those of the port table are since the last push."""
    nodes = sorted({share.place[0] for share in shares})
    queues: dict[Place, int] = {}
    for (node, port, queue), highest in _peaks(history, "queue_occupancy", nodes):
        for known in (port, None):  # None: places whose queue numbers are unique in their switch
            queues[node, known, queue] = max(queues.get((node, known, queue), 0), highest)
    links = {place[:2]: highest for place, highest in _peaks(history, "link_utilization", nodes)}
    return [
        replace(
            share,
            occupancy=_raised(share.occupancy, queues.get(share.place)),
            utilization=_raised(share.utilization, links.get(share.place[:2])),
        )
        for share in shares
    ]


def _peaks(history: HistoryLike, metric: str, nodes: Sequence[int]) -> Iterator[tuple[Place, int]]:
    """Highest values of a metric at the places of these switches."""
    table = history.peaks(metric, limit=None, nodes=nodes if len(nodes) <= MAX_NODES else ())
    columns = (table[name].tolist() for name in ("node_id", "port", "ident", "highest"))
    for *place, highest in zip(*columns, strict=True):
        yield (place[0], place[1], place[2]), highest


def _raised(gauge: Gauge, peak: int | None) -> Gauge:
    highest = max((value for value in (gauge.highest, peak) if value is not None), default=None)
    return replace(gauge, highest=highest)


def _of_events(
    history: HistoryLike, start_ns: int | None, end_ns: int | None, named: Flow | None = None
) -> Sums:
    """Sums of the stored hop latencies by place."""
    table = history.hops(limit=None, start=start_ns, end=end_ns, flow=named)
    node, port, events = (integers(table[name]) for name in ("node_id", "port", "events"))
    known = np.flatnonzero(node >= 0)
    places = keys_of(node, port, np.full(len(node), NO_QUEUE))[known]
    sums = np.rint(np.asarray(table["mean"], np.float64)[known] * events[known])
    order = np.argsort(places)
    return Sums(places[order], sums[order].astype(np.uint64), events[known][order].astype(np.uint64))
