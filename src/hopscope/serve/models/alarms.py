"""Answers of the API about open alarms."""

from __future__ import annotations

from pydantic import Field

from .common import Body, ClusterModel, EventSource, FlowKey, Model, Node, OfMember, Port, Time, Wide


class Acknowledgement(Model):
    """A user is working on the alarm at a place, until it ends."""

    key: str
    """Of the alarm."""
    who: str
    time: Time
    note: str


class AcknowledgementList(Model):
    """All acknowledgements, by key."""

    items: list[Acknowledgement]


class NewAcknowledgement(Body):
    """What to acknowledge."""

    key: str = Field(min_length=1, max_length=300)
    """Of an open alarm."""
    note: str = Field(default="", max_length=1000)


class Silence(Model):
    """Events that are silent until a time; empty and null: any."""

    id: int
    kind: str
    metric: str
    node: Node | None
    port: int | None
    prefix: str
    """Network that an end of the flow, or the source, is in."""
    until: Time
    note: str
    who: str
    time: Time
    """When it was made."""


class SilenceList(Model):
    """Silences that have not ended, the newest first."""

    items: list[Silence]


class NewSilence(Body):
    """Which events, and until when; at least one of kind, metric, node, port and prefix."""

    kind: str = Field(default="", max_length=40)
    """The end of an alarm is silent with its beginning."""
    metric: str = Field(default="", max_length=40)
    node: str | None = Field(default=None, max_length=200)
    """Id or name."""
    port: int | None = Field(default=None, ge=0, le=65535)
    prefix: str = Field(default="", max_length=100)
    until: str = Field(min_length=1, max_length=60)
    """RFC 3339, or a duration from now on, as `2h`; at most 30 days."""
    note: str = Field(default="", max_length=1000)


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
    """The highest value of events and of the live state since it began; of `label_coverage` the lowest."""
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
    acknowledged: Acknowledgement | None
    """Who acknowledged it; null: not acknowledged."""
    silence: int | None
    """Number of the silence that it falls under; null: it is heard."""


class AlarmPage(ClusterModel):
    """Part of the open alarms."""

    total: int
    offset: int
    silenced: int = 0
    """Of them, or left out with `silenced=hide`: alarms that fall under a silence."""
    items: list[Alarm]
