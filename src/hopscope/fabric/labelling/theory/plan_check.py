"""A plan tried: the chosen interval, simulated on a fabric whose ports have at least the plan's traffic."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ....settings.label import LabellingSettings
from ...records import PS
from ..simulation import measures
from .mean_field import labels_on_routes
from .plan import LabelPlan, PlanError

if TYPE_CHECKING:
    from ..simulation.sources import Sources

MAX_HOSTS = 128
"""Larger fabrics are no quick simulation, and say nothing else about the port that has least."""
MAX_HOPS_SIMULATED = 2e8
"""Packet hops that are simulated at most: some ten seconds."""
MIN_INTERVALS = 20
LINK_RATES = (1e9, 1e10, 1e11, 1e12)
"""Links are the slowest of these that traffic fills by a tenth at most, bit/s."""
WARM_UP = 5
"""Telemetry intervals that are not measured at least; more where labels are longer under way."""
MAX_IN_FLIGHT_S = 5.0
"""Longest time of a label in the network that is simulated, s: the calendar grows with it."""
MAX_PACKETS = 500_000
"""Packets under way at a time that are simulated: with 420,000 a plan took 19 s, with ten times as many
minutes.
"""


@dataclass(frozen=True, slots=True)
class PlanCheck:
    """What a simulation has found, and theory's mean field for the same traffic; None: nothing to measure."""

    topology: str
    ports: int
    """Switch ports with traffic."""
    seconds: float
    """Measured."""
    coverage: float | None
    slowest: float | None
    """Coverage of the tenth of the ports that have least traffic."""
    labelled: float | None
    """Share of packets that arrive with labels."""
    labelled_theory: float
    labels: float | None
    """Labels of such a packet, mean."""
    labels_theory: float
    overhead: float | None
    """Bytes of labels over bytes of traffic, on all links."""
    resolution: float | None
    """Time between updates of a port, mean over ports, s."""
    delay: float | None
    """From a label until the controller has it, mean, s."""
    exports: float
    """Packets with labels a second."""


def check(plan: LabelPlan, topology: str, seconds: float, seed: int) -> PlanCheck:
    """Simulate a plan's best choice for so long, or less where it would take too many packets.

    Every host sends to all others.  The delay of a hop is spread evenly around its mean.  Measured is once
    labels of the first packets have arrived.  PlanError: the fabric is too large, the time too short, or
    labels too long under way.
    """
    from ...topology import parse_topology
    from ..simulation.network import NetworkModel
    from ..simulation.simulator import LabelSimulation
    from ..simulation.sources import from_hosts

    demand, interval = plan.demand, plan.best.interval
    fabric = parse_topology(topology)
    if fabric.hosts > MAX_HOSTS:
        raise PlanError(
            f"--topology {topology} has {fabric.hosts:,} hosts: at most {MAX_HOSTS} are simulated; take a "
            "smaller fabric, the plan is about the port with the least traffic wherever it is"
        )
    hosts = range(fabric.hosts)
    ways = _ways(from_hosts(fabric, hosts, demand.rate, seed=seed))
    switch = fabric.ports["switch"] >= 0
    longest = int((switch[ways] & (ways >= 0)).sum(axis=1).max())
    if demand.hops < longest:
        raise PlanError(
            f"--topology {topology} has ways over {longest} switches: give --hops {longest}, or a topology "
            "with shorter ways"
        )
    each = np.bincount(ways[ways >= 0], minlength=len(switch)) / (fabric.hosts - 1)
    used = switch & (each > 0)
    rate = demand.rate / float(each[used].min())
    fabric = parse_topology(topology, _link_rate(rate * float(each.max())))
    packets = fabric.hosts * rate / (8 * demand.size)
    telemetry = demand.telemetry
    spread = demand.sigma * np.sqrt(12)
    network = NetworkModel(
        pipeline_ns=round(max(0.0, demand.delay - spread / 2) * 1e9),
        jitter_ns=round(spread * 1e9),
        mtu=max(1500, demand.size + 2 + 32 * demand.hops),
    )
    underway = ways.shape[1] * (network.pipeline_ns + network.jitter_ns) / 1e9  # at most, but for queues
    warm_up = max(WARM_UP, ceil(underway / telemetry) + 2)
    affordable = MAX_HOPS_SIMULATED / (packets * float((ways >= 0).sum(axis=1).mean()))
    if underway > MAX_IN_FLIGHT_S:
        raise PlanError(
            f"labels are up to {underway:.3g} s under way, and at most {MAX_IN_FLIGHT_S:g} s are simulated: "
            "give a shorter --delay or --jitter, or --topology none"
        )
    if packets * underway > MAX_PACKETS:
        raise PlanError(
            f"{packets * underway:,.0f} packets are under way at a time, and at most {MAX_PACKETS:,} are "
            "simulated: give a shorter --delay, a lower --rate, or --topology none"
        )
    intervals = int(min(seconds, affordable - warm_up * telemetry) / telemetry + 1e-9)
    if intervals < MIN_INTERVALS:
        raise PlanError(
            f"--simulate {seconds:g}s: {intervals} telemetry intervals, expected {MIN_INTERVALS} or more"
            if seconds < affordable - warm_up * telemetry
            else f"at {packets:,.0f} packets a second {MIN_INTERVALS} telemetry intervals cannot be "
            "simulated quickly: take a smaller --topology, or --topology none"
        )
    labelling = LabellingSettings(
        algorithm=demand.algorithm, chance=demand.chance, interval=interval, max_hop=max(2, demand.hops)
    )
    simulation = LabelSimulation(
        fabric, from_hosts(fabric, hosts, rate, size=demand.size, seed=seed), labelling,
        network=network, seed=seed, telemetry=telemetry,
    )  # fmt: skip
    simulation.run(warm_up * telemetry)
    before = simulation.counts
    simulation.run((warm_up + intervals) * telemetry)
    counts, active, received = simulation.counts, simulation.active, simulation.received
    measured = active & (np.arange(len(active)) >= warm_up)[:, None]
    by_port = measures.port_coverage(received, measured, telemetry)
    slow = used & (each <= np.quantile(each[used], 0.1))
    chance = None if demand.algorithm == "base-a" else demand.chance
    theory = labels_on_routes(
        np.where(switch[ways] & (ways >= 0), ways, -1),
        np.full(len(ways), rate / (8 * demand.size) / (fabric.hosts - 1)),
        interval, chance, max_hop=max(2, demand.hops),
    )  # fmt: skip
    labels = received[received["received"] >= round(warm_up * telemetry * PS)]
    exports, delivered = counts.labelled - before.labelled, counts.delivered - before.delivered
    found = 1 - float(theory.labels[0])
    return PlanCheck(
        topology=fabric.name,
        ports=int(np.count_nonzero(used)),
        seconds=intervals * telemetry,
        coverage=_mean(measures.coverage(received, active, telemetry)[warm_up:]),
        slowest=_mean(by_port[slow]),
        labelled=_mean(measures.share([exports], [delivered])),
        labelled_theory=found,
        labels=_mean(measures.share([len(labels)], [measures.labelled_packets(labels)])),
        labels_theory=float(theory.labels @ np.arange(len(theory.labels))) / found,
        overhead=_mean(
            measures.share([counts.label_bytes - before.label_bytes], [counts.bytes - before.bytes])
        ),
        resolution=_mean(measures.resolution(labels, len(switch))),
        delay=_mean(measures.delay(labels)),
        exports=exports / (intervals * telemetry),
    )


def _mean(values: npt.NDArray[np.float64]) -> float | None:
    """Of the values that there are, None without any."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None


def _ways(sources: Sources) -> npt.NDArray[np.int64]:
    """Port rows of every route, -1 behind its end, int64 [routes, ports]."""
    at, ways = sources.starts.astype(np.int64), []
    while (at >= 0).any():
        ways.append(np.where(at >= 0, sources.routes["port"][at], -1))
        at = np.where(at >= 0, sources.routes["next"][at], -1)
    return np.stack(ways, axis=1)


def _link_rate(fullest: float) -> int:
    """Rate of all links where the fullest has this traffic, bit/s."""
    fitting = [rate for rate in LINK_RATES if fullest <= rate / 10]
    if not fitting:
        raise PlanError(
            f"a link would carry {fullest / 1e9:.3g} Gbit/s: a lower --rate is simulated the same"
        )
    return round(fitting[0])
