"""Paths of live flows, read from a flow table in blocks of consistent rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ....memory.region import Region
from ....memory.snapshot import consistent
from ....wire.records import Records
from ...records import HOP_STATE, INLINE_HOPS, NO_NODE, POOL_HOPS, WAYS, PortKind

NO_QUEUE = -1
_ROWS, _LONG_ROWS = 1024, 128
"""Rows read at a time, without and with hops in the pool: 6 and 6 MiB of hops."""
_KEY = ("src_hi", "src_lo", "dst_hi", "dst_lo", "sport", "dport", "proto", "ip_version")


@dataclass(frozen=True, slots=True)
class FlowHops:
    """Flows and the hops of their paths, flat."""

    flows: Records
    """FLOW [flows]."""
    hops: Records
    """HOP_STATE [hops]."""
    owner: npt.NDArray[np.int64]
    """Row of the flow, int64 [hops]."""
    number: npt.NDArray[np.int64]
    """Index in the path, int64 [hops], ascending within a flow."""
    queue: npt.NDArray[np.int64]
    """Queue id, int64 [hops]; NO_QUEUE: unknown."""

    def of(self, row: int) -> FlowHops:
        """The hops of one flow."""
        mine = self.owner == row
        return FlowHops(
            self.flows[row : row + 1],
            self.hops[mine],
            np.zeros(int(mine.sum()), np.int64),
            self.number[mine],
            self.queue[mine],
        )


def flow_hops(table: Region, ports: Region) -> Iterator[FlowHops]:
    """All live flows of one shard, from its regions `flows` and `ports`."""
    used = np.flatnonzero(table["rows"]["tag"].any(axis=1))
    max_rows = _LONG_ROWS if _pooled(table) else _ROWS
    for at in range(0, len(used), max_rows):
        yield _block(table, ports, used[at : at + max_rows])


def hops_of_flow(table: Region, ports: Region, flow: np.void) -> FlowHops | None:
    """One flow of one shard; None if it is not in the table."""
    block = _block(table, ports, np.array([int(flow["flow_id"]) & (len(table["rows"]) - 1)]))
    for row, found in enumerate(block.flows):
        if all(found[name] == flow[name] for name in _KEY):
            return block.of(row)
    return None


def _pooled(table: Region) -> bool:
    """Whether any path is longer than the inline hops of a flow."""
    return int(table["pool"][0]) < len(table["pool"]) - 1


def _block(table: Region, ports: Region, used: npt.NDArray[np.int64]) -> FlowHops:
    rows, flows, hops = table["rows"], table["flows"].reshape(-1, WAYS), table["hops"]
    inline = hops[: flows.size * INLINE_HOPS].reshape(-1, WAYS, INLINE_HOPS)
    pool = hops[flows.size * INLINE_HOPS :].reshape(-1, POOL_HOPS)

    more = POOL_HOPS if _pooled(table) else 0

    def read(at: npt.NDArray[np.int64]) -> tuple[npt.NDArray[Any], ...]:
        copy = flows[at]
        states = np.zeros((len(at), WAYS, INLINE_HOPS + more), HOP_STATE)
        states[:, :, :INLINE_HOPS] = inline[at]
        for i, way in zip(*np.nonzero(copy["pool_block"]), strict=True):
            block = int(copy["pool_block"][i, way]) - 1
            if more and block < len(pool):
                states[i, way, INLINE_HOPS:] = pool[block]
        return rows["tag"][at], copy, states

    _, (tags, copies, states) = consistent(rows["version"], read, used)
    live = tags != 0
    found: Records = copies[live]
    paths = states[live]
    room = np.where(found["pool_block"] > 0, INLINE_HOPS + more, INLINE_HOPS)
    count = np.minimum(found["hop_count"], room)
    owner, number = np.nonzero(np.arange(INLINE_HOPS + more) < count[:, None])
    mine = paths[owner, number]
    named = mine["node_id"] != NO_NODE
    mine, owner, number = mine[named], owner[named], number[named]
    return FlowHops(found, mine, owner, number, _queues(mine, ports["ports"]))


def _queues(hops: Records, ports: Records) -> npt.NDArray[np.int64]:
    """Queue id of each hop: a sink stores it in the hop, a collector has the row of its queue."""
    slot = np.minimum(hops["queue_slot"], len(ports) - 1)
    row = ports[slot]
    known = (hops["queue_slot"] < len(ports)) & (row["kind"] == PortKind.QUEUE)
    known &= row["node_id"] == hops["node_id"]
    collector_queue = np.where(known, row["ident"].astype(np.int64), NO_QUEUE)
    in_sink = hops["state"] & 2 > 0
    return np.asarray(np.where(in_sink, hops["buffer_slot"].astype(np.int64) & 0xFF, collector_queue))
