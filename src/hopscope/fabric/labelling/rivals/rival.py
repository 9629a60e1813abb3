"""The cost of one round of telemetry, by which all systems are compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ....base.hash_rows import mix64
from ...ports import NO_PORT, Ints, Topology, seed_bits
from ..simulation.records import SourceFlag
from ..simulation.sources import Branches, Sources, on_routes, tree

ETHERNET = 14
"""Ethernet header, bytes; preamble, check sequence and gap are not counted anywhere."""
IPV4 = 20
UDP = 8
MIN_FRAME = 60
"""Shortest Ethernet frame without its check sequence, bytes."""
ITEM = 32
"""Bytes written per switch: INT-label's item (section 2) and that of its HULA (`inthdr_t`: 256 bits)."""


@dataclass(frozen=True, slots=True)
class Round:
    """One round, in which a system reports every port that it covers once."""

    generators: int
    """Switches or servers that send probes."""
    packets: float
    """Probes sent."""
    exports: float
    """Packets with results that reach the controller or a collector."""
    link_bits: float
    """Bits added by the system, summed over all links that they cross, including those to hosts."""
    coverage: float
    """Share of the switches' ports to other switches whose state is reported."""
    per_hop: bool = True
    """Whether the system measures single ports; if not, it measures whole paths."""
    note: str = ""
    """Assumptions behind the numbers."""


@dataclass(frozen=True, slots=True)
class Probes:
    """The probes of one round, one for each route; every switch on a route adds `item` bytes."""

    routes: Sequence[tuple[int, Branches]]
    """First port and the branches after it; a chain has one branch at every port."""
    size: int
    """Initial bytes of a probe, from its IP header on."""
    item: int
    """Bytes added per switch; 0: none, as in Pingmesh."""


@dataclass(frozen=True, slots=True)
class Rival:
    """One system."""

    name: str
    title: str
    source: str
    """Source of its parameters."""
    round: Callable[..., Round]
    """round(topology, **settings of the system)."""
    generators: Callable[[Topology], int]
    probes: Callable[..., Probes] | None = None
    """probes(topology, **settings); None if it sends none."""


def between(topology: Topology) -> Ints:
    """Rows of the ports between switches."""
    ports = topology.ports
    return np.flatnonzero((ports["switch"] >= 0) & (ports["peer_switch"] >= 0))


def towards_hosts(topology: Topology) -> npt.NDArray[np.bool_]:
    """bool [ports]: ports that lead away from the spine."""
    return np.asarray(topology.ports["buffer_id"] == 1)


def chain(ports: Sequence[int]) -> tuple[int, Branches]:
    """Port rows in order, as a tree without branches."""
    following: Branches = {}
    for port in reversed(ports[1:]):
        following = {int(port): following}
    return int(ports[0]), following


def walk(probes: Probes) -> tuple[Ints, Ints]:
    """The ports that the probes of a round pass, with multiplicity, and the number of items that each probe
    carries there.
    """
    ports: list[int] = []
    depths: list[int] = []
    todo = [(port, below, 1) for port, below in probes.routes]
    while todo:
        port, below, depth = todo.pop()
        ports.append(port)
        depths.append(depth)
        todo += [(one, further, depth + 1) for one, further in below.items()]
    return np.array(ports, np.int64), np.array(depths, np.int64)


def frame(ip_bytes: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Bytes of Ethernet frames with this many IP bytes."""
    return np.maximum(MIN_FRAME, np.asarray(ip_bytes, np.float64) + ETHERNET)


def probing_round(
    topology: Topology, probes: Probes, generators: int, times: int = 1, note: str = ""
) -> Round:
    """A round of these probes, repeated from `times` equivalent places of the fabric."""
    ports, depths = walk(probes)
    bits = 8 * float(frame(probes.size + probes.item * depths).sum()) * times
    inner = between(topology)
    seen = np.isin(inner, ports).mean() if times == 1 else 1.0
    ends = len(walk_ends(probes)) * times
    return Round(generators, len(probes.routes) * times, ends, bits, float(seen), probes.item > 0, note)


def no_generators(topology: Topology) -> int:
    """None, for a system that sends no probes."""
    return 0


def edge_switches(topology: Topology) -> int:
    """Number of edge switches."""
    return len(np.unique(topology.host_switch))


def walk_ends(probes: Probes) -> list[int]:
    """Last port of each copy of a probe, with multiplicity."""
    found: list[int] = []
    todo = list(probes.routes)
    while todo:
        port, below = todo.pop()
        if not below:
            found.append(port)
        todo += list(below.items())
    return found


def routes_of(topology: Topology) -> npt.NDArray[np.int32]:
    """ECMP paths from one host of every edge switch to all others, [paths, STAGES] (some 200,000 at most)."""
    firsts = np.unique(topology.host_switch, return_index=True)[1]
    step = max(1, len(firsts) * topology.hosts // 200_000)
    src, dst = (grid.ravel() for grid in np.meshgrid(firsts[::step], np.arange(topology.hosts)))
    apart = src != dst
    src, dst = src[apart], dst[apart]
    key = (src.astype(np.uint64) << np.uint64(32)) | dst.astype(np.uint64)
    return topology.paths(src, dst, mix64(key ^ seed_bits(1)))


@dataclass(frozen=True, slots=True)
class Stages:
    """Traffic between random hosts, by the stage of the ports that it passes."""

    ports: Ints
    """Switch ports of each stage."""
    share: npt.NDArray[np.float64]
    """Share of the packets that use a port of the stage."""
    links_left: npt.NDArray[np.float64]
    """Mean number of remaining links between switches, including the port's own."""
    inner: npt.NDArray[np.bool_]
    """Ports of the stage lead to switches."""
    paths: npt.NDArray[np.int32]


def stages(topology: Topology) -> Stages:
    """Stages on the paths of traffic between random hosts."""
    paths = routes_of(topology)[:, 1:]
    used = paths != NO_PORT
    inner = used & (topology.ports["peer_switch"][paths] >= 0)
    left = np.cumsum(inner[:, ::-1], axis=1)[:, ::-1]
    counts = np.bincount(topology.ports["stage"][topology.ports["switch"] >= 0], minlength=paths.shape[1] + 1)
    passed = used.sum(axis=0)
    means = np.where(used, left, 0).sum(axis=0) / np.maximum(passed, 1)
    return Stages(counts[1:], used.mean(axis=0), means, inner.any(axis=0), paths)


def probe_sources(topology: Topology, probes: Probes, every_s: float, *, seed: int = 1) -> Sources:
    """A source for each route of a round: one probe every `every_s` s, with a random phase.

    If `probes.item` is not 0, every switch writes `NetworkModel.item_bytes` into a probe; both must be equal.
    """
    flags = SourceFlag.PROBE | (SourceFlag.LABEL_ALWAYS if probes.item else SourceFlag.LABEL_NEVER)
    routes = [tree(topology, port, below) for port, below in probes.routes]
    return on_routes(routes, every_s, size=probes.size, flags=int(flags), seed=seed)
