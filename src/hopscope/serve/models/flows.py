"""Models of flows: groups, paths over time, latency by hop."""

from __future__ import annotations

from typing import Literal

from .common import ClusterModel, FlowKey, Model, Node, OfMember, OfMembers, Port, Time, Wide


class FlowGroup(OfMembers):
    """Flows that have something in common."""

    key: str
    """The common property, as text."""
    search: str
    """Words for `q` that choose these flows."""
    flows: int
    packets: Wide
    """Packets. Grouped by switch or port, a packet in a loop counts each time it passes."""
    latency_highest_ns: Wide
    """Highest of the flows' latest latencies, or of past flows' highest ones, ns; grouped by switch or port,
    the latency of the hop.
    """
    latency_mean_ns: float | None
    """Mean of all packets, ns."""
    samples: Wide
    """Packets in the mean."""
    node: Node | None = None
    port: Port | None = None
    path: list[Node] | None = None


class FlowGroups(ClusterModel):
    """The largest groups."""

    total: int
    """Groups."""
    offset: int
    flows: int
    """Flows that match the search."""
    packets: Wide
    """Packets of these flows."""
    items: list[FlowGroup]
    truncated: bool
    """See FlowPage."""


class PathPeriod(Model):
    """A path of a flow, and when the flow had it."""

    since: Time
    """Time of the event that stored it."""
    until: Time | None
    """When the flow took another path, or left; null: this is its present path."""
    left: bool
    """Whether the flow left the flow table at `until`."""
    kind: str
    """Kind of the event that stored it: `new_key`, `path_change` …"""
    event: str
    """Id of that event."""
    path: list[Node]


class FlowPaths(OfMember, ClusterModel):
    """Paths of a flow, now and over time."""

    flow: FlowKey | None
    state: Literal["live", "past"]
    last_seen: Time | None
    path: list[Node] | None
    """Present path of a live flow, from the source to the sink."""
    items: list[PathPeriod]
    """Periods, oldest first; an event that repeats a path begins no new period."""
    truncated: bool
    """There are more periods than are read; the newest are left out."""


class StoredValue(Model):
    """A latency with the value that detection stored. Until the next event, the true value stayed within
    `change_limit_ns` of the stored one.
    """

    latest_ns: Wide | None
    """From the newest report; null for a past moment."""
    stored_ns: Wide | None
    stored_at: Time | None
    """Time of the event that stored it; null: history does not have it."""
    age_ns: Wide | None
    change_limit_ns: Wide | None
    """T, as in force now; null: changes cause no events."""
    lowest_ns: Wide | None
    highest_ns: Wide | None
    """Highest of the events since `since` and the present value."""
    mean_ns: float | None
    """Mean of all packets of the live flow."""
    samples: int


class GaugeValue(Model):
    """Occupancy of a queue or utilisation of a link, in the unit that the source sends."""

    value: int | None
    stored_at: Time | None
    """For a past moment, the time of the event that stored it."""
    change_limit: int | None
    """T, as in force now."""


class HopValue(StoredValue):
    """A hop of a flow."""

    hop: int
    node: Node
    port: Port | None
    queue_occupancy: GaugeValue
    link_utilization: GaugeValue


class FlowHops(OfMember, ClusterModel):
    """Latency of a flow by hop at one moment."""

    flow: FlowKey | None
    state: Literal["live", "past"]
    """`live`: values from the flow table; `past`: stored values."""
    time: Time
    """The moment that the values are for."""
    last_seen: Time | None
    limits_changed: Time | None
    """When limits were last changed; before that, T may have been different."""
    latency: StoredValue
    """Latency of the whole path."""
    hops: list[HopValue]
    truncated: bool
    """Whether `lowest` and `highest` cover only the newest events."""


class Point(Model):
    """A stored value."""

    time: Time
    value: Wide


class ValueSeries(Model):
    """Stored values of one metric over time. Between two points the true value was within T of the first."""

    metric: str
    node: Node | None
    """null: the values are for the whole path."""
    port: Port | None
    hop: int | None
    """Index in the path at the newest point."""
    change_limit: int | None
    """T, as in force now, ns."""
    points: list[Point]


class FlowSeries(OfMember, ClusterModel):
    """Stored latencies of a flow and of its hops over time."""

    flow: FlowKey | None
    last_seen: Time | None
    items: list[ValueSeries]
    truncated: bool
    """There are older values than are read."""
