"""HULA: every edge switch floods probes through the fabric (Katta et al., SOSR 2016).

Probes go up to the spine on all paths, then down on all paths, and never up again (HULA §3). All copies are
forwarded, as in INT-label's reproduction. Its probe consists of Ethernet, type header, INT OPTION and IPv4
header (38 bytes), and 32 bytes for each switch (`HULA.p4`: `inthdr_t` has 256 bits, although its comment says
28 B). HULA's original probe has one utilisation for the whole path, and no state of single hops.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ...ports import Topology
from ..simulation.sources import Branches
from .rival import ETHERNET, ITEM, Probes, Rival, Round, between, edge_switches, probing_round, towards_hosts

PROBE = 38 - ETHERNET
"""Bytes after the Ethernet header."""


def probes(topology: Topology, *, roots: int | None = None) -> Probes:
    """The trees of a round: one for each uplink of each of the first `roots` edge switches."""
    leaving, next_ports = _flooding(topology)

    def below(port: int) -> Branches:
        return {row: below(row) for row in next_ports(port)}

    edges = np.unique(topology.host_switch)[:roots]
    routes = [(row, below(row)) for edge in edges for row in leaving[int(edge)]]
    return Probes(routes, PROBE, ITEM)


def reached(topology: Topology) -> set[int]:
    """Rows of the ports that send a probe of any edge switch."""
    leaving, next_ports = _flooding(topology)
    todo = [row for edge in np.unique(topology.host_switch) for row in leaving[int(edge)]]
    found = set(todo)
    while todo:
        new = set(next_ports(todo.pop())) - found
        found |= new
        todo += new
    return found


def _flooding(topology: Topology) -> tuple[dict[int, list[int]], Callable[[int], list[int]]]:
    """The ports to other switches, by switch; and a function that returns the ports that forward a probe sent
    by a port.
    """
    ports, down = topology.ports, towards_hosts(topology)
    leaving: dict[int, list[int]] = {}
    for row in between(topology):
        leaving.setdefault(int(ports["switch"][row]), []).append(int(row))

    def next_ports(port: int) -> list[int]:
        back, at = int(ports["reverse"][port]), int(ports["peer_switch"][port])
        return [row for row in leaving.get(at, []) if row != back and (down[row] or not down[port])]

    return leaving, next_ports


def cost(topology: Topology) -> Round:
    """A round: the trees of one edge switch, times the number of edge switches, which are all equivalent."""
    count = edge_switches(topology)
    one = probes(topology, roots=1)
    note = f"probe {PROBE + ETHERNET} B, {ITEM} B per hop, flooded"
    seen = len(reached(topology)) / len(between(topology))
    return replace(probing_round(topology, one, count, count, note), coverage=seen)


RIVAL = Rival("hula", "HULA", "HULA §3; INT-label's reproduction, HULA.p4", cost, edge_switches, probes)
