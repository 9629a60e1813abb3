"""Pingmesh: servers ping servers (Guo et al., SIGCOMM 2015).

Two of its graphs (§3.3.1) are used: all servers below an edge switch ping each other, and between edge
switches, server i of each pings server i of all others. A ping is a TCP connection: SYN and SYN-ACK, 40
bytes of IP each. It measures the round-trip time of the whole path, not single ports.
"""

from __future__ import annotations

import numpy as np

from ....base.hash_rows import mix64
from ...ports import NO_PORT, FabricError, Ints, Topology, seed_bits
from .rival import ETHERNET, Probes, Rival, Round, between, chain, edge_switches, frame

SYN = 40
"""IPv4 and TCP header of a SYN or SYN-ACK, bytes."""


def generators(topology: Topology) -> int:
    """Number of servers, since each has an agent."""
    return topology.hosts


def pairs(topology: Topology, sources: int | None = None) -> Ints:
    """(Client, server) of each ping in a round, [pings, 2]; clients are the first `sources` hosts."""
    edges = topology.host_switch
    rank = np.zeros(topology.hosts, np.int64)
    for edge in np.unique(edges):
        rank[edges == edge] = np.arange(int((edges == edge).sum()))
    found = []
    for host in range(topology.hosts if sources is None else min(sources, topology.hosts)):
        peers = np.flatnonzero((edges == edges[host]) | (rank == rank[host]))
        peers = peers[peers != host]
        found.append(np.stack([np.full(len(peers), host), peers], axis=1, dtype=np.int64))
    if not found:
        raise FabricError("pings need a host")
    return np.concatenate(found)


def ping_paths(topology: Topology, ends: Ints) -> Ints:
    """Switch ports on the path of each ping, first all requests, then all replies, [2 pings, stages]; ECMP
    chooses each path by hash.
    """
    there = np.concatenate([ends, ends[:, ::-1]])
    both = (there[:, 0].astype(np.uint64) << np.uint64(32)) | there[:, 1].astype(np.uint64)
    return topology.paths(there[:, 0], there[:, 1], mix64(both ^ seed_bits(1)))[:, 1:].astype(np.int64)


def probes(topology: Topology) -> Probes:
    """The packets of a round, including replies, from the first switch on."""
    rows = ping_paths(topology, pairs(topology))
    return Probes([chain([int(p) for p in row if p != NO_PORT]) for row in rows], SYN, 0)


def cost(topology: Topology) -> Round:
    """A round, in which every agent pings its peers once. Above 4096 hosts, it is extrapolated from one edge
    switch, and coverage is assumed to be 1, as it is from k = 4 on.
    """
    hosts = topology.hosts
    sampled = hosts > 4096
    ends = pairs(topology, hosts // edge_switches(topology) if sampled else None)
    rows = ping_paths(topology, ends)
    more = hosts / len(np.unique(ends[:, 0]))
    links = float((rows != NO_PORT).sum() + len(rows)) * more  # plus the link from the host
    inner = between(topology)
    seen = 1.0 if sampled else float(np.isin(inner, rows).mean())
    pings = len(ends) * more
    return Round(
        hosts, 2 * pings, pings, 8 * links * float(frame(SYN)), seen, False,
        f"SYN and SYN-ACK, {SYN + ETHERNET} B, both directions; coverage: ports on a ping's path"
        + (", assumed to be all above 4,096 hosts" if sampled else ""),
    )  # fmt: skip


RIVAL = Rival("pingmesh", "Pingmesh", "Pingmesh §3.3.1; RFC 9293", cost, generators, probes)
