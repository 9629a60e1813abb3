"""Models of the network as a map."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from .common import ClusterModel, Model, Node, Port, Time

MetricName = Literal["hop_latency", "queue_occupancy", "link_utilization", "drops", "label_age"]


class FabricCells(Model):
    """The switches of a node that stands for several."""

    ids: list[int]
    names: list[str]
    layers: list[int]


class FabricNode(Model):
    """A switch, a pod, or a group of switches of the top layer (a plane)."""

    kind: Literal["switch", "pod", "plane"]
    id: int | None
    """Node id; null: several switches."""
    name: str
    layer: int
    """Index in `layers`; 0 is next to the hosts."""
    pod: str | None
    host_ports: int
    """Egress ports that lead to no switch."""
    cells: FabricCells | None = None


class FabricLinks(Model):
    """Links as columns. Each direction of a cable has a row; links between groups are joined."""

    from_: list[int] = Field(alias="from")
    """Indices in `nodes`."""
    to: list[int]
    port: list[int | None]
    """Egress port; null: several."""
    count: list[int]


class FabricStructure(Model):
    """Nodes and links of a view, in the order of its values."""

    layers: list[str]
    """Names, from the lowest layer."""
    pods: list[str]
    """Names of all pods; empty: the network has none."""
    nodes: list[FabricNode]
    links: FabricLinks


class FabricValues(Model):
    """Highest values, and numbers of hot links: those with an alarm, above the limit, or with drops."""

    nodes: list[int | None]
    """Highest value of all egress ports; null: unknown."""
    nodes_hot: list[int]
    hosts: list[int | None]
    """Highest value of ports that lead to no switch."""
    hosts_hot: list[int]
    links: list[int | None]
    links_hot: list[int]
    links_flows: list[int]
    """Live flows through each link; for a past moment, flows with an event before it. In a cluster without a
    lake, a flow that two members have counts twice.
    """
    cells: list[list[int | None]]
    """For each node that stands for several switches, their values in order."""


class Fabric(ClusterModel):
    """The network, or a part of it, with values of a metric."""

    time: Time
    """Time of the values."""
    live: bool
    window_seconds: float
    """Length of the window before `time` whose highest values are shown."""
    metric: MetricName
    unit: str | None
    """null: the unit that the switches send."""
    limit: int | None
    """A value above it is an alarm; null: no limit is set."""
    level: Literal["switch", "pod"]
    pod: str | None
    switches: int
    """Switches in the whole network."""
    ports: int
    """Egress ports in the whole network."""
    hot: int
    """Hot ports in the whole network."""
    above: int
    """Those of them with a highest value above the limit, or with drops. The others have an alarm that is not
    cleared yet.
    """
    highest: int | None
    """Highest value in the whole network."""
    left_off: int
    """Number of links left out for lack of room: those with the lowest values."""
    switches_left_off: int
    """Number of switches left out for lack of room: those with the fewest flows."""
    version: str
    """Version of the structure."""
    structure: FabricStructure | None
    """null: the client has it already, as `known` says."""
    values: FabricValues


class PortValue(Model):
    """A value of a port."""

    latest: int | None
    highest: int | None
    """Highest value within the window."""
    alarm: bool


class FabricPort(Model):
    """An egress port: where it leads, and its values by metric."""

    node: Node
    port: Port | None
    """null: reports do not state it."""
    layer: str
    next: Node | None
    """null: not a switch."""
    next_port: int | None
    flows: int
    """See `links_flows`."""
    known_from: list[Literal["file", "lldp", "paths"]]
    disputed: bool
    """Whether two of these sources disagree."""
    values: dict[MetricName, PortValue]


class FabricPorts(ClusterModel):
    """Egress ports of a node, or of both ends of a link."""

    time: Time
    items: list[FabricPort]


class TimelineBucket(Model):
    """Events and values in a part of a time range."""

    time: Time
    """Start of the bucket."""
    events: int
    """Alarms, changes of paths, loops, drops, queue reports, silent sources, and gaps."""
    drops: int
    path_changes: int
    alarms: int
    """Raised alarms, and values above a limit."""
    highest: int | None
    """Highest value of the metric."""
    node: Node | None
    """The switch with that value."""
    port: Port | None


class FabricTimeline(ClusterModel):
    """Events over time; buckets without events are left out."""

    since: Time
    until: Time
    bucket_seconds: float
    metric: MetricName
    unit: str | None
    items: list[TimelineBucket]
