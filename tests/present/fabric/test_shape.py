"""Layers, pods and planes of the map, against the topologies that the paths come from."""

from __future__ import annotations

import numpy as np
import pytest

from hopscope.base.names import Names
from hopscope.fabric.topology import Topology, parse_topology
from hopscope.present.fabric import shape as shape_module
from hopscope.present.fabric.places import NONE
from hopscope.present.fabric.shape import Shape, shape_of


def shape(topology: Topology, named: bool, missing: int = 0) -> Shape:
    """The shape of a topology by all of its links but `missing` ones, in both directions."""
    rows = topology.ports[(topology.ports["switch"] >= 0) & (topology.ports["peer_switch"] >= 0)]
    kept = np.random.default_rng(1).permutation(len(rows))[missing:]
    nodes = np.array([switch.node_id for switch in topology.switches], np.int64)
    steps = np.stack([rows["node_id"], nodes[rows["peer_switch"]]], axis=1).astype(np.int64)[kept]
    edge = {int(node): (100, 100) for node in nodes[np.unique(topology.host_switch)]}
    edge = {int(node): (3, 100) for node in nodes} | edge  # a few paths are cut short anywhere
    names = {switch.node_id: switch.name for switch in topology.switches} if named else {}
    return shape_of(nodes, steps, edge, Names(names))


def truth(topology: Topology) -> tuple[list[int], list[int | None]]:
    """Layer and pod of each switch, by how the topology numbers its switches."""
    name = topology.name
    if name.startswith("fat-tree"):
        k = int(name.split(":")[1])
        half = k // 2
        pods = [pod for pod in range(k) for _ in range(half)]
        return [0] * k * half + [1] * k * half + [2] * half * half, [*pods, *pods, *[None] * (half * half)]
    if name.startswith("leaf-spine"):
        leaves, spines, _ = map(int, name.split(":")[1].split("x"))
        return [0] * leaves + [1] * spines, [None] * (leaves + spines)
    pairs = [0, 0, 1, 1]
    return [2] * 4 + [1] * 4 + [0] * 4, [None] * 4 + [*pairs, *pairs]  # spines, leaves, tor switches


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize(
    "text", ["fat-tree:4", "fat-tree:8", "fat-tree:16", "leaf-spine:4x16", "leaf-spine:8x2", "paper"]
)
def test_layers_and_pods_are_those_of_the_topology(text: str, named: bool) -> None:
    """With and without names: the layer of each switch, and which switches are in one pod."""
    topology = parse_topology(text)
    found = shape(topology, named)
    layers, pods = truth(topology)
    assert found.layer.tolist() == layers
    groups: dict[int, set[int | None]] = {}
    for mine, real in zip(found.pod.tolist(), pods, strict=True):
        groups.setdefault(mine, set()).add(real)
    assert all(len(each) == 1 for each in groups.values()), "a pod has switches of two"
    assert len(groups) == len(set(pods)), "a pod is in two parts"
    assert {NONE} == {
        mine for mine, real in zip(found.pod.tolist(), pods, strict=True) if real is None
    } or None not in pods


def test_a_pod_and_a_plane_are_named_by_the_number_that_all_names_share() -> None:
    """`agg-3-1` and `edge-3-0` are of pod 3; cores share no number, so a plane has its lowest node id."""
    found = shape(parse_topology("fat-tree:4"), named=True)
    assert found.pods == ("pod-0", "pod-1", "pod-2", "pod-3")
    assert found.layers == ("edge", "agg", "core")
    assert found.planes == ("plane-of-17", "plane-of-19")
    assert shape(parse_topology("fat-tree:4"), named=False).pods == (
        "pod-of-1",
        "pod-of-3",
        "pod-of-5",
        "pod-of-7",
    )


def test_routers_above_the_core_leave_pods_and_planes() -> None:
    """Two border routers connect all cores, and four switches are elsewhere, two of them linked: the pods of
    the fat tree are those without them, and so are its planes. `edge-1` is not pod 1, which is larger.
    """
    topology = parse_topology("fat-tree:4")
    names = {switch.node_id: switch.name for switch in topology.switches}
    cores = [node for node, name in names.items() if name.startswith("core")]
    names |= {91: "edge-1", 92: "edge-9", 93: "border-1", 94: "border-2", 95: "edge-lab-7", 96: "agg-lab-7"}
    rows = topology.ports[(topology.ports["switch"] >= 0) & (topology.ports["peer_switch"] >= 0)]
    ids = np.array([switch.node_id for switch in topology.switches], np.int64)
    inner = np.stack([rows["node_id"], ids[rows["peer_switch"]]], axis=1)
    outer = [[border, core] for border in (93, 94) for core in cores] + [[95, 96]]
    steps = np.concatenate([inner, outer]).astype(np.int64)
    found = shape_of(np.array(sorted(names)), steps, {}, Names(names))
    assert found.layers == ("edge", "agg", "core", "border")
    assert found.pods == ("pod-0", "pod-1", "pod-2", "pod-3", "pod-7", "pod-9", "pod-of-91")
    assert found.planes == ("plane-of-17", "plane-of-19", "border")
    alone = shape(topology, named=True)
    assert found.pod[: len(ids)].tolist() == alone.pod.tolist()
    assert found.plane[: len(ids)].tolist() == alone.plane.tolist()
    assert found.plane[len(ids) :].tolist() == [NONE, NONE, 2, 2, NONE, NONE]


def test_a_long_chain_of_switches_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without names, every switch of a chain is a layer, but none below the top can be the core."""
    searched: list[int] = []
    parts = shape_module._components
    monkeypatch.setattr(shape_module, "_components", lambda *given: searched.append(1) or parts(*given))
    nodes = np.arange(1, 101)
    found = shape_of(nodes, np.stack([nodes[:-1], nodes[1:]], axis=1), {1: (1, 1)}, Names())
    assert (len(found.layers), len(searched)) == (100, 2)


def test_layers_are_named_by_names_only() -> None:
    """Words for layers name them, also after a prefix; without them, layers that begin with different words.
    Names that do not tell layers apart, or no names, leave numbers.
    """
    nodes, steps, edge = np.arange(1, 5), np.array([[1, 3], [1, 4], [2, 3], [2, 4]]), {1: (9, 9), 2: (9, 9)}

    def layers(*names: str) -> tuple[str, ...]:
        return shape_of(nodes, steps, edge, Names(dict(zip(nodes.tolist(), names, strict=False)))).layers

    assert layers("pod-leaf-1", "pod-leaf-2", "pod-spine-1", "pod-spine-2") == ("leaf", "spine")
    assert layers("pe-1", "pe-2", "p-1", "p-2") == ("pe", "p")
    assert layers("router-1", "router-2", "router-3", "router-4") == ("layer 1", "layer 2")
    assert layers() == ("layer 1", "layer 2")


def test_missing_links_leave_layers_and_pods() -> None:
    """A fifth of the directed links was never seen: the same layers and pods."""
    topology = parse_topology("fat-tree:8")
    found = shape(topology, named=False, missing=len(topology.ports) // 8)
    layers, pods = truth(topology)
    assert found.layer.tolist() == layers
    assert len(found.pods) == len({pod for pod in pods if pod is not None})


def test_a_ring_has_one_layer_and_no_pods() -> None:
    """Every switch has hosts: an irregular network is one layer."""
    nodes = np.arange(1, 7)
    steps = np.stack([nodes, np.roll(nodes, -1)], axis=1)
    found = shape_of(nodes, steps, {int(node): (10, 20) for node in nodes}, Names())
    assert found.layer.tolist() == [0] * 6
    assert found.pods == ()
    assert found.planes == ()


def test_a_network_without_anything_has_a_shape() -> None:
    """No switch, and one switch without a link."""
    none = np.empty(0, np.int64)
    assert shape_of(none, none.reshape(0, 2), {}, Names()).layers == ("switch",)
    assert shape_of(np.array([7]), none.reshape(0, 2), {7: (1, 1)}, Names()).layer.tolist() == [0]
