"""What other systems need and cost, against counts by hand and against their routes on real fabrics."""

from __future__ import annotations

import numpy as np
import pytest

from hopscope.fabric.labelling.rivals import RIVALS, hula, int_label, int_path, pingmesh, sampled_int
from hopscope.fabric.labelling.rivals.euler import balance, euler_trails
from hopscope.fabric.labelling.rivals.pint import trace
from hopscope.fabric.labelling.rivals.rival import between, frame, probe_sources, walk, walk_ends
from hopscope.fabric.labelling.simulation.network import NetworkModel
from hopscope.fabric.labelling.simulation.simulator import LabelSimulation
from hopscope.fabric.topology import NO_PORT, FabricError, FatTree, LeafSpine, parse_topology
from hopscope.settings.label import LabellingSettings


def check_trails(vertices: int, ends: list[tuple[int, int]], balanced: bool) -> None:
    """Every edge once, each where the one before it ended, and as few trails as there can be."""
    trails, odd = euler_trails(vertices, ends)
    longest = max(len(trail) for trail in trails)
    if balanced:
        trails = balance(trails, ends)
        assert max(len(trail) for trail in trails) <= longest
    assert sorted(edge for trail in trails for edge, _ in trail) == list(range(len(ends)))
    for trail in trails:
        at = None
        for edge, ahead in trail:
            first, second = ends[edge] if ahead else ends[edge][::-1]
            assert at in (None, first)
            at = second
    degree = np.bincount(np.array(ends).ravel(), minlength=vertices)
    parts = np.arange(vertices)
    for _ in range(vertices):
        for low, high in ends:
            parts[parts == parts[high]] = parts[low]
    least = 0
    for part in set(parts[degree > 0].tolist()):
        least += max(1, int((degree[parts == part] % 2).sum()) // 2)
    assert odd == (degree % 2).sum()
    assert len(trails) == least


@pytest.mark.parametrize("seed", range(12))
def test_trails_of_random_graphs(seed: int) -> None:
    """Fewest trails on random graphs with several parts, double links and lone switches."""
    rng = np.random.default_rng(seed)
    vertices = int(rng.integers(2, 14))
    pairs = [rng.choice(vertices, 2, replace=False) for _ in range(int(rng.integers(1, 25)))]
    edges = [(int(low), int(high)) for low, high in pairs]
    check_trails(vertices, edges, balanced=False)
    check_trails(vertices, edges, balanced=True)


@pytest.mark.parametrize(("k", "odd", "trails"), [(4, 0, 1), (6, 18, 9), (8, 0, 1)])
def test_trails_of_fat_trees(k: int, odd: int, trails: int) -> None:
    """Edge switches are odd where k/2 is: k²/2 of them, half as many trails, and every link once."""
    topology = FatTree(k)
    plan = int_path.plan(topology)
    assert (plan.odd, len(plan.trails)) == (odd, trails)
    rows = np.concatenate(plan.trails)
    links = np.minimum(rows, topology.ports["reverse"][rows])
    assert np.array_equal(np.sort(links), np.array(list(topology.links())))
    for trail in plan.trails:
        ports = topology.ports[trail]
        assert np.array_equal(ports["peer_switch"][:-1], ports["switch"][1:])


def test_trails_after_a_failed_link() -> None:
    """A failed link makes two switches odd: its ports are on no trail, all others still are."""
    topology = FatTree(4)
    row = next(topology.links())
    down = np.zeros(len(topology.ports), bool)
    down[[row, topology.ports["reverse"][row]]] = True
    plan = int_path.plan(topology, down)
    rows = np.concatenate(plan.trails)
    assert plan.odd == 2
    assert len(rows) == len(list(topology.links())) - 1
    assert not down[rows].any()


def test_bits_of_int_path() -> None:
    """A probe grows by 22 bytes at each of 32 links of k = 4; both paths see all ports."""
    topology = FatTree(4)
    length = len(list(topology.links()))
    by_hand = sum(14 + 20 + 8 + 64 + 22 * hop for hop in range(1, length + 1))
    cost = RIVALS["int-path"].round(topology)
    assert (cost.link_bits, cost.packets, cost.coverage) == (8 * by_hand, 1, 0.5)
    both = int_path.cost(topology, both_directions=True)
    assert (both.link_bits, both.coverage) == (16 * by_hand, 1.0)
    short = int_path.cost(FatTree(8), max_hops=int_path.hops_for_mtu(1500))
    assert short.packets == 4  # (256 links, 63 items in 1500 bytes: 64 hops, the last item just fits)
    assert int_path.hops_for_mtu(1500) == 64


@pytest.mark.parametrize("topology", [FatTree(4), LeafSpine(3, 2, 2)], ids=lambda t: t.name)
def test_flooded_probes_pass_every_port(topology: object) -> None:
    """Trees of all edge switches cost what one of them does times their number, and see all ports."""
    assert isinstance(topology, (FatTree, LeafSpine))
    everything = hula.probes(topology)
    ports, depths = walk(everything)
    cost = hula.cost(topology)
    assert cost.link_bits == 8 * frame(everything.size + everything.item * depths).sum()
    assert set(ports) == set(between(topology))
    assert cost.generators == len(set(topology.host_switch))


@pytest.mark.parametrize("name", ["fat-tree:4", "leaf-spine:3x2", "paper"])
def test_coverage_of_flooded_probes_is_counted(name: str) -> None:
    """Ports that HULA's cost counts are those of the trees of all edge switches."""
    topology = parse_topology(name)
    ports, _ = walk(hula.probes(topology))
    assert hula.reached(topology) == set(ports.tolist())
    assert RIVALS["hula"].round(topology).coverage == len(set(ports.tolist())) / len(between(topology))


def test_a_flooded_probe_goes_up_and_then_down() -> None:
    """k = 4: 2 paths up, each to the other edge and 2 cores, these to 3 pods with 2 edges each."""
    ports, depths = walk(hula.probes(FatTree(4), roots=1))
    assert len(ports) == 2 * (1 + 1 + 2 + 2 * 3 + 2 * 3 * 2)
    assert depths.max() == 4


def test_pings_of_pingmesh() -> None:
    """k = 4: each of 16 servers pings the other one below its switch and one below each of 7 others."""
    topology = FatTree(4)
    cost = RIVALS["pingmesh"].round(topology)
    assert (cost.generators, cost.exports, cost.packets) == (16, 16 * 8, 2 * 16 * 8)
    rows = pingmesh.ping_paths(topology, pingmesh.pairs(topology))
    assert cost.link_bits == 8 * 60 * ((rows != NO_PORT).sum() + len(rows))
    assert not cost.per_hop


def test_bits_of_labels_by_hand() -> None:
    """k = 4, one label a port: 16 ports a stage; those up cross 3.71 and 3 links, those down 2 and 1."""
    cost = int_label.cost(FatTree(4))
    up = (12 * 4 + 2 * 2) / 14  # (12 hosts in other pods, 2 in the same)
    assert cost.link_bits == pytest.approx(8 * 34 * 16 * (up + 3 + 2 + 1))
    assert cost.exports == 80


@pytest.mark.kernel
@pytest.mark.parametrize("name", ["int-path", "hula", "pingmesh"])
def test_probes_on_a_simulated_network(name: str) -> None:
    """Ten rounds in the simulation: the ports, packets and bytes of ten rounds in closed form."""
    topology = parse_topology("paper")
    probes_of = RIVALS[name].probes
    assert probes_of is not None
    probes = probes_of(topology)
    model = NetworkModel(item_bytes=probes.item or 1, option_bytes=0)
    simulation = LabelSimulation(
        topology, probe_sources(topology, probes, 0.1), LabellingSettings(), network=model
    )
    simulation.run(1.1)
    counts, cost = simulation.probe_counts, RIVALS[name].round(topology)
    rounds = counts.emitted / len(probes.routes)
    assert rounds == 11
    assert counts.delivered == rounds * len(walk_ends(probes))
    if probes.item:
        headers = 14 * counts.hops
        assert 8 * (counts.bytes + counts.label_bytes + headers) == rounds * cost.link_bits
        seen = np.isin(between(topology), simulation.received["port"]).mean()
        assert seen == cost.coverage
    else:
        assert 8 * 60 * (counts.hops + counts.emitted) == rounds * cost.link_bits
        assert not len(simulation.received)


def test_samples_that_cover() -> None:
    """The samples for a coverage give it, on random paths drawn one by one."""
    topology = FatTree(4)
    samples = round(sampled_int.samples_for(topology, 0.9))
    rng, inner, seen = np.random.default_rng(2), between(topology), []
    for _ in range(200):
        src = rng.integers(16, size=samples)
        dst = (src + rng.integers(1, 16, size=samples)) % 16
        paths = topology.paths(src, dst, rng.integers(0, 2**63, samples).astype(np.uint64))
        seen.append(np.isin(inner, paths).mean())
    assert np.mean(seen) == pytest.approx(0.9, abs=0.02)


def test_pint_with_digests_that_name_the_switch() -> None:
    """Wide digests of the baseline alone are the coupon collector's, n H_n packets; narrow ones take more."""
    wide = trace(8, bits=32, digests=1, universe=80, baseline=1.0, trials=400)
    assert wide.mean == pytest.approx(8 * sum(1 / n for n in range(1, 9)), rel=0.08)
    narrow = trace(8, bits=1, digests=1, universe=80, trials=60)
    assert narrow.mean > 2 * wide.mean
    assert trace(1, universe=1, trials=1).packets.tolist() == [1]


def test_pint_wants_more_packets_for_more_hops() -> None:
    """Sixteen bits as two digests of eight: more packets by hops, fewer than one digest of eight takes."""
    means = [trace(hops, trials=60).mean for hops in (2, 4, 8, 16)]
    assert means == sorted(means)
    assert means[2] < trace(8, bits=8, digests=1, trials=60).mean


def test_invalid_values_are_rejected() -> None:
    """One line about what was given."""
    with pytest.raises(FabricError):
        trace(5, bits=0)
    with pytest.raises(FabricError):
        trace(5, universe=4)
    with pytest.raises(FabricError):
        sampled_int.samples_for(FatTree(4), 1.0)
