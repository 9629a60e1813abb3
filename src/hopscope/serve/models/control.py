"""Models of the switches that the controller reaches."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict

from ...settings.switches import WatchRule
from .common import Body, ClusterModel, Model, Node, OfMember, OfMembers, Port, Time, Wide


class SwitchCounts(Model):
    """Counts since the process that reaches switches started."""

    connections: Wide
    """Connections made."""
    failures: Wide
    """Failed attempts to reach or change the switch; each is repeated."""
    reads: Wide
    """States read."""
    drifts: Wide
    """Reads that found the switch in a different state than the desired one."""
    changes: Wide
    """Parts of the switch's state that were changed."""


class ControlledSwitch(OfMember):
    """A switch that the controller reaches."""

    name: str
    node: Node
    kind: Literal["ebpf", "http", "p4runtime"]
    """How it is reached."""
    place: str
    """Its location: a folder, a URL, an address."""
    state: Literal["connecting", "up", "standby", "down"]
    """`standby`: another controller changes it; `down`: the last attempt failed, and is repeated."""
    since: Time
    """When it entered this state."""
    in_sync: bool
    """Whether its actual state is the desired one."""
    lacks: list[str]
    """Parts of the desired state that the switch does not have."""
    refuses: dict[str, str]
    """Parts of the desired state that it cannot do, with the reason; they are tried again at each read."""
    error: str | None
    """The last error."""
    error_time: Time | None
    """Time of the last error."""
    wanted: dict[str, Any]
    """The desired state: `watch`, `track`, `labelling`, `reg2` by port."""
    actual: dict[str, Any] | None
    """The actual state, as far as it was read or changed; null: not read yet."""
    ports: dict[str, Any] | None
    """Its ports, with the neighbours that LLDP names; null: the switch cannot list them."""
    counts: SwitchCounts


class TopologyLink(OfMembers):
    """A link from an egress port. Each direction of a cable is a separate link."""

    node: Node
    port: Port
    next_node: Node | None
    """null: the other end is not a switch that the controller reaches."""
    next_port: Port | None
    """null: unknown."""
    neighbour: str | None
    """The name of the other end in LLDP, if it is not one of these switches."""
    sources: list[Literal["file", "lldp", "paths"]]
    """Sources of the link: the file `postcards.links`, LLDP, paths of live flows."""
    disputed: bool
    """Whether another source contradicts; the file takes precedence, then LLDP."""


class Topology(ClusterModel):
    """Links between switches."""

    total: int
    items: list[TopologyLink]


class SwitchList(ClusterModel):
    """Switches, and how many are in the desired state."""

    total: int
    in_sync: int
    items: list[ControlledSwitch]


class NewWatchRule(WatchRule):
    """A rule, as the settings have it."""

    model_config = ConfigDict(defer_build=False)  # FastAPI warns about incomplete models


class NewWatchRules(Body):
    """Rules of the watch lists, in order."""

    items: list[NewWatchRule]


class WatchRules(Model):
    """Rules of the watch lists; the first rule that matches a packet applies."""

    items: list[WatchRule] | None
    """null: switches keep their own watch lists."""
