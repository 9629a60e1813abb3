"""Answers of the API about open alarms."""

from __future__ import annotations

from pydantic import Field

from ...base.names import MAX_PORT
from .common import Body, ClusterModel, EventSource, FlowKey, Model, Node, OfMember, Page, Port, Time, Wide


class Acknowledgement(Model):
    """A user's note that they work on an alarm, valid until it ends."""

    key: str
    """Key of the alarm."""
    who: str
    time: Time
    note: str


class AcknowledgementList(Model):
    """All acknowledgements, by key."""

    items: list[Acknowledgement]


class NewAcknowledgement(Body):
    """What to acknowledge."""

    key: str = Field(min_length=1, max_length=300)
    """Key of an open alarm."""
    note: str = Field(default="", max_length=1000)


class Silence(Model):
    """Events that are silenced until a time; an empty or null field matches any event."""

    id: int
    kind: str
    metric: str
    node: Node | None
    port: int | None
    prefix: str
    """Network that contains an end of the flow, or the source."""
    until: Time
    note: str
    who: str
    time: Time
    """When it was made."""


class SilenceList(Model):
    """Silences that have not ended, newest first."""

    items: list[Silence]


class NewSilence(Body):
    """Which events, and until when; at least one of kind, metric, node, port and prefix."""

    kind: str = Field(default="", max_length=40)
    """Silencing the beginning of an alarm also silences its end."""
    metric: str = Field(default="", max_length=40)
    node: str | None = Field(default=None, max_length=200)
    """Id or name."""
    port: int | None = Field(default=None, ge=0, le=MAX_PORT)
    prefix: str = Field(default="", max_length=100)
    until: str = Field(min_length=1, max_length=60)
    """RFC 3339, or a duration from now such as `2h`; at most 30 days."""
    note: str = Field(default="", max_length=1000)


class AlarmFlow(Model):
    """A live flow at the place of an alarm."""

    flow: FlowKey
    latency_ns: int
    """Its newest hop latency at this place, ns; 0: none."""


class Alarm(OfMember):
    """Open alarms of one metric at one place."""

    key: str
    """Metric and place, such as `queue_occupancy/12/3/0`: the same each time, and in all members."""
    id: str | None
    """SHARD-SEQUENCE of the event that raised it; null: earlier than the events that were read."""
    kind: str
    """Kind of that event: `raised` or `silent`."""
    metric: str
    severity: str
    node: Node | None
    port: Port | None
    queue: int | None
    """Id of the queue or buffer, for metrics of those."""
    flow: FlowKey | None
    """The flow, if the alarm is about one."""
    source: EventSource | None
    """The source, if the alarm is about a silent one."""
    since: Time | None
    """When it was raised; null: earlier than the events that were read."""
    value: Wide | None
    """The newest value. For hop latency, that of the slowest flow; for a silent source, the time since its
    last report, ns.
    """
    peak: Wide
    """The highest value in events and live state since it was raised; for `label_coverage` the lowest."""
    limit: Wide | None
    """The limit that the value crossed when the alarm was raised."""
    unit: str | None
    """None: as the source sends it."""
    alarms: int
    """Number of open alarms at this place: one per flow for hop latency; one per worker in a sink."""
    flows: int | None
    """Live flows through this place; null: flows have no such place, or there are too many to count."""
    worst: list[AlarmFlow]
    """At most five of these flows, the slowest at this place first."""
    acknowledged: Acknowledgement | None
    """Who acknowledged it; null: not acknowledged."""
    silence: int | None
    """Number of the silence that applies to it; null: none."""


class AlarmPage(Page, ClusterModel):
    """Part of the open alarms."""

    silenced: int = 0
    """Number of silenced alarms, whether they are shown or left out (`silenced=hide`)."""
    items: list[Alarm]
