"""Links between switches, merged from a file, LLDP and paths, with the sources of each link."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from .neighbours import SwitchPort, SwitchPorts

Source = Literal["file", "lldp", "paths"]
SOURCES: tuple[Source, ...] = ("file", "lldp", "paths")
"""Sources of links, in order of precedence: if they contradict each other, the first one counts."""
Port = tuple[int, int]
"""(Node, port)."""
Step = tuple[Port, int, int | None, int]
"""A step of paths: egress (node, port), next node, its ingress port (None: unknown), number of flows."""


@dataclass(frozen=True, slots=True)
class Link:
    """Where an egress port leads. Each direction of a cable is a separate link."""

    node: int
    port: int
    next_node: int | None
    """Next node; None: the port leads to something other than a known switch."""
    next_port: int | None
    """Port of the next node; None: unknown."""
    next_name: str
    """System and port that the neighbour announces, if it is not a known switch."""
    sources: tuple[Source, ...]
    """Sources of this link."""
    disputed: bool = False
    """Whether another source contradicts it."""


def merged(
    file: Mapping[Port, int], switches: Mapping[int, SwitchPorts], paths: Iterable[Step]
) -> tuple[Link, ...]:
    """All links, sorted by node and port. `switches`: ports of each node, with their neighbours; `paths`:
    steps of paths, of which the most frequent one of each port counts.
    """
    said: dict[Port, dict[Source, tuple[int | None, int | None, str]]] = {}
    for port, node in file.items():
        said.setdefault(port, {})["file"] = node, None, ""
    owners = _Owners(switches)
    for node, found in switches.items():
        for each in found.ports:
            if each.chassis:
                said.setdefault((node, each.number), {})["lldp"] = owners.find(each)
    votes: dict[Port, Counter[tuple[int, int | None]]] = {}
    for port, node, ingress, flows in paths:
        votes.setdefault(port, Counter())[node, ingress] += flows
    for port, counted in votes.items():
        nodes = Counter[int]()
        for (node, _), count in counted.items():
            nodes[node] += count
        ((node, _),) = nodes.most_common(1)
        ports = [ingress for (at, ingress), _ in counted.most_common() if at == node and ingress is not None]
        said.setdefault(port, {})["paths"] = node, ports[0] if ports else None, ""
    return tuple(_link(port, said[port]) for port in sorted(said))


def edges(switches: Mapping[int, SwitchPorts], links: Iterable[Link]) -> frozenset[int]:
    """Nodes with a port that leads to no switch. Nodes whose ports are unknown are left out."""
    inner = {(link.node, link.port) for link in links if link.next_node is not None}
    return frozenset(
        node for node, found in switches.items() for each in found.ports if (node, each.number) not in inner
    )


def _link(port: Port, said: Mapping[Source, tuple[int | None, int | None, str]]) -> Link:
    first = next(source for source in SOURCES if source in said)
    node, _, name = said[first]
    agree = tuple(source for source in SOURCES if source in said and said[source][0] == node)
    ports = [said[source][1] for source in agree if said[source][1] is not None]
    return Link(*port, node, ports[0] if ports else None, name, agree, disputed=len(agree) < len(said))


class _Owners:
    """Finds the switch that a neighbour is, by its port's MAC address, or by its chassis or name together
    with its port.
    """

    def __init__(self, switches: Mapping[int, SwitchPorts]) -> None:
        self._by_mac: dict[str, set[Port]] = {}
        self._by_name: dict[tuple[str, str], set[Port]] = {}
        for node, found in switches.items():
            macs = {each.mac for each in found.ports if each.mac}
            for each in found.ports:
                if each.mac:
                    self._by_mac.setdefault(each.mac, set()).add((node, each.number))
                for chassis in {*macs, found.system} - {""}:
                    self._by_name.setdefault((chassis, each.name), set()).add((node, each.number))

    def find(self, port: SwitchPort) -> tuple[int | None, int | None, str]:
        """Node, port and name of the neighbour of a port."""
        places = self._by_mac.get(port.port, set())
        for chassis in (port.chassis, port.system):
            places = places or self._by_name.get((chassis, port.port), set())
        if len(places) == 1:
            ((node, number),) = places
            return node, number, ""
        return None, None, f"{port.system or port.chassis} {port.port}"
