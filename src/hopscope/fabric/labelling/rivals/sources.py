"""Probes as traffic sources of the simulation."""

from __future__ import annotations

from ...ports import Topology
from ..simulation.records import SourceFlag
from ..simulation.sources import Sources, on_routes, tree
from .rival import Probes


def probe_sources(topology: Topology, probes: Probes, every_s: float, *, seed: int = 1) -> Sources:
    """A source for each route of a round: one probe every `every_s` s, with a random phase.

    If `probes.item` is not 0, every switch writes `NetworkModel.item_bytes` into a probe; both must be equal.
    """
    flags = SourceFlag.PROBE | (SourceFlag.LABEL_ALWAYS if probes.item else SourceFlag.LABEL_NEVER)
    routes = [tree(topology, port, below) for port, below in probes.routes]
    return on_routes(routes, every_s, size=probes.size, flags=int(flags), seed=seed)
