"""HULA: every edge switch floods probes through the fabric (Katta et al., SOSR 2016).

Probes go up to the spine on all ways and down from there on all ways, and never up again (HULA §3); all
copies are sent on, as in INT-label's reproduction, whose probe is an Ethernet and a type header, INT OPTION
and an IPv4 header (38 bytes) with 32 bytes by switch (`HULA.p4`: `inthdr_t` has 256 bits, its comment says
28 B).  HULA's own probe has one utilisation for the whole way, and no state by hop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ...ports import Topology
from ..simulation.sources import Branches
from .rival import ETHERNET, ITEM, Probes, Rival, Round, between, probing_round, towards_hosts

PROBE = 38 - ETHERNET
"""Bytes behind the Ethernet header."""


def generators(topology: Topology) -> int:
    """Edge switches."""
    return len(np.unique(topology.host_switch))


def probes(topology: Topology, *, roots: int | None = None, item: int = ITEM) -> Probes:
    """Trees of a round: one for each way up from each edge switch, of the first `roots` of them."""
    leaving, onward = _ways(topology)

    def below(port: int) -> Branches:
        return {row: below(row) for row in onward(port)}

    edges = np.unique(topology.host_switch)[:roots]
    routes = [(row, below(row)) for edge in edges for row in leaving[int(edge)]]
    return Probes(routes, PROBE, item)


def reached(topology: Topology) -> set[int]:
    """Rows of the ports that probes of any edge switch leave by."""
    leaving, onward = _ways(topology)
    todo = [row for edge in np.unique(topology.host_switch) for row in leaving[int(edge)]]
    found = set(todo)
    while todo:
        new = set(onward(todo.pop())) - found
        found |= new
        todo += new
    return found


def _ways(topology: Topology) -> tuple[dict[int, list[int]], Callable[[int], list[int]]]:
    """Ports to other switches by switch; and those by which copies of a probe that came by a port go on."""
    ports, down = topology.ports, towards_hosts(topology)
    leaving: dict[int, list[int]] = {}
    for row in between(topology):
        leaving.setdefault(int(ports["switch"][row]), []).append(int(row))

    def onward(port: int) -> list[int]:
        back, at = int(ports["reverse"][port]), int(ports["peer_switch"][port])
        return [row for row in leaving.get(at, []) if row != back and (down[row] or not down[port])]

    return leaving, onward


def cost(topology: Topology, *, item: int = ITEM) -> Round:
    """A round: the trees of one edge switch, times the edge switches, which are all alike."""
    count = generators(topology)
    one = probes(topology, roots=1, item=item)
    word = f"probe {PROBE + ETHERNET} B, {item} B a hop, flooded"
    seen = len(reached(topology)) / len(between(topology))
    return replace(probing_round(topology, one, count, count, word), coverage=seen)


RIVAL = Rival(
    "hula", "HULA", "HULA §3; INT-label's reproduction, HULA.p4", cost, generators, probes
)  # fmt: skip
