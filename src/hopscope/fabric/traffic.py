"""Traffic: flows with measured size distributions that arrive at random and send at their own rates.

The model is open loop: a flow sends at a constant mean rate with exponential gaps, without congestion control
or acknowledgments. Arrivals are Poisson. The table starts in equilibrium, with partly sent flows of
size-biased length. The result depends only on the seed, not on the windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..wire.records import Records
from .queueing import flow_table
from .records import FLOW, PS, WIRE_OVERHEAD
from .topology import NO_PORT, FabricError, Topology, flow_hash

TCP_PAYLOAD, TCP_HEADERS, UDP_HEADERS = 1460, 40, 28
UDP_PAYLOADS = (128, 512, 1024, 1400)
"""Payload sizes that UDP flows choose from, bytes."""
TCP_PORTS = (80, 443, 3306, 5432, 8080, 9000, 11211)
UDP_PORTS = (53, 443, 3478, 5060, 8125)
"""Ports of tunnels are excluded, because the packets contain no tunnels."""
TCP, UDP = 6, 17
_BLOCK = 256
"""Arrivals drawn at a time."""


@dataclass(frozen=True)
class SizeDistribution:
    """A cumulative distribution of flow sizes, linear between its points."""

    name: str
    size_bytes: tuple[float, ...]
    probability: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean flow size, bytes."""
        size, weight = np.array(self.size_bytes), np.diff(self.probability)
        return float(np.sum(weight * (size[1:] + size[:-1]) / 2))

    def draw(self, uniform: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """Sizes for uniform numbers, bytes, at least 1."""
        sizes: npt.NDArray[np.float64] = np.interp(uniform, self.probability, self.size_bytes)
        return np.maximum(1, sizes).astype(np.int64)

    def draw_biased(self, rng: np.random.Generator, count: int) -> npt.NDArray[np.int64]:
        """Sizes of the flows that are active at a random moment (probability times size), bytes."""
        low, high = np.array(self.size_bytes[:-1]), np.array(self.size_bytes[1:])
        weight = np.diff(self.probability) * (low + high) / 2
        part = rng.choice(len(weight), count, p=weight / weight.sum())
        square = low[part] ** 2 + rng.random(count) * (high[part] ** 2 - low[part] ** 2)
        return np.asarray(np.maximum(1, np.sqrt(square)), np.int64)


WEB_SEARCH = SizeDistribution(
    "web-search",
    (0, 10e3, 20e3, 30e3, 50e3, 80e3, 200e3, 1e6, 2e6, 5e6, 10e6, 30e6),
    (0, 0.15, 0.2, 0.3, 0.4, 0.53, 0.6, 0.7, 0.8, 0.9, 0.97, 1),
)
"""Alizadeh et al.: Data Center TCP (SIGCOMM 2010), as tabulated in empirical-traffic-gen's DCTCP_CDF."""
DATA_MINING = SizeDistribution(
    "data-mining",
    (0, 180, 216, 560, 900, 1100, 1870, 3160, 10e3, 400e3, 3.16e6, 100e6, 1e9),
    (0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 1),
)
"""Greenberg et al.: VL2 (SIGCOMM 2009), as tabulated with the same generator, VL2_CDF."""
SIZES = {d.name: d for d in (WEB_SEARCH, DATA_MINING)}
"""Flow size distributions by name."""


@dataclass(frozen=True)
class TrafficModel:
    """Parameters of traffic."""

    flows: int = 1000
    """Mean number of active flows."""
    load: float = 0.35
    """Mean load of the hosts' links, on the wire."""
    sizes: SizeDistribution = WEB_SEARCH
    udp: float = 0.2
    """Share of flows that are UDP."""
    tracked: float = 1.0
    """Share of flows whose packets may carry INT."""


class Traffic:
    """The flow table of a fabric."""

    def __init__(self, topology: Topology, model: TrafficModel, seed: int = 1) -> None:
        if model.flows < 1 or not 0 < model.load < 1:
            raise FabricError("traffic needs at least one flow, and a load between 0 and 1")
        if topology.hosts < 2:
            raise FabricError("traffic needs at least two hosts")
        self.topology, self.model = topology, model
        self.table = flow_table(max(256, 2 * model.flows))
        """FLOW [rows]; the row of a flow is reused when all its packets have left the network."""
        self.paths = np.full((len(self.table), topology.stages), NO_PORT, np.int32)
        """Port rows of each flow's path, int32 [rows, stages]."""
        self.down = np.zeros(len(topology.ports), bool)
        """True for the ports whose links have failed."""
        self._rng = np.random.default_rng(seed)
        self._serial = 0
        capacity = float(topology.ports["rate"][: topology.hosts].sum())
        tcp = (1 - model.udp) / (TCP_PAYLOAD + TCP_HEADERS + WIRE_OVERHEAD)
        udp = model.udp * float(np.mean(1 / (np.array(UDP_PAYLOADS) + UDP_HEADERS + WIRE_OVERHEAD)))
        self._flow_rate = capacity * model.load / 8 / model.flows
        """Rate of one flow, bytes on the wire per second."""
        self.packets_per_second = capacity * model.load / 8 * (tcp + udp)
        """Approximate packets per second from all hosts; the last packet of a flow is shorter."""
        self._arrival_rate = model.flows * self._flow_rate / model.sizes.mean
        self._arrivals = np.zeros(0, FLOW)
        self._last_arrival = 0.0
        begun = self._draw(model.flows)
        whole = model.sizes.draw_biased(self._rng, model.flows)
        begun["remaining"] = np.maximum(1, whole * self._rng.random(model.flows))
        begun["next"] = begun["ps_per_byte"] * begun["payload"] * self._rng.random(model.flows)
        self.add(begun)

    def arrive(self, until: int) -> int:
        """Start the flows that arrive before `until` (ps); returns their number."""
        begun = 0
        while True:
            due = int(np.searchsorted(self._arrivals["next"], until))
            self.add(self._arrivals[:due])
            begun += due
            self._arrivals = self._arrivals[due:]
            if len(self._arrivals):
                return begun
            gaps = self._rng.exponential(PS / self._arrival_rate, _BLOCK)
            times = self._last_arrival + np.cumsum(gaps)
            self._last_arrival = float(times[-1])
            self._arrivals = self._draw(_BLOCK)
            self._arrivals["next"] = times

    def add(self, flows: Records) -> None:
        """Put flows with their paths into free rows of the table; they start at `next`."""
        if not len(flows):
            return
        flows = flows.copy()
        flows["serial"] = np.arange(self._serial, self._serial + len(flows), dtype=np.uint64)
        flows["active"] = 1
        self._serial += len(flows)
        self._put(flows, self._paths(flows))

    def _put(self, flows: Records, paths: npt.NDArray[np.int32]) -> None:
        """Put flows and their paths into free rows."""
        free = np.nonzero((self.table["active"] == 0) & (self.table["pending"] == 0))[0]
        if len(free) < len(flows):
            old = len(self.table)
            self.table = np.concatenate([self.table, flow_table(old + len(flows))])
            self.paths = np.concatenate(
                [self.paths, np.zeros((old + len(flows), self.topology.stages), np.int32)]
            )
            free = np.concatenate([free, np.arange(old, len(self.table))])
        self.table[free[: len(flows)]] = flows
        self.paths[free[: len(flows)]] = paths

    def reroute(self) -> int:
        """Give every active flow its current ECMP path; returns the number of moved flows.

        A flow that moves gets a new row: its packets in the network keep the old one, and their path.
        """
        rows = np.nonzero(self.table["active"])[0]
        paths = self._paths(self.table[rows])
        moved = (paths != self.paths[rows]).any(axis=1)
        flows = self.table[rows[moved]]
        self.table["active"][rows[moved]] = 0
        flows["pending"] = 0
        self._put(flows, paths[moved])
        return len(flows)

    def _paths(self, flows: Records) -> npt.NDArray[np.int32]:
        hashes = flow_hash(*(flows[f] for f in ("src_address", "dst_address", "proto", "sport", "dport")))
        return self.topology.paths(flows["src_host"], flows["dst_host"], hashes, self.down)

    def _draw(self, count: int) -> Records:
        """Flows with random end points, sizes and protocols; `next` is not set."""
        rng, hosts = self._rng, self.topology.hosts
        src = rng.integers(0, hosts, count)
        dst = (src + rng.integers(1, hosts, count)) % hosts
        udp = rng.random(count) < self.model.udp
        flows = endpoints(self.topology, src, dst, udp)
        flows["sport"] = rng.integers(32768, 61000, count)
        flows["dport"] = np.where(udp, rng.choice(UDP_PORTS, count), rng.choice(TCP_PORTS, count))
        flows["payload"] = np.where(udp, rng.choice(UDP_PAYLOADS, count), TCP_PAYLOAD)
        flows["remaining"] = self.model.sizes.draw(rng.random(count))
        on_wire = (flows["payload"].astype(float) + flows["headers"] + WIRE_OVERHEAD) / flows["payload"]
        flows["ps_per_byte"] = PS / self._flow_rate * on_wire
        flows["random"] = 1
        flows["tracked"] = rng.random(count) < self.model.tracked
        return flows


def endpoints(
    topology: Topology, src: Sequence[int] | npt.ArrayLike, dst: npt.ArrayLike, udp: npt.ArrayLike
) -> Records:
    """Flows between hosts with addresses, protocol and header sizes; the caller sets the rest."""
    source, target, is_udp = np.asarray(src), np.asarray(dst), np.asarray(udp, bool)
    flows = np.zeros(len(source), FLOW)
    flows["src_host"], flows["dst_host"] = source, target
    flows["src_address"] = topology.host_address[source]
    flows["dst_address"] = topology.host_address[target]
    flows["proto"] = np.where(is_udp, UDP, TCP)
    flows["headers"] = np.where(is_udp, UDP_HEADERS, TCP_HEADERS)
    return flows
