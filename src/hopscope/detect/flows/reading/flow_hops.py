"""Paths of live flows, read from a flow table in blocks of slots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ....memory.region import Region
from ....memory.snapshot import rows_where
from ....wire.records import Records
from ...records import HOP_STATE, WAYS, PortKind
from .slots import states_at, used_slots

NO_QUEUE = -1


@dataclass(frozen=True, slots=True)
class FlowHops:
    """Flows, and the hops of all their paths in one array."""

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
        """The flows where `kept`, bool [flows], is true, with their hops."""
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
    for slots in used_slots(table["rows"]["tag"]):
        yield _block(table, ports, slots)


def hops_of_flows(table: Region, ports: Region, flow_ids: npt.NDArray[np.uint64]) -> FlowHops:
    """`flow_hops` for the flows with these ids that are in the table of one shard."""
    rows = np.unique(flow_ids & np.uint64(len(table["rows"]) - 1)).astype(np.int64)
    slots = (rows[:, None] * WAYS + np.arange(WAYS))[table["rows"]["tag"][rows] != 0]
    block = _block(table, ports, slots)
    return block.only(np.isin(block.flows["flow_id"], flow_ids))


def _block(table: Region, ports: Region, slots: npt.NDArray[np.int64]) -> FlowHops:
    found = states_at(table, slots)
    there = found.there[found.live]
    hops: Records = found.hops[found.live][there].view(HOP_STATE).reshape(-1)
    owner, number = np.nonzero(there)
    return FlowHops(rows_where(found.flows, found.live), hops, owner, number, _queues(hops, ports["ports"]))


def _queues(hops: Records, ports: Records) -> npt.NDArray[np.int64]:
    """Queue id of each hop: a sink stores it in the hop; a collector stores the row of the queue instead."""
    slot = np.minimum(hops["queue_slot"], len(ports) - 1)
    known = (hops["queue_slot"] < len(ports)) & (ports["kind"][slot] == PortKind.QUEUE)
    known &= ports["node_id"][slot] == hops["node_id"]
    collector_queue = np.where(known, ports["ident"][slot].astype(np.int64), NO_QUEUE)
    in_sink = hops["state"] & 2 > 0
    return np.asarray(np.where(in_sink, hops["buffer_slot"].astype(np.int64) & 0xFF, collector_queue))
