"""Postcards: a switch reports a packet to the collector at once; nothing is added to packets.

NetSight (Handigol et al., HotSDN 2012) sends a postcard for every packet and hop,
draft-song-ippm-postcard-based-telemetry for marked packets. Here, a port sends `every` postcards per round.
Postcards use a separate network, in which each crosses one link.
"""

from __future__ import annotations

import numpy as np

from ...ports import Topology
from .rival import ETHERNET, IPV4, ITEM, UDP, Rival, Round

POSTCARD = ETHERNET + IPV4 + UDP
"""Header bytes of a postcard."""


def generators(topology: Topology) -> int:
    """None, since it sends no probes."""
    return 0


def cost(topology: Topology, *, every: float = 1.0, item: int = ITEM) -> Round:
    """A round; `every`: postcards per port."""
    ports = int((topology.ports["switch"] >= 0).sum())
    bits = 8.0 * ports * every * (POSTCARD + item)
    return Round(
        0, 0.0, ports * every, bits, float(1 - np.exp(-every)) if every < 1 else 1.0,
        note=f"{POSTCARD + item} B each, over one link of a separate network",
    )  # fmt: skip


RIVAL = Rival("postcards", "postcards", "draft-song-ippm-postcard-based-telemetry", cost, generators)
