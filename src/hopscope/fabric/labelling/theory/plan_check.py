"""Check of a plan: its interval, simulated on a fabric whose ports have at least the plan's traffic."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ....settings.label import LabellingSettings
from ...records import PS
from ..simulation import measures
from .mean_field import labels_on_routes
from .plan import LabelDemand, LabelPlan, PlanError

if TYPE_CHECKING:
    from ...topology import Topology
    from ..simulation.counts import TrafficCounts
    from ..simulation.network import NetworkModel
    from ..simulation.simulator import LabelSimulation
    from ..simulation.sources import Sources

MAX_HOSTS = 128
"""Larger fabrics are slow to simulate, and show the same for the port with the least traffic."""
MAX_HOPS_SIMULATED = 2e8
"""Maximum simulated packet hops: about ten seconds."""
MIN_INTERVALS = 20
LINK_RATES = (1e9, 1e10, 1e11, 1e12)
"""Candidate link rates, bit/s: the lowest with at most a tenth utilisation is used."""
WARM_UP = 5
"""Minimum warm-up, telemetry intervals; longer if labels take longer to arrive."""
MAX_IN_FLIGHT_S = 5.0
"""Longest simulated time of a label in the network, s; the calendar grows with it."""
MAX_PACKETS = 500_000
"""Maximum simulated packets in flight: with 420,000 a plan took 19 s, with ten times as many, minutes."""


@dataclass(frozen=True, slots=True)
class PlanCheck:
    """Results of a simulation, and the mean-field theory for the same traffic; None: nothing to measure."""

    topology: str
    ports: int
    """Switch ports with traffic."""
    seconds: float
    """Measured simulated time."""
    coverage: float | None
    slowest: float | None
    """Coverage of the tenth of the ports with the least traffic."""
    labelled: float | None
    """Share of packets delivered with labels."""
    labelled_theory: float
    labels: float | None
    """Mean number of labels of such a packet."""
    labels_theory: float
    overhead: float | None
    """Label bytes divided by traffic bytes, on all links."""
    resolution: float | None
    """Mean time between updates of a port, s."""
    delay: float | None
    """Mean time from writing a label until the controller has it, s."""
    exports: float
    """Packets with labels per second."""


@dataclass(frozen=True, slots=True)
class _Load:
    """A fabric in which every host sends to all others, and its ports with the least traffic have the plan's
    rate.
    """

    fabric: Topology
    rate: float
    """Of each host, bit/s."""
    paths: npt.NDArray[np.int64]
    """Port rows of every route, see `_route_ports`."""
    traffic: npt.NDArray[np.float64]
    """Traffic of every port divided by that of a host."""

    @property
    def switch_ports(self) -> npt.NDArray[np.bool_]:
        return self.fabric.ports["switch"] >= 0

    @property
    def used(self) -> npt.NDArray[np.bool_]:
        """Switch ports with traffic."""
        return self.switch_ports & (self.traffic > 0)

    @property
    def switches_on_paths(self) -> npt.NDArray[np.int64]:
        """`paths` with -1 instead of the ports of hosts."""
        return np.where(self.switch_ports[self.paths] & (self.paths >= 0), self.paths, -1)


def check(plan: LabelPlan, topology: str, seconds: float, seed: int) -> PlanCheck:
    """Simulate a plan's best choice for `seconds`, or less if that takes too many packets.

    The delay of a hop is uniform around its mean. Measurement starts when labels of the first packets have
    arrived. Raises PlanError if the fabric is too large, the time too short, or delays too long.
    """
    from ..simulation.simulator import LabelSimulation
    from ..simulation.sources import from_hosts

    demand, telemetry = plan.demand, plan.demand.telemetry
    load = _load(demand, topology, seed)
    packets = load.fabric.hosts * load.rate / (8 * demand.size)
    network = _network(demand)
    warm_up, intervals = _duration(load, network, packets, telemetry, seconds)
    simulation = LabelSimulation(
        load.fabric,
        from_hosts(load.fabric, range(load.fabric.hosts), load.rate, size=demand.size, seed=seed),
        LabellingSettings(
            algorithm=demand.algorithm,
            chance=demand.chance,
            interval=plan.best.interval,
            max_hop=max(2, demand.hops),
        ),
        network=network,
        seed=seed,
        telemetry=telemetry,
    )
    simulation.run(warm_up * telemetry)
    before = simulation.counts
    simulation.run((warm_up + intervals) * telemetry)
    return _measured(plan, load, packets, simulation, before, warm_up, intervals)


def _load(demand: LabelDemand, topology: str, seed: int) -> _Load:
    """The load of a demand on this fabric. Raises PlanError if they do not fit."""
    from ...topology import parse_topology
    from ..simulation.sources import from_hosts

    fabric = parse_topology(topology)
    if fabric.hosts > MAX_HOSTS:
        raise PlanError(
            f"--topology {topology} has {fabric.hosts:,} hosts, at most {MAX_HOSTS} are simulated; use "
            "a smaller fabric, since the plan is about the port with the least traffic"
        )
    paths = _route_ports(from_hosts(fabric, range(fabric.hosts), demand.rate, seed=seed))
    traffic = np.bincount(paths[paths >= 0], minlength=len(fabric.ports)) / (fabric.hosts - 1)
    load = _Load(fabric, demand.rate, paths, traffic)
    longest = int((load.switches_on_paths >= 0).sum(axis=1).max())
    if demand.hops < longest:
        raise PlanError(
            f"--topology {topology} has paths of {longest} switches; use --hops {longest}, or a topology "
            "with shorter paths"
        )
    rate = demand.rate / float(traffic[load.used].min())
    fabric = parse_topology(topology, _link_rate(rate * float(traffic.max())))
    if (over := np.flatnonzero(traffic * rate > fabric.ports["rate"])).size:
        node = int(fabric.ports["node_id"][over[-1]])
        where = f"a port of {fabric.switch_name(node)}" if node else "a host"
        raise PlanError(
            f"--topology {topology}: {where} would send {rate * traffic[over[-1]] / 1e9:.3g} Gbit/s, more "
            "than the rate of its link: remove the rates from the file, or use a lower --rate"
        )
    return replace(load, fabric=fabric, rate=rate)


def _network(demand: LabelDemand) -> NetworkModel:
    """Hops with a demand's delays."""
    from ..simulation.network import NetworkModel

    spread = demand.sigma * np.sqrt(12)
    return NetworkModel(
        pipeline_ns=round(max(0.0, demand.delay - spread / 2) * 1e9),
        jitter_ns=round(spread * 1e9),
        mtu=max(1500, demand.size + 2 + 32 * demand.hops),
    )


def _duration(
    load: _Load, network: NetworkModel, packets: float, telemetry: float, seconds: float
) -> tuple[int, int]:
    """Telemetry intervals of the warm-up and of the measurement, with `packets` per second.

    Raises PlanError if the simulation would take too long.
    """
    # upper bound, without queues
    in_flight_s = load.paths.shape[1] * (network.pipeline_ns + network.jitter_ns) / 1e9
    if in_flight_s > MAX_IN_FLIGHT_S:
        raise PlanError(
            f"labels take up to {in_flight_s:.3g} s to arrive, and at most {MAX_IN_FLIGHT_S:g} s are "
            "simulated; use a shorter --delay or --jitter, or --topology none"
        )
    if packets * in_flight_s > MAX_PACKETS:
        raise PlanError(
            f"{packets * in_flight_s:,.0f} packets are in flight at a time, and at most {MAX_PACKETS:,} are "
            "simulated; use a shorter --delay, a lower --rate, or --topology none"
        )
    warm_up = max(WARM_UP, ceil(in_flight_s / telemetry) + 2)
    hops = float((load.paths >= 0).sum(axis=1).mean())
    affordable = MAX_HOPS_SIMULATED / (packets * hops) - warm_up * telemetry
    intervals = int(min(seconds, affordable) / telemetry + 1e-9)
    if intervals < MIN_INTERVALS:
        raise PlanError(
            f"--simulate {seconds:g}s: {intervals} telemetry intervals, expected {MIN_INTERVALS} or more"
            if seconds < affordable
            else f"at {packets:,.0f} packets per second, {MIN_INTERVALS} telemetry intervals cannot be "
            "simulated quickly; use a smaller --topology, or --topology none"
        )
    return warm_up, intervals


def _measured(
    plan: LabelPlan,
    load: _Load,
    packets: float,
    simulation: LabelSimulation,
    before: TrafficCounts,
    warm_up: int,
    intervals: int,
) -> PlanCheck:
    """What the simulation found after its warm-up, at the end of which its counts were `before`."""
    demand, telemetry = plan.demand, plan.demand.telemetry
    counts, active, received = simulation.counts, simulation.active, simulation.received
    measured = active & (np.arange(len(active)) >= warm_up)[:, None]
    by_port = measures.port_coverage(received, measured, telemetry)
    used = load.used
    slow = used & (load.traffic <= np.quantile(load.traffic[used], 0.1))
    theory = labels_on_routes(
        load.switches_on_paths,
        np.full(len(load.paths), packets / load.fabric.hosts / (load.fabric.hosts - 1)),
        plan.best.interval,
        None if demand.algorithm == "base-a" else demand.chance,
        max_hop=max(2, demand.hops),
    )
    labelled_theory = 1 - float(theory.labels[0])
    labels = received[received["received"] >= round(warm_up * telemetry * PS)]
    exports, delivered = counts.labelled - before.labelled, counts.delivered - before.delivered
    return PlanCheck(
        topology=load.fabric.name,
        ports=int(np.count_nonzero(used)),
        seconds=intervals * telemetry,
        coverage=_mean(measures.coverage(received, active, telemetry)[warm_up:]),
        slowest=_mean(by_port[slow]),
        labelled=_mean(measures.share([exports], [delivered])),
        labelled_theory=labelled_theory,
        labels=_mean(measures.share([len(labels)], [measures.labelled_packets(labels)])),
        labels_theory=float(theory.labels @ np.arange(len(theory.labels))) / labelled_theory,
        overhead=_mean(
            measures.share([counts.label_bytes - before.label_bytes], [counts.bytes - before.bytes])
        ),
        resolution=_mean(measures.resolution(labels, len(load.fabric.ports))),
        delay=_mean(measures.delay(labels)),
        exports=exports / (intervals * telemetry),
    )


def _mean(values: npt.NDArray[np.float64]) -> float | None:
    """Mean of the values that are not NaN; None without any."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None


def _route_ports(sources: Sources) -> npt.NDArray[np.int64]:
    """Port rows of every route, -1 after its end, int64 [routes, ports]."""
    at, paths = sources.starts.astype(np.int64), []
    while (at >= 0).any():
        paths.append(np.where(at >= 0, sources.routes["port"][at], -1))
        at = np.where(at >= 0, sources.routes["next"][at], -1)
    return np.stack(paths, axis=1, dtype=np.int64)


def _link_rate(fullest: float) -> int:
    """Rate of all links if the busiest one has this traffic, bit/s."""
    fitting = [rate for rate in LINK_RATES if fullest <= rate / 10]
    if not fitting:
        raise PlanError(
            f"a link would carry {fullest / 1e9:.3g} Gbit/s; use a lower --rate, which gives the same result"
        )
    return round(fitting[0])
