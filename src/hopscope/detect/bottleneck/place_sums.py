"""Sums over live paths for places without distributions: latency, slow flows, queues and links."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ...wire.records import Records
from ..flows.reading.flow_hops import NO_QUEUE, FlowHops
from ..flows.reading.state import queues_by_port
from ..records import NO_PORT, PortKind
from .shares import Gauge, Place, Queues


class PlaceSums:
    """Sums over the paths of many flows, added in blocks: latency and packets by place, and slow flows.

    `slow_above_ns`: latest end-to-end latency above which a flow is slow; None: no flow is.
    """

    def __init__(self, queues: Queues, slow_above_ns: int | None) -> None:
        self.sums: dict[Place, tuple[int, int]] = {}
        """(Sum of latencies, packets) of all flows by place, since each was first seen."""
        self.slow: dict[Place, int] = {}
        """Slow flows by place."""
        self.slow_flows = 0
        self._queues = queues
        self.slow_above_ns = slow_above_ns

    def add(self, block: FlowHops) -> None:
        """Add the flows of a block."""
        hops = block.hops
        slow = np.zeros(len(block.flows), np.bool_)
        if self.slow_above_ns is not None:
            known = block.flows["state"] & 2 > 0
            slow = known & (block.flows["latency_latest"] > self.slow_above_ns)
        self.slow_flows += int(slow.sum())
        columns = (hops["node_id"].astype(np.int64), hops["egress_port"].astype(np.int64), block.queue)
        places, which = np.unique(np.stack(columns), axis=1, return_inverse=True)
        which = which.reshape(-1)
        known_hops = hops["state"] & 1 > 0
        totals = np.zeros(places.shape[1], np.uint64)
        packets = np.zeros(places.shape[1], np.uint64)
        np.add.at(totals, which[known_hops], hops["latency_sum"][known_hops])
        np.add.at(packets, which[known_hops], hops["samples"][known_hops])
        through = np.unique(np.stack([which, block.owner])[:, slow[block.owner]], axis=1)[0]
        slowed = np.bincount(through, minlength=places.shape[1])
        for at, (node, port, queue) in enumerate(places.T.tolist()):
            raw = (node, None if port == NO_PORT else port, None if queue == NO_QUEUE else queue)
            place = self._queues.resolve(raw)
            before = self.sums.get(place, (0, 0))
            self.sums[place] = (before[0] + int(totals[at]), before[1] + int(packets[at]))
            if slowed[at]:
                self.slow[place] = self.slow.get(place, 0) + int(slowed[at])


def gauges_of(ports: Records, places: Iterable[Place]) -> dict[Place, tuple[Gauge, Gauge]]:
    """(Occupancy, utilisation) of places, as far as PORT records have it."""
    by_port = queues_by_port(ports)
    queues: dict[tuple[int, int | None, int], Gauge] = {}
    links: dict[tuple[int, int | None], Gauge] = {}
    for row in ports[ports["state"] & 1 > 0]:
        gauge = Gauge(int(row["latest"][0]), None, int(row["highest"][0]))
        if row["kind"] == PortKind.QUEUE:
            queues[int(row["node_id"]), int(row["port"]) if by_port else None, int(row["ident"])] = gauge
        elif row["kind"] == PortKind.EGRESS:
            links[int(row["node_id"]), int(row["ident"])] = gauge
    found = {}
    for place in places:
        node, port, queue = place
        occupancy = Gauge()
        if queue is not None:
            at = (NO_PORT if port is None else port) if by_port else None
            occupancy = queues.get((node, at, queue), occupancy)
        found[place] = occupancy, links.get((node, port), Gauge())
    return found
