"""Own topologies: paths, reports, queueing and faults, against hand-written and brute-force truths."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopscope.fabric.faults import make_fault
from hopscope.fabric.queueing import LinkModel
from hopscope.fabric.simulation import Simulation, SimulationModel
from hopscope.fabric.switch import ReportModel
from hopscope.fabric.tcp import TcpModel, TcpSimulation
from hopscope.fabric.topology import (
    NO_PORT,
    FabricError,
    FatTree,
    LeafSpine,
    Topology,
    flow_hash,
    parse_topology,
)
from hopscope.fabric.traffic import TrafficModel
from hopscope.wire.decode.plain import decode_plain
from hopscope.wire.records import Kind
from support.events.port_truth import dropped_at, highest_occupancy

RING = """
rate = "10G"
switches = ["a", "b", "c", "d"]
links = ["a - b", "b - c", "c - d", "d - a"]
hosts = { a = 2, b = 1, c = 2 }
"""
ALL = SimulationModel(traffic=TrafficModel(flows=200), reports_per_second=0, seed=4)
"""Every packet is reported."""


def topology_of(folder: Path, text: str) -> Topology:
    file = folder / "own.toml"
    file.write_text(text)
    return parse_topology(str(file))


def line(folder: Path, switches: int) -> Topology:
    """Switches in a row, with hosts at both ends."""
    names = [f"s{number}" for number in range(switches)]
    links = ", ".join(f'"{one} - {other}"' for one, other in pairwise(names))
    return topology_of(
        folder, f"switches = {names}\nlinks = [{links}]\nhosts = {{ s0 = 2, s{switches - 1} = 2 }}"
    )


def all_pairs(topology: Topology, each: int) -> tuple[Any, Any, Any]:
    """Source, destination and hash of `each` flows between any two hosts."""
    pairs = np.array([(s, d) for s in range(topology.hosts) for d in range(topology.hosts) if s != d])
    src, dst = np.repeat(pairs, each, axis=0).T
    sport = np.tile(np.arange(each), len(pairs))
    address = topology.host_address
    return src, dst, flow_hash(address[src], address[dst], np.full(len(src), 6), sport, np.full(len(src), 80))


def hops_of(topology: Topology, path: Any) -> list[tuple[str, int]]:
    """Switch and port of every hop of a path."""
    rows = [row for row in path[1:].tolist() if row != NO_PORT]
    return [
        (topology.switches[topology.ports["switch"][r]].name, int(topology.ports["number"][r])) for r in rows
    ]


def test_paths_in_a_ring(tmp_path: Path) -> None:
    """By hand: neighbours have one path, opposite switches two, and each carries half of the flows, within
    four deviations of a binomial distribution.
    """
    ring = topology_of(tmp_path, RING)
    src, dst, hashes = all_pairs(ring, 2000)
    found: dict[tuple[str, str], Counter[Any]] = defaultdict(Counter)
    for s, d, path in zip(src.tolist(), dst.tolist(), ring.paths(src, dst, hashes), strict=True):
        found[ring.host_names[s], ring.host_names[d]][tuple(hops_of(ring, path))] += 1
    # ports: links in the order of the file, then hosts
    assert found["host-a-1", "host-a-2"] == {(("a", 4),): 2000}
    assert found["host-a-1", "host-b-1"] == {(("a", 1), ("b", 3)): 2000}
    assert found["host-b-1", "host-c-2"] == {(("b", 2), ("c", 4)): 2000}
    by_b, by_d = (("a", 1), ("b", 2), ("c", 3)), (("a", 2), ("d", 1), ("c", 3))
    assert set(found["host-a-1", "host-c-1"]) == {by_b, by_d}
    opposite = [found[f"host-a-{one}", f"host-c-{other}"] for one in (1, 2) for other in (1, 2)]
    over_b = sum(count for each in opposite for path, count in each.items() if path[1][0] == "b")
    assert abs(over_b - 4000) < 4 * (8000 * 0.25) ** 0.5


def shortest(
    links: dict[int, list[tuple[int, int]]], start: int, end: int
) -> set[tuple[tuple[int, int], ...]]:
    """Every shortest path as (switch, port) of each link, by trying all walks of one more link at a time."""
    walks: list[tuple[int, tuple[tuple[int, int], ...]]] = [(start, ())]
    while not any(at == end for at, _ in walks):
        walks = [(peer, (*walk, (at, port))) for at, walk in walks for port, peer in links[at]]
        walks = [(at, walk) for at, walk in walks if at not in {switch for switch, _ in walk}]
    return {walk for at, walk in walks if at == end}


@pytest.mark.parametrize("seed", range(8))
def test_all_shortest_paths_are_used(tmp_path: Path, seed: int) -> None:
    """In random graphs with parallel links, flows use every shortest path that a search finds, and no
    other.
    """
    chance = random.Random(seed)
    count = chance.randrange(3, 9)
    ends = [(number, chance.randrange(number)) for number in range(1, count)]
    for _ in range(count):
        one, other = chance.sample(range(count), 2)
        ends.append((one, other))
    ids = chance.sample(range(1, 1 << 32), count)
    links: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for one, other in ends:
        links[one].append((len(links[one]) + 1, other))
        links[other].append((len(links[other]) + 1, one))
    topology = topology_of(
        tmp_path,
        f"links = {[f'n{one} - n{other}' for one, other in ends]}\nhosts = 1\n[switches]\n"
        + "\n".join(f"n{number} = {node}" for number, node in enumerate(ids)),
    )
    src, dst, hashes = all_pairs(topology, 100)
    found = defaultdict(set)
    for s, d, path in zip(src.tolist(), dst.tolist(), topology.paths(src, dst, hashes), strict=True):
        hops = [(int(name[1:]), port) for name, port in hops_of(topology, path)]
        assert hops[-1] == (d, len(links[d]) + 1)
        found[s, d].add(tuple(hops[:-1]))
    for (s, d), taken in found.items():
        assert taken <= shortest(links, s, d)
        assert len(shortest(links, s, d)) > 6 or taken == shortest(links, s, d)


def test_a_failed_link_moves_only_its_flows(tmp_path: Path) -> None:
    """Flows of a failed link take the way around the ring, all others stay; a second failure cuts it."""
    ring = topology_of(tmp_path, RING)
    src, dst, hashes = all_pairs(ring, 50)
    before = ring.paths(src, dst, hashes)
    link = ring.port_row("a", 1)
    both = [link, int(ring.ports["reverse"][link])]
    down = np.zeros(len(ring.ports), bool)
    down[both] = True
    after = ring.paths(src, dst, hashes, down)
    assert np.array_equal((before != after).any(axis=1), np.isin(before, both).any(axis=1))
    pair = (src == 0) & (dst == 2)
    assert {tuple(name for name, _ in hops_of(ring, path)) for path in after[pair]} == {("a", "d", "c", "b")}
    assert ring.check_paths(down) == 4
    down[ring.port_row("c", 2)] = down[ring.port_row("d", 1)] = True
    with pytest.raises(FabricError, match="some hosts have no path left"):
        ring.check_paths(down)


@pytest.mark.kernel
@pytest.mark.parametrize(("version", "mode"), [("0.5", "md"), ("1.0", "md"), ("2.0", "md"), ("2.0", "xd")])
def test_reports_name_the_path(tmp_path: Path, version: str, mode: str) -> None:
    """Decoded reports have the ids and ports of the file's switches, in the order of a shortest path."""
    text = RING.replace('["a", "b", "c", "d"]', "{ a = 4294967294, b = 7, c = 300, d = 65537 }")
    if version == "0.5":
        text = text.replace("4294967294", "2147483647")  # its ids have 31 bits
    ring = topology_of(tmp_path, text.replace('"a - b"', '"a:300 - b:17"'))
    a = ring.switches[0].node_id
    leads = {(a, 300): (7, 17), (7, 17): (a, 300), (7, 1): (300, 1), (300, 1): (7, 1)}
    leads |= {(300, 2): (65537, 1), (65537, 1): (300, 2), (65537, 2): (a, 1), (a, 1): (65537, 2)}
    simulation = Simulation(ring, SimulationModel(report=ReportModel(version=version, mode=mode)))
    truth = simulation.step(0.02)
    decoded = decode_plain(simulation.frames(truth))
    assert not decoded.reports["reason"].any()
    assert np.array_equal(decoded.hops["node_id"], truth.hops["node_id"])
    assert np.array_equal(decoded.hops["egress_port"], truth.hops["egress_port"])
    if mode != "md":
        assert set(decoded.reports["node_id"].tolist()) == {a, 7, 300, 65537}
        return
    lengths: Counter[int] = Counter()
    for report in decoded.reports:
        hops = decoded.hops[report["first_hop"] :][: report["hop_count"]]
        for here, there in pairwise(hops):
            step = leads[int(here["node_id"]), int(here["egress_port"])]
            assert step == (there["node_id"], there["ingress_port"])
        lengths[len(hops)] += 1
        assert report["remaining_hops"] == 8 - len(hops)
    assert set(lengths) == {1, 2, 3}


@pytest.mark.kernel
def test_a_fat_tree_from_a_file(tmp_path: Path) -> None:
    """A fat tree as an own topology has the same traffic to the packet, no more hops, and the same latency
    within 10 %.
    """
    tree = FatTree(4)
    lines = ['rate = "1G"', "links = ["]
    for row in tree.links():
        port = tree.ports[row]
        ends = (port["switch"], port["number"]), (port["peer_switch"], port["peer_number"])
        lines.append(
            " - ".join(f"{tree.switches[switch].name}:{number}" for switch, number in ends).join('""') + ","
        )
    lines += [
        "]",
        "[switches]",
        *(f"{switch.name} = {switch.node_id}" for switch in tree.switches),
        "[hosts]",
    ]
    for edge in range(8):
        hosts = [(tree.host_names[h], tree.host_address[h], h % 2 + 1) for h in (2 * edge, 2 * edge + 1)]
        tables = [
            f'{{ name = "{name}", address = "10.{a >> 16 & 255}.{a >> 8 & 255}.{a & 255}", port = {port} }}'
            for name, a, port in hosts
        ]
        lines.append(f"{tree.switches[edge].name} = [{', '.join(tables)}]")
    own = topology_of(tmp_path, "\n".join(lines))
    assert own.names_toml() == tree.names_toml()
    assert np.array_equal(own.host_address, tree.host_address)
    results = []
    for topology in (tree, own):
        simulation = Simulation(topology, ALL)
        batch = simulation.step(0.2)
        lengths = np.bincount(batch.reports["hop_count"])
        results.append((simulation.truth, lengths, float(batch.hops["hop_latency"].mean())))
    (first, hops, latency), (second, own_hops, own_latency) = results
    assert first.emitted == second.emitted
    assert first.dropped == second.dropped == 0
    assert np.abs(hops - own_hops).max() <= 5  # packets in flight at the end
    assert own_latency == pytest.approx(latency, rel=0.1)


@pytest.mark.kernel
@pytest.mark.parametrize("topology", [FatTree(4), LeafSpine(4, 2)], ids=lambda t: t.name)
def test_serving_in_order_of_time_is_exact(topology: Topology, monkeypatch: pytest.MonkeyPatch) -> None:
    """Own topologies are served packet by packet, others stage by stage: where both are possible, the
    reports are equal, byte for byte, with faults and drops.
    """
    faults = (
        make_fault(
            topology,
            "path-change",
            0.01,
            topology.switches[0].name,
            int(topology.ports["number"].max()),
            0.02,
        ),
        make_fault(topology, "lossy-port", 0.0, topology.switches[1].name, 1, 0.1, loss=0.1),
    )
    model = SimulationModel(
        traffic=TrafficModel(load=0.8), link=LinkModel(buffer_bytes=20_000), faults=faults
    )
    runs = []
    for in_stages in (True, False):
        monkeypatch.setattr(topology, "feed_forward", in_stages)
        simulation = Simulation(topology, model)
        runs.append([batch.reports.tobytes() + batch.hops.tobytes() for batch in simulation.run(0.05, 0.007)])
        assert simulation.truth.dropped > 100
    assert runs[0] == runs[1]


@pytest.mark.kernel
def test_delays_and_rates_of_links(tmp_path: Path) -> None:
    """A packet arrives after its time on the wire and the delay of its link, in each direction."""
    text = """
        switches = ["a", "b", "c"]
        links = ["a - b", { between = "b - c", rate = "100G", delay = "2ms" }]
        hosts = { a = 1, c = 1 }
    """
    topology = topology_of(tmp_path, text)
    batch = Simulation(topology, ALL).step(0.05)
    assert set(batch.reports["hop_count"]) == {3}
    hops = batch.hops.reshape(-1, 3)
    for first, second in ((0, 1), (1, 2)):
        here, there = hops[:, first], hops[:, second]
        apart = there["ingress_time"].astype(np.int64) - here["egress_time"].astype(np.int64)
        slow = np.maximum(here["node_id"], there["node_id"]) == 3
        assert slow.any()
        assert not slow.all()
        wire = apart - np.where(slow, 2_000_000, 500)
        # a packet takes 67 to 1538 bytes on the wire; times are whole ns
        assert np.all(wire >= np.where(slow, 5, 536) - 1)
        assert np.all(wire <= np.where(slow, 124, 12_304) + 1)


@pytest.mark.kernel
def test_faults_in_a_ring(tmp_path: Path) -> None:
    """Each fault is seen at its port, and nowhere else; the truth adds up."""
    ring = topology_of(tmp_path, RING.replace("10G", "1G").replace("{ a = 2, b = 1, c = 2 }", "4"))
    faults = (
        make_fault(ring, "lossy-port", 0.0, "a", 1, 0.05, loss=0.3),
        make_fault(ring, "slow-hop", 0.0, "b", 2, 0.05, delay_ns=1_500_000),
        make_fault(ring, "path-change", 0.1, "c", 2, 0.05),
        make_fault(ring, "microburst", 0.2, "d", 3, 0.1),
    )
    simulation = Simulation(ring, SimulationModel(traffic=TrafficModel(flows=300, load=0.3), faults=faults))
    first = simulation.step(0.05)
    dropped = dropped_at(simulation)
    assert set(dropped) == {(1, 1)}
    passed = int(simulation.network.ports["packets"][ring.port_row("a", 1)])
    assert dropped[1, 1] / (passed + dropped[1, 1]) == pytest.approx(0.3, abs=0.03)
    is_there = (
        (first.hops["node_id"] == 2) & (first.hops["egress_port"] == 2) & (first.hops["hop_latency"] > 0)
    )
    assert first.hops["hop_latency"][is_there].min() >= 1_500_000
    assert first.hops["hop_latency"][~is_there].max() < 500_000
    simulation.step(0.11)
    during = simulation.step(0.15)
    for node, port in ((3, 2), (4, 1)):
        assert not ((during.hops["node_id"] == node) & (during.hops["egress_port"] == port)).any()
    assert during.reports["hop_count"].max() == 4
    assert simulation.truth.rerouted > 10
    simulation.step(0.2)
    highest_occupancy(simulation)
    simulation.step(0.3)
    highest = highest_occupancy(simulation)
    assert highest.pop((4, 3)) > 300_000 > 2 * max(highest.values())
    truth = simulation.truth
    assert truth.emitted == truth.delivered + truth.dropped + truth.in_flight


def test_a_burst_needs_paths(tmp_path: Path) -> None:
    """A microburst at a port that no shortest path uses is rejected."""
    topology = topology_of(
        tmp_path, 'switches = ["a", "b", "c"]\nlinks = ["a - b", "b - c", "a - c"]\nhosts = { a = 1, b = 1 }'
    )
    fault = make_fault(topology, "microburst", 0.0, "a", 2)
    with pytest.raises(FabricError, match="no shortest path between two hosts uses this port"):
        Simulation(topology, SimulationModel(faults=(fault,)))


@pytest.mark.kernel
def test_long_paths(tmp_path: Path) -> None:
    """INT-MD holds the metadata of 21 switches; postcards report 64; a longer path is rejected."""
    longest = line(tmp_path, 64)
    with pytest.raises(
        FabricError, match="a path has 64 switches, and INT-MD holds the metadata of at most 21"
    ):
        Simulation(longest, SimulationModel())
    model = SimulationModel(report=ReportModel(mode="xd"), reports_per_second=100)
    simulation = Simulation(longest, model)
    cards = simulation.step(0.05)
    assert set(cards.reports["node_id"].tolist()) == set(range(1, 65))
    few = Simulation(longest, SimulationModel(report=ReportModel(instructions=0x8000)))
    truth = few.step(0.01)
    decoded = decode_plain(few.frames(truth))
    assert set(decoded.reports["hop_count"].tolist()) == {1, 64}
    (whole,) = {
        tuple(decoded.hops["node_id"][r["first_hop"] :][:64].tolist())
        for r in decoded.reports
        if r["hop_count"] == 64 and r["node_id"] == 64
    }
    assert whole == tuple(range(1, 65))
    with pytest.raises(FabricError, match="65 switches, and INT carries at most 64 hops"):
        line(tmp_path, 65)


@pytest.mark.kernel
@pytest.mark.parametrize(("version", "most"), [("0.5", 31), ("1.0", 28), ("2.0", 21)])
def test_the_longest_path_of_a_version_is_decoded(tmp_path: Path, version: str, most: int) -> None:
    """255 words, the largest length in the shim, or less than a hop below it."""
    simulation = Simulation(line(tmp_path, most), SimulationModel(report=ReportModel(version=version)))
    decoded = decode_plain(simulation.frames(simulation.step(0.005)))
    assert not decoded.reports["reason"].any()
    assert set(decoded.reports["hop_count"].tolist()) == {1, most}


@pytest.mark.kernel
def test_a_path_change_that_makes_a_path_too_long(tmp_path: Path) -> None:
    """A ring whose detour has more switches than INT-MD holds is rejected before the simulation."""
    names = [f"s{number}" for number in range(24)]
    links = [f"{one} - {other}" for one, other in pairwise([*names, names[0]])]
    ring = topology_of(tmp_path, f"switches = {names}\nlinks = {links}\nhosts = {{ s0 = 1, s1 = 1 }}")
    Simulation(ring, SimulationModel())
    fault = make_fault(ring, "path-change", 0.0, "s0", 1)
    with pytest.raises(FabricError, match="a path has 24 switches during a path-change"):
        Simulation(ring, SimulationModel(faults=(fault,)))


@pytest.mark.kernel
def test_same_seed_same_bytes(tmp_path: Path) -> None:
    """Two runs are equal, also in windows of another length; drop reports are those of their hops."""
    fault = {"kind": "lossy-port", "start": 0.0, "node": "a", "port": 1, "duration": 1.0, "loss": 0.01}
    runs = []
    for window in (0.05, 0.05, 0.003):
        ring = topology_of(tmp_path, RING)
        model = SimulationModel(
            report=ReportModel(drops_per_switch=0),
            faults=(make_fault(ring, **fault),),  # type: ignore[arg-type]
            seed=9,
        )
        simulation = Simulation(ring, model)
        reports = np.concatenate([batch.reports for batch in simulation.run(0.05, window)])
        assert {int(node) for node in reports["node_id"][reports["kind"] == Kind.DROP]} == {1}
        runs.append(np.sort(reports[["time_ns", "src_lo", "dst_lo", "sport", "hop_count"]]).tolist())
    assert runs[0] == runs[1] == runs[2]


@pytest.mark.kernel
def test_tcp_in_a_ring(tmp_path: Path) -> None:
    """Connections deliver all bytes, and every switch of a path observes its packets."""
    ring = topology_of(tmp_path, RING)
    simulation = TcpSimulation(ring, TcpModel(connections=20), seed=2)
    simulation.run()
    assert np.array_equal(simulation.connections["delivered"], simulation.connections["bytes"])
    seen = simulation.observations()
    switches = (simulation.paths[simulation.packets["route"], 1:] != NO_PORT).sum(axis=1)
    assert len(seen) == int(switches.sum())
    assert set(seen["switch"].tolist()) == {1, 2, 3, 4}


def test_names_of_parallel_links(tmp_path: Path) -> None:
    """Ports to one switch over several links are named by the other end's port, too."""
    topology = topology_of(
        tmp_path, 'switches = ["a", "b"]\nlinks = ["a:1 - b:7", "a:2 - b:8"]\nhosts = { a = ["web"], b = 1 }'
    )
    assert [topology.port_name(topology.port_row("a", port)) for port in (1, 2, 3)] == [
        "to b port 7", "to b port 8", "to web",
    ]  # fmt: skip
    with pytest.raises(FabricError, match="b has no port 2: its ports are 1, 7, 8"):
        topology.port_row("b", 2)
