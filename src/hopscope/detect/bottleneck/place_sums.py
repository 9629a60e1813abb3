"""Sums over live paths for places without distributions: latency, slow flows, queues and links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...wire.records import Records
from ..flows.reading.flow_hops import FlowHops
from ..flows.reading.state import queues_by_port
from ..places import UNKNOWN, Place, Words, keys_of, keys_of_places, ports_of
from ..records import PortKind
from .shares import Gauge, Queues, QueueShare, Sums


class PlaceSums:
    """Latency, packets and slow flows by place, summed over the paths of many flows, which are added in
    blocks.

    `slow_above_ns`: a flow is slow if its latest end-to-end latency is above this; None: no flow is slow.
    """

    def __init__(self, queues: Queues, slow_above_ns: int | None) -> None:
        self.slow_flows = 0
        self._queues = queues
        self.slow_above_ns = slow_above_ns
        self._blocks: list[tuple[Words, ...]] = [(np.empty(0, np.uint64),) * 4]

    def add(self, block: FlowHops) -> None:
        """Add the flows of a block."""
        hops, owner = block.hops, block.owner
        slow = np.zeros(len(block.flows), np.bool_)
        if self.slow_above_ns is not None:
            known = block.flows["state"] & 2 > 0
            slow = known & (block.flows["latency_latest"] > self.slow_above_ns)
        self.slow_flows += int(slow.sum())
        keys = self._queues.resolved(keys_of(hops["node_id"], ports_of(hops["egress_port"]), block.queue))
        has_latency = (hops["state"] & 1).astype(np.uint64)
        slowed = np.flatnonzero(slow[owner])  # a flow may pass a place twice
        _, first = np.unique(
            np.stack([keys[slowed], owner[slowed].astype(np.uint64)]), axis=1, return_index=True
        )
        flows = np.zeros(len(hops), np.uint64)
        flows[slowed[first]] = 1
        columns = (hops["latency_sum"] * has_latency, hops["samples"] * has_latency, flows)
        self._blocks.append(_summed(keys, *columns))

    def sums(self) -> Sums:
        """Sums over all flows, each since it was first seen."""
        places, latency, packets, slow = _summed(*map(np.concatenate, zip(*self._blocks, strict=True)))
        return Sums(places, latency, packets, None if self.slow_above_ns is None else slow)


def _summed(keys: Words, *columns: Words) -> tuple[Words, ...]:
    """The distinct keys, ascending, and the sum of each column for each key."""
    found, which = np.unique(keys, return_inverse=True)
    sums = [np.zeros(len(found), np.uint64) for _ in columns]
    for column, into in zip(columns, sums, strict=True):
        np.add.at(into, which, column)
    return (found, *sums)


def gauges_of(ports: Records, places: Sequence[Place]) -> dict[Place, tuple[Gauge, Gauge]]:
    """(Occupancy, utilisation) of places, if PORT records have them."""
    by_port = queues_by_port(ports)
    nodes, idents = ports["node_id"], ports["ident"]
    of_queue = keys_of_places([(node, port if by_port else None, queue) for node, port, queue in places])
    of_link = keys_of_places([(node, port, None) for node, port, _ in places])
    port = ports_of(ports["port"]) if by_port else np.full(len(ports), UNKNOWN)
    queues = _gauges(ports, PortKind.QUEUE, keys_of(nodes, port, idents), of_queue)
    links = _gauges(ports, PortKind.EGRESS, keys_of(nodes, idents), of_link)
    return {
        place: (queues.get(queue, Gauge()), links.get(link, Gauge()))
        for place, queue, link in zip(places, of_queue.tolist(), of_link.tolist(), strict=True)
    }


def with_gauges(shares: Sequence[QueueShare], ports: Records) -> list[QueueShare]:
    """Shares of places without distributions, with occupancy and utilisation."""
    gauges = gauges_of(ports, [share.place for share in shares])
    return [
        replace(share, occupancy=occupancy, utilization=utilization)
        for share, (occupancy, utilization) in zip(shares, gauges.values(), strict=True)
    ]


def _gauges(ports: Records, kind: PortKind, keys: Words, wanted: Words) -> dict[int, Gauge]:
    """First value of each row of this kind whose key is in `wanted`."""
    chosen = (ports["kind"] == kind) & (ports["state"] & 1 > 0) & np.isin(keys, wanted)
    at = np.flatnonzero(chosen)
    values = (ports[name][at, 0].tolist() for name in ("latest", "highest"))
    rows = zip(keys[at].tolist(), *values, strict=True)
    return {key: Gauge(latest, None, highest) for key, latest, highest in rows}
