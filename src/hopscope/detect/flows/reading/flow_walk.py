"""Walks over the flow tables of all shards; returns flows that have changed since the last walk.

It recognises a change by one number per flow, derived from fields that every packet changes: this takes 8
bytes per flow, and needs no clock. It reads a few rows at a time, so a table of millions of flows is never
copied at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ....memory.region import Region, RegionError
from ....memory.snapshot import consistent
from ...records import FLOW, HOP_STATE, INLINE_HOPS, POOL_HOPS, STATE_VERSION, WAYS

Records = npt.NDArray[np.void]
Numbers = npt.NDArray[np.uint64]
_POOLED_ROWS = 16
"""Rows copied at a time if paths are long: each row has half a MiB of hops."""


@dataclass(frozen=True, slots=True)
class FlowBlock:
    """Some flows with their hops."""

    flows: Records
    """FLOW [flows]."""
    hops: Records
    """HOP_STATE [hops], those of one flow together, in path order."""
    ends: npt.NDArray[np.int64]
    """Hops of flow f are hops[ends[f - 1] : ends[f]], int64 [flows]."""

    def __len__(self) -> int:
        return len(self.flows)


def joined(blocks: Sequence[FlowBlock]) -> FlowBlock:
    """Concatenate blocks."""
    flows = np.concatenate([np.empty(0, FLOW), *(block.flows for block in blocks)])
    hops = np.concatenate([np.empty(0, HOP_STATE), *(block.hops for block in blocks)])
    counts = [np.diff(block.ends, prepend=0) for block in blocks]
    return FlowBlock(flows, hops, np.cumsum(np.concatenate([np.empty(0, np.int64), *counts])))


class _Shard:
    def __init__(self, region: Region) -> None:
        self.region = region
        self.rows = region["rows"]
        self.flows = region["flows"].reshape(-1, WAYS)
        self.inline = region["hops"][: self.flows.size * INLINE_HOPS].reshape(-1, WAYS, INLINE_HOPS)
        self.pool = region["hops"][self.flows.size * INLINE_HOPS :].reshape(-1, POOL_HOPS)
        self.seen = np.zeros(self.flows.shape, np.uint64)

    def changed(self, start: int, end: int) -> tuple[Records, Records, npt.NDArray[np.int64]]:
        """Changed flows in these rows, their hops, and the number of hops of each."""
        there = self.rows["tag"][start:end] != 0
        marks = _mark(self.flows[start:end])
        self.seen[start:end][~there] = 0
        at = start + np.flatnonzero((there & (marks != self.seen[start:end])).any(axis=1))
        pooled = (self.flows["pool_block"][at] > 0).any(axis=1)
        found = [self._read(at[~pooled], 0)]
        long = at[pooled]
        found += [
            self._read(long[i : i + _POOLED_ROWS], POOL_HOPS) for i in range(0, len(long), _POOLED_ROWS)
        ]
        flows, hops, counts = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return flows, hops, counts

    def _read(self, at: npt.NDArray[Any], room: int) -> tuple[Records, Records, npt.NDArray[np.int64]]:
        def read(rows: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], ...]:
            flows = self.flows[rows]
            pooled = np.zeros((len(rows), WAYS, room), HOP_STATE)
            if room:
                blocks = flows["pool_block"].astype(np.int64) - 1
                with_block = (blocks >= 0) & (blocks < len(self.pool))
                pooled[with_block] = self.pool[blocks[with_block]]
            return self.rows["tag"][rows], flows, np.concatenate([self.inline[rows], pooled], axis=2)

        numbers, (tags, flows, hops) = consistent(self.rows["version"], read, at)
        marks = _mark(flows)
        wanted = (tags != 0) & (marks != self.seen[numbers])
        known = np.where(
            flows["pool_block"] > 0, flows["hop_count"], np.minimum(flows["hop_count"], INLINE_HOPS)
        )
        counts = np.minimum(known.astype(np.int64), INLINE_HOPS + room)
        whole = counts == known  # else the flow got a block of the pool meanwhile: read it again next time
        self.seen[numbers] = np.where(tags != 0, np.where(whole, marks, 0), 0)
        taken = np.arange(INLINE_HOPS + room) < counts[wanted][:, None]
        return flows[wanted], hops[wanted][taken], counts[wanted]

    def forget(self, flow_ids: Numbers) -> None:
        row = (flow_ids & np.uint64(len(self.rows) - 1)).astype(np.int64)
        which, way = np.nonzero(self.flows["flow_id"][row] == flow_ids[:, None])
        self.seen[row[which], way] = 0


class FlowWalk:
    """The flow tables in a folder of regions; a flow has the same row in every shard."""

    def __init__(self, regions: Path) -> None:
        self._regions = regions
        self._shards: dict[Path, _Shard] = {}
        self.rows = 0
        """Rows of a shard's table; 0: no table yet."""

    def attach(self) -> bool:
        """Map new and recreated tables; returns whether there were any."""
        found = False
        for path in sorted(self._regions.glob("worker-*.flows")):
            known = self._shards.get(path)
            if known is not None and known.region.is_current():
                continue
            try:
                self._shards[path] = _Shard(Region.attach(path, "flows", STATE_VERSION))
            except RegionError:
                continue  # not complete yet: try again next time
            found = True
        self.rows = max((len(shard.rows) for shard in self._shards.values()), default=0)
        return found

    def changed(self, start: int, end: int) -> FlowBlock:
        """Flows in rows `start` to `end` that have changed since they were last returned.

        A flow that has changed in several shards is returned from the shard with its latest packet.
        """
        parts = [shard.changed(start, min(end, len(shard.rows))) for shard in self._shards.values()]
        if not parts:
            return FlowBlock(np.empty(0, FLOW), np.empty(0, HOP_STATE), np.empty(0, np.int64))
        flows, hops, counts = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        if len(parts) > 1:
            order = np.lexsort((flows["last_ns"], flows["flow_id"]))
            last = np.append(np.diff(flows["flow_id"][order]) != 0, True)[: len(order)]
            kept = np.zeros(len(flows), bool)
            kept[order[last]] = True
            hops, flows, counts = hops[np.repeat(kept, counts)], flows[kept], counts[kept]
        return FlowBlock(flows, hops, np.cumsum(counts))

    def forget(self, flow_ids: Numbers | None = None) -> None:
        """Let `changed` return these flows again, if they are live; None: all flows."""
        for shard in self._shards.values():
            if flow_ids is None:
                shard.seen[:] = 0
            else:
                shard.forget(flow_ids)


def _mark(flows: Records) -> Numbers:
    """A number that identifies a flow and its last packet; never 0."""
    return (
        flows["flow_id"]
        ^ flows["packets"] * np.uint64(0x9E3779B97F4A7C15)
        ^ flows["last_ns"].view(np.uint64) * np.uint64(0xC2B2AE3D27D4EB4F)
    ) | np.uint64(1)
