"""Models of the switches that the controller reaches."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict

from ...settings.switches import WatchRule
from .common import Body, ClusterModel, Model, Node, OfMember, OfMembers, Port, Time, Wide


class SwitchCounts(Model):
    """What happened since the process that reaches switches started."""

    connections: Wide
    """Connections made."""
    failures: Wide
    """Attempts to reach or change it that failed; each is repeated."""
    reads: Wide
    """States read."""
    drifts: Wide
    """Reads that found the switch in another state than the one asked for."""
    changes: Wide
    """Parts of its state that were changed."""


class ControlledSwitch(OfMember):
    """A switch that the controller reaches."""

    name: str
    node: Node
    kind: Literal["ebpf", "http", "p4runtime"]
    """How it is reached."""
    place: str
    """Where it is: a folder, a URL, an address."""
    state: Literal["connecting", "up", "standby", "down"]
    """`standby`: another controller changes it; `down`: the last attempt failed, and is repeated."""
    since: Time
    """When it came into this state."""
    in_sync: bool
    """Whether it does what is asked of it."""
    lacks: list[str]
    """Parts that it is asked for and does not have."""
    refuses: dict[str, str]
    """Parts that it is asked for and cannot do, each with the reason. It is asked again at each read."""
    error: str | None
    """What failed last."""
    error_time: Time | None
    """When that was."""
    wanted: dict[str, Any]
    """What is asked of it: `watch`, `track`, `labelling`, `reg2` by port."""
    actual: dict[str, Any] | None
    """What it does, as far as it was read or changed; null: it was not read yet."""
    ports: dict[str, Any] | None
    """Its ports, with neighbours that LLDP names; null: it cannot say."""
    counts: SwitchCounts


class TopologyLink(OfMembers):
    """Where an egress port leads to. Each direction of a cable is a link of its own."""

    node: Node
    port: Port
    next_node: Node | None
    """null: to something that is no switch that the controller reaches."""
    next_port: Port | None
    """null: unknown."""
    neighbour: str | None
    """What the other end says of itself by LLDP, if it is none of these switches."""
    sources: list[Literal["file", "lldp", "paths"]]
    """Who says so: `postcards.links`, LLDP, paths of live flows."""
    disputed: bool
    """Whether another source leads elsewhere: the file counts first, then LLDP."""


class Topology(ClusterModel):
    """Links between switches."""

    total: int
    items: list[TopologyLink]


class SwitchList(ClusterModel):
    """Switches, and how many do what is asked of them."""

    total: int
    in_sync: int
    items: list[ControlledSwitch]


class NewWatchRule(WatchRule):
    """A rule, as the settings have it."""

    model_config = ConfigDict(defer_build=False)  # FastAPI warns of a model that is not complete


class NewWatchRules(Body):
    """Rules of the watch lists, in order."""

    items: list[NewWatchRule]


class WatchRules(Model):
    """Rules of the watch lists, of which the first that matches a packet counts."""

    items: list[WatchRule] | None
    """null: switches keep their own watch lists."""
