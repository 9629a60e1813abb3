"""Fabrics: k-ary fat trees, leaf-spine, the topology of INT-label's evaluation, and own topologies.

Fat tree: Al-Fares et al., A Scalable, Commodity Data Center Network Architecture (SIGCOMM 2008).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np

from .ports import NO_PORT, PORT, FabricError, Ints, Switch, Topology, flow_hash
from .records import STAGES
from .spine_leaf_tor import SpineLeafTor

__all__ = [
    "NO_PORT",
    "PORT",
    "STAGES",
    "FabricError",
    "FatTree",
    "LeafSpine",
    "SpineLeafTor",
    "Switch",
    "Topology",
    "flow_hash",
    "parse_topology",
]

DEFAULT_RATE = 1_000_000_000
"""Rate of every link of a fat tree and of a leaf's host links, bit/s."""


class FatTree(Topology):
    """A k-ary fat tree: k pods of k/2 edge and k/2 aggregation switches, (k/2)² cores, k³/4 hosts."""

    def __init__(self, k: int, rate: int = DEFAULT_RATE) -> None:
        super().__init__()
        if k % 2 or not 4 <= k <= 32:
            raise FabricError(f"a fat tree's k is an even number from 4 to 32, not {k}")
        self.k, self.half = k, k // 2
        self.name = f"fat-tree:{k}"
        self.choices = (self.half, self.half)
        half, pods = self.half, range(k)
        names = [f"edge-{p}-{e}" for p in pods for e in range(half)]
        names += [f"agg-{p}-{a}" for p in pods for a in range(half)]
        names += [f"core-{c}" for c in range(half * half)]
        self.switches = [Switch(i + 1, name) for i, name in enumerate(names)]
        places = list(product(pods, range(half), range(half)))
        self._hosts(
            np.arange(k * half, dtype=np.int64),
            half,
            [(10 << 24) | (p << 16) | (e << 8) | (h + 2) for p, e, h in places],
            [f"host-{p}-{e}-{h}" for p, e, h in places],
            rate,
        )
        for p, e, a in places:
            self._link(self._edge(p, e), half + 1 + a, self._agg(p, a), 1 + e, rate, 1, 4)
        for p, a, c in places:
            self._link(self._agg(p, a), half + 1 + c, self._core(a, c), 1 + p, rate, 2, 3)
        self._seal()
        self._edge_up = self._table(k * half, lambda e, a: (e, self._agg(e // half, a)))
        self._agg_up = self._table(k * half, lambda g, c: (k * half + g, self._core(g % half, c)))

    def _table(self, rows: int, ends: Callable[[int, int], tuple[int, int]]) -> Ints:
        return np.array(
            [[self._towards[ends(r, c)] for c in range(self.half)] for r in range(rows)], np.int64
        )

    def _edge(self, pod: int, edge: int) -> int:
        return pod * self.half + edge

    def _agg(self, pod: int, agg: int) -> int:
        return self.k * self.half + pod * self.half + agg

    def _core(self, agg: int, choice: int) -> int:
        return 2 * self.k * self.half + agg * self.half + choice

    def _inner_path(self, src: Ints, dst: Ints, choice: list[Ints]) -> Ints:
        agg, core = choice
        inner = np.full((len(src), 4), NO_PORT, np.int64)
        near, remote = src // self.half * self.half + agg, dst // self.half * self.half + agg
        apart, between = src != dst, src // self.half != dst // self.half
        inner[apart, 0] = self._edge_up[src, agg][apart]
        inner[between, 1] = self._agg_up[near, core][between]
        inner[between, 2] = self._agg_up[remote, core][between] + 1  # the other direction is the next row
        inner[apart, 3] = self._edge_up[dst, agg][apart] + 1
        return inner


class LeafSpine(Topology):
    """Every leaf is linked to every spine; a path between leaves has three switches."""

    def __init__(
        self,
        leaves: int,
        spines: int,
        hosts: int = 4,
        rate: int = DEFAULT_RATE,
    ) -> None:
        super().__init__()
        if not 2 <= leaves <= 256 or not 1 <= spines <= 64 or not 1 <= hosts <= 128:
            raise FabricError("leaf-spine takes 2 to 256 leaves, 1 to 64 spines and 1 to 128 hosts per leaf")
        self.leaves, self.spines = leaves, spines
        self.name = f"leaf-spine:{leaves}x{spines}x{hosts}"
        self.choices = (spines,)
        names = [f"leaf-{i}" for i in range(leaves)] + [f"spine-{i}" for i in range(spines)]
        self.switches = [Switch(i + 1, name) for i, name in enumerate(names)]
        places = list(product(range(leaves), range(hosts)))
        self._hosts(
            np.arange(leaves, dtype=np.int64),
            hosts,
            [(10 << 24) | (leaf << 8) | (h + 2) for leaf, h in places],
            [f"host-{leaf}-{h}" for leaf, h in places],
            rate,
        )
        uplink = 4 * rate
        for leaf, spine in product(range(leaves), range(spines)):
            self._link(leaf, hosts + 1 + spine, leaves + spine, 1 + leaf, uplink, 1, 3)
        self._seal()
        self._up = np.array(
            [[self._towards[leaf, leaves + s] for s in range(spines)] for leaf in range(leaves)], np.int64
        )

    def _inner_path(self, src: Ints, dst: Ints, choice: list[Ints]) -> Ints:
        inner = np.full((len(src), 4), NO_PORT, np.int64)
        apart = src != dst
        inner[apart, 0] = self._up[src, choice[0]][apart]
        inner[apart, 2] = self._up[dst, choice[0]][apart] + 1
        return inner


def parse_topology(text: str, rate: int = DEFAULT_RATE) -> Topology:
    """Build `fat-tree:K`, `leaf-spine:LxS[xH]` (hosts per leaf), `paper`, or the own topology of a file.

    `rate`: bit/s, of links for which the file states none. Raises FabricError.
    """
    if text == "paper":
        return SpineLeafTor(rate)
    if is_file(text):
        from .topology_file import read_topology

        return read_topology(Path(text), rate)
    kind, _, size = text.partition(":")
    try:
        numbers = [int(n) for n in size.split("x")]
    except ValueError:
        numbers = []
    if kind == "fat-tree" and len(numbers) == 1:
        return FatTree(numbers[0], rate)
    if kind == "leaf-spine" and len(numbers) in (2, 3):
        return LeafSpine(numbers[0], numbers[1], (*numbers[2:], 4)[0], rate)
    expected = "fat-tree:K, leaf-spine:LxS, leaf-spine:LxSxHOSTS, paper, or a file such as ring.toml"
    raise FabricError(f"unknown topology {text!r}: expected {expected}")


def is_file(text: str) -> bool:
    """Whether a topology is given as a file, by its ending or its folder."""
    return text.endswith(".toml") or "/" in text
