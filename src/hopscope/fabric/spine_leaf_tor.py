"""The 4-4-4 topology of HULA's and INT-label's evaluation, with the routes of INT-label's testbed.

Katta et al., HULA: Scalable Load Balancing Using Programmable Data Planes (SOSR 2016); links, devices and
routes as in the published code of INT-label (`INT_label/topology/clos.py`, `packet/send/Path`).
"""

from __future__ import annotations

from itertools import product

import numpy as np
import numpy.typing as npt

from .ports import NO_PORT, Ints, Switch, Topology

PODS = 2
WIDTH = 2
"""Leaves and ToR switches of a pod, spines above a leaf, servers below a ToR switch."""
SERVER_1, SERVER_8 = 0, 7
INSTALLED = {
    (SERVER_1, 2): (0, 0),
    (SERVER_1, 3): (1, 0),
    (SERVER_1, 4): (0, 0),
    (SERVER_1, 5): (0, 0),
    (SERVER_1, 6): (1, 0),
    (SERVER_1, 7): (1, 1),
    (SERVER_8, 0): (1, 1),
    (SERVER_8, 1): (1, 1),
    (SERVER_8, 2): (1, 1),
    (SERVER_8, 3): (1, 1),
    (SERVER_8, 4): (0, 0),
    (SERVER_8, 5): (0, 0),
}
"""Leaf and spine, one of two each, between two servers, as published. They use 25 ports; section 6.1 has 24,
but the coverage that the authors measured comes in steps of 1/25.
"""


class SpineLeafTor(Topology):
    """4 spines, 4 leaves, 4 ToR switches, 8 servers, in two pods."""

    def __init__(self, rate: int) -> None:
        super().__init__()
        self.name = "paper"
        self.choices = (WIDTH, WIDTH)
        self.switches = [
            Switch(4 * level + i + 1, f"{kind}-{i + 1}")
            for level, kind in enumerate(("spine", "leaf", "tor"))
            for i in range(4)
        ]
        places = list(product(range(PODS), range(WIDTH), range(WIDTH)))
        self._hosts(
            np.arange(8, 12, dtype=np.int64),
            WIDTH,
            [(10 << 24) | (p + 1 << 16) | (t + 1 << 8) | (h + 1) for p, t, h in places],
            [f"server-{i + 1}" for i in range(8)],
            rate,
        )
        for p, t, leaf in places:
            self._link(8 + 2 * p + t, WIDTH + 1 + leaf, 4 + 2 * p + leaf, 1 + t, rate, 1, 4)
        for p, leaf, s in places:
            self._link(4 + 2 * p + leaf, WIDTH + 1 + s, 2 * leaf + s, 1 + p, rate, 2, 3)
        self._seal()
        self._between = np.full((12, 12), NO_PORT, np.int64)
        for ends, port in self._towards.items():
            self._between[ends] = port

    def _inner_path(self, src: Ints, dst: Ints, choice: list[Ints]) -> Ints:
        leaf, spine = choice
        inner = np.full((len(src), 4), NO_PORT, np.int64)
        near, remote = 4 + (src - 8) // WIDTH * 2 + leaf, 4 + (dst - 8) // WIDTH * 2 + leaf
        top = WIDTH * leaf + spine
        apart, between = src != dst, near != remote
        inner[apart, 0] = self._between[src, near][apart]
        inner[between, 1] = self._between[near, top][between]
        inner[between, 2] = self._between[top, remote][between]
        inner[apart, 3] = self._between[remote, dst][apart]
        return inner

    def try_paths(
        self,
        src: npt.ArrayLike,
        dst: npt.ArrayLike,
        hashes: npt.NDArray[np.uint64],
        down: npt.ArrayLike | None = None,
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
        """ECMP paths, except between servers 1 and 8, whose installed routes are used while they work."""
        paths, lost = super().try_paths(src, dst, hashes, down)
        failed = np.zeros(len(self.ports), bool) if down is None else np.asarray(down, bool)
        for row, pair in enumerate(zip(np.asarray(src).tolist(), np.asarray(dst).tolist(), strict=True)):
            if pair in INSTALLED:
                near, remote = (self.host_switch[[host]] for host in pair)
                inner = self._inner_path(near, remote, [np.array([c]) for c in INSTALLED[pair]])[0]
                if not failed[inner[inner != NO_PORT]].any():
                    paths[row, 1:-1] = inner
        return paths, lost
