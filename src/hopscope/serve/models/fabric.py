"""What the API answers about the network as a map."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from .common import ClusterModel, Model, Node, Port, Time

MetricName = Literal["hop_latency", "queue_occupancy", "link_utilization", "drops", "label_age"]


class FabricCells(Model):
    """The switches in a node that has several."""

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
    """Links as columns. Each direction of a cable has a row; links of groups are joined."""

    from_: list[int] = Field(alias="from")
    """Indices in `nodes`."""
    to: list[int]
    port: list[int | None]
    """Egress port; null: several."""
    count: list[int]


class FabricStructure(Model):
    """Nodes and links of a view, in the order of its values."""

    layers: list[str]
    """Names, the lowest first."""
    pods: list[str]
    """Names of all pods; empty: the network has none."""
    nodes: list[FabricNode]
    links: FabricLinks


class FabricValues(Model):
    """Highest values, and how many links are hot: in an alarm, above the limit, or with drops."""

    nodes: list[int | None]
    """Of all egress ports; null: unknown."""
    nodes_hot: list[int]
    hosts: list[int | None]
    """Of ports that lead to no switch."""
    hosts_hot: list[int]
    links: list[int | None]
    links_hot: list[int]
    links_flows: list[int]
    """Live flows through it; of a past moment, those with an event before it. Of a cluster without a lake, a
    flow that two members have counts twice.
    """
    cells: list[list[int | None]]
    """By node with several switches, in their order."""


class Fabric(ClusterModel):
    """The network, or a part of it, coloured by a metric."""

    time: Time
    """Of the values."""
    live: bool
    window_seconds: float
    """Values are the highest of so many seconds before."""
    metric: MetricName
    unit: str | None
    """null: as the switches send it."""
    limit: int | None
    """Above it a value is an alarm; null: no limit is set."""
    level: Literal["switch", "pod"]
    pod: str | None
    switches: int
    """In the whole network."""
    ports: int
    """Egress ports in the whole network."""
    hot: int
    """Hot ports in the whole network."""
    highest: int | None
    """Highest value in the whole network."""
    left_off: int
    """Links that this answer has no room for: those with the lowest values."""
    switches_left_off: int
    """Switches that the map has no room for: those with the fewest flows."""
    version: str
    """Of the structure."""
    structure: FabricStructure | None
    """null: as `known` says, the reader has it."""
    values: FabricValues


class PortValue(Model):
    """A value of a port."""

    latest: int | None
    highest: int | None
    """Within the window."""
    alarm: bool


class FabricPort(Model):
    """An egress port: where it leads, and its values by metric."""

    node: Node
    port: Port
    layer: str
    next: Node | None
    """null: no switch."""
    next_port: int | None
    flows: int
    """As `links_flows`."""
    known_from: list[Literal["file", "lldp", "paths"]]
    disputed: bool
    """Whether two of these lead elsewhere."""
    values: dict[MetricName, PortValue]


class FabricPorts(ClusterModel):
    """Egress ports of a node, or of both ends of a link."""

    time: Time
    items: list[FabricPort]


class TimelineBucket(Model):
    """What happened in a part of a time range."""

    time: Time
    """Its begin."""
    events: int
    """Alarms, changes of paths, loops, drops, queue reports, silent sources, and gaps."""
    drops: int
    path_changes: int
    alarms: int
    """Raised ones, and values above a limit."""
    highest: int | None
    """Highest value of the metric."""
    node: Node | None
    """Where that was."""
    port: Port | None


class FabricTimeline(ClusterModel):
    """When something happened; buckets without any event are left out."""

    since: Time
    until: Time
    bucket_seconds: float
    metric: MetricName
    unit: str | None
    items: list[TimelineBucket]
