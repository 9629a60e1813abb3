"""Models that several resources share: times, nodes, ports, flows, events. Ids are accompanied by names, if
known.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Wide = Annotated[
    int | str, Field(description="64-bit number; decimal text above 2^53 - 1, which a double would round")
]
Time = Annotated[str, Field(description="RFC 3339, UTC, with nanoseconds")]
FlowId = Annotated[str, Field(description="16 hexadecimal digits", pattern="^[0-9a-f]{16}$")]


class Model(BaseModel):
    """Base of all answers; docstrings of attributes become descriptions in OpenAPI (`api.Application`)."""


class Body(Model):
    """Base of all request bodies: unknown keys and values of a wrong type are errors."""

    model_config = ConfigDict(extra="forbid", strict=True)


def _absent(value: object) -> bool:
    return value is None


class Cluster(Model):
    """The members of a cluster that contributed to an answer."""

    answered: list[str]
    """Names of the members that answered."""
    missing: dict[str, str]
    """Members that did not answer, each with the reason."""
    complete: bool
    """Whether all known members have answered."""
    local_only: str | None
    """Why the cluster could not be asked, so that the answer is from this member alone."""
    without_lake: str | None
    """Why the lake could not be asked, so that events are from the members' own histories."""


class ClusterModel(Model):
    """An answer that may be about a whole cluster."""

    cluster: Cluster | None = Field(default=None, exclude_if=_absent)
    """With `scope=cluster`: the members that answered."""


class Page(Model):
    """Part of the rows that match."""

    total: int
    """Number of matches."""
    offset: int


class OfMember(Model):
    """A row that belongs to one member."""

    member: str | None = Field(default=None, exclude_if=_absent)
    """With `scope=cluster`: the member whose row it is."""


class OfMembers(Model):
    """A row to which several members may contribute."""

    members: list[str] | None = Field(default=None, exclude_if=_absent)
    """With `scope=cluster`: the members whose rows were merged."""


class Error(Model):
    """Why a request was not answered."""

    error: str
    """One line that says what is wrong and what to do."""


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
    """Packets since the flow took this path, or, in a sink, since its packets began to carry these values."""
    queue_occupancy: int | None
    """Latest value, in the unit that the source sends."""
    link_utilization: int | None
    """Latest value, in the unit that the source sends."""
    alarms: list[str]
    """`hop_latency`, if this flow's alarm at this hop is raised."""


class FlowHistory(Model):
    """Values of a flow that history has in a time range."""

    events: int
    path_changes: int
    drops: int
    highest_latency_ns: Wide | None
    """Highest end-to-end latency in history, ns: of events, and the last value in a flow record. Values that
    were not stored may have been higher.
    """


class Flow(OfMember):
    """A flow: live, or one that has left the flow table and is in history."""

    flow: FlowKey
    state: Literal["live", "past"] = "live"
    first_seen: Time
    last_seen: Time
    """For a past flow, `first_seen` and `last_seen` are its first and last event in the time range."""
    packets: Wide | None
    """Reports of this flow since the first one with a path (a drop report creates no flow). null: history has
    no flow record.
    """
    latency_ns: Wide | None
    """Latest flow latency: the sum of the hop latencies, ns. null for a past flow."""
    latency_mean_ns: float | None
    """Mean flow latency, ns."""
    hop_count: int | None
    """null for a past flow."""
    has_loop: bool
    path_incomplete: bool
    alarms: list[str]
    """`flow_latency`, if its alarm is raised."""
    history: FlowHistory | None = Field(default=None, exclude_if=_absent)
    """Present if history was read and has events of this flow in the time range."""


class FlowDetail(Flow, ClusterModel):
    """A live flow with its path."""

    path: list[Hop]
    """From the source to the sink."""


class FlowPage(Page, ClusterModel):
    """Part of the flows that match."""

    items: list[Flow]
    truncated: bool = False
    """Whether history has more past flows in the time range than are read; the oldest are left out."""


class PortState(OfMembers):
    """An egress port and its link."""

    node: Node
    port: Port
    link_utilization: int | None
    """Latest value, in the unit that the source sends."""
    highest: int
    """Since the last push."""
    last_seen: Time
    samples: Wide
    drops: Wide
    """Drop reports since the port was last idle."""
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
    """Latest value, in the unit that the source sends."""
    highest_occupancy: int
    """Since the last push."""
    congestion: int | None
    """Latest queue congestion status (INT 0.5)."""
    highest_congestion: int
    last_seen: Time
    samples: Wide
    alarms: list[str]


class PortPage(Page, ClusterModel):
    """Part of the ports."""

    items: list[PortState]


class QueuePage(Page, ClusterModel):
    """Part of the queues and buffers."""

    items: list[QueueState]


class Switch(OfMembers):
    """A switch, from the state of its queues, buffers and ports."""

    node: Node
    ports: int
    queues: int
    highest_occupancy: int | None
    """Highest present occupancy of its queues."""
    highest_utilization: int | None
    """Highest present utilisation of its links."""
    last_seen: Time
    alarms: list[str]


class SwitchPage(Page, ClusterModel):
    """Part of the switches."""

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
    """In a cluster: whether `lost` is an upper bound, because a member was restarted, and reports that it had
    received before may be included.
    """
    moved: Wide
    """Missing at this member, but received by others in the cluster; not included in `lost`."""
    duplicate: Wide
    reordered: Wide
    highest_sequence: int
    sequence_bits: int
    clock_offset_ns: Wide | None = None
    """Collector's time minus the switch's, the lowest value of the newest events. It includes the time that a
    report takes. null: no event has the switch's time.
    """
    silent: bool
    first_seen: Time
    last_seen: Time
    counted_since: Time | None = None
    """Start of the collector that counted; of several collectors, the latest start."""


class SourcePage(Page, ClusterModel):
    """Part of the sources."""

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
    """The stored value or the limit with which `value` was compared."""
    unit: str | None
    """None: as the source sends it."""
    reason: str | None = None
    """Why an alarm was cleared: `value` (it fell), `expired`, `evicted`, `path_change`,
    `stopped`."""
    switch_ns: Wide | None = None
    """Time by the switch's own clock, ns: when the packet left the hop (or arrived, if that is unknown), or
    the time of the report; null: the report has none.
    """
    flow: FlowKey | None = None
    node: Node | None = None
    port: Port | None = None
    queue: int | None = None
    """Id of the queue or buffer, for metrics of those."""
    hop: int | None = None
    """Index in the path, from 0."""
    path: list[Node] | None = None
    source: EventSource | None = None
    silence: int | None = Field(default=None, exclude_if=_absent)
    """Number of the silence that applies to it."""


class EventPage(ClusterModel):
    """Events, newest first by default."""

    items: list[Event]
    next: str | None
    """Pass it as `after` for the next page; null: this is the last."""
    waiting: int = 0
    """Events of this collector that wait in memory because its disk accepts none; no page has them."""


class EventCount(Model):
    """Events of one kind in one bucket of time."""

    time: Time
    """Start of the bucket."""
    kind: str
    count: int


class EventHistogram(ClusterModel):
    """Number of events over time; buckets without events are left out."""

    since: Time
    until: Time
    bucket_seconds: float
    items: list[EventCount]
    """By time and kind."""


class WorstHop(Model):
    """The hop with the highest mean latency in any of a flow's records. A flow that left and came back has
    several records.
    """

    node: Node
    port: Port | None
    latency: Wide
    """Mean of that record, ns."""


class PastFlow(OfMembers):
    """A flow of history. `packets` and `mean_latency` combine its flow records and the flow table;
    `worst_hop` is from its records. null: unknown, or not known yet.
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
    """Highest end-to-end latency in history, ns: of events, and the last value in a flow record. Values that
    were not stored may have been higher.
    """
    mean_latency: float | None
    """Mean of all packets end to end, ns."""
    worst_hop: WorstHop | None


class PastFlows(ClusterModel):
    """Flows of history, the most recent first."""

    items: list[PastFlow]
    truncated: bool
    """There are more than `limit`."""
