"""Models of values over time."""

from __future__ import annotations

from typing import Literal

from .common import ClusterModel, FlowKey, Model, Node, Port, Time, Wide
from .distributions import Distribution

MetricName = Literal[
    "hop_latency",
    "queue_occupancy",
    "queue_congestion",
    "link_utilization",
    "buffer_occupancy",
    "label_latency",
    "label_occupancy",
    "label_age",
    "drop",
]
SeriesMetric = MetricName | Literal["flow_latency"]


class Alarm(Model):
    """A period during which an alarm was raised."""

    start: Time | None
    """null: earlier than history reaches."""
    end: Time | None
    """null: it is still raised."""
    peak: Wide
    """Highest value of its events in the range."""
    limit: Wide | None
    """Limit that was exceeded."""
    reason: str | None
    """Why it was cleared, as in events."""


class Buckets(ClusterModel):
    """Values over time, in buckets of `bucket_ns`; the first begins at `since`."""

    metric: SeriesMetric
    unit: str | None
    """null: the unit that the source sends; for drops, a number of reports."""
    since: Time
    until: Time
    """End of the last bucket."""
    bucket_ns: int
    change: Wide | None
    """T: until the next event, a value stays within ±T of the stored one; null: unknown, or changes cause no
    events.
    """
    raise_above: Wide | None
    """Limit of alarms, of the switch or general; null: none."""
    clear_below: Wide | None
    sampled_since: Time | None
    """Since then, live values sampled once a second are included; null: only events are."""


class Series(Buckets):
    """Values of one place or flow: lists by bucket, with null where no value is known."""

    node: Node | None
    port: Port | None
    queue: int | None
    lowest: list[Wide | None]
    highest: list[Wide | None]
    latest: list[Wide | None]
    events: list[int]
    """Number of events by bucket; for `drop`, of drop reports."""
    before: Wide | None
    """Value that was stored before `since`; null: unknown, or there are several flows or queues."""
    alarms: list[Alarm]
    """The 200 highest alarms, by time. For hop latency, overlapping alarms of several flows are merged."""
    alarm_count: int
    """Number of all alarms."""
    truncated: bool
    """There were more events of alarms than are read, so that alarms are missing."""


class HeatRow(Model):
    """One place."""

    node: Node
    port: Port | None
    queue: int | None
    """Queue or buffer."""
    peak: Wide
    """Highest value; for `drop`, the number of drop reports."""
    events: int
    values: list[Wide | None]
    """Highest value by bucket; null: no event, so the value stayed within ±T."""


class HeatMap(Buckets):
    """Values by place and time."""

    total: int
    """Places with values."""
    items: list[HeatRow]


class Contributor(Model):
    """A flow with events at the place of a burst, while it lasted."""

    flow: FlowKey
    events: int
    highest_latency_ns: Wide | None
    """Highest hop latency at this place; null: no event has one."""


class Burst(Model):
    """A period during which a place was above a value."""

    metric: MetricName
    unit: str | None
    node: Node
    port: Port | None
    queue: int | None
    start: Time | None
    """null: before the time range."""
    end: Time | None
    """null: not ended yet."""
    duration_ns: Wide | None
    clock: Literal["switch", "collector"]
    """The clock by which the duration was measured."""
    peak: Wide
    limit: Wide | None
    reason: str | None
    flows: int | None
    """Flows with events at this place during the burst; null: there were more events than are read."""
    contributors: list[Contributor]
    """Those with the highest hop latency at this place."""


class Bursts(ClusterModel):
    """Bursts of a time range."""

    since: Time
    until: Time
    total: int
    items: list[Burst]
    truncated: bool
    """There were more events than are read, so that older bursts or flows may be missing."""


class DistributionHistory(ClusterModel):
    """Distributions of one place by time."""

    measure: str
    unit: str | None
    since: Time
    until: Time
    bucket_ns: int
    items: list[Distribution]
    """One without bins for each bucket with values, oldest first; `since` and `until` state its range."""
    whole: Distribution | None
    """Distribution of the whole range, with bins; null: no values."""
