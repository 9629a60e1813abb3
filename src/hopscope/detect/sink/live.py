"""Live flows of a sink as EVICTED records, a part of the table at a time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...memory.region import Region
from ...wire.records import Records
from ..records import INLINE_HOPS, NO_NODE, NO_PORT, PATH_PART, POOL_HOPS, WAYS
from .records import EVICTED, Measure

_COPIED = (
    "flow_id", "src_hi", "src_lo", "dst_hi", "dst_lo", "first_ns", "last_ns", "packets", "latency_latest",
    "latency_sum", "latency_samples", "path_hash", "sport", "dport", "proto", "ip_version", "hop_count",
)  # fmt: skip
_OF_HOP = {
    "latency_sum": ("latency_sum", Measure.HOP_LATENCY),
    "occupancy_sum": ("queue_sum", Measure.QUEUE_OCCUPANCY),
    "utilization_sum": ("utilization_sum", Measure.LINK_UTILIZATION),
    "latency_latest": ("latency_latest", Measure.HOP_LATENCY),
    "occupancy_latest": ("queue_latest", Measure.QUEUE_OCCUPANCY),
    "utilization_latest": ("utilization_latest", Measure.LINK_UTILIZATION),
}


class LiveFlows:
    """Returns each flow of a table (region `worker-N.flows`) once per `seconds`, if it had packets meanwhile.

    The walk over the table is spread evenly over this time. Only the process that writes the table may use
    this class.
    """

    def __init__(self, table: Region, seconds: float, shard: int = 0) -> None:
        self._rows, self._flows, self._hops = table["rows"], table["flows"].reshape(-1, WAYS), table["hops"]
        self._period_ns = max(1, int(seconds * 1e9))
        self._shard = shard
        self._seen = np.zeros(len(self._rows), np.int64)
        self._row = self._since_ns = self._owed = 0

    def due(self, now_ns: int) -> Records:
        """EVICTED [records] of the flows due at `now_ns`, with `reason` and `sequence` 0."""
        since, self._since_ns = self._since_ns or now_ns, now_ns
        self._owed += min(max(0, now_ns - since), self._period_ns) * len(self._rows)
        count, self._owed = divmod(self._owed, self._period_ns)
        at = (self._row + np.arange(min(count, len(self._rows)))) % len(self._rows)
        self._row = (self._row + len(at)) % len(self._rows)
        ways = (self._rows["tag"][at] != 0) & (self._flows["last_ns"][at] > self._seen[at, None])
        self._seen[at] = now_ns
        row, way = np.nonzero(ways)
        return self._records(at[row] * WAYS + way)

    def _records(self, flows: npt.NDArray[np.int64]) -> Records:
        found = self._flows.reshape(-1)[flows]
        parts = np.maximum(-(-found["hop_count"].astype(np.int64) // PATH_PART), 1)
        which = np.repeat(np.arange(len(found)), parts)
        part = np.arange(len(which)) - np.repeat(np.cumsum(parts) - parts, parts)
        out = np.zeros(len(which), EVICTED)
        for name in _COPIED:
            out[name] = found[name][which]
        out["packets"][part > 0] = 0
        out["first_hop"], out["shard"] = part * PATH_PART, self._shard
        place = out["first_hop"][:, None].astype(np.int64) + np.arange(PATH_PART)
        block = found["pool_block"][which, None].astype(np.int64)
        pool = self._flows.size * INLINE_HOPS + (block - 1) * POOL_HOPS + place - INLINE_HOPS
        slots = np.where(place < INLINE_HOPS, flows[which, None] * INLINE_HOPS + place, pool)
        known = (place < out["hop_count"][:, None]) & ((place < INLINE_HOPS) | (block > 0))
        known &= (slots >= 0) & (slots < len(self._hops))
        states = self._hops[np.where(known, slots, 0)]
        hops = out["hops"]
        have = np.where(known, states["state"], 0)
        for name, (source, measure) in _OF_HOP.items():
            hops[name] = np.where(have >> measure & 1, states[source], 0)
        hops["have"], hops["samples"] = have, np.where(have, states["samples"], 0)
        hops["node_id"] = np.where(known, states["node_id"], NO_NODE)
        hops["port"] = np.where(known, states["egress_port"], NO_PORT)
        # a sink stores the queue id where a collector has the row of a buffer
        hops["queue_id"] = np.where(known, states["buffer_slot"] & 0xFF, 0)
        return out
