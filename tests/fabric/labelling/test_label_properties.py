"""What must hold on any fabric: the proposition of section 4.1, and each rule of who is labelled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hopscope.fabric.labelling.simulation.network import NetworkModel
from hopscope.fabric.labelling.simulation.records import NEVER_LABELLED, SourceFlag
from hopscope.fabric.labelling.simulation.simulator import LabelSimulation
from hopscope.fabric.labelling.simulation.sources import Sources, flows, from_hosts, join, uniform
from hopscope.fabric.topology import parse_topology
from hopscope.fabric.traffic import TrafficModel
from hopscope.settings.label import AdaptiveSettings, LabellingSettings

pytestmark = pytest.mark.kernel

PS = 10**12
INTERVAL = 1e-3
TICK = INTERVAL / 50


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    st.sampled_from(["leaf-spine:3x2x2", "fat-tree:4", "paper"]),
    st.lists(st.tuples(st.floats(1e6, 300e6), st.integers(64, 1400), st.booleans()), min_size=1, max_size=4),
    st.lists(st.tuples(st.floats(0, 0.008), st.floats(0, 0.004)), max_size=2),
    st.floats(0, 0.5),
    st.sampled_from([8000, 1_500_000]),
    st.integers(0, 2**31),
)
@example(
    "leaf-spine:3x2x2", [(5e6, 64, True)], [(0.001, 0.004), (0.001, 0.004)], 0.0, 8000, 0
)  # a leaf alone
def test_every_port_with_traffic_labels_within_t_and_t_s(
    fabric: str,
    traffic: list[tuple[float, int, bool]],
    failures: list[tuple[float, float]],
    loss: float,
    buffer: int,
    seed: int,
) -> None:
    """Section 4.1: a port labels within T + T_s, T_s its longest time between packets; links may fail."""
    topology = parse_topology(fabric)
    parts = [
        from_hosts(topology, range(at, topology.hosts, 4), rate, size=size, random=random, seed=seed)
        for at, (rate, size, random) in enumerate(traffic)
    ]
    sim = LabelSimulation(
        topology,
        join(*parts),
        LabellingSettings(algorithm="base-a", interval=INTERVAL),
        network=NetworkModel(loss=loss, buffer_bytes=buffer),
        seed=seed,
        telemetry=TICK,
    )
    spines = list(topology.links())
    for number, (start, lasts) in enumerate(failures):
        link = spines[(seed + number) % len(spines)]
        sim.fail_link(link, at_s=start, reroute_s=0.001)
        sim.repair_link(link, at_s=start + lasts, reroute_s=0.001)
    labels: list[Any] = []
    for step in range(1, 25):
        sim.run(step * INTERVAL / 2)  # between two steps a port labels once at most
        labels.append(sim.ports["last"].copy())
    history, tick = np.array(labels), round(TICK * PS)
    for port in np.nonzero(sim.active.any(axis=0))[0]:
        sent = np.nonzero(sim.active[:, port])[0]
        longest = (int(np.diff(sent).max(initial=0)) + 1) * tick
        times = np.unique(history[:, port])
        times = times[times != NEVER_LABELLED]
        assert times[0] < (sent[0] + 1) * tick, "the first packet is labelled"
        assert np.diff(times).max(initial=0) <= INTERVAL * PS + longest
        assert (sent[-1] + 1) * tick - times[-1] <= INTERVAL * PS + longest
        assert np.diff(times).min(initial=PS) > INTERVAL * PS


def run(labelling: dict[str, Any], sources: Sources | None = None, **how: Any) -> LabelSimulation:
    """20 ms of a small fabric."""
    topology = parse_topology("fat-tree:4")
    sim = LabelSimulation(
        topology,
        sources or uniform(topology, 50e6),
        LabellingSettings.model_validate({"interval": 0.005, **labelling}),
        telemetry=0.01,
        **how,
    )
    sim.run(0.02)
    return sim


def test_f1_labels_at_every_switch_after_the_first_label() -> None:
    """With F1, of the labels of a packet none but the first may be missing: they are the last switches."""
    sim = run({"chance": "f1"})
    counts = sim.received["count"][sim.received["position"] == 0]
    assert np.bincount(counts)[1:].min() > 0
    ends = sim.topology.ports["peer_switch"][sim.received["port"]] < 0
    last = sim.received["position"] == sim.received["count"] - 1
    assert (ends == last).all()
    assert sim.histogram[:, 1:].sum() == sim.counts.labelled == len(counts)


def test_chances_differ_as_the_paper_says() -> None:
    """Labels grow from Base A over F3 and F2 of the listing to F2 and F1; labelled packets shrink."""
    kinds = ["f3", "f2-listing", "f2", "f1"]
    runs = [run({"algorithm": "base-a"}), *(run({"chance": kind}) for kind in kinds)]
    a_packet = [sim.counts.labels / sim.counts.labelled for sim in runs]
    assert a_packet == sorted(a_packet)
    assert runs[0].counts.labelled > 1.2 * runs[-1].counts.labelled


def test_in_rest_chance_labels_nothing() -> None:
    """With T1 = T, Base B is Base A; with less, ports rest between labels for T1 at least."""
    assert run({"rest": 1.0}).counts == run({"algorithm": "base-a"}).counts
    sim = run({"rest": 0.5})
    for port in np.unique(sim.received["port"]):
        times = np.sort(sim.received["labelled"][sim.received["port"] == port])
        assert np.diff(times).min(initial=PS) >= 0.0025 * PS


@pytest.mark.parametrize("algorithm", ["base-a", "base-b"])
def test_tracked_packets_are_labelled_everywhere(algorithm: str) -> None:
    """Every 50th packet of host 3 has a label of every switch that it passed, in rest and in F3 too."""
    topology = parse_topology("fat-tree:4")
    sources = join(from_hosts(topology, [3], 50e6, tracked=50), uniform(topology, 20e6, seed=2))
    sim = run({"algorithm": algorithm, "chance": "f3", "rest": 0.9}, sources)
    tracked = sim.received[sim.received["flags"] & int(SourceFlag.TRACKED) != 0]
    first = tracked[tracked["position"] == 0]
    assert (first["source"] == 0).all()
    assert (first["packet"] & 0xFFFFFFFF).tolist() == list(range(0, 50 * len(first), 50))
    assert set(first["count"]) <= {1, 3, 5}
    assert len(first) == pytest.approx(sim.counts.emitted / (50 + 16 * 20) * 50 / 50, abs=3)
    one = tracked[tracked["packet"] == first["packet"][first["count"] == 5][0]]
    links = sim.topology.ports
    assert (links["peer_switch"][one["port"][:-1]] == links["switch"][one["port"][1:]]).all()
    assert (one["ingress"][1:] == links["peer_number"][one["port"][:-1]]).all()
    assert (sim.as_labels(tracked)["tracked"] == 1).all()


def test_a_chance_of_ones_own() -> None:
    """Any function that compiles decides; the one that is F2 gives what F2 gives."""

    def half(count: Any, max_hop: Any, elapsed: Any, interval: Any) -> Any:
        return count / (max_hop - 1) if elapsed < interval else 0.0

    assert run({"chance": "f1"}, chance=half).counts == run({"chance": "f2"}).counts


def test_a_table_of_chances() -> None:
    """The table that is F2 gives what F2 gives; one that is F3 by thousandths nearly what F3 gives."""
    table = [[0], [0.25], [0.5], [0.75], [1]]
    assert run({"chance_table": table}).counts == run({"chance": "f2"}).counts
    fine = [[i / 4 * (part + 0.5) / 1000 for part in range(1000)] for i in range(5)]
    assert run({"chance_table": fine}).counts.labels == pytest.approx(
        run({"chance": "f3"}).counts.labels, rel=0.01
    )


@pytest.mark.parametrize("mode", ["shift", "one-bit"])
def test_reg2_shortens_the_interval(mode: str) -> None:
    """A port with S = 3 labels every T / 8; with the flag of the one-bit form, every packet."""
    topology = parse_topology("fat-tree:4")
    port, last = (int(row) for row in topology.host_port[:2])
    sim = LabelSimulation(
        topology, uniform(topology, 50e6), LabellingSettings(algorithm="base-a", interval=0.004),
        adaptive=AdaptiveSettings.model_validate({"mode": mode}),
    )  # fmt: skip
    sim.set_interval_shift(port, 3 if mode == "shift" else 1)
    sim.run(0.02)
    labels, packets = sim.ports["labels"], sim.ports["packets"]
    assert labels[last] in (4, 5)
    assert labels[port] == packets[port] if mode == "one-bit" else 20 < labels[port] <= 40


class Recorder:
    """A controller that records labels, and sets S of one port at its third turn."""

    def __init__(self, port: int) -> None:
        self.port, self.labels, self.times, self.turn_ns = port, 0, [0], 2_000_000

    def receive(self, labels: Any, now_ns: int) -> None:
        self.labels += len(labels)

    def turn(self, now_ns: int) -> tuple[list[int], list[int]]:
        self.times.append(now_ns)
        return ([self.port], [5]) if len(self.times) == 4 else ([], [])


def test_the_controller_has_its_turns_in_simulated_time() -> None:
    """It gets every label that has arrived, at its turns; what it changes arrives after `control_ns`."""
    topology = parse_topology("fat-tree:4")
    port = int(topology.host_port[0])
    labelling = LabellingSettings(interval=0.004)
    recorder = Recorder(port)
    sim = LabelSimulation(
        topology, uniform(topology, 50e6), labelling, controller=recorder,
        network=NetworkModel(control_ns=500_000),
    )  # fmt: skip
    sim.run(0.0064)
    assert sim.ports["shift"][port] == 0
    sim.run(0.0066)
    assert sim.ports["shift"][port] == 5
    sim.run(0.01)
    assert recorder.times == [0, 2_000_000, 4_000_000, 6_000_000, 8_000_000, 10_000_000]
    assert recorder.labels == len(sim.received) > 0


def test_a_failed_link_is_avoided_then_used_again() -> None:
    """Until ECMP knows, packets are lost at the link; then none, and after the repair it is used again."""
    topology = parse_topology("fat-tree:4")
    sim = LabelSimulation(topology, uniform(topology, 50e6), LabellingSettings(interval=0.001))
    link = next(topology.links())
    nodes = len(sim._engine.routes)
    sim.fail_link(link, at_s=0.004, reroute_s=0.001)
    sim.repair_link(link, at_s=0.008, reroute_s=0.001)
    sim.run(0.0051)
    assert nodes < len(sim._engine.routes) < 1.5 * nodes, "routes past other links are no new ones"
    lost = sim.counts.link_down
    sent = int(sim.ports["packets"][link])
    sim.run(0.009)
    assert sim.counts.link_down == lost > 0
    assert sim.ports["packets"][link] == sent > 0
    sim.run(0.012)
    assert sim.counts.link_down == lost
    assert sim.ports["packets"][link] > sent


def test_a_switch_that_is_added_carries_traffic() -> None:
    """A core without links has no packet; when they are there, it has, and labels come from it."""
    topology = parse_topology("fat-tree:4")
    sim = LabelSimulation(topology, uniform(topology, 50e6), LabellingSettings(interval=0.001))
    links = sim.links_of("core-0")
    sim.fail_link(*links)
    sim.repair_link(*links, at_s=0.005)
    sim.run(0.005)
    assert sim.ports["packets"][links].sum() == 0
    sim.run(0.009)
    assert np.isin(links, sim.take()["port"]).all()
    assert len(sim.received) == 0


def test_flows_of_measured_sizes_end() -> None:
    """Sources of the traffic model send what their flows hold, and no more."""
    topology = parse_topology("fat-tree:4")
    sources = flows(topology, TrafficModel(flows=100, load=0.2), 0.01, seed=3)
    sources.records["remaining"] = np.minimum(sources.records["remaining"], 20)
    sources.records["gap"] //= 50
    sim = LabelSimulation(topology, sources, LabellingSettings(interval=0.001))
    sim.run(0.05)
    assert sim.counts.emitted == sources.records["remaining"].sum()
    assert sim.counts.delivered + sim.counts.dropped == sim.counts.emitted
    assert sim.in_flight == (0, 0)


def test_the_order_of_sources_is_of_no_effect() -> None:
    """Rows in any order, the same labels at the same times."""
    topology = parse_topology("leaf-spine:2x2x2")
    sources = join(uniform(topology, 200e6, random=False), uniform(topology, 100e6, seed=5))
    labelling = LabellingSettings(interval=0.001, chance="f2")
    sims = []
    for order in (slice(None), slice(None, None, -1)):
        shuffled = Sources(
            sources.records[order].copy(), sources.starts, sources.routes, sources.pairs, sources.hashes
        )
        sims.append(LabelSimulation(topology, shuffled, labelling, network=NetworkModel(buffer_bytes=9000)))
        sims[-1].run(0.01)
    assert np.array_equal(sims[0].received, sims[1].received)
    assert sims[0].counts == sims[1].counts
