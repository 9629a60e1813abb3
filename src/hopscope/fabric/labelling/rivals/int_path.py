"""INT-path: probes on Euler trails that cover every link once (Pan et al., INFOCOM 2019).

A connected graph with 2n odd vertices falls into n trails, and no fewer, that pass every link once (§III-A);
a graph without any is one circuit.  Trails are made about as long as each other (§III-E).  Hosts are no
vertices: with them, every host would be odd.

A probe is an UDP packet with a stack of 512 bits for 128 ports of its route and 22 bytes by switch (§II-C).
Each link is passed in one direction, as the paper's undirected graph has it, so that one of its two ports is
seen; `both_ways` sends a second probe back along each trail.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...ports import Topology
from .euler import balance, euler_trails
from .rival import ETHERNET, IPV4, UDP, Probes, Rival, Round, chain, probing_round

STACK = 64
"""Source routing stack, bytes: 512 bits, 4 by hop."""
MAX_HOPS = 128
"""Hops that the stack has room for."""
PROBE = IPV4 + UDP + STACK
INT_ITEM = 22
"""What one switch writes (§II-C; `inthdr_t` of the published code: 176 bits)."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Trails that cover all links that are up."""

    trails: list[list[int]]
    """Port rows in the order in which a probe leaves by them."""
    odd: int
    """Switches with an odd number of links."""
    seconds: float
    """Time that the planning took."""


def plan(topology: Topology, down: npt.ArrayLike | None = None, *, most: int | None = None) -> Plan:
    """Trails over all links between switches but those `down`, bool [ports]; `most`: cut to this length."""
    start = time.perf_counter()
    failed = np.zeros(len(topology.ports), bool) if down is None else np.asarray(down, bool)
    links = [row for row in topology.links() if not failed[row]]
    ends = [(int(topology.ports["switch"][row]), int(topology.ports["peer_switch"][row])) for row in links]
    reverse = [int(topology.ports["reverse"][row]) for row in links]
    trails, odd = euler_trails(len(topology.switches), ends)
    trails = balance(trails, ends)
    rows = [[links[link] if ahead else reverse[link] for link, ahead in trail] for trail in trails]
    if most is not None:
        rows = [trail[at : at + most] for trail in rows for at in range(0, len(trail), most)]
    return Plan(rows, odd, time.perf_counter() - start)


def hops_in(mtu: int, item: int = INT_ITEM) -> int:
    """Switches that a probe of at most `mtu` bytes of IP, and of its stack, can pass."""
    return max(1, min(MAX_HOPS, (mtu - PROBE) // item))


def generators(topology: Topology) -> int:
    """INT-label's count (section 6): one for a circuit, else as many as there are odd vertices.

    Each trail has two ends, of which one generates probes and one collects, or both do both.
    """
    found = plan(topology)
    return max(found.odd, 1)


def probes(
    topology: Topology,
    *,
    down: npt.ArrayLike | None = None,
    both_ways: bool = False,
    item: int = INT_ITEM,
    most: int | None = None,
) -> Probes:
    """Trails of a round."""
    trails = plan(topology, down, most=most).trails
    if both_ways:
        trails = trails + [[int(topology.ports["reverse"][row]) for row in trail[::-1]] for trail in trails]
    return Probes([chain(trail) for trail in trails], PROBE, item)


def cost(
    topology: Topology, *, both_ways: bool = False, item: int = INT_ITEM, most: int | None = None
) -> Round:
    """A round of one probe on each trail; `most` hops a trail (`hops_in`), None: however long it is."""
    found = probes(topology, both_ways=both_ways, item=item, most=most)
    count = generators(topology) if most is None else len(found.routes)
    word = f"{PROBE + ETHERNET} B and {item} B a hop, {len(found.routes)} probes{', both ways' * both_ways}"
    return probing_round(topology, found, count, word=word)


RIVAL = Rival("int-path", "INT-path", "INT-path §II-C, §III; INT-label §6", cost, generators, probes)
