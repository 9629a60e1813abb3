"""The simulation of INT-label: packets are conserved, and results do not depend on how time is cut."""

from __future__ import annotations

import numpy as np
import pytest

from hopscope.fabric.labelling.simulation.network import NetworkModel
from hopscope.fabric.labelling.simulation.simulator import LabelSimulation
from hopscope.fabric.labelling.simulation.sources import uniform
from hopscope.fabric.topology import parse_topology
from hopscope.settings.label import LabellingSettings

pytestmark = pytest.mark.kernel


def simulation(loss: float = 0.0) -> LabelSimulation:
    topology = parse_topology("fat-tree:4")
    labelling = LabellingSettings(interval=0.002, algorithm="base-b", chance="f2")
    sources = uniform(topology, 200e6)
    return LabelSimulation(
        topology, sources, labelling, network=NetworkModel(loss=loss, jitter_ns=500), telemetry=0.004
    )


def test_packets_and_labels_are_conserved() -> None:
    """What was sent has arrived, was dropped, or is in flight; so it is with labels."""
    sim = simulation(loss=0.01)
    sim.run(0.02)
    counts, (packets, labels) = sim.counts, sim.in_flight
    assert counts.emitted == counts.delivered + counts.dropped + packets > 0
    logged = len(sim.received) + len(sim._exported)
    assert counts.labels == logged + counts.labels_lost + labels
    assert counts.labels_lost > 0
    assert sim.active.shape == (5, len(sim.topology.ports))


def test_a_run_in_pieces_is_the_same() -> None:
    """Cut anywhere, in buckets too, the controller hears the same at the same times."""
    whole, pieces = simulation(), simulation()
    whole.run(0.012)
    for until in (1e-9, 0.0012345, 0.0012345678, 0.004, 0.0099999, 0.012):
        pieces.run(until)
    assert whole.counts == pieces.counts
    assert np.array_equal(whole.received, pieces.received)
    assert np.array_equal(whole.ports, pieces.ports)
