"""Fat trees and leaf-spine: ports, links and ECMP paths."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from hopscope.base.hash_rows import mix64
from hopscope.base.names import Names
from hopscope.fabric.topology import (
    NO_PORT,
    FabricError,
    FatTree,
    LeafSpine,
    SpineLeafTor,
    Topology,
    flow_hash,
    parse_topology,
)

FABRICS = [FatTree(4), FatTree(6), LeafSpine(4, 2), LeafSpine(3, 5, 7), SpineLeafTor(10**9)]
HOST_STAGE = 5


def some_flows(topology: Topology, count: int = 2000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    src = rng.integers(0, topology.hosts, count)
    dst = (src + rng.integers(1, topology.hosts, count)) % topology.hosts
    sport = rng.integers(1024, 65536, count)
    return (
        src,
        dst,
        flow_hash(
            topology.host_address[src],
            topology.host_address[dst],
            np.full(count, 6),
            sport,
            np.full(count, 80),
        ),
    )


def assert_valid(topology: Topology, path: np.ndarray, src: int, dst: int) -> None:
    """A path leaves the source's card and arrives at the destination, over links that are joined."""
    ports = topology.ports
    used = [int(row) for row in path if row != NO_PORT]
    assert used[0] == src
    assert ports["peer_host"][used[-1]] == dst
    for here, there in pairwise(used):
        assert ports["peer_switch"][here] == ports["switch"][there]
        assert ports["peer_number"][here] == ports["number"][ports["reverse"][here]]
    for stage, row in enumerate(path):
        assert row == NO_PORT or ports["stage"][row] == stage


@pytest.mark.parametrize("topology", FABRICS, ids=lambda t: t.name)
def test_paths_are_valid(topology: Topology) -> None:
    """Every path is a chain of links from source to destination, with stages in order."""
    src, dst, hashes = some_flows(topology)
    for row, path in enumerate(topology.paths(src, dst, hashes)):
        assert_valid(topology, path, int(src[row]), int(dst[row]))


def test_fat_tree_counts() -> None:
    """A k-ary fat tree has 5k²/4 switches, k³/4 hosts and k ports at every switch."""
    for k in (4, 6, 8, 32):
        tree = FatTree(k)
        assert len(tree.switches) == 5 * k * k // 4
        assert tree.hosts == k**3 // 4
        assert len(list(tree.links())) == k**3 // 2
        per_switch = np.bincount(tree.ports["switch"][tree.hosts :])
        assert set(per_switch) == {k}


def test_path_lengths_of_a_fat_tree() -> None:
    """One switch under the same edge, three in a pod, five between pods."""
    tree = FatTree(4)
    src, dst, hashes = some_flows(tree)
    switches = (tree.paths(src, dst, hashes)[:, 1:] != NO_PORT).sum(axis=1)
    pod, edge = src // 4 != dst // 4, src // 2 != dst // 2
    assert np.array_equal(switches, np.where(pod, 5, np.where(edge, 3, 1)))


@pytest.mark.parametrize("topology", FABRICS[:4], ids=lambda t: t.name)
def test_ecmp_spreads_evenly(topology: Topology) -> None:
    """No way up takes more than half again, or less than half, of its even share of the flows."""
    src, dst, hashes = some_flows(topology, 40_000)
    paths = topology.paths(src, dst, hashes)
    far = paths[:, 1] != NO_PORT
    for stage in (1, 2):
        used = paths[far, stage]
        counts = np.bincount(used[used != NO_PORT])
        counts = counts[counts > 0]
        if len(counts):
            assert counts.max() < 1.5 * counts.mean()
            assert counts.min() > 0.5 * counts.mean()


@pytest.mark.parametrize("topology", FABRICS, ids=lambda t: t.name)
def test_a_failed_link_moves_only_its_flows(topology: Topology) -> None:
    """Whichever link fails, exactly the flows that used it take another valid path."""
    src, dst, hashes = some_flows(topology, 500)
    before = topology.paths(src, dst, hashes)
    for link in list(topology.links())[:12]:
        down = np.zeros(len(topology.ports), bool)
        both = [link, int(topology.ports["reverse"][link])]
        down[both] = True
        after = topology.paths(src, dst, hashes, down)
        assert np.array_equal((before != after).any(axis=1), np.isin(before, both).any(axis=1))
        assert not np.isin(after, both).any()
        for row in np.nonzero((before != after).any(axis=1))[0]:
            assert_valid(topology, after[row], int(src[row]), int(dst[row]))


def test_no_path_left() -> None:
    """Failing every uplink of a leaf is rejected with a reason."""
    topology = LeafSpine(3, 2)
    down = np.zeros(len(topology.ports), bool)
    for number in (5, 6):
        row = topology.port_row("leaf-0", number)
        down[[row, topology.ports["reverse"][row]]] = True
    with pytest.raises(FabricError, match="some hosts have no path left"):
        topology.check_paths(down)


def test_names_file(tmp_path: Path) -> None:
    """The names file is what the collector reads, with every switch and every port."""
    topology = FatTree(4)
    file = tmp_path / "names.toml"
    file.write_text(topology.names_toml())
    names = Names.load(file)
    assert names.node(1) == "edge-0-0"
    assert names.port(9, 3) == "to core-0"
    assert len(names.nodes) == 20
    assert len(names.ports) == 80


def test_ports_by_name() -> None:
    """A port is found by its switch's name or number, and a mistake says what there is."""
    topology = FatTree(4)
    assert topology.port_row("agg-0-0", 3) == topology.port_row(9, 3) == topology.port_row("9", 3)
    assert topology.link_between(9, 17) == topology.port_row(9, 3)
    assert topology.link_between(9, 1) == topology.port_row(9, 1)
    assert topology.link_between(1, 2) == NO_PORT
    with pytest.raises(FabricError, match="agg-0-0 has no port 9: its ports are 1 to 4"):
        topology.port_row("agg-0-0", 9)
    with pytest.raises(FabricError, match="has no switch 'spine-1'"):
        topology.port_row("spine-1", 1)


def test_hosts_below() -> None:
    """What is below a switch: its own hosts, its pod's, everybody's."""
    topology = FatTree(4)
    assert topology.hosts_below(0) == [0, 1]
    assert topology.hosts_below(8) == [0, 1, 2, 3]
    assert topology.hosts_below(16) == list(range(16))


@pytest.mark.parametrize(
    "text", ["fat-tree:5", "fat-tree:2", "fat-tree:34", "ring:4", "leaf-spine:4", "fat-tree:x", ""]
)
def test_no_such_topology(text: str) -> None:
    """What is no topology is rejected."""
    with pytest.raises(FabricError):
        parse_topology(text)


def test_parse() -> None:
    """Topologies by their text."""
    assert parse_topology("fat-tree:8").hosts == 128
    assert parse_topology("leaf-spine:4x2").hosts == 16
    assert parse_topology("leaf-spine:4x2x8", 10**10).hosts == 32


@pytest.mark.kernel
def test_hash_is_the_kernels() -> None:
    """The vectorised mix64 is the compiled one."""
    from hopscope.base.kernels.jit import mix64 as compiled

    values = np.array([0, 1, 2**63, 0x123456789ABCDEF], np.uint64)
    assert [int(compiled(v)) for v in values] == mix64(values).tolist()


def test_the_testbed_of_int_label_sends_through_25_ports() -> None:
    """Servers 1 and 8 to all others: the 25 of 40 ports of the published list of routes."""
    topology = parse_topology("paper")
    ends = np.array([(a, b) for a in (0, 7) for b in range(8) if a != b])
    paths = topology.paths(ends[:, 0], ends[:, 1], np.arange(14, dtype=np.uint64))
    used = np.unique(paths[:, 1:])
    used = used[used != NO_PORT]
    assert len(used) == 25
    assert (topology.ports["switch"] >= 0).sum() == 40
    names = {
        f"{topology.switch_name(int(topology.ports['node_id'][p]))} {topology.port_name(p)}" for p in used
    }
    published = """tor-1: server-1 server-2 leaf-1 leaf-2; tor-2: server-3 server-4; tor-3: server-5 server-6;
        tor-4: server-7 server-8 leaf-3 leaf-4; leaf-1: tor-2 spine-1; leaf-2: tor-1 tor-2 spine-3 spine-4;
        leaf-3: tor-3; leaf-4: tor-4 spine-4; spine-1: leaf-3; spine-3: leaf-4; spine-4: leaf-2 leaf-4"""
    parts = [part.strip().split(": ") for part in published.split(";")]
    assert {f"{s} to {end}" for s, ends in parts for end in ends.split()} == names


def test_failed_installed_routes_are_replaced() -> None:
    """Where a link of the testbed has failed, ECMP finds the other way; other routes stay."""
    topology = parse_topology("paper")
    down = np.zeros(len(topology.ports), bool)
    before = topology.paths([0, 0], [5, 7], np.arange(2, dtype=np.uint64))
    down[before[0, 2]] = True
    after = topology.paths([0, 0], [5, 7], np.arange(2, dtype=np.uint64), down)
    assert not down[after].any()
    assert (after[1] == before[1]).all()
