"""Labels by packet, measured in the simulation, beside what theory says of the same traffic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hopscope.fabric.labelling.simulation.simulator import LabelSimulation
from hopscope.fabric.labelling.simulation.sources import Sources, from_hosts
from hopscope.fabric.labelling.theory import closed_forms as theory
from hopscope.fabric.labelling.theory.mean_field import MeanField, labels_on_fat_tree, labels_on_routes
from hopscope.fabric.topology import FatTree, Topology
from hopscope.settings.label import LabellingSettings

INTERVAL = 0.05
SIZE = 1000
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Measured:
    """Shares of delivered packets after the first intervals."""

    labels: Floats
    """P(Z = s), [6]."""
    unlabelled: Floats
    """P(Z = 0) by switches passed, [6]; NaN where there were none."""
    packets: int
    share: Floats
    """Share of its packets that each port labelled, [ports]; NaN where none passed."""
    passed: npt.NDArray[np.int64]
    """Packets by port."""


def labelling(chance: str | None, max_hop: int = 5, rest: float = 0.0) -> LabellingSettings:
    """Base A, or Base B with a chance by name."""
    if chance is None:
        return LabellingSettings(algorithm="base-a", interval=INTERVAL)
    return LabellingSettings(
        algorithm="base-b", interval=INTERVAL, chance=chance, max_hop=max_hop, rest=rest  # type: ignore[arg-type]
    )  # fmt: skip


def traffic(topology: Topology, ratio: float, senders: int | None = None, **how: Any) -> Sources:
    """Hosts whose mean packet gap is `ratio` T, to random others."""
    hosts = range(topology.hosts) if senders is None else range(senders)
    return from_hosts(topology, hosts, SIZE * 8 / (ratio * INTERVAL), size=SIZE, **how)


def measure(
    topology: Topology,
    sources: Sources,
    settings: LabellingSettings,
    packets: int,
    *,
    chance: Any = None,
    together: bool = False,
) -> Measured:
    """Run for 10 intervals, in which ports get into their rhythm, and until `packets` more have been sent.

    Ports begin at random in their interval; `together`: none has labelled yet, so that all begin with the
    first packets, as switches do that are started at once.
    """
    pace = float((1e12 / sources.records["gap"]).sum())
    simulation = LabelSimulation(topology, sources, settings, chance=chance)
    if not together:
        phases = np.random.default_rng(1).random(len(simulation.ports))
        simulation.ports["last"] = -(phases * INTERVAL * 1e12).astype(np.int64)
    simulation.run(10 * INTERVAL)
    before = simulation.histogram.copy(), simulation.ports.copy()
    simulation.run(10 * INTERVAL + max(packets / pace, 4 * INTERVAL))
    counts = (simulation.histogram - before[0])[:6, :6].astype(np.float64)
    passed = simulation.ports["packets"] - before[1]["packets"]
    written = simulation.ports["labels"] - before[1]["labels"]
    with np.errstate(invalid="ignore", divide="ignore"):
        return Measured(
            counts.sum(axis=0) / counts.sum(), counts[:, 0] / counts.sum(axis=1), int(counts.sum()),
            written / passed, passed,
        )  # fmt: skip


def forms(k: int, ratio: float, chance: str | None) -> dict[str, Floats]:
    """What the formulas say of random traffic on a fat tree, by name."""
    if chance is None:
        return {
            "paper": theory.labels_base_a(k, ratio),
            "ports with memory": labels_on_fat_tree(k, ratio, None).labels,
        }
    return {
        "paper, linear g": theory.labels_base_b(k, ratio, chance, "linear"),
        "paper, renewal g": theory.labels_base_b(k, ratio, chance, "renewal"),
        "ports with memory": labels_on_fat_tree(k, ratio, chance).labels,
    }


def on_these_routes(topology: Topology, sources: Sources, chance: str | None) -> MeanField:
    """The mean field of exactly this traffic: what is left to differ is that ports are not independent."""
    paths = topology.paths(sources.pairs[:, 0], sources.pairs[:, 1], sources.hashes)[:, 1:]
    records = sources.records
    rates = np.repeat(1e12 / records["gap"] / records["routes_count"], records["routes_count"])
    return labels_on_routes(paths, rates, INTERVAL, chance)


def apart(one: Floats, other: Floats) -> float:
    """Largest difference in probability."""
    most = max(len(one), len(other))
    return float(
        np.abs(np.resize(np.r_[one, np.zeros(most)], most) - np.r_[other, np.zeros(most)][:most]).max()
    )


def towards_hosts(topology: FatTree) -> npt.NDArray[np.int64]:
    """Ports of edge switches to hosts, which all see packets at the rate of one host."""
    return topology.host_port
