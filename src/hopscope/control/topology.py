"""Links between switches: from a file, from LLDP, from paths; who says what of each port."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from .neighbours import SwitchPort, SwitchPorts

Source = Literal["file", "lldp", "paths"]
SOURCES: tuple[Source, ...] = ("file", "lldp", "paths")
"""Where a link may be known from; of contradictions, the first one counts."""
Port = tuple[int, int]
"""(Node, port)."""
Step = tuple[Port, int, int | None, int]
"""A step of paths: egress (node, port), next node, its ingress port if it is known, number of flows."""


@dataclass(frozen=True, slots=True)
class Link:
    """Where an egress port leads to. Each direction of a cable is a link of its own."""

    node: int
    port: int
    next_node: int | None
    """None: to something that is no switch of ours."""
    next_port: int | None
    """None: unknown."""
    next_name: str
    """What the neighbour says of itself, if it is no switch of ours: system and port."""
    sources: tuple[Source, ...]
    """Who says so."""
    disputed: bool = False
    """Another source leads elsewhere."""


def merged(
    file: Mapping[Port, int], switches: Mapping[int, SwitchPorts], paths: Iterable[Step]
) -> tuple[Link, ...]:
    """All links, by node and port. `switches`: ports of each node, with their neighbours; `paths`: steps of
    paths, of which a port's most frequent one counts.
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
    """Nodes with a port that leads to no switch; one whose ports are unknown is not among them."""
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
    """Which switch a neighbour is: by its port's MAC address, or by its chassis or name, and its port."""

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
