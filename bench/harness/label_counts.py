"""What the authors of INT-label count in Figures 20 and 21, recovered from their data: fat trees of any k.

Bytes are those that arrive, once, in ROUNDS rounds a second: no link counts, and no header but INT-path's.
"""

from __future__ import annotations

ROUNDS = 100
"""Rounds a second."""
ITEM = 32
PING = 8
"""Bytes of a ping."""
PATH_HEADER = 56
"""Bytes of an INT-path probe without items."""


def hosts(k: int) -> int:
    """Of a fat tree."""
    return k**3 // 4


def edge_switches(k: int) -> int:
    """Of a fat tree, top-of-rack switches."""
    return k * k // 2


def generators(k: int) -> dict[str, int]:
    """Fig. 20. INT-path's are the odd vertices of a graph with hosts, each of which has one link; Pingmesh's
    are hosts and edge switches, as the paper's text says.
    """
    return {
        "hula": edge_switches(k),
        "pingmesh": hosts(k) + edge_switches(k),
        "int-path": hosts(k),
        "int-label": 0,
    }


def hula_items(k: int) -> int:
    """Items in the copies of one edge switch's probes that arrive at other edge switches: four in each of
    (k/2)³ (k - 1) from other pods, two in each of (k/2) (k/2 - 1) from its own.
    """
    half = k // 2
    return 4 * half**3 * (k - 1) + 2 * half * (half - 1)


def hula_items_of_the_authors(k: int) -> int:
    """The same, with the copies of the switch's own pod counted k/2 times: their data need that."""
    half = k // 2
    return 4 * half**3 * (k - 1) + 2 * half**2 * (half - 1)


def round_bytes(k: int) -> dict[str, int]:
    """Fig. 21, bytes of one round."""
    servers, edges = hosts(k), edge_switches(k)
    pings = servers * (k // 2 - 1) + edges * (edges - 1)
    return {
        "hula": edges * hula_items_of_the_authors(k) * ITEM,
        "pingmesh": pings * PING,
        "int-path": servers * (5 * ITEM + PATH_HEADER),
        "int-label": 5 * servers * ITEM,  # every port of every switch, those to hosts too
    }


def megabits(k: int) -> dict[str, float]:
    """Fig. 21, Mbit/s."""
    return {name: 8e-6 * ROUNDS * count for name, count in round_bytes(k).items()}
