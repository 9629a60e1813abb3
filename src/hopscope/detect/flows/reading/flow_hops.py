"""Paths of live flows, read from a flow table in blocks of consistent rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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

    def only(self, kept: npt.NDArray[np.bool_]) -> FlowHops:
        """Some of the flows, bool [flows], with their hops."""
        mine = kept[self.owner]
        owner = (np.cumsum(kept) - 1)[self.owner[mine]]
        return FlowHops(self.flows[kept], self.hops[mine], owner, self.number[mine], self.queue[mine])

    def of(self, row: int) -> FlowHops:
        """The hops of one flow."""
        return self.only(np.arange(len(self.flows)) == row)


def joined(blocks: Sequence[FlowHops]) -> FlowHops:
    """The flows of several blocks."""
    if len(blocks) == 1:
        return blocks[0]
    before = np.cumsum([0, *(len(block.flows) for block in blocks)])
    columns = [
        (block.flows, block.hops, block.owner + first, block.number, block.queue)
        for block, first in zip(blocks, before, strict=False)
    ]
    return FlowHops(*(np.concatenate(parts) for parts in zip(*columns, strict=True)))


def flow_hops(table: Region, ports: Region) -> Iterator[FlowHops]:
    """All live flows of one shard, from its regions `flows` and `ports`."""
    used = np.flatnonzero(table["rows"]["tag"].any(axis=1))
    max_rows = _LONG_ROWS if _pooled(table) else _ROWS
    for at in range(0, len(used), max_rows):
        yield _block(table, ports, used[at : at + max_rows])


def hops_of_flows(table: Region, ports: Region, flow_ids: npt.NDArray[np.uint64]) -> FlowHops:
    """Those of some flows that are in the table of one shard."""
    rows = np.unique(flow_ids & np.uint64(len(table["rows"]) - 1)).astype(np.int64)
    block = _block(table, ports, rows)
    return block.only(np.isin(block.flows["flow_id"], flow_ids))


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
