"""Probes of rivals as traffic of the simulation."""

from __future__ import annotations

from ...ports import Topology
from ..simulation.records import SourceFlag
from ..simulation.sources import Sources, on_routes, tree
from .rival import Probes


def probe_sources(topology: Topology, probes: Probes, every_s: float, *, seed: int = 1) -> Sources:
    """A source for each route of a round, which sends one probe every `every_s` s, from a random phase on.

    Every switch writes an item of `NetworkModel.item_bytes` into those that carry items: the model's must be
    `probes.item`.
    """
    flags = SourceFlag.PROBE | (SourceFlag.ALWAYS if probes.item else SourceFlag.NEVER)
    routes = [tree(topology, port, below) for port, below in probes.routes]
    return on_routes(routes, every_s, size=probes.size, flags=int(flags), seed=seed)
