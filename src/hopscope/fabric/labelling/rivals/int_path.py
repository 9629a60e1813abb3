"""INT-path: probes on Euler trails that cover every link once (Pan et al., INFOCOM 2019).

A connected graph with 2n odd vertices falls into n trails, and no fewer, that pass every link once (§III-A);
a graph without any is one circuit.  Virtual links join the odd vertices in pairs, Hierholzer's algorithm
finds the circuit in time linear in the links, and cutting it at the virtual links leaves the trails.  Hosts
are no vertices: with them, every host would be odd.

A probe is an UDP packet with a stack of 512 bits for 128 ports of its route and 22 bytes by switch (§II-C).
Each link is passed in one direction, as the paper's undirected graph has it, so that one of its two ports is
seen; `both_ways` sends a second probe back along each trail.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...ports import Topology
from .rival import ETHERNET, IPV4, UDP, Probes, Rival, Round, chain, probing_round

STACK = 64
"""Source routing stack, bytes: 512 bits, 4 by hop."""
MOST_HOPS = 128
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
    rows = [[links[link] if ahead else reverse[link] for link, ahead in trail] for trail in trails]
    if most is not None:
        rows = [trail[at : at + most] for trail in rows for at in range(0, len(trail), most)]
    return Plan(rows, odd, time.perf_counter() - start)


def euler_trails(vertices: int, ends: Sequence[tuple[int, int]]) -> tuple[list[list[tuple[int, bool]]], int]:
    """Fewest trails that pass every edge once: [(edge, from its first end to its second)], and odd vertices.

    `ends` are the two vertices of each edge.  By connected part: one circuit, or half as many trails as it
    has odd vertices.
    """
    beside: list[list[int]] = [[] for _ in range(vertices)]
    both = list(ends)
    for edge, (low, high) in enumerate(ends):
        beside[low].append(edge)
        beside[high].append(edge)
    odd = [vertex for vertex in range(vertices) if len(beside[vertex]) % 2]
    part = _parts(vertices, ends)
    waiting: dict[int, int] = {}
    for vertex in odd:  # (each part has an even number of them)
        other = waiting.pop(part[vertex], None)
        if other is None:
            waiting[part[vertex]] = vertex
        else:
            beside[other].append(len(both))
            beside[vertex].append(len(both))
            both.append((other, vertex))
    passed = [False] * len(both)
    trails: list[list[tuple[int, bool]]] = []
    for start in [*odd, *range(vertices)]:
        circuit = _circuit(start, beside, both, passed)
        trails += _cut(circuit, len(ends))
    return trails, len(odd)


def _parts(vertices: int, ends: Sequence[tuple[int, int]]) -> list[int]:
    """Number of the connected part of each vertex."""
    above = list(range(vertices))

    def top(vertex: int) -> int:
        while above[vertex] != vertex:
            above[vertex] = above[above[vertex]]
            vertex = above[vertex]
        return vertex

    for low, high in ends:
        above[top(low)] = top(high)
    return [top(vertex) for vertex in range(vertices)]


def _circuit(
    start: int, beside: list[list[int]], ends: Sequence[tuple[int, int]], passed: list[bool]
) -> list[tuple[int, bool]]:
    """Hierholzer: edges of a circuit through all of `start`'s part that is not passed yet, in order."""
    way: list[tuple[int, int, bool]] = [(start, -1, True)]
    found: list[tuple[int, bool]] = []
    while way:
        vertex, edge, ahead = way[-1]
        while beside[vertex] and passed[beside[vertex][-1]]:
            beside[vertex].pop()
        if beside[vertex]:
            following = beside[vertex].pop()
            passed[following] = True
            low, high = ends[following]
            way.append((high, following, True) if low == vertex else (low, following, False))
        else:
            way.pop()
            if edge >= 0:
                found.append((edge, ahead))
    return found[::-1]


def _cut(circuit: list[tuple[int, bool]], real: int) -> list[list[tuple[int, bool]]]:
    """The circuit without its virtual edges, those from `real` on."""
    first = next((at for at, (edge, _) in enumerate(circuit) if edge >= real), None)
    if first is None:
        return [circuit] if circuit else []
    trails: list[list[tuple[int, bool]]] = [[]]
    for edge, ahead in circuit[first + 1 :] + circuit[:first]:
        if edge >= real:
            trails.append([])
        else:
            trails[-1].append((edge, ahead))
    return [trail for trail in trails if trail]


def hops_in(mtu: int, item: int = INT_ITEM) -> int:
    """Switches that a probe of at most `mtu` bytes of IP, and of its stack, can pass."""
    return max(1, min(MOST_HOPS, (mtu - PROBE) // item))


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
