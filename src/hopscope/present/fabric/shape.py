"""The shape of a network: layers from hosts to the core, pods, and groups of the top layer.

Layers come from the names of switches (tor, leaf, spine, core …) if these state them, else from distances: a
switch where paths begin or end is in the lowest layer; the layer of any other switch is its distance to the
nearest of these. The core is the top layer, or, below routers to the outside, the highest layer that connects
parts with more than one switch each. A pod is a connected part of the network below the core. A plane is a
connected part of the core and the layer below it; routers above the core are one more.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...base.names import Names
from .places import NONE, Ints

EDGE_SHARE = 0.05
"""A switch is at the edge if more than this share of its flows begin or end there; paths of a few flows may
be incomplete."""
NAMED_SHARE = 0.9
"""Layers are taken from names if at least this share of switches has a name with a layer."""
_RANKS = (
    (0, "tor|edge|access|rack"),
    (1, "leaf|agg|aggr|aggregation|dist|distribution"),
    (2, "spine"),
    (3, "core|superspine|super|ssw"),
    (4, "border|wan|dci|dc|exit"),
)
"""Words in names by their rank, from the hosts to the outside. Ranks that do not occur are skipped."""
_RANK_OF = {word: rank for rank, listed in _RANKS for word in listed.split("|")}
_WORD = re.compile(r"[a-z]+|\d+")


@dataclass(frozen=True, slots=True)
class Shape:
    """The position of each switch; all arrays have the order of `nodes`."""

    nodes: Ints
    """Node ids, sorted."""
    layer: Ints
    """0: next to hosts."""
    pod: Ints
    """Index in `pods`; NONE: in the core or above, or no pods."""
    plane: Ints
    """Index in `planes`; NONE: below the core. Switches above the core are in the last one."""
    layers: tuple[str, ...]
    """Names of the layers."""
    pods: tuple[str, ...]
    planes: tuple[str, ...]

    def row(self, nodes: npt.ArrayLike) -> Ints:
        """Index of each of these nodes; NONE: it is not contained."""
        ids = np.asarray(nodes, np.int64)
        at = np.minimum(np.searchsorted(self.nodes, ids), max(0, len(self.nodes) - 1))
        return np.where(self.nodes[at] == ids, at, NONE) if len(self.nodes) else np.full_like(ids, NONE)


def shape_of(nodes: Ints, steps: Ints, edge: Mapping[int, tuple[int, int]], names: Names) -> Shape:
    """The shape of a network. `nodes`: sorted ids; `steps`: node and next node, int64 [links, 2]; `edge`: by
    node, the number of flows that begin or end there, and of all flows through it.
    """
    at = np.searchsorted(nodes, steps)
    pairs = np.unique(np.sort(at[at[:, 0] != at[:, 1]], axis=1), axis=0)
    words = [_WORD.findall((names.node(node) or "").lower()) for node in nodes.tolist()]
    layer = _by_names(words)
    if layer is None:
        layer = _by_distance(nodes, pairs, edge)
        core = int(layer.max(initial=0))
    else:
        core = _core(layer, pairs)
    layers = _layer_names(layer, words)
    below = (layer < core) | (core == 0)
    component = _components(len(nodes), pairs[below[pairs].all(axis=1)])
    pod, pods = _named("pod", component, below, nodes, words)
    if core < 2 or len(pods) >= below.sum():
        pod, pods = np.full(len(nodes), NONE), ()
    upper = ((layer[pairs] == core) | (layer[pairs] == core - 1)).all(axis=1)
    plane, planes = _named(
        "plane", _components(len(nodes), pairs[upper]), ~below & (layer == core), nodes, words
    )
    if core < len(layers) - 1:
        plane[layer > core] = len(planes)
        planes += (" and ".join(layers[core + 1 :]),)
    return Shape(nodes, layer, pod, plane, layers, pods, planes)


def _by_names(words: list[list[str]]) -> Ints | None:
    """Layers by the names of switches; None if these do not state them."""
    found = np.array([next((_RANK_OF[w] for w in name if w in _RANK_OF), NONE) for name in words], np.int64)
    known = found[found != NONE]
    if not len(found) or len(known) < NAMED_SHARE * len(found) or len(np.unique(known)) < 2:
        return None
    present = np.unique(known)
    layers = np.searchsorted(present, found)
    layers[found == NONE] = 0
    return layers


def _by_distance(nodes: Ints, pairs: Ints, edge: Mapping[int, tuple[int, int]]) -> Ints:
    """Layers by the distance from the nearest switch at the edge."""
    counts = np.array([edge.get(node, (0, 0)) for node in nodes.tolist()], np.float64).reshape(-1, 2)
    layer = np.where(counts[:, 0] > EDGE_SHARE * counts[:, 1], 0, NONE).astype(np.int64)
    for distance in range(len(nodes)):
        near = layer[pairs] == distance
        reached = np.concatenate([pairs[near[:, 0], 1], pairs[near[:, 1], 0]])
        reached = reached[layer[reached] == NONE]
        if not len(reached):
            break
        layer[reached] = distance + 1
    layer[layer == NONE] = 0
    return layer


def _core(layer: Ints, pairs: Ints) -> int:
    """The highest layer that connects at least two parts with more than one switch; else the top layer."""
    top, count = int(layer.max(initial=0)), len(layer)
    for core in range(top, 1, -1):
        part = _components(count, pairs[(layer[pairs] < core).all(axis=1)])
        whole = _components(count, pairs[(layer[pairs] <= core).all(axis=1)])
        parts = np.flatnonzero(np.bincount(part, minlength=count) > 1)
        if len(np.unique(whole[parts])) < len(parts):
            return core
    return top


def _components(count: int, pairs: Ints) -> Ints:
    """For each row, the lowest row that it is connected with, directly or not."""
    label = np.arange(count)
    while len(pairs):
        lowest = label[pairs].min(axis=1)
        after = label.copy()
        np.minimum.at(after, pairs[:, 0], lowest)
        np.minimum.at(after, pairs[:, 1], lowest)
        after = after[after]
        if (after == label).all():
            break
        label = after
    return label


def _named(
    kind: str, component: Ints, members: npt.NDArray[np.bool_], nodes: Ints, words: list[list[str]]
) -> tuple[Ints, tuple[str, ...]]:
    """Number the components of the `members`. A component is named after the number that the names of all
    its switches begin with, if no other component of as many switches has the same, or else after its lowest
    node id.
    """
    roots, index = np.unique(component[members], return_inverse=True)
    group = np.full(len(nodes), NONE)
    group[members] = index
    order = np.argsort(group, kind="stable")
    rows = np.split(order, np.searchsorted(group[order], np.arange(len(roots))))[1:]
    alike: dict[str, list[int]] = {}
    for number in sorted(range(len(roots)), key=lambda number: len(rows[number])):
        firsts = {next((word for word in words[row] if word.isdigit()), "") for row in rows[number].tolist()}
        if len(firsts) == 1:
            alike.setdefault(firsts.pop(), []).append(number)
    first = {
        numbers[-1]: word
        for word, numbers in alike.items()
        if word and (len(numbers) == 1 or len(rows[numbers[-1]]) > len(rows[numbers[-2]]))
    }
    ranked = sorted(range(len(roots)), key=lambda number: (number not in first, int(first.get(number, 0))))
    place = np.empty(len(ranked), np.int64)
    place[ranked] = np.arange(len(ranked))
    group[members] = place[index]
    return group, tuple(
        f"{kind}-{first[number]}" if number in first else f"{kind}-of-{nodes[rows[number]].min()}"
        for number in ranked
    )


def _layer_names(layer: Ints, words: list[list[str]]) -> tuple[str, ...]:
    """Names of the layers: the word for it in most names of each layer, or the word that these begin with. If
    names do not tell all layers apart, layers are numbered.
    """
    count = int(layer.max(initial=0)) + 1
    found = set[str]()
    named = []
    for number in range(count):
        mine = [words[row] for row in np.flatnonzero(layer == number).tolist()]
        telling = Counter(next((w for w in name if w in _RANK_OF), name[0]) for name in mine if name)
        word, times = telling.most_common(1)[0] if telling else ("", 0)
        if not word.isalpha() or times * 2 <= len(mine) or word in found:
            return ("switch",) if count == 1 else tuple(f"layer {number}" for number in range(1, count + 1))
        found.add(word)
        named.append(word)
    return tuple(named)
