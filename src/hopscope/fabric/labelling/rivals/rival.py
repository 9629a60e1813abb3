"""What one round of telemetry costs: the measure by which all rivals are compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...ports import NO_PORT, Ints, Topology, mix64, seed_bits
from ..simulation.sources import Branches

ETHERNET = 14
"""Ethernet header, bytes; preamble, check sequence and gap are left out everywhere."""
IPV4 = 20
UDP = 8
SHORTEST = 60
"""Shortest Ethernet frame without its check sequence, bytes."""
ITEM = 32
"""Bytes that one switch writes: INT-label's item (section 2) and that of its HULA (`inthdr_t`: 256 bits)."""


@dataclass(frozen=True, slots=True)
class Round:
    """One round, in which a system reports every port that it can once."""

    generators: int
    """Places that send probes."""
    packets: float
    """Probes that are put into the network."""
    exports: float
    """Packets that reach the controller or a collector with what was seen."""
    link_bits: float
    """Bits that the system adds, summed over the links between switches and to hosts that they cross."""
    coverage: float
    """Share of the switches' ports to other switches whose state is reported."""
    per_hop: bool = True
    """False: the system sees paths as a whole, and no port by itself."""
    word: str = ""
    """What the numbers rest on."""


@dataclass(frozen=True, slots=True)
class Probes:
    """Probes of one round: every route is sent along once, and every switch on it adds `item` bytes."""

    routes: Sequence[tuple[int, Branches]]
    """First port and what follows it; a chain has one branch at every port."""
    size: int
    """Bytes of a probe that no switch has written into, from its IP header on."""
    item: int
    """Bytes that a switch adds; 0: none, as in Pingmesh."""


@dataclass(frozen=True, slots=True)
class Rival:
    """One system."""

    name: str
    title: str
    source: str
    """Where its parameters are from."""
    round: Callable[..., Round]
    """round(topology, **settings of the system)."""
    generators: Callable[[Topology], int]
    probes: Callable[..., Probes] | None = None
    """probes(topology, **settings): None where it sends none."""


def between(topology: Topology) -> Ints:
    """Rows of the ports from a switch to a switch."""
    ports = topology.ports
    return np.flatnonzero((ports["switch"] >= 0) & (ports["peer_switch"] >= 0))


def towards_hosts(topology: Topology) -> npt.NDArray[np.bool_]:
    """bool [ports]: ports that lead away from the spine."""
    return np.asarray(topology.ports["buffer_id"] == 1)


def chain(ports: Sequence[int]) -> tuple[int, Branches]:
    """Port rows in their order as a tree without branches."""
    following: Branches = {}
    for port in reversed(ports[1:]):
        following = {int(port): following}
    return int(ports[0]), following


def walk(probes: Probes) -> tuple[Ints, Ints]:
    """Ports that the probes of a round leave by, with multiplicity, and how many items each then carries."""
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
    """Bytes of Ethernet frames around so many bytes of IP."""
    return np.maximum(SHORTEST, np.asarray(ip_bytes, np.float64) + ETHERNET)


def probing_round(
    topology: Topology, probes: Probes, generators: int, times: int = 1, word: str = ""
) -> Round:
    """A round of these probes, `times` as many where the fabric is made of so many places alike."""
    ports, depths = walk(probes)
    bits = 8 * float(frame(probes.size + probes.item * depths).sum()) * times
    inner = between(topology)
    seen = np.isin(inner, ports).mean() if times == 1 else 1.0
    ends = len(walk_ends(probes)) * times
    return Round(generators, len(probes.routes) * times, ends, bits, float(seen), probes.item > 0, word)


def walk_ends(probes: Probes) -> list[int]:
    """Ports behind which a copy of a probe is collected, with multiplicity."""
    found: list[int] = []
    todo = list(probes.routes)
    while todo:
        port, below = todo.pop()
        if not below:
            found.append(port)
        todo += list(below.items())
    return found


def routes_of(topology: Topology, seed: int = 1) -> npt.NDArray[np.int32]:
    """ECMP paths from one host of every edge switch to all others, [paths, STAGES] (some 200,000 at most)."""
    firsts = np.unique(topology.host_switch, return_index=True)[1]
    step = max(1, len(firsts) * topology.hosts // 200_000)
    src, dst = (grid.ravel() for grid in np.meshgrid(firsts[::step], np.arange(topology.hosts)))
    apart = src != dst
    src, dst = src[apart], dst[apart]
    key = (src.astype(np.uint64) << np.uint64(32)) | dst.astype(np.uint64)
    return topology.paths(src, dst, mix64(key ^ seed_bits(seed)))


@dataclass(frozen=True, slots=True)
class Stages:
    """Traffic between random hosts, by the stage of the ports that it passes."""

    ports: Ints
    """Switch ports of each stage."""
    share: npt.NDArray[np.float64]
    """Share of the packets that pass a port of the stage."""
    links_left: npt.NDArray[np.float64]
    """Links between switches that packets cross from a port of the stage on, its own too: mean."""
    inner: npt.NDArray[np.bool_]
    """Ports of the stage lead to switches."""
    paths: npt.NDArray[np.int32]


def stages(topology: Topology, seed: int = 1) -> Stages:
    """What traffic between random hosts passes, stage by stage."""
    paths = routes_of(topology, seed)[:, 1:]
    used = paths != NO_PORT
    inner = used & (topology.ports["peer_switch"][paths] >= 0)
    left = np.cumsum(inner[:, ::-1], axis=1)[:, ::-1]
    counts = np.bincount(topology.ports["stage"][topology.ports["switch"] >= 0], minlength=paths.shape[1] + 1)
    passed = used.sum(axis=0)
    means = np.where(used, left, 0).sum(axis=0) / np.maximum(passed, 1)
    return Stages(counts[1:], used.mean(axis=0), means, inner.any(axis=0), paths)
