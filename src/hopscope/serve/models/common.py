"""What several resources share: times, nodes, ports, flows, events; ids have names beside them if the names
file has one."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Wide = Annotated[
    int | str, Field(description="64-bit number; decimal text above 2^53 - 1, which a double would round")
]
Time = Annotated[str, Field(description="RFC 3339, UTC, with nanoseconds")]
FlowId = Annotated[str, Field(description="16 hexadecimal digits", pattern="^[0-9a-f]{16}$")]


class Model(BaseModel):
    """Base of all answers: docstrings of attributes are the descriptions in OpenAPI (`api.Application`)."""


class Body(Model):
    """Base of all bodies of requests: unknown keys are errors, and so are values of another type."""

    model_config = ConfigDict(extra="forbid", strict=True)


def _absent(value: object) -> bool:
    return value is None


class Cluster(Model):
    """Which members of a cluster an answer is of."""

    answered: list[str]
    """Their names."""
    missing: dict[str, str]
    """Members that did not answer, each with the reason."""
    complete: bool
    """Whether all members that are known have answered."""
    local_only: str | None
    """Why the cluster could not be asked: the answer is this member's alone."""
    without_lake: str | None
    """Why the lake could not be asked: events are those of members' own histories."""


class ClusterModel(Model):
    """An answer that may be one of a whole cluster."""

    cluster: Cluster | None = Field(default=None, exclude_if=_absent)
    """With `scope=cluster`: who answered."""


class OfMember(Model):
    """A row of one member."""

    member: str | None = Field(default=None, exclude_if=_absent)
    """With `scope=cluster`: whose row it is."""


class OfMembers(Model):
    """A row that several members may have a part of."""

    members: list[str] | None = Field(default=None, exclude_if=_absent)
    """With `scope=cluster`: whose rows are in it."""


class Error(Model):
    """Why a request was not answered."""

    error: str
    """One line that says what to do."""


class Node(Model):
    """A switch."""

    id: int
    name: str | None = None


class Port(Model):
    """A port of a switch."""

    id: int
    name: str | None = None


class FlowKey(Model):
    """A flow's 5-tuple."""

    id: FlowId
    src: str
    dst: str
    proto: int
    """IP protocol number."""
    sport: int
    dport: int


class Hop(Model):
    """One hop of a flow's path."""

    node: Node
    egress_port: Port | None
    latency_ns: int | None
    """Latest hop latency, ns."""
    latency_mean_ns: float | None
    """Mean of `samples` packets, ns."""
    samples: int
    """Packets since the flow took this path; in a sink, also since its packets carry these values."""
    queue_occupancy: int | None
    """Latest, in the unit that the source sends."""
    link_utilization: int | None
    """Latest, in the unit that the source sends."""
    alarms: list[str]
    """`hop_latency`, if its alarm of this flow is raised."""


class FlowHistory(Model):
    """What history has of a flow in a time range."""

    events: int
    path_changes: int
    drops: int
    highest_latency_ns: Wide | None
    """Highest latency end to end that history has, ns: of events, and the last one of a flow record. Others
    may have been higher."""


class Flow(OfMember):
    """A flow: live, or one that has left the flow table and is in history."""

    flow: FlowKey
    state: Literal["live", "past"] = "live"
    first_seen: Time
    last_seen: Time
    """Of a past flow: times of its first and last event in the time range."""
    packets: Wide | None
    """Reports of this flow since its first one with a path: a drop report makes no flow. null: history has no
    record of it.
    """
    latency_ns: Wide | None
    """Latest flow latency: the sum of the hop latencies, ns. null for a past flow."""
    latency_mean_ns: float | None
    """Mean, ns."""
    hop_count: int | None
    """null for a past flow."""
    has_loop: bool
    path_incomplete: bool
    alarms: list[str]
    """`flow_latency`, if its alarm is raised."""
    history: FlowHistory | None = Field(default=None, exclude_if=_absent)
    """If history was asked, and has events of it in the time range."""


class FlowDetail(Flow, ClusterModel):
    """A live flow with its path."""

    path: list[Hop]
    """Source side first."""


class FlowPage(ClusterModel):
    """Part of the flows that match."""

    total: int
    """Flows that match the filters."""
    offset: int
    items: list[Flow]
    truncated: bool = False
    """History has more past flows in the time range than are read; the ones left out are the oldest."""


class PortState(OfMembers):
    """An egress port and its link."""

    node: Node
    port: Port
    link_utilization: int | None
    """Latest, in the unit that the source sends."""
    highest: int
    """Since the last push."""
    last_seen: Time
    samples: Wide
    drops: Wide
    """Drop reports since it was last idle."""
    alarms: list[str]


class QueueState(OfMembers):
    """A queue or a buffer of a switch."""

    node: Node
    kind: str
    """`queue` or `buffer`."""
    id: int
    port: Port | None
    """Egress port of the last hop that reported it."""
    occupancy: int | None
    """Latest, in the unit that the source sends."""
    highest_occupancy: int
    """Since the last push."""
    congestion: int | None
    """Latest queue congestion status (INT 0.5)."""
    highest_congestion: int
    last_seen: Time
    samples: Wide
    alarms: list[str]


class PortPage(ClusterModel):
    """Part of the ports."""

    total: int
    offset: int
    items: list[PortState]


class QueuePage(ClusterModel):
    """Part of the queues and buffers."""

    total: int
    offset: int
    items: list[QueueState]


class Switch(OfMembers):
    """A switch, from the state of its queues, buffers and ports."""

    node: Node
    ports: int
    queues: int
    highest_occupancy: int | None
    """Of its queues, now."""
    highest_utilization: int | None
    """Of its links, now."""
    last_seen: Time
    alarms: list[str]


class SwitchPage(ClusterModel):
    """Part of the switches."""

    total: int
    offset: int
    items: list[Switch]


class SwitchDetail(Switch, ClusterModel):
    """A switch with its ports and queues."""

    port_states: list[PortState]
    queue_states: list[QueueState]


class Source(OfMembers):
    """One sequence space of reports."""

    address: str
    node: Node
    hw_id: int
    received: Wide
    lost: Wide
    """Missing by sequence number."""
    lost_at_most: bool = False
    """Of a cluster: whether `lost` is an upper bound, since a member was restarted: what it had received
    before its start may be in it.
    """
    moved: Wide
    """Missing here, but accounted for by other members of the cluster; not in `lost`."""
    duplicate: Wide
    reordered: Wide
    highest_sequence: int
    sequence_bits: int
    clock_offset_ns: Wide | None = None
    """Collector's time minus the switch's, the least of its newest events: the time that a report takes is in
    it; null: no event carries the switch's time."""
    silent: bool
    first_seen: Time
    last_seen: Time
    counted_since: Time | None = None
    """Start of the collector whose counts these are, of several the last one."""


class SourcePage(ClusterModel):
    """Part of the sources."""

    total: int
    offset: int
    items: list[Source]


class EventSource(Model):
    """The source of a silent, returned or gap event."""

    address: str
    node: Node | None
    hw_id: int


class Event(OfMember):
    """One event."""

    id: str
    """SHARD-SEQUENCE."""
    time: Time
    kind: str
    metric: str
    value: Wide
    previous: Wide
    """The value compared with: the stored value or the limit."""
    unit: str | None
    """None: as the source sends it."""
    reason: str | None = None
    """Why an alarm was cleared: `value` (it fell), `expired`, `evicted`, `path_change`,
    `stopped`."""
    switch_ns: Wide | None = None
    """Time at the switch, ns, by its own clock: when the packet left the hop (else came there), or that of
    the report; null: not carried."""
    flow: FlowKey | None = None
    node: Node | None = None
    port: Port | None = None
    queue: int | None = None
    """Queue or buffer id, for their metrics."""
    hop: int | None = None
    """Place in the path, 0 first."""
    path: list[Node] | None = None
    source: EventSource | None = None
    silence: int | None = Field(default=None, exclude_if=_absent)
    """Number of the silence that it falls under."""


class EventPage(ClusterModel):
    """Events, newest first unless asked otherwise."""

    items: list[Event]
    next: str | None
    """Pass it as `after` for the next page; null: this is the last."""
    waiting: int = 0
    """Events of this collector that wait in memory while its disk takes none; they are in no page."""


class EventCount(Model):
    """Events of one kind in one bucket of time."""

    time: Time
    """Its beginning."""
    kind: str
    count: int


class EventHistogram(ClusterModel):
    """Numbers of events over time; buckets without events are left out."""

    since: Time
    until: Time
    bucket_seconds: float
    items: list[EventCount]
    """By time and kind."""


class WorstHop(Model):
    """The hop of a flow with the highest mean latency in one of its flow records: a flow that left and came
    back has several.
    """

    node: Node
    port: Port | None
    latency: Wide
    """Mean of that record, ns."""


class PastFlow(OfMembers):
    """A flow of history. `packets` and `mean_latency` are sums of its flow records and of the flow table,
    `worst_hop` is of its records; null: unknown, or not yet.
    """

    flow: FlowKey
    first: Time
    last: Time
    """Times of its first and last event."""
    packets: Wide | None
    events: int
    path_changes: int
    drops: int
    highest_latency: Wide | None
    """Highest latency end to end that history has, ns: of events, and the last one of a flow record. Others
    may have been higher."""
    mean_latency: float | None
    """Mean of all packets end to end, ns."""
    worst_hop: WorstHop | None


class PastFlows(ClusterModel):
    """Flows of history, the most recent first."""

    items: list[PastFlow]
    truncated: bool
    """There are more than `limit`."""
