"""Postcards: a switch reports a packet to the collector at once; nothing is added to packets.

NetSight (Handigol et al., HotSDN 2012) sends a postcard for every packet and hop,
draft-song-ippm-postcard-based-telemetry for marked packets. Here, a port sends one postcard per round.
Postcards use a separate network, in which each crosses one link.
"""

from __future__ import annotations

from ...ports import Topology
from .rival import ETHERNET, IPV4, ITEM, UDP, Rival, Round, no_generators

POSTCARD = ETHERNET + IPV4 + UDP
"""Header bytes of a postcard."""


def cost(topology: Topology) -> Round:
    """A round with a postcard from every port."""
    ports = int((topology.ports["switch"] >= 0).sum())
    note = f"{POSTCARD + ITEM} B each, over one link of a separate network"
    return Round(0, 0.0, ports, 8.0 * ports * (POSTCARD + ITEM), 1.0, note=note)


RIVAL = Rival("postcards", "postcards", "draft-song-ippm-postcard-based-telemetry", cost, no_generators)
