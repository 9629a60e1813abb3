"""All systems simulated on one fabric with the same traffic: coverage, added load, and caused loss.

In every run, each packet of traffic leaves its host at the same time and takes the same path, so if more
packets are lost than in the run without telemetry, the system has caused that loss.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from ....settings.label import LabellingSettings
from ....wire.records import Records
from ...ports import FabricError, Topology
from ..simulation import measures
from ..simulation.counts import TrafficCounts
from ..simulation.network import NetworkModel
from ..simulation.records import RECEIVED_LABEL, SourceFlag
from ..simulation.simulator import LabelSimulation
from ..simulation.sources import Sources, join
from . import hula, int_path, pingmesh
from .in_band import InBandPostcards
from .pint_traffic import DecodedPath, Digests, delivered, digest_network, reconstruct, with_digests
from .rival import ETHERNET, MIN_FRAME, Probes, between, edge_switches, probe_sources
from .sampled_int import HEADERS

IDLE = LabellingSettings(algorithm="base-a", interval=1e4)
"""Settings with which no port writes a label by interval within three hours."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """The fabric, traffic and measured times that all systems share."""

    topology: Topology
    traffic: Sources
    network: NetworkModel = field(default_factory=NetworkModel)
    interval: float = 0.05
    """T of INT-label, and interval between the probes of one generator, s."""
    telemetry: float = 0.1
    """Telemetry interval, s."""
    intervals: int = 10
    """Number of measured telemetry intervals."""
    sampled: int = 100
    """One in this many packets of a source is sampled, or marked for postcards."""
    seed: int = 1

    @property
    def seconds(self) -> float:
        """Simulated time, s; the first telemetry interval is not measured."""
        return (self.intervals + 1) * self.telemetry


@dataclass(frozen=True, slots=True)
class SystemResult:
    """Measurements of one system."""

    traffic: TrafficCounts
    probes: TrafficCounts
    link_bits: float
    """Bits per second added to links, including Ethernet headers of its own packets."""
    coverage: npt.NDArray[np.float64]
    """Share of the ports between switches that were covered, by telemetry interval. For PINT, these are the
    ports on paths that were decoded from the packets of the interval.
    """
    paths: tuple[DecodedPath, ...] = ()
    """PINT: each flow's path as decoded from the packets of the whole run."""

    @property
    def lost(self) -> float:
        """Share of traffic that was dropped."""
        return self.traffic.dropped / max(1, self.traffic.emitted)


def _coverage(scenario: Scenario, labels: Records) -> npt.NDArray[np.float64]:
    """Coverage by interval of all ports between switches, with or without traffic."""
    ports = np.zeros((scenario.intervals + 1, len(scenario.topology.ports)), bool)
    ports[:, between(scenario.topology)] = True
    return measures.coverage(labels, ports, scenario.telemetry)[1:]


def _result(
    scenario: Scenario, simulation: LabelSimulation | InBandPostcards, labels: Records
) -> SystemResult:
    own, probes = simulation.counts, simulation.probe_counts
    added = own.label_bytes + probes.label_bytes + probes.bytes + ETHERNET * probes.hops
    return SystemResult(own, probes, 8 * added / scenario.seconds, _coverage(scenario, labels))


def _simulate(
    scenario: Scenario, sources: Sources, labelling: LabellingSettings, item: int, option: int
) -> LabelSimulation:
    network = replace(scenario.network, item_bytes=item, option_bytes=option)
    simulation = LabelSimulation(
        scenario.topology,
        sources,
        labelling,
        network=network,
        seed=scenario.seed,
        telemetry=scenario.telemetry,
    )
    simulation.ports["last"] = 0  # as if every port had labelled at the start, so that IDLE writes no label
    return simulation


def run_int_label(scenario: Scenario, labelling: LabellingSettings | None = None) -> SystemResult:
    """INT-label; default: Base A with the scenario's interval."""
    labelling = labelling or LabellingSettings(algorithm="base-a", interval=scenario.interval)
    network = scenario.network
    simulation = _simulate(scenario, scenario.traffic, labelling, network.item_bytes, network.option_bytes)
    simulation.run(scenario.seconds)
    return _result(scenario, simulation, simulation.received)


def run_without_telemetry(scenario: Scenario) -> SystemResult:
    """No telemetry."""
    return run_int_label(scenario, IDLE)


def run_probes(scenario: Scenario, probes: Probes) -> SystemResult:
    """Probes of one system, with a round in each interval; a probe that is delivered covers the ports on its
    path.
    """
    size = probes.size if probes.item else max(probes.size, MIN_FRAME - ETHERNET)
    sources = probe_sources(
        scenario.topology, replace(probes, size=size), scenario.interval, seed=scenario.seed
    )
    # pings carry labels of length 0
    sources.records["flags"] = int(SourceFlag.PROBE | SourceFlag.LABEL_ALWAYS)
    simulation = _simulate(scenario, join(scenario.traffic, sources), IDLE, probes.item, 0)
    simulation.run(scenario.seconds)
    return _result(scenario, simulation, simulation.received)


def mark_sampled(scenario: Scenario) -> Sources:
    """The traffic, with sampled packets marked, so that all switches write into them."""
    records = scenario.traffic.records.copy()
    records["tracked"] = scenario.sampled
    return replace(scenario.traffic, records=records)


def run_sampled_int(scenario: Scenario) -> SystemResult:
    """Ingress-sampled INT."""
    simulation = _simulate(scenario, mark_sampled(scenario), IDLE, scenario.network.item_bytes, HEADERS)
    simulation.run(scenario.seconds)
    return _result(scenario, simulation, simulation.received)


def run_postcards(scenario: Scenario) -> SystemResult:
    """In-band postcards of as many packets as are sampled."""
    network = scenario.network
    simulation = InBandPostcards(
        scenario.topology, mark_sampled(scenario), IDLE, item=network.item_bytes,
        network=network, seed=scenario.seed, telemetry=scenario.telemetry,
    )  # fmt: skip
    simulation.simulation.ports["last"] = 0
    simulation.run(scenario.seconds)
    return _result(scenario, simulation, simulation.received)


def run_pint(
    scenario: Scenario,
    *,
    flows_from: int = 8,
    measured: int = 3,
    digests: Digests = Digests(),  # noqa: B008 - frozen
) -> SystemResult:
    """PINT on all traffic. `paths` are decoded over the whole run, for the flows of the first `flows_from`
    sources.

    Coverage is that of all flows, decoded separately in each of the first `measured` intervals.
    """
    network = digest_network(scenario.network, digests.bits)
    simulation = _simulate(scenario, with_digests(scenario.traffic), IDLE, 0, network.option_bytes)
    ids = np.array([switch.node_id for switch in scenario.topology.switches])
    inner = np.isin(np.arange(len(scenario.topology.ports)), between(scenario.topology))
    coverage, kept = [], [np.zeros(0, RECEIVED_LABEL)]
    for interval in range(scenario.intervals + 1):
        simulation.run((interval + 1) * scenario.telemetry)
        labels = simulation.take()
        kept.append(labels[labels["source"] < flows_from])
        covered = np.zeros(len(inner), bool)
        if 0 < interval <= measured:
            for flow, decoded in _decode_paths(scenario, labels, ids, digests):
                covered[flow] |= decoded.packets > 0
        coverage.append(float((covered & inner).sum() / inner.sum()))
    result = _result(scenario, simulation, np.zeros(0, RECEIVED_LABEL))
    paths = tuple(decoded for _, decoded in _decode_paths(scenario, np.concatenate(kept), ids, digests))
    return replace(result, coverage=np.array(coverage[1 : measured + 1]), paths=paths)


def _decode_paths(
    scenario: Scenario, labels: Records, ids: npt.NDArray[np.int64], digests: Digests
) -> list[tuple[npt.NDArray[np.int64], DecodedPath]]:
    """The ports of each flow, and its path as decoded by PINT; wrong paths count as not decoded."""
    found = []
    for flow in delivered(labels):
        nodes = scenario.topology.ports["node_id"][flow.ports]
        decoded = reconstruct(flow.numbers, digests.written(flow.numbers, nodes), len(nodes), ids, digests)
        if decoded.packets and decoded.switches != tuple(nodes.tolist()):
            decoded = replace(decoded, packets=0)
        found.append((flow.ports, decoded))
    return found


def _trails(topology: Topology, network: NetworkModel) -> Probes:
    """INT-path's trails in both directions, so that both ports of each link are observed; they are split to
    fit the MTU.
    """
    return int_path.probes(topology, both_directions=True, max_hops=int_path.hops_for_mtu(network.mtu))


SYSTEMS: dict[str, Callable[[Scenario], SystemResult]] = {
    "INT-label, Base A": run_int_label,
    "INT-label, Base B": lambda scenario: run_int_label(
        scenario, LabellingSettings(interval=scenario.interval)
    ),
    "INT-path, both ways": lambda scenario: run_probes(
        scenario, _trails(scenario.topology, scenario.network)
    ),
    "HULA": lambda scenario: run_probes(scenario, hula.probes(scenario.topology)),
    "Pingmesh": lambda scenario: run_probes(scenario, pingmesh.probes(scenario.topology)),
    "ingress-sampled INT": run_sampled_int,
    "postcards, in-band": run_postcards,
    "PINT": run_pint,
}
"""Functions that run each system, by name."""


def generators(name: str, scenario: Scenario) -> int:
    """Number of switches or servers that send probes. Raises FabricError for an unknown system."""
    if name not in SYSTEMS:
        raise FabricError(f"unknown system {name!r}; known are {', '.join(SYSTEMS)}")
    if name.startswith("INT-path"):
        firsts = [port for port, _ in _trails(scenario.topology, scenario.network).routes]
        return len(np.unique(scenario.topology.ports["switch"][firsts]))
    counts = {"HULA": edge_switches, "Pingmesh": pingmesh.generators}
    return counts[name](scenario.topology) if name in counts else 0
