"""Models of the overview."""

from __future__ import annotations

from typing import Literal

from .bottleneck import QueueContribution
from .common import (
    ClusterModel,
    Event,
    Flow,
    FlowDetail,
    Model,
    Node,
    OfMember,
    OfMembers,
    Port,
    Time,
    Wide,
)


class Points(Model):
    """One value per second, oldest first, for up to three minutes while the server has followed the
    collector. For a cluster, sums for the seconds that are known for all members in the answer.
    """

    reports: list[float]
    events: list[float]
    lost: list[float]
    """Reports that are missing by sequence number."""
    rejected: list[float]
    dropped: list[float]
    """Datagrams that the kernel dropped."""
    duplicate: list[float]


class HotPlace(OfMembers):
    """A queue, buffer or link over the last minute."""

    node: Node
    port: Port | None
    """null: unknown, or a buffer, which all ports of a switch share."""
    queue: int | None
    """Queue or buffer; null: a link."""
    values: list[int]
    """Highest value of each half second, oldest first."""
    now: int
    peak: int
    limit: int | None
    """Value above which an alarm is raised; null: never."""
    alarm: bool


class SlowHop(OfMembers):
    """An egress port, over the hops of the slowest flows."""

    node: Node
    port: Port | None
    worst_ns: int
    mean_ns: float
    flows: int
    """How many of the 100 slowest flows (of each member) use this port."""


class Drops(OfMembers):
    """Packets that a switch reported as dropped at one place."""

    node: Node | None
    port: Port | None
    queue: int | None
    last_minute: int
    total: int
    """Drops since the server began to follow the collector, including events that were in memory then."""


class LostSource(OfMembers):
    """A source of which reports are missing."""

    address: str
    node: Node | None
    hw_id: int
    lost: Wide
    lost_at_most: bool = False
    """Whether `lost` is an upper bound (see `Source`)."""
    received: Wide


class LostWorker(OfMember):
    """A worker that lost reports."""

    worker: str
    cause: str
    reports: Wide


class Similar(Model):
    """An event, and the number of similar events in the same second."""

    event: Event
    count: int


class Contribution(QueueContribution, OfMembers):
    """A place's contribution to latency. For several members, quantiles and means of gauges are null, and
    latest values are the highest of all members.
    """


class KindCount(Model):
    """Notable events of one kind."""

    kind: str
    total: Wide
    """Since the collector started."""
    per_second: float


class Totals(Model):
    """Totals since the collector started, and rates over the last seconds."""

    received: Wide
    received_per_second: float
    lost: Wide
    lost_at_most: bool = False
    """Whether `lost` is an upper bound (see `Summary`)."""
    moved: Wide = 0
    """Received by other members of the cluster (see `Summary`)."""
    lost_per_second: float
    rejected: Wide
    rejected_per_second: float
    kernel_drops: Wide
    packets_dropped: Wide
    """Packets that switches reported as dropped."""
    events: Wide
    events_per_second: float
    values: Wide
    """Values in all reports."""
    values_per_event: float | None
    """Values in all reports per event that stores a value: the reduction by detection."""
    flows: int
    switches: int
    sources: int
    silent_sources: int
    workers: int
    busy_ratio: float
    ns_per_report: float | None


class Overview(ClusterModel):
    """What is slow, where, since when, due to whose traffic, and whether the data can be trusted."""

    time: Time
    unit: str
    """The unit that is received: `report`, or `packet` in a sink."""
    takes_labels: bool
    """Whether this collector listens for labels."""
    totals: Totals
    points: Points
    followed_seconds: float
    """How many seconds the strips reach back: less than 60 right after a start."""
    queues: list[HotPlace]
    """The fullest queues of the last minute."""
    buffers: list[HotPlace]
    links: list[HotPlace]
    slow_flows: list[Flow]
    slowest: FlowDetail | None
    """The slowest flow, with its path."""
    slow_hops: list[SlowHop]
    contributors: list[Contribution]
    """Places with the largest shares of latency."""
    contributors_source: Literal["recent", "all", "flows", "none"]
    """`recent`: distributions of the last `contributors_seconds`; `all`: of all time; `flows`: live flows."""
    contributors_seconds: float
    contributors_note: str
    """The total that the shares refer to, and the members, if not all."""
    drops: list[Drops]
    lost_sources: list[LostSource]
    lost_workers: list[LostWorker]
    notable: list[Similar]
    """Newest first."""
    kinds: list[KindCount]
    """Kinds of notable events that have occurred."""
    missed_events: Wide
    """Events that arrived too fast for this feed; history has all of them."""
