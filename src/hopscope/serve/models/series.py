"""What the API answers about values over time."""

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
    """A time in which an alarm was raised."""

    start: Time | None
    """null: before what history has."""
    end: Time | None
    """null: it is raised still."""
    peak: Wide
    """Highest value of its events in the range."""
    limit: Wide | None
    """Value that it exceeded."""
    reason: str | None
    """Why it was cleared, as in events."""


class Buckets(ClusterModel):
    """Values over time, by bucket: the first begins at `since`, each lasts `bucket_ns`."""

    metric: SeriesMetric
    unit: str | None
    """null: as the source sends it; drops are a number of reports."""
    since: Time
    until: Time
    """End of the last bucket."""
    bucket_ns: int
    change: Wide | None
    """T: until the next event a value is within ±T of the stored one; null: unknown, or changes make no
    events."""
    raise_above: Wide | None
    """Limit of alarms, of the switch or of all; null: none."""
    clear_below: Wide | None
    sampled_since: Time | None
    """Since then newest values, sampled once a second, are in it as well; null: events alone."""


class Series(Buckets):
    """Values of one place or flow, in one list each, by bucket; null: none is known."""

    node: Node | None
    port: Port | None
    queue: int | None
    lowest: list[Wide | None]
    highest: list[Wide | None]
    latest: list[Wide | None]
    events: list[int]
    """Events by bucket; for `drop` drop reports."""
    before: Wide | None
    """Value that was stored before `since`; null: unknown, or of several flows or queues."""
    alarms: list[Alarm]
    """At most 200, the highest, by time. Of hop latencies, alarms of flows that overlap are one."""
    alarm_count: int
    """How many there were."""
    truncated: bool
    """There were more events of alarms than are read: alarms are missing."""


class HeatRow(Model):
    """One place."""

    node: Node
    port: Port | None
    queue: int | None
    """Queue or buffer."""
    peak: Wide
    """Highest value; for `drop` the number of drop reports."""
    events: int
    values: list[Wide | None]
    """Highest value by bucket; null: no event, so that the value stayed within ±T."""


class HeatMap(Buckets):
    """Places by time."""

    total: int
    """Places with values."""
    items: list[HeatRow]


class Contributor(Model):
    """A flow with events at the place of a burst, while it lasted."""

    flow: FlowKey
    events: int
    highest_latency_ns: Wide | None
    """Highest hop latency there; null: no event of it."""


class Burst(Model):
    """A time in which a place was above a value."""

    metric: MetricName
    unit: str | None
    node: Node
    port: Port | None
    queue: int | None
    start: Time | None
    """null: before the range."""
    end: Time | None
    """null: it has not ended."""
    duration_ns: Wide | None
    clock: Literal["switch", "collector"]
    """Whose clock the duration is by."""
    peak: Wide
    limit: Wide | None
    reason: str | None
    flows: int | None
    """Flows with events there, while it lasted; null: there were more events than are read."""
    contributors: list[Contributor]
    """The first of them, by their highest hop latency there."""


class Bursts(ClusterModel):
    """Bursts of a time range."""

    since: Time
    until: Time
    total: int
    items: list[Burst]
    truncated: bool
    """There were more events than are read: older bursts, or flows, may be missing."""


class DistributionHistory(ClusterModel):
    """Distributions of one place by time."""

    measure: str
    unit: str | None
    since: Time
    until: Time
    bucket_ns: int
    items: list[Distribution]
    """Without bins, of each bucket with values, the oldest first: `since` and `until` say what it covers."""
    whole: Distribution | None
    """Of the whole range, with its bins; null: no values."""
