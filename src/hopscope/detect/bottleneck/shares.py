"""Latency attribution: the share of each switch, egress port and queue in latency.

The SmartNIC INT sink describes this task (section IV-E): find the flows with the highest end-to-end latency,
and on their paths, from exported statistics, the switch with the highest queue occupancy or utilisation. Here
a place is rated by the latency that it adds: its hop latency, as a share of the end-to-end latency of a flow
or of all packets. Occupancy and utilisation are listed with it: a full queue means that packets wait, an
empty one that the switch itself is slow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ..distributions.quantiles import Distribution, Quantile
from ..flows.reading.flow_hops import NO_QUEUE, FlowHops
from ..places import Place, Words, ascending, keys_of_places, places_of
from ..records import NO_PORT
from ..sink.records import Measure

By = Literal["mean", "latest"]
_NULL = 0xFFFFFFFF
SLOW, SLOW_MEDIANS = 0.95, 8
"""A flow is slow if its latest end-to-end latency is above this quantile of all packets, or above this
multiple of the median. The quantile alone misses flows if more than a twentieth of all packets are slow.
"""


@dataclass(frozen=True, slots=True)
class Gauge:
    """Occupancy of a queue, or utilisation of a link, in the switch's unit; None: unknown."""

    latest: int | None = None
    mean: float | None = None
    highest: int | None = None


@dataclass(frozen=True, slots=True)
class QuantileRange:
    """Quantile of a value in a distribution, as an interval."""

    lower: float
    """At least this share of all values is below the value."""
    upper: float
    """At most this share is at or below it."""


@dataclass(frozen=True, slots=True)
class HopShare:
    """One hop's share of a flow's end-to-end latency."""

    hop: int | None
    """Index in the path; None: unknown."""
    place: Place
    share_mean: float | None
    """Share of the sum of the hops' mean latencies, 0 to 1."""
    share_latest: float | None
    """Share of the sum of the hops' latest latencies."""
    mean_ns: float | None
    latest_ns: int | None
    samples: int
    """Number of packets in the means."""
    median_ns: Quantile | None
    """Median of all packets at this place."""
    p99_ns: Quantile | None
    """Their 99th percentile."""
    quantile: QuantileRange | None
    """Quantile of the latest value among all packets at this place."""
    occupancy: Gauge
    utilization: Gauge


@dataclass(frozen=True, slots=True)
class QueueShare:
    """One place's share of the latency of all packets."""

    place: Place
    share: float
    """Share of the sum of all hop latencies, 0 to 1."""
    latency_sum_ns: int
    packets: int
    mean_ns: float
    median_ns: Quantile | None
    p99_ns: Quantile | None
    """None if only sums are known."""
    highest_ns: int | None
    occupancy: Gauge
    utilization: Gauge
    slow_flows: int | None = None
    """Number of slow flows through it; None: unknown."""


@dataclass(frozen=True, slots=True)
class LossShare:
    """One place's share of the reported packet drops."""

    place: Place
    share: float
    """Share of all drops, 0 to 1."""
    drops: int


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums over live flows, or over events, of some places; uint64 [places] each."""

    places: Words
    """See `places.keys_of`, ascending."""
    latency_ns: Words
    """Sum of latencies."""
    packets: Words
    slow_flows: Words | None = None
    """Slow flows through each place; None: unknown."""

    @property
    def count(self) -> int:
        """Number of places with a latency."""
        return int(np.count_nonzero(self.packets))

    @property
    def slow(self) -> dict[Place, int] | None:
        """Number of slow flows by place, without places that have none; None: unknown."""
        if self.slow_flows is None:
            return None
        at = np.flatnonzero(self.slow_flows)
        return dict(zip(places_of(self.places[at]), self.slow_flows[at].tolist(), strict=True))


class Queues:
    """Distributions by place, also for hops whose queue is unknown."""

    def __init__(self, parts: Iterable[Distribution]) -> None:
        self._by_place: dict[Place, dict[Measure, Distribution]] = {}
        self.end_to_end: Distribution | None = None
        """Distribution of end-to-end latency."""
        for part in parts:
            if part.measure == Measure.END_TO_END:
                self.end_to_end = part
            elif part.node is not None:
                place = (part.node, part.port, part.queue)
                self._by_place.setdefault(place, {})[part.measure] = part
        self._ports: dict[tuple[int, int | None], list[Place]] = {}
        for place in self._by_place:
            self._ports.setdefault(place[:2], []).append(place)

    def places(self) -> list[Place]:
        """All places that have values."""
        return list(self._by_place)

    def at(self, place: Place) -> Mapping[Measure, Distribution]:
        """Distributions of a place; empty if there are none."""
        return self._by_place.get(place, {})

    def resolve(self, place: Place) -> Place:
        """The place with its queue, if its port has only one."""
        if place[2] is not None:
            return place
        found = self._ports.get(place[:2], [])
        return found[0] if len(found) == 1 else place

    def resolved(self, keys: Words) -> Words:
        """`resolve` for many places, given and returned as keys (see `places.keys_of`)."""
        only = {(*port, None): found[0] for port, found in self._ports.items() if len(found) == 1}
        if not only:
            return keys
        ports, places = keys_of_places(list(only)), keys_of_places(list(only.values()))
        order = np.argsort(ports)
        ports, places = ports[order], places[order]
        at = np.minimum(np.searchsorted(ports, keys), len(ports) - 1)
        return np.where(ports[at] == keys, places[at], keys)


NO_GAUGES: Mapping[Place, tuple[Gauge, Gauge]] = {}


def of_flow(
    path: FlowHops, queues: Queues, gauges: Mapping[Place, tuple[Gauge, Gauge]] = NO_GAUGES, by: By = "latest"
) -> list[HopShare]:
    """The hops of one flow by their share of its `latest` or `mean` latency, largest first.

    `gauges` are (occupancy, utilisation) of places without distributions. Hops without a latency come
    last, in path order.
    """
    shares = [
        _hop_share(hop, int(number), int(queue), queues, gauges)
        for hop, number, queue in zip(path.hops, path.number, path.queue, strict=True)
    ]
    means = sum(share.mean_ns or 0 for share in shares)
    latest = sum(share.latest_ns or 0 for share in shares)
    shares = [
        replace(
            share,
            share_mean=None if share.mean_ns is None else share.mean_ns / means if means else 0.0,
            share_latest=None if share.latest_ns is None else share.latest_ns / latest if latest else 0.0,
        )
        for share in shares
    ]
    return sorted(shares, key=lambda share: -_order(share, by))


def _order(share: HopShare, by: By) -> float:
    found = share.share_latest if by == "latest" else share.share_mean
    return -1.0 if found is None else found


def _hop_share(
    hop: np.void, number: int, queue: int, queues: Queues, gauges: Mapping[Place, tuple[Gauge, Gauge]]
) -> HopShare:
    port = int(hop["egress_port"])
    place = queues.resolve(
        (int(hop["node_id"]), None if port == NO_PORT else port, None if queue == NO_QUEUE else queue)
    )
    samples, state = int(hop["samples"]), int(hop["state"])
    known = bool(state & 1)
    latest = int(hop["latency_latest"]) if known else None
    found = queues.at(place)
    latency = found.get(Measure.HOP_LATENCY)
    occupancy, utilization = gauges.get(place, (Gauge(), Gauge()))
    return HopShare(
        number,
        place,
        None,
        None,
        int(hop["latency_sum"]) / samples if known and samples else None,
        latest,
        samples,
        None if latency is None else latency.quantile(0.5),
        None if latency is None else latency.quantile(0.99),
        None if latency is None or latest is None else quantile(latency, latest),
        _gauge(found.get(Measure.QUEUE_OCCUPANCY), occupancy, _own(hop["queue_latest"])),
        _gauge(found.get(Measure.LINK_UTILIZATION), utilization, _own(hop["utilization_latest"])),
    )


def _own(value: int) -> int | None:
    """Value of the flow's latest packet; None if all bits are ones, which means unknown."""
    return None if int(value) == _NULL else int(value)


def _gauge(part: Distribution | None, other: Gauge, latest: int | None = None) -> Gauge:
    if part is None:
        return Gauge(latest if latest is not None else other.latest, other.mean, other.highest)
    return Gauge(latest if latest is not None else other.latest, part.mean, part.highest)


def quantile(part: Distribution, value: int) -> QuantileRange | None:
    """Quantile of a value in a distribution; None if the distribution is empty."""
    count = part.count
    if not count:
        return None
    below = int(part.counts[part.upper < value].sum())
    reached = int(part.counts[part.lower <= value].sum())
    return QuantileRange(below / count, reached / count)


def of_network(
    queues: Queues,
    slow: Mapping[Place, int] | None = None,
    gauges: Mapping[Place, tuple[Gauge, Gauge]] = NO_GAUGES,
) -> list[QueueShare]:
    """Places by their share of the latency of all packets, largest first; places without latency are left
    out. `slow`: number of slow flows by place.
    """
    found = []
    for place in queues.places():
        parts = queues.at(place)
        latency = parts.get(Measure.HOP_LATENCY)
        if latency is None or not latency.count:
            continue
        occupancy, utilization = gauges.get(place, (Gauge(), Gauge()))
        found.append(
            QueueShare(
                place,
                0.0,
                latency.sum,
                latency.count,
                latency.mean or 0.0,
                latency.quantile(0.5),
                latency.quantile(0.99),
                latency.highest,
                _gauge(parts.get(Measure.QUEUE_OCCUPANCY), occupancy),
                _gauge(parts.get(Measure.LINK_UTILIZATION), utilization),
                None if slow is None else slow.get(place, 0),
            )
        )
    return _ranked(found)


def of_sums(sums: Sums, limit: int | None = None) -> list[QueueShare]:
    """`of_network` from sums, without distributions and gauges; at most `limit` places."""
    known = np.flatnonzero(sums.packets)
    order = known[np.argsort(~sums.latency_ns[known], kind="stable")][:limit]  # places ascend
    total = sum(sums.latency_ns[known].tolist())
    slow = None if sums.slow_flows is None else sums.slow_flows[order].tolist()
    columns = (column[order].tolist() for column in (sums.latency_ns, sums.packets))
    rows = zip(places_of(sums.places[order]), *columns, slow or [None] * len(order), strict=True)
    return [
        QueueShare(
            place, latency / total if total else 0.0, latency, packets, latency / packets,
            None, None, None, Gauge(), Gauge(), flows,
        )
        for place, latency, packets, flows in rows
    ]  # fmt: skip


def _ranked(found: Sequence[QueueShare]) -> list[QueueShare]:
    total = sum(entry.latency_sum_ns for entry in found)
    shares = [replace(entry, share=entry.latency_sum_ns / total if total else 0.0) for entry in found]
    return sorted(shares, key=lambda entry: (-entry.latency_sum_ns, ascending(entry.place)))


def slow_above(end_to_end: Distribution | None) -> int | None:
    """End-to-end latency (ns) above which a flow is slow; None without data."""
    if end_to_end is None:
        return None
    largest, median = end_to_end.quantile(SLOW), end_to_end.quantile(0.5)
    if largest is None or median is None:
        return None
    return round(min(largest.estimate, SLOW_MEDIANS * median.estimate))
