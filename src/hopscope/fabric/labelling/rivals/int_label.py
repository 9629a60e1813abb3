"""INT-label in the same terms: Base A, one label for each port and round."""

from __future__ import annotations

from ...ports import Topology
from .rival import ITEM, Rival, Round, no_generators, stages

OPTION = 2
"""INT OPTION in each labelled packet, bytes."""


def cost(topology: Topology) -> Round:
    """A round in which every port writes a label.

    A label crosses the remaining links to the last switch, which removes it; one written at a port to a host
    crosses none. Each counts with its own INT OPTION, although packets with several labels have one.
    """
    traffic = stages(topology)
    crossed = float(traffic.ports @ traffic.links_left)
    return Round(
        0, 0.0, float(traffic.ports.sum()), 8 * crossed * (ITEM + OPTION), 1.0,
        note=f"{OPTION} + {ITEM} B per label, traffic between random hosts; exports: at most",
    )  # fmt: skip


RIVAL = Rival("int-label", "INT-label", "INT-label §2", cost, no_generators)
