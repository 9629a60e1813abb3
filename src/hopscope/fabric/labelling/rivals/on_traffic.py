"""All systems in the simulation, on one fabric beside the same traffic: what they see, add, and make it lose.

Every packet of traffic leaves its host at the same time and takes the same way, whatever the system: so the
loss above that of the run without telemetry is the system's.
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
from ..simulation.counts import Counts
from ..simulation.network import NetworkModel
from ..simulation.records import LABELLED, SourceFlag
from ..simulation.simulator import LabelSimulation
from ..simulation.sources import Sources, join
from . import hula, int_path, pingmesh
from .in_band import InBandPostcards
from .pint_traffic import Digests, Known, delivered, digest_network, reconstruct, with_digests
from .rival import ETHERNET, SHORTEST, Probes, between
from .sampled_int import HEADERS
from .sources import probe_sources

IDLE = LabellingSettings(algorithm="base-a", interval=1e4)
"""Labels nothing by itself within three hours."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What all systems have in common."""

    topology: Topology
    traffic: Sources
    network: NetworkModel = field(default_factory=NetworkModel)
    interval: float = 0.05
    """T of INT-label, and time between the probes of one generator, s."""
    telemetry: float = 0.1
    """Telemetry interval, s."""
    intervals: int = 10
    """Telemetry intervals that are judged."""
    sampled: int = 100
    """Every so many packets of a source one is sampled, or marked for postcards."""
    seed: int = 1

    @property
    def seconds(self) -> float:
        """Simulated time: one telemetry interval for all to begin in is not judged."""
        return (self.intervals + 1) * self.telemetry


@dataclass(frozen=True, slots=True)
class Seen:
    """What one system did."""

    traffic: Counts
    probes: Counts
    link_bits: float
    """Added to links, a second, Ethernet headers of its own packets too."""
    coverage: npt.NDArray[np.float64]
    """Share of the ports between switches that were covered, by telemetry interval; PINT: that lie on ways
    which were put together out of the interval's packets."""
    ways: tuple[Known, ...] = ()
    """PINT: what the whole run's packets tell of each flow."""

    @property
    def lost(self) -> float:
        """Share of traffic that was dropped."""
        return self.traffic.dropped / max(1, self.traffic.emitted)


def _coverage(scene: Scene, labels: Records) -> npt.NDArray[np.float64]:
    """By interval, of all ports between switches, with traffic or not."""
    ports = np.zeros((scene.intervals + 1, len(scene.topology.ports)), bool)
    ports[:, between(scene.topology)] = True
    return measures.coverage(labels, ports, scene.telemetry)[1:]


def _seen(scene: Scene, simulation: LabelSimulation | InBandPostcards, labels: Records) -> Seen:
    own, probes = simulation.counts, simulation.probe_counts
    added = own.label_bytes + probes.label_bytes + probes.bytes + ETHERNET * probes.hops
    return Seen(own, probes, 8 * added / scene.seconds, _coverage(scene, labels))


def _simulate(
    scene: Scene, sources: Sources, labelling: LabellingSettings, item: int, option: int
) -> LabelSimulation:
    network = replace(scene.network, item_bytes=item, option_bytes=option)
    simulation = LabelSimulation(
        scene.topology, sources, labelling, network=network, seed=scene.seed, telemetry=scene.telemetry
    )
    simulation.ports["last"] = 0  # as if every port had labelled at the beginning: IDLE is idle
    return simulation


def labelled(scene: Scene, labelling: LabellingSettings | None = None) -> Seen:
    """INT-label; Base A of the scene's interval where nothing else is given."""
    labelling = labelling or LabellingSettings(algorithm="base-a", interval=scene.interval)
    network = scene.network
    simulation = _simulate(scene, scene.traffic, labelling, network.item_bytes, network.option_bytes)
    simulation.run(scene.seconds)
    return _seen(scene, simulation, simulation.received)


def untouched(scene: Scene) -> Seen:
    """No telemetry."""
    return labelled(scene, IDLE)


def probed(scene: Scene, probes: Probes) -> Seen:
    """Probes of one system, a round every interval; a port is covered by each that arrives behind it."""
    size = probes.size if probes.item else max(probes.size, SHORTEST - ETHERNET)
    sources = probe_sources(scene.topology, replace(probes, size=size), scene.interval, seed=scene.seed)
    sources.records["flags"] = int(SourceFlag.PROBE | SourceFlag.ALWAYS)  # (pings carry labels of no length)
    simulation = _simulate(scene, join(scene.traffic, sources), IDLE, probes.item, 0)
    simulation.run(scene.seconds)
    return _seen(scene, simulation, simulation.received)


def sampling(scene: Scene) -> Sources:
    """The traffic, every so many packets of which all switches write into."""
    records = scene.traffic.records.copy()
    records["tracked"] = scene.sampled
    return replace(scene.traffic, records=records)


def sampled(scene: Scene) -> Seen:
    """Ingress-sampled INT."""
    simulation = _simulate(scene, sampling(scene), IDLE, scene.network.item_bytes, HEADERS)
    simulation.run(scene.seconds)
    return _seen(scene, simulation, simulation.received)


def postcards(scene: Scene, *, collector: int = 0) -> Seen:
    """Postcards of marked packets, in-band, as many packets as are sampled."""
    cards = InBandPostcards(
        scene.topology, sampling(scene), IDLE, collector=collector, item=scene.network.item_bytes,
        network=scene.network, seed=scene.seed, telemetry=scene.telemetry,
    )  # fmt: skip
    cards.simulation.ports["last"] = 0
    cards.run(scene.seconds)
    return _seen(scene, cards, cards.received)


def pint(
    scene: Scene,
    *,
    flows_from: int = 8,
    judged: int = 3,
    how: Digests = Digests(),  # noqa: B008 - frozen
) -> Seen:
    """PINT on all traffic; `ways` of the flows of some sources, over the whole run.

    Coverage is of all flows, each by the packets alone that arrived in the interval, and of the first
    `judged` intervals.
    """
    network = digest_network(scene.network, how.bits)
    simulation = _simulate(scene, with_digests(scene.traffic), IDLE, 0, network.option_bytes)
    ids = np.array([switch.node_id for switch in scene.topology.switches])
    inner = np.isin(np.arange(len(scene.topology.ports)), between(scene.topology))
    coverage, kept = [], [np.zeros(0, LABELLED)]
    for interval in range(scene.intervals + 1):
        simulation.run((interval + 1) * scene.telemetry)
        labels = simulation.take()
        kept.append(labels[labels["source"] < flows_from])
        covered = np.zeros(len(inner), bool)
        if 0 < interval <= judged:
            for flow, known in _traced(scene, labels, ids, how):
                covered[flow] |= known.packets > 0
        coverage.append(float((covered & inner).sum() / inner.sum()))
    seen = _seen(scene, simulation, np.zeros(0, LABELLED))
    ways = tuple(known for _, known in _traced(scene, np.concatenate(kept), ids, how))
    return replace(seen, coverage=np.array(coverage[1 : judged + 1]), ways=ways)


def _traced(
    scene: Scene, labels: Records, ids: npt.NDArray[np.int64], how: Digests
) -> list[tuple[npt.NDArray[np.int64], Known]]:
    """Each flow's ports, and what PINT knows of its way; wrong ways count as unknown."""
    found = []
    for flow in delivered(labels):
        nodes = scene.topology.ports["node_id"][flow.ports]
        known = reconstruct(flow.numbers, how.written(flow.numbers, nodes), len(nodes), ids, how)
        if known.packets and known.switches != tuple(nodes.tolist()):
            known = replace(known, packets=0)
        found.append((flow.ports, known))
    return found


def _trails(topology: Topology, network: NetworkModel) -> Probes:
    """INT-path's there and back, so that both ports of a link are seen, cut to what fits into the MTU."""
    return int_path.probes(topology, both_ways=True, most=int_path.hops_in(network.mtu))


SYSTEMS: dict[str, Callable[[Scene], Seen]] = {
    "INT-label, Base A": labelled,
    "INT-label, Base B": lambda scene: labelled(scene, LabellingSettings(interval=scene.interval)),
    "INT-path, both ways": lambda scene: probed(scene, _trails(scene.topology, scene.network)),
    "HULA": lambda scene: probed(scene, hula.probes(scene.topology)),
    "Pingmesh": lambda scene: probed(scene, pingmesh.probes(scene.topology)),
    "ingress-sampled INT": sampled,
    "postcards, in-band": postcards,
    "PINT": pint,
}
"""By name."""


def generators(name: str, scene: Scene) -> int:
    """Switches or servers from which probes start; FabricError: there is no such system."""
    if name not in SYSTEMS:
        raise FabricError(f"{name!r} is none of {', '.join(SYSTEMS)}")
    if name.startswith("INT-path"):
        firsts = [port for port, _ in _trails(scene.topology, scene.network).routes]
        return len(np.unique(scene.topology.ports["switch"][firsts]))
    counts = {"HULA": hula.generators, "Pingmesh": pingmesh.generators}
    return counts[name](scene.topology) if name in counts else 0
