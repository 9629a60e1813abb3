"""INT-label in the same terms: Base A, one label for each port and round."""

from __future__ import annotations

from ...ports import Topology
from .rival import ITEM, Rival, Round, stages

OPTION = 2
"""INT OPTION in each labelled packet, bytes."""


def generators(topology: Topology) -> int:
    """None, since it sends no probes."""
    return 0


def cost(topology: Topology, *, labels: float = 1.0, item: int = ITEM) -> Round:
    """A round in which every port writes `labels`: T_i / T.

    A label crosses the remaining links to the last switch, which removes it; one written at a port to a host
    crosses none. Each counts with its own INT OPTION, although packets with several labels have one.
    """
    traffic = stages(topology)
    crossed = float(traffic.ports @ traffic.links_left)
    written = labels * float(traffic.ports.sum())
    return Round(
        0, 0.0, written, 8 * labels * crossed * (item + OPTION), min(1.0, labels),
        note=f"{OPTION} + {item} B per label, traffic between random hosts; exports: at most",
    )  # fmt: skip


RIVAL = Rival("int-label", "INT-label", "INT-label §2", cost, generators)
