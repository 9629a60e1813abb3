"""Faults: what they change, and what they leave alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hopscope.fabric.faults import Fault, FaultKind, make_fault, parse_fault
from hopscope.fabric.queueing import LinkModel
from hopscope.fabric.simulation import Simulation, SimulationModel
from hopscope.fabric.topology import FabricError, FatTree, LeafSpine, Topology
from hopscope.fabric.traffic import TrafficModel
from hopscope.wire.records import Records
from support.events.port_truth import dropped_at, highest_occupancy

TREE = FatTree(4)
CALM = SimulationModel(traffic=TrafficModel(flows=300, load=0.3), reports_per_second=0, seed=4)
"""Every packet of every flow is reported."""


def hops_of(simulation: Simulation, begin: float, end: float) -> Records:
    """HOP rows of the INT reports of a span of time."""
    parts = []
    if simulation.now < begin:
        simulation.step(begin)
    while simulation.now < end - 1e-9:
        batch = simulation.step(min(end, simulation.now + 0.01))
        own = batch.reports["first_hop"][batch.reports["drop_reason"] > 0]
        parts.append(np.delete(batch.hops, own))
    return np.concatenate(parts)


def paths_of(simulation: Simulation) -> dict[int, list[int]]:
    """The path of every active flow, by its serial number."""
    flows = simulation.traffic.table
    rows = np.flatnonzero(flows["active"])
    return dict(zip(flows["serial"][rows].tolist(), simulation.traffic.paths[rows].tolist(), strict=True))


def at(hops: Records, fault: Fault) -> Records:
    return hops[(hops["node_id"] == fault.node_id) & (hops["egress_port"] == fault.number)]


def elsewhere(hops: Records, fault: Fault) -> Records:
    return hops[(hops["node_id"] != fault.node_id) | (hops["egress_port"] != fault.number)]


@pytest.mark.kernel
def test_slow_hop() -> None:
    """Latency rises by the delay at its port, while it lasts, and nowhere else."""
    fault = make_fault(TREE, FaultKind.SLOW_HOP, 0.05, "core-1", 2, 0.05, delay_ns=1_500_000)
    simulation = Simulation(TREE, replace(CALM, faults=(fault,)))
    before, during = hops_of(simulation, 0.0, 0.05), hops_of(simulation, 0.06, 0.1)
    after = hops_of(simulation, 0.11, 0.14)
    assert at(before, fault)["hop_latency"].max() < 200_000
    assert at(during, fault)["hop_latency"].min() >= 1_500_000
    assert elsewhere(during, fault)["hop_latency"].max() < 300_000
    assert at(after, fault)["hop_latency"].max() < 200_000


@pytest.mark.kernel
def test_lossy_port() -> None:
    """The share lost at the port is as stated (within three deviations); nothing is lost elsewhere."""
    fault = make_fault(TREE, FaultKind.LOSSY_PORT, 0.05, "agg-1-0", 1, 0.2, loss=0.05)
    simulation = Simulation(TREE, replace(CALM, faults=(fault,)))
    simulation.step(0.05)
    assert dropped_at(simulation) == {}
    sent = int(simulation.network.ports["packets"][fault.port])
    simulation.step(0.25)
    lost = dropped_at(simulation)
    assert set(lost) == {(fault.node_id, fault.number)}
    total = lost[fault.node_id, fault.number] + int(simulation.network.ports["packets"][fault.port]) - sent
    mean, deviation = 0.05 * total, (0.05 * 0.95 * total) ** 0.5
    assert abs(lost[fault.node_id, fault.number] - mean) < 3 * deviation
    simulation.step(0.3)
    assert dropped_at(simulation) == lost


@pytest.mark.kernel
def test_drop_reports_name_the_port() -> None:
    """Each drop becomes a report with node, port, queue and reason."""
    fault = make_fault(TREE, FaultKind.LOSSY_PORT, 0.01, "agg-1-0", 1, 0.1, loss=0.02)
    simulation = Simulation(TREE, replace(CALM, faults=(fault,)))
    batch = simulation.step(0.12)
    drops = batch.reports[batch.reports["drop_reason"] > 0]
    assert len(drops) == simulation.truth.dropped > 10
    assert set(drops["drop_reason"]) == {200}
    assert set(drops["node_id"]) == {fault.node_id}
    assert set(drops["queue_id"]) == {fault.number}
    own = batch.hops[drops["first_hop"]]
    assert set(own["egress_port"]) == {fault.number}
    assert not drops["hop_count"].any()


@pytest.mark.kernel
def test_path_change() -> None:
    """While the link is down no packet that is sent uses it; its flows move, and move back."""
    fault = make_fault(TREE, FaultKind.PATH_CHANGE, 0.05, "agg-0-0", 3, 0.05)
    simulation = Simulation(TREE, replace(CALM, faults=(fault,)))
    reverse = int(TREE.ports["reverse"][fault.port])
    simulation.step(0.05)
    before = paths_of(simulation)
    simulation.step(0.0501)
    after = paths_of(simulation)
    both = before.keys() & after.keys()
    moved = {serial for serial in both if before[serial] != after[serial]}
    used = {serial for serial in both if {fault.port, reverse} & set(before[serial])}
    assert used
    assert moved == used
    assert simulation.truth.rerouted == len(moved)
    during = at(hops_of(simulation, 0.06, 0.1), fault)
    assert len(during) == 0
    assert len(at(hops_of(simulation, 0.105, 0.13), fault)) > 0


@pytest.mark.kernel
@pytest.mark.parametrize("topology", [TREE, LeafSpine(4, 2)], ids=lambda t: t.name)
def test_microburst(topology: Topology) -> None:
    """Incast fills the port's queue to about the asked share of its buffer, and no other queue near it."""
    fault = make_fault(topology, FaultKind.MICROBURST, 0.05, 1, 2, 0.1, fill=0.4)
    simulation = Simulation(topology, replace(CALM, faults=(fault,), reports_per_second=5000))
    simulation.step(0.05)
    assert max(highest_occupancy(simulation).values()) < 50_000
    simulation.step(0.2)
    highest = highest_occupancy(simulation)
    assert 0.25 * 1_500_000 < highest.pop((1, 2)) < 0.6 * 1_500_000
    assert max(highest.values()) < 150_000
    simulation.step(0.25)
    assert max(highest_occupancy(simulation).values()) < 50_000


@pytest.mark.kernel
@pytest.mark.parametrize(("node", "port"), [("core-0", 2), ("agg-1-0", 1), ("agg-1-0", 3), ("edge-1-0", 3)])
def test_microburst_on_inner_ports(node: str, port: int) -> None:
    """A port between switches can have a microburst too, and is the fullest queue by far."""
    fault = make_fault(TREE, FaultKind.MICROBURST, 0.01, node, port, 0.06)
    simulation = Simulation(TREE, replace(CALM, faults=(fault,), reports_per_second=5000))
    simulation.step(0.06)
    highest = highest_occupancy(simulation)
    there = highest.pop((fault.node_id, fault.number))
    assert there > 300_000
    assert there > 2 * max(highest.values())


@pytest.mark.kernel
def test_tail_drop() -> None:
    """A burst beyond the buffer is cut: the drops are the port's, with the traffic manager's reason."""
    fault = make_fault(TREE, FaultKind.MICROBURST, 0.01, 1, 1, 0.1, fill=2.0)
    model = replace(CALM, faults=(fault,), link=LinkModel(buffer_bytes=200_000))
    simulation = Simulation(TREE, model)
    batch = simulation.step(0.1)
    drops = batch.reports[batch.reports["drop_reason"] > 0]
    assert set(drops["drop_reason"]) == {71}
    assert set(dropped_at(simulation)) == {(1, 1)}
    assert highest_occupancy(simulation)[1, 1] <= 200_000


def test_parse() -> None:
    """A fault as it is written on the command line."""
    fault = parse_fault(TREE, "lossy-port@2.5,node=agg-1-0,port=2,duration=3,loss=0.2")
    assert (fault.kind, fault.start, fault.end, fault.loss) == (FaultKind.LOSSY_PORT, 2.5, 5.5, 0.2)
    assert (fault.node_id, fault.number) == (11, 2)
    assert str(fault) == "lossy-port at agg-1-0 port 2 (to edge-1-1)"
    assert parse_fault(TREE, "slow-hop@1,node=17,port=1,delay=2.5").delay_ns == 2_500_000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("flood@1,node=1,port=1", "expected microburst"),
        ("microburst", "expected microburst"),
        ("microburst@x,node=1,port=1", "expected microburst"),
        ("microburst@1,node=1", "expected microburst"),
        ("microburst@1,node=1,port=1,size=4", "unknown option 'size'"),
        ("microburst@1,node=nobody,port=1", "has no switch 'nobody'"),
        ("microburst@1,node=1,port=9", "has no port 9"),
        ("path-change@1,node=1,port=1", "leads to a host"),
        ("lossy-port@1,node=1,port=1,loss=2", "loss is a share"),
        ("slow-hop@1,node=1,port=1,duration=0", "lasts longer than 0"),
    ],
)
def test_impossible_faults(text: str, message: str) -> None:
    """Each mistake is reported in a line."""
    with pytest.raises(FabricError, match=message):
        parse_fault(TREE, text)


@pytest.mark.kernel
def test_faults_that_cut_hosts_off() -> None:
    """Two links that fail together and leave no way are rejected; one after the other they are not."""
    topology = LeafSpine(2, 2)
    one = make_fault(topology, "path-change", 1.0, "leaf-0", 5, 1.0)
    with pytest.raises(FabricError, match="some hosts have no path left"):
        Simulation(
            topology, SimulationModel(faults=(one, make_fault(topology, "path-change", 1.5, 1, 6, 1.0)))
        )
    Simulation(topology, SimulationModel(faults=(one, make_fault(topology, "path-change", 2.5, 1, 6, 1.0))))
