"""Answers of the API about open alarms."""

from __future__ import annotations

from .models import ClusterModel, EventSource, FlowKey, Model, Node, OfMember, Port, Time, Wide


class AlarmFlow(Model):
    """A live flow at the place of an alarm."""

    flow: FlowKey
    latency_ns: int
    """Its newest hop latency there, ns; 0: it has none."""


class Alarm(OfMember):
    """Open alarms of one metric at one place."""

    key: str
    """Metric and place, as `queue_occupancy/12/3/0`: the same whenever it is raised, in all members."""
    id: str | None
    """SHARD-SEQUENCE of the event that began it; null: it began before the events that were read."""
    kind: str
    """Of that event: `raised` or `silent`."""
    metric: str
    severity: str
    node: Node | None
    port: Port | None
    queue: int | None
    """Queue or buffer id, for their metrics."""
    flow: FlowKey | None
    """Of an alarm about one flow."""
    source: EventSource | None
    """Of an alarm about a source that is silent."""
    since: Time | None
    """When it began; null: before the events that were read."""
    value: Wide | None
    """The newest value; of hop latency, that of the slowest flow; of a silent source, the time since its last
    report, ns.
    """
    peak: Wide
    """The highest value of events and of the live state since it began."""
    limit: Wide | None
    """The limit that it rose above, or fell below, when it began."""
    unit: str | None
    """None: as the source sends it."""
    alarms: int
    """Alarms that are open here: of hop latency, one for each flow; in a sink, one for each worker."""
    flows: int | None
    """Live flows through this place; null: it has none, or there are too many flows to look."""
    worst: list[AlarmFlow]
    """At most five of them, the slowest here first."""


class AlarmPage(ClusterModel):
    """Part of the open alarms."""

    total: int
    offset: int
    items: list[Alarm]
