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
    """One value per second, oldest first, since the server follows the collector: three minutes at most. Of a
    cluster, sums for the seconds that are known of all members in the answer.
    """

    reports: list[float]
    events: list[float]
    lost: list[float]
    """Reports that did not arrive, by sequence numbers."""
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
    """Of the 100 slowest flows (of each member), those through this port."""


class Drops(OfMembers):
    """Packets that a switch reported as dropped at one place."""

    node: Node | None
    port: Port | None
    queue: int | None
    last_minute: int
    total: int
    """Since the server follows the collector, and of the events that were in memory then."""


class LostSource(OfMembers):
    """A source of which reports are missing."""

    address: str
    node: Node | None
    hw_id: int
    lost: Wide
    lost_at_most: bool = False
    """Whether `lost` is an upper bound, see `Source`."""
    received: Wide


class LostWorker(OfMember):
    """A worker that lost reports."""

    worker: str
    cause: str
    reports: Wide


class Similar(Model):
    """An event, and how many like it there were in its second."""

    event: Event
    count: int


class Contribution(QueueContribution, OfMembers):
    """A place's contribution to latency. Of several members, quantiles and means of gauges are null, and the
    latest values are the highest of theirs.
    """


class KindCount(Model):
    """Events of one kind that are worth a look."""

    kind: str
    total: Wide
    """Since the collector started."""
    per_second: float


class Totals(Model):
    """Since the collector started, and per second over the last seconds."""

    received: Wide
    received_per_second: float
    lost: Wide
    lost_at_most: bool = False
    """Whether `lost` is an upper bound, see `Summary`."""
    lost_per_second: float
    rejected: Wide
    rejected_per_second: float
    kernel_drops: Wide
    packets_dropped: Wide
    """Reported as dropped by switches."""
    events: Wide
    events_per_second: float
    values: Wide
    """Values in all reports."""
    values_per_event: float | None
    """Values in all reports for each event that stores one: what detection saves."""
    flows: int
    switches: int
    sources: int
    silent_sources: int
    workers: int
    busy_ratio: float
    ns_per_report: float | None


class Overview(ClusterModel):
    """What is slow, where, since when, whose traffic, and whether the data can be trusted."""

    time: Time
    unit: str
    """What is received: `report`, or `packet` by a sink."""
    takes_labels: bool
    """Whether this collector listens for labels."""
    totals: Totals
    points: Points
    followed_seconds: float
    """How far the strips reach back: less than 60 right after a start."""
    queues: list[HotPlace]
    """The fullest of the last minute."""
    buffers: list[HotPlace]
    links: list[HotPlace]
    slow_flows: list[Flow]
    slowest: FlowDetail | None
    """The first of them, with its path."""
    slow_hops: list[SlowHop]
    contributors: list[Contribution]
    """Places with the largest shares of latency."""
    contributors_source: Literal["recent", "all", "flows", "none"]
    """`recent`: distributions of `contributors_seconds`; `all`: those of all time; `flows`: live flows."""
    contributors_seconds: float
    contributors_note: str
    """What the shares are of, and of which members if not of all."""
    drops: list[Drops]
    lost_sources: list[LostSource]
    lost_workers: list[LostWorker]
    notable: list[Similar]
    """Newest first."""
    kinds: list[KindCount]
    """Kinds of notable events that have occurred."""
    missed_events: Wide
    """Events that came too fast for this feed; all are in history."""
