"""Models of latency attribution."""

from __future__ import annotations

from pydantic import Field

from .common import ClusterModel, FlowKey, Model, Node, OfMember, Port, Time, Wide


class Bounds(Model):
    """A quantile as the two values between which it lies, since values are counted in bins."""

    lower: Wide
    upper: Wide | None
    """null: unknown."""
    estimate: float


class QuantileModel(Model):
    """The quantile of a value, 0 to 1, as two bounds."""

    lower: float
    """At least this share of all values is lower."""
    upper: float
    """At most this share of all values is lower or equal."""


class GaugeModel(Model):
    """Occupancy or utilisation, in the unit that the switch sends."""

    latest: int | None
    mean: float | None
    highest: int | None


class PlaceModel(Model):
    """A switch, its egress port and queue."""

    node: Node
    port: Port | None
    queue: int | None


class QueueContribution(PlaceModel):
    """A place's contribution to the latency of all packets."""

    share: float = Field(ge=0, le=1)
    """Share of the sum of all hop latencies."""
    latency_sum_ns: Wide
    packets: Wide
    """Packets counted. With the source `events`, stored values; with `flows`, packets of live flows."""
    mean_ns: float
    median_ns: Bounds | None
    p99_ns: Bounds | None
    highest_ns: int | None
    occupancy: GaugeModel
    utilization: GaugeModel
    slow_flows: int | None
    """Slow flows through this place now."""


class LossContribution(PlaceModel):
    """A place's contribution to the dropped packets."""

    share: float = Field(ge=0, le=1)
    drops: int
    """Drop events in history."""


class EndToEnd(Model):
    """Latency of whole paths."""

    packets: Wide
    mean_ns: float | None
    median_ns: Bounds | None
    p99_ns: Bounds | None


class NetworkBottlenecks(ClusterModel):
    """Places by their share, the largest first."""

    source: str
    """`distributions`: all packets; `flows`: sums over live flows; `events`: only stored values; `none`."""
    since: Time | None
    """Start of the covered time; null: unknown."""
    until: Time | None
    history_since: Time | None
    """Since when events of history are in it: drops, highest values of `flows`, and stored values. Without
    `since`, of the last hour. null: history has no events."""
    end_to_end: EndToEnd | None
    slow_above_ns: int | None
    """A flow is slow if its latest end-to-end latency is above this value: the 95th percentile of all
    packets, or eight times the median.
    """
    slow_flows: int | None
    items: list[QueueContribution]
    losses: list[LossContribution]
    truncated: bool
    """Whether there are more places than `limit`."""


class HopContribution(PlaceModel):
    """A hop's contribution to a flow's latency."""

    hop: int | None
    """Index in the path."""
    share: float | None
    """Share of the flow's latest latency."""
    share_mean: float | None
    """Share of the flow's mean latency."""
    latency_ns: int | None
    mean_ns: float | None
    samples: int
    median_ns: Bounds | None
    """Median of all packets at this place."""
    p99_ns: Bounds | None
    quantile: QuantileModel | None
    """Quantile of the latest latency among all packets at this place."""
    occupancy: GaugeModel
    utilization: GaugeModel


class FlowBottlenecks(OfMember, ClusterModel):
    """Hops of a flow by their share, the largest first."""

    source: str
    """`flows`: the flow is live; `events`: it has left, and history has stored values; `none`."""
    flow: FlowKey | None
    latency_ns: Wide | None
    latency_mean_ns: float | None
    quantile: QuantileModel | None
    """Quantile of its latest latency among all packets."""
    items: list[HopContribution]
