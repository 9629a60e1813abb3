"""Other systems in the simulation next to traffic, against closed forms and what is known by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hopscope.fabric.labelling.rivals import RIVALS, on_traffic, pint, postcards, sampled_int
from hopscope.fabric.labelling.rivals.in_band import InBandPostcards, paths_to
from hopscope.fabric.labelling.rivals.on_traffic import IDLE, SYSTEMS, Scenario
from hopscope.fabric.labelling.rivals.pint_traffic import (
    Digests,
    delivered,
    digest_network,
    reconstruct,
    with_digests,
)
from hopscope.fabric.labelling.rivals.rival import between
from hopscope.fabric.labelling.simulation.network import NetworkModel
from hopscope.fabric.labelling.simulation.records import LABEL_NODE, SourceFlag
from hopscope.fabric.labelling.simulation.simulator import LabelSimulation
from hopscope.fabric.labelling.simulation.sources import uniform
from hopscope.fabric.topology import FabricError, FatTree, parse_topology
from hopscope.settings.label import LabellingSettings

pytestmark = pytest.mark.kernel
TREE = FatTree(4, 20_000_000)
ROUNDS = 5


def scene(**changes: object) -> Scenario:
    """A fat tree of 20 Mbit/s, at a third of its load."""
    traffic = uniform(TREE, 7e6, flows=4)
    return replace(Scenario(TREE, traffic, intervals=ROUNDS, sampled=40), **changes)  # type: ignore[arg-type]


def test_sampled_packets_agree_with_their_closed_form() -> None:
    """As many samples as the run took: their bits and the share of ports they pass."""
    here = scene(intervals=40)
    seen = on_traffic.run_sampled_int(here)
    samples = seen.traffic.emitted / here.sampled / (here.seconds / here.telemetry)
    cost = sampled_int.cost(TREE, samples=samples)
    assert seen.link_bits == pytest.approx(cost.link_bits / here.telemetry, rel=0.03)
    assert seen.coverage.mean() == pytest.approx(cost.coverage, abs=0.03)
    assert seen.traffic.bytes == pytest.approx(on_traffic.run_without_telemetry(here).traffic.bytes, rel=1e-4)


@pytest.mark.parametrize("name", ["INT-path, both ways", "HULA", "Pingmesh"])
def test_cost_of_probes_agrees_with_their_closed_form(name: str) -> None:
    """Bits of a round; Pingmesh's has the link from the server too, where its probes here begin after it."""
    seen, here = SYSTEMS[name](scene()), scene()
    key = {"HULA": "hula", "Pingmesh": "pingmesh"}.get(name, "int-path")
    how = {"both_directions": True} if key == "int-path" else {}
    cost = RIVALS[key].round(TREE, **how)
    bits = cost.link_bits - (8 * 60 * cost.packets if name == "Pingmesh" else 0)
    assert seen.link_bits * here.seconds == pytest.approx(
        bits * 2 * (ROUNDS + 1), rel=0.05
    )  # (some are in flight)
    assert seen.coverage.min() == cost.coverage


def test_postcards_of_every_port() -> None:
    """By Base A's rule: one of each port a round, as the closed form has it, over the links of its path."""
    every = LabellingSettings(algorithm="base-a", interval=0.05)
    cards = InBandPostcards(TREE, scene().traffic, every, collector=5)
    cards.run(1.0)
    ways = paths_to(TREE, 5)
    rounds = np.bincount(cards.received["port"], minlength=len(TREE.ports))[TREE.hosts :]
    assert 17 <= rounds.min() <= rounds.max() <= 20  # (an interval lasts until the next packet)
    frames = cards.probe_counts.emitted * (cards.probe_counts.bytes / cards.probe_counts.hops + 14)
    assert 8 * frames == pytest.approx(rounds.mean() * postcards.cost(TREE).link_bits, rel=0.01)
    arrived = np.bincount(cards.received["port"], minlength=len(TREE.ports))
    crossed = sum(len(way) * count for way, count in zip(ways, arrived, strict=True))
    assert crossed <= cards.probe_counts.hops <= crossed + 6 * (cards.probe_counts.emitted - arrived.sum())


def test_postcards_tell_of_each_switch_of_a_marked_packet() -> None:
    """Every label that a marked packet brings is on a postcard too; none waits for the packet's end."""
    cards = InBandPostcards(TREE, on_traffic.mark_sampled(scene()), IDLE, telemetry=0.1)
    cards.simulation.ports["last"] = 0
    cards.run(0.6)
    all_labels = cards.simulation.received
    brought = all_labels[(all_labels["flags"] & int(SourceFlag.PROBE)) == 0]
    brought = brought[brought["received"] < 0.5e12]
    told = set(cards.received[["port", "labelled"]].tolist())
    missing = [label for label in brought[["port", "labelled"]].tolist() if label not in told]
    assert len(missing) <= 0.02 * len(brought)  # (two of one port within 100 µs have the time of the last)
    assert cards.counts.labels - 20 <= cards.probe_counts.emitted <= cards.counts.labels
    assert (cards.received["received"] - cards.received["labelled"] >= 1e-4 * 1e12).all()


def test_postcards_of_packets_that_are_lost_arrive() -> None:
    """A core that loses all leaves INT nothing of its packets; the two switches before it send postcards."""
    here = scene(sampled=5)
    core = np.flatnonzero(TREE.ports["node_id"] == TREE.switches[-1].node_id)
    cards = InBandPostcards(TREE, on_traffic.mark_sampled(here), IDLE, collector=0)
    cards.simulation.ports["last"] = 0
    for port in core:
        cards.simulation.set_loss(int(port), 1.0)
    cards.run(0.3)
    everything = cards.simulation.received
    arrived = everything[(everything["flags"] & int(SourceFlag.PROBE)) == 0]
    into = TREE.ports["reverse"][core]
    assert not np.isin(into, arrived["port"]).any()
    assert np.isin(into, cards.received["port"]).any()
    assert cards.probe_counts.lost > 0  # the core's own, which begin on its links


def test_feedback_does_not_depend_on_how_time_is_cut() -> None:
    """The same postcards in one call and in seven, none before its packet."""
    found = []
    for cuts in ([0.2], np.linspace(0.0313, 0.2, 7).tolist()):
        cards = InBandPostcards(TREE, on_traffic.mark_sampled(scene(sampled=7)), IDLE, seed=3)
        for until in cuts:
            cards.run(until)
        found.append(cards.received)
    assert len(found[0]) > 500
    same = [np.sort(one[["port", "labelled"]], order=["labelled", "port"]) for one in found]
    assert np.array_equal(same[0], same[1])


@pytest.mark.parametrize("name", ["paper", "fat-tree:4", "leaf-spine:3x2"])
def test_paths_to_a_collector(name: str) -> None:
    """They begin at their switch, hang together, end at the host, and are as short as by matrix powers."""
    topology = parse_topology(name)
    ports, ways = topology.ports, paths_to(topology, 1)
    inner = between(topology)
    near = np.eye(len(topology.switches), dtype=bool)
    steps = np.full(len(near), 0)
    step = np.zeros_like(near)
    step[ports["switch"][inner], ports["peer_switch"][inner]] = True
    reach = near[:, topology.host_switch[1]].copy()
    while not reach.all():
        steps[~reach] += 1
        reach |= step @ reach
    for row, way in enumerate(ways):
        if ports["switch"][row] < 0:
            assert not way
            continue
        assert ports["switch"][way[0]] == ports["switch"][row]
        assert np.array_equal(ports["peer_switch"][way[:-1]], ports["switch"][way[1:]])
        assert ports["peer_host"][way[-1]] == 1
        assert len(way) == steps[ports["switch"][row]] + 1


def test_pint_decodes_the_paths_of_packets() -> None:
    """Every way is found as it was, in as many packets as the Monte Carlo of independent draws takes."""
    traffic = uniform(TREE, 7e6, destinations=3, seed=2)
    simulation = LabelSimulation(
        TREE, with_digests(traffic), IDLE, network=replace(digest_network(NetworkModel()), loss=0.2)
    )
    simulation.run(0.6)
    ids, how, took = [switch.node_id for switch in TREE.switches], Digests(), []
    flows = [flow for flow in delivered(simulation.received) if len(flow.ports) == 5]
    for flow in flows:
        way = TREE.ports["node_id"][flow.ports]
        known = reconstruct(flow.numbers, how.written(flow.numbers, way), 5, ids, how)
        assert known.restarts == 0
        assert known.switches in ((), tuple(way.tolist()))
        took.append(known.packets)
    assert simulation.counts.lost > 0.3 * simulation.counts.emitted
    assert min(took) > 0
    expected = pint.trace(5, universe=20, trials=300)
    assert np.mean(took) == pytest.approx(expected.mean, abs=3 * np.std(took) / np.sqrt(len(took)))


def test_pint_hashes_are_fair() -> None:
    """Baseline half of the time, each switch of a path as often, XOR one time in ten."""
    numbers = np.arange(20_000, dtype=np.uint64)
    base, acted = Digests().acting(numbers, 5)
    assert base.mean() == pytest.approx(0.5, abs=0.01)
    assert acted[base].mean(axis=0) == pytest.approx(np.full(5, 0.2), abs=0.01)
    assert acted[~base].mean(axis=0) == pytest.approx(np.full(5, 0.1), abs=0.01)
    assert (acted[base].sum(axis=1) == 1).all()


def test_pint_restarts_when_the_path_changes() -> None:
    """Packets by another path contradict what is known of the first; the new path is what comes out."""
    how, ids = Digests(), np.arange(1, 21)
    numbers = np.arange(80, dtype=np.uint64)
    ways = np.where(np.arange(80)[:, None] < 4, [3, 9, 1, 12, 7], [4, 8, 2, 13, 6])
    known = reconstruct(numbers, how.written(numbers, ways), 5, ids, how)
    assert known.switches == (4, 8, 2, 13, 6)
    assert known.restarts > 0
    assert reconstruct(numbers[:2], how.written(numbers[:2], ways[:2]), 5, ids, how).packets == 0


def test_all_systems_with_the_same_traffic() -> None:
    """The same packets are sent; nothing is lost far from congestion; each adds and sees something."""
    here = scene(intervals=2)
    bare = on_traffic.run_without_telemetry(here)
    assert (bare.link_bits, bare.coverage.max()) == (0, 0)
    for name, system in SYSTEMS.items():
        seen = system(here)
        assert seen.traffic.emitted == bare.traffic.emitted, name
        assert seen.lost == bare.lost == 0, name
        assert seen.link_bits > 0, name
        assert (seen.coverage > 0.5).all(), name
    with pytest.raises(FabricError):
        on_traffic.generators("ping", here)
    places = [on_traffic.generators(name, here) for name in SYSTEMS]
    assert places == [0, 0, 1, 8, 16, 0, 0, 0]  # (a circuit, there and back from one switch)


def test_postcards_meet_at_the_collector() -> None:
    """Where every packet is marked, the collector's link takes a fraction of what is sent to it."""
    seen = on_traffic.run_postcards(scene(sampled=1, intervals=1, network=NetworkModel(buffer_bytes=100_000)))
    assert seen.probes.tail_drops > 0.3 * seen.probes.emitted
    assert seen.lost > 0


def test_unsendable_reports_are_rejected() -> None:
    """Packets in the past, of no source, without a label; hosts that are not; digests without bits."""
    simulation = LabelSimulation(TREE, scene().traffic, IDLE)
    simulation.run(0.01)
    label = np.zeros(1, LABEL_NODE)
    for sources, times, labels in (([0], [0], label), ([99], [10**11], label), ([0], [10**11], label[:0])):
        with pytest.raises(FabricError):
            simulation.send(sources, times, labels)
    with pytest.raises(FabricError):
        paths_to(TREE, 16)
    with pytest.raises(FabricError):
        Digests(bits=1)
    with pytest.raises(FabricError):
        InBandPostcards(TREE, scene().traffic, IDLE, delay=0)
