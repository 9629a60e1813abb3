"""INT-path: probes on Euler trails that cover every link once (Pan et al., INFOCOM 2019).

A connected graph with 2n odd vertices needs exactly n trails to cover every link once (§III-A); one without
odd vertices is a circuit. Trails are balanced to about the same length (§III-E). Hosts are not vertices: each
would be odd.

A probe is a UDP packet with a stack of 512 bits for 128 ports of its route and 22 bytes per switch (§II-C).
Each link is crossed in one direction, since the paper's graph is undirected, so one of its two ports is
observed; `both_directions` sends a second probe back along each trail.
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
"""Source routing stack, bytes: 512 bits, 4 per hop."""
MAX_HOPS = 128
"""Hops that the stack has room for."""
PROBE = IPV4 + UDP + STACK
INT_ITEM = 22
"""Bytes written by one switch (§II-C; `inthdr_t` of the published code: 176 bits)."""


@dataclass(frozen=True, slots=True)
class TrailPlan:
    """Trails that cover all working links."""

    trails: list[list[int]]
    """Port rows in the order in which a probe passes them."""
    odd: int
    """Switches with an odd number of links."""
    seconds: float
    """Duration of the planning."""


def plan(topology: Topology, down: npt.ArrayLike | None = None, *, max_hops: int | None = None) -> TrailPlan:
    """Trails over all links between switches except those `down`, bool [ports]; `max_hops`: split at this
    length.
    """
    start = time.perf_counter()
    failed = np.zeros(len(topology.ports), bool) if down is None else np.asarray(down, bool)
    links = [row for row in topology.links() if not failed[row]]
    ends = [(int(topology.ports["switch"][row]), int(topology.ports["peer_switch"][row])) for row in links]
    reverse = [int(topology.ports["reverse"][row]) for row in links]
    trails, odd = euler_trails(len(topology.switches), ends)
    trails = balance(trails, ends)
    rows = [[links[link] if ahead else reverse[link] for link, ahead in trail] for trail in trails]
    if max_hops is not None:
        rows = [trail[at : at + max_hops] for trail in rows for at in range(0, len(trail), max_hops)]
    return TrailPlan(rows, odd, time.perf_counter() - start)


def hops_for_mtu(mtu: int) -> int:
    """Largest number of switches on a probe's path that the MTU (IP bytes) and the stack allow."""
    return max(1, min(MAX_HOPS, (mtu - PROBE) // INT_ITEM))


def generators(topology: Topology) -> int:
    """Number of generators as counted by INT-label (section 6): one for a circuit, else the number of odd
    vertices.

    One end of a trail generates probes, and the other collects them; or both ends do both.
    """
    found = plan(topology)
    return max(found.odd, 1)


def probes(
    topology: Topology,
    *,
    down: npt.ArrayLike | None = None,
    both_directions: bool = False,
    max_hops: int | None = None,
) -> Probes:
    """The trails of a round."""
    trails = plan(topology, down, max_hops=max_hops).trails
    if both_directions:
        trails = trails + [[int(topology.ports["reverse"][row]) for row in trail[::-1]] for trail in trails]
    return Probes([chain(trail) for trail in trails], PROBE, INT_ITEM)


def cost(topology: Topology, *, both_directions: bool = False, max_hops: int | None = None) -> Round:
    """A round with one probe for each trail; `max_hops`: longest trail (see `hops_for_mtu`), None:
    unlimited.
    """
    found = probes(topology, both_directions=both_directions, max_hops=max_hops)
    count = generators(topology) if max_hops is None else len(found.routes)
    note = f"{PROBE + ETHERNET} B and {INT_ITEM} B per hop, {len(found.routes)} probes"
    note += ", both directions" * both_directions
    return probing_round(topology, found, count, note=note)


RIVAL = Rival("int-path", "INT-path", "INT-path §II-C, §III; INT-label §6", cost, generators, probes)
