"""Pingmesh: servers ping servers (Guo et al., SIGCOMM 2015).

Two of its graphs (§3.3.1): all servers below one edge switch, and between edge switches server i of each with
server i of every other.  A ping is a TCP connection: SYN and SYN-ACK, 40 bytes of IP each.  What it sees
is the time there and back of the whole path: no port by itself.
"""

from __future__ import annotations

import numpy as np

from ...ports import NO_PORT, FabricError, Ints, Topology, mix64, seed_bits
from .rival import ETHERNET, Probes, Rival, Round, between, chain, frame

SYN = 40
"""IPv4 and TCP header of a SYN or SYN-ACK, bytes."""


def generators(topology: Topology) -> int:
    """Servers: each has an agent."""
    return topology.hosts


def pairs(topology: Topology, sources: int | None = None) -> Ints:
    """Who pings whom in a round, [pings, 2], from the first `sources` hosts."""
    edges = topology.host_switch
    rank = np.zeros(topology.hosts, np.int64)
    for edge in np.unique(edges):
        rank[edges == edge] = np.arange(int((edges == edge).sum()))
    found = []
    for host in range(topology.hosts if sources is None else min(sources, topology.hosts)):
        peers = np.flatnonzero((edges == edges[host]) | (rank == rank[host]))
        peers = peers[peers != host]
        found.append(np.stack([np.full(len(peers), host), peers], axis=1))
    if not found:
        raise FabricError("pings need a host")
    return np.concatenate(found)


def ways(topology: Topology, ends: Ints, seed: int = 1) -> Ints:
    """Switch ports that a ping leaves by, there and back, [2 pings, stages]; ECMP by its own port number."""
    there = np.concatenate([ends, ends[:, ::-1]])
    both = (there[:, 0].astype(np.uint64) << np.uint64(32)) | there[:, 1].astype(np.uint64)
    return topology.paths(there[:, 0], there[:, 1], mix64(both ^ seed_bits(seed)))[:, 1:].astype(np.int64)


def probes(topology: Topology, *, sources: int | None = None, seed: int = 1) -> Probes:
    """The packets of a round, those back too, from the first switch on."""
    rows = ways(topology, pairs(topology, sources), seed)
    return Probes([chain([int(p) for p in row if p != NO_PORT]) for row in rows], SYN, 0)


def cost(topology: Topology, *, seed: int = 1) -> Round:
    """A round, in which every agent pings its peers once; above 4096 hosts by those of one edge switch.

    Coverage is then taken to be 1: it is from k = 4 on.
    """
    hosts = topology.hosts
    few = hosts > 4096
    ends = pairs(topology, hosts // generators_below(topology) if few else None)
    rows = ways(topology, ends, seed)
    more = hosts / len(np.unique(ends[:, 0]))
    links = float((rows != NO_PORT).sum() + len(rows)) * more  # (and the link from the host)
    inner = between(topology)
    seen = 1.0 if few else float(np.isin(inner, rows).mean())
    pings = len(ends) * more
    return Round(
        hosts, 2 * pings, pings, 8 * links * float(frame(SYN)), seen, False,
        f"SYN and SYN-ACK, {SYN + ETHERNET} B, there and back; coverage: ports that a ping passes"
        + (", taken as all above 1,024 hosts" if few else ""),
    )  # fmt: skip


def generators_below(topology: Topology) -> int:
    """Edge switches."""
    return len(np.unique(topology.host_switch))


RIVAL = Rival("pingmesh", "Pingmesh", "Pingmesh §3.3.1; RFC 9293", cost, generators, probes)
