"""Senders and their routes: traffic of hosts, probes of measuring systems."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ....base.hash_rows import mix64
from ....wire.records import Records
from ...ports import NO_PORT, FabricError, Ints, Topology, flow_hash, seed_bits
from ...records import PS
from ...traffic import Traffic, TrafficModel
from .records import NO_ROW, ROUTE, SOURCE, SourceFlag

MAX_GAP = 50_000 * PS
"""Longest mean time between a source's packets."""
UNLIMITED = 1 << 62
"""Packets of an unlimited source."""


def _pairs() -> Ints:
    return np.full((0, 2), NO_ROW, np.int64)


@dataclass
class Sources:
    """Sources and all of their routes."""

    records: Records = field(default_factory=lambda: np.zeros(0, SOURCE))
    """SOURCE [sources]"""
    starts: npt.NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    """First node of each route."""
    routes: Records = field(default_factory=lambda: np.zeros(0, ROUTE))
    """ROUTE [nodes]"""
    pairs: Ints = field(default_factory=_pairs)
    """Hosts [starts, 2] between which ECMP chooses the route; NO_ROW: fixed."""
    hashes: npt.NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))
    """ECMP hash of each route, uint64 [starts]."""


def check(topology: Topology, sources: Sources) -> None:
    """Raise FabricError for invalid sources or routes."""
    records, routes, starts = sources.records, sources.routes, sources.starts
    if not len(records):
        raise FabricError("a simulation needs at least one source")
    if (records["size"] < 20).any() or (records["size"] > 65535).any():
        raise FabricError("packets have 20 to 65535 bytes, from the IP header on")
    if (records["gap"] < 1).any() or (records["gap"] > MAX_GAP).any() or (records["next"] < 0).any():
        raise FabricError("sources send at 0 s or later, with gaps of 1 ps to fourteen hours")
    first, count = records["routes_first"].astype(np.int64), records["routes_count"].astype(np.int64)
    if (first < 0).any() or (count < 1).any() or (first + count > len(starts)).any():
        raise FabricError("every source needs at least one route")
    rows, following = np.arange(len(routes)), routes["next"].astype(np.int64)
    inner = following >= 0
    if (
        (starts < 0).any()
        or (starts >= len(routes)).any()
        or (routes["port"] < 0).any()
        or (routes["port"] >= len(topology.ports)).any()
        or (following[inner] <= rows[inner]).any()
        or (following + routes["copies"] > len(routes))[inner].any()
        or (routes["copies"][inner] < 1).any()
    ):
        raise FabricError(f"a route uses ports that {topology.name} does not have, or returns to itself")


def join(*parts: Sources) -> Sources:
    """All sources of all parts, renumbered in this order."""
    whole = Sources()
    for part in parts:
        records, routes = part.records.copy(), part.routes.copy()
        records["routes_first"] += len(whole.starts)
        routes["next"][routes["next"] >= 0] += len(whole.routes)
        starts = (part.starts + len(whole.routes)).astype(np.int32)
        whole = Sources(
            np.concatenate([whole.records, records]),
            np.concatenate([whole.starts, starts]),
            np.concatenate([whole.routes, routes]),
            np.concatenate([whole.pairs, part.pairs]),
            np.concatenate([whole.hashes, part.hashes]),
        )
    whole.records["serial"] = np.arange(len(whole.records))
    return whole


def unicast_routes(topology: Topology, paths: npt.ArrayLike) -> tuple[Records, npt.NDArray[np.int32]]:
    """Nodes of unicast routes from port rows [routes, ports], NO_PORT if unused: (ROUTE, first nodes)."""
    rows = np.asarray(paths, np.int64)
    used = rows != NO_PORT
    lengths = used.sum(axis=1)
    if not lengths.all():
        raise FabricError("a route has at least one port")
    nodes = np.zeros(int(lengths.sum()), ROUTE)
    ends = np.cumsum(lengths)
    nodes["port"] = rows[used]
    nodes["next"] = np.arange(1, len(nodes) + 1)
    nodes["copies"] = 1
    nodes["ingress"][1:] = topology.ports["peer_number"][nodes["port"][:-1]]
    nodes["next"][ends - 1], nodes["copies"][ends - 1] = NO_ROW, 0
    starts = ends - lengths
    nodes["ingress"][starts] = 0
    return nodes, starts.astype(np.int32)


def paths_between(
    topology: Topology,
    pairs: npt.ArrayLike,
    *,
    seed: int = 1,
    flows: int = 1,
) -> Sources:
    """ECMP routes, without sources, for `flows` flows between each pair of hosts [pairs, 2]."""
    ends = np.repeat(np.asarray(pairs, np.int64).reshape(-1, 2), flows, axis=0)
    flow = np.tile(np.arange(flows, dtype=np.uint64), len(ends) // flows)
    both = (ends[:, 0].astype(np.uint64) << np.uint64(32)) | ends[:, 1].astype(np.uint64)
    hashes = mix64(mix64(both ^ seed_bits(seed)) + flow)
    routes, starts = unicast_routes(topology, topology.paths(ends[:, 0], ends[:, 1], hashes))
    return Sources(starts=starts, routes=routes, pairs=ends, hashes=hashes)


def from_hosts(
    topology: Topology,
    senders: Iterable[int],
    rate_bps: float,
    *,
    size: int = 1000,
    destinations: int | None = None,
    flows: int = 1,
    random: bool = True,
    tracked: int = 0,
    packets: int = UNLIMITED,
    seed: int = 1,
) -> Sources:
    """Each sender sends `rate_bps` (IP bits/s) in packets of `size` IP bytes, each to a random other host.

    `destinations`: number of other hosts, drawn once per sender; None: all. `flows`: number of flows between
    two hosts, each with its own ECMP path. `random`: exponential gaps. `packets`: number of packets per
    sender. `tracked`: one packet in this many is tracked.
    """
    hosts = np.array(list(senders), np.int64)
    others = topology.hosts - 1
    each = min(destinations or others, others)
    if not len(hosts) or others < 1 or rate_bps <= 0 or not 20 <= size <= 65535:
        raise FabricError(
            "traffic needs a sender, another host, a rate above 0 and packets of 20 to 65535 bytes"
        )
    rng = np.random.default_rng(seed)
    if each == others:
        hop = np.tile(np.arange(1, topology.hosts), (len(hosts), 1))
    else:
        hop = np.array([rng.choice(others, each, replace=False) + 1 for _ in hosts])
    pairs = np.stack([np.repeat(hosts, each), ((hosts[:, None] + hop) % topology.hosts).ravel()], axis=1)
    sources = paths_between(topology, pairs, seed=seed, flows=flows)
    records = np.zeros(len(hosts), SOURCE)
    gap = max(1, min(round(size * 8 * PS / rate_bps), MAX_GAP))
    records["serial"] = np.arange(len(hosts))
    records["next"] = (rng.random(len(hosts)) * gap).astype(np.int64)
    records["gap"], records["size"], records["tracked"], records["remaining"] = gap, size, tracked, packets
    records["routes_first"] = np.arange(len(hosts)) * each * flows
    records["routes_count"] = each * flows
    records["flags"] = SourceFlag.RANDOM if random else 0
    sources.records = records
    return sources


def uniform(
    topology: Topology, rate_bps: float, *, size: int = 1000, seed: int = 1, **how: int | None
) -> Sources:
    """Every host sends to random other hosts, as in `from_hosts`; `rate_bps` is that of one host."""
    return from_hosts(topology, range(topology.hosts), rate_bps, size=size, seed=seed, **how)  # type: ignore[arg-type]


def flows(topology: Topology, model: TrafficModel, seconds: float, *, seed: int = 1) -> Sources:
    """A source for each flow of `fabric.traffic` that is active or starts in the first `seconds`.

    The last packet of a flow is as long as the others.
    """
    traffic = Traffic(topology, model, seed)
    traffic.arrive(round(seconds * PS))
    active = traffic.table["active"] != 0
    table = traffic.table[active]
    routes, starts = unicast_routes(topology, traffic.paths[active])
    records = np.zeros(len(table), SOURCE)
    for name in ("next", "serial"):
        records[name] = table[name]
    records["gap"] = np.maximum(1, table["ps_per_byte"] * table["payload"])
    records["remaining"] = -(-table["remaining"] // table["payload"])
    records["size"] = table["payload"].astype(np.int64) + table["headers"]
    records["routes_first"], records["routes_count"] = np.arange(len(table)), 1
    records["flags"] = SourceFlag.RANDOM
    ends = np.stack([table["src_host"], table["dst_host"]], axis=1).astype(np.int64)
    hashes = flow_hash(*(table[f] for f in ("src_address", "dst_address", "proto", "sport", "dport")))
    return Sources(records, starts, routes, ends, hashes)


Branches = dict[int, Any]
"""A tree of port rows: each port with those after it; empty at the leaves."""


def tree(topology: Topology, port: int, branches: Branches) -> Records:
    """ROUTE of a multicast: packets pass `port`; after each port a copy takes each branch."""
    nodes = np.zeros(1, ROUTE)
    nodes[0]["port"] = port
    todo = [(0, port, branches)]
    while todo:
        at, before, below = todo.pop(0)
        nodes[at]["next"] = len(nodes) if below else NO_ROW
        nodes[at]["copies"] = len(below)
        for following, further in below.items():
            if topology.ports["peer_switch"][before] != topology.ports["switch"][following]:
                raise FabricError(f"port {before} does not lead to the switch of port {following}")
            todo.append((len(nodes), following, further))
            node = np.zeros(1, ROUTE)
            node["port"], node["ingress"] = following, topology.ports["peer_number"][before]
            nodes = np.concatenate([nodes, node])
    return nodes


def on_routes(
    routes: Sequence[Records],
    gap_s: float,
    *,
    size: int,
    flags: int = 0,
    seed: int = 1,
) -> Sources:
    """One source for each fixed route (`trail`, `tree`), sending every `gap_s` with a random phase."""
    rng = np.random.default_rng(seed)
    lengths = np.array([len(route) for route in routes], np.int64)
    offsets = np.cumsum(lengths) - lengths
    nodes = np.concatenate(routes) if len(routes) else np.zeros(0, ROUTE)
    inner = nodes["next"] >= 0
    nodes["next"][inner] += np.repeat(offsets, lengths).astype(np.int32)[inner]
    records = np.zeros(len(routes), SOURCE)
    gap = max(1, min(round(gap_s * PS), MAX_GAP))
    records["serial"] = np.arange(len(routes))
    records["next"] = (rng.random(len(routes)) * gap).astype(np.int64)
    records["gap"], records["size"], records["remaining"], records["flags"] = gap, size, UNLIMITED, flags
    records["routes_first"], records["routes_count"] = np.arange(len(routes)), 1
    return Sources(
        records,
        offsets.astype(np.int32),
        nodes,
        np.full((len(routes), 2), NO_ROW, np.int64),
        np.zeros(len(routes), np.uint64),
    )
