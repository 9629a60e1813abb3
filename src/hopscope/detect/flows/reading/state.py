"""Reads detectors' state from another process; rows are consistent, shards are merged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ....memory.region import Region, RegionError
from ....memory.snapshot import consistent, rows_at, rows_where
from ...records import (
    FLOW,
    HOP_STATE,
    INLINE_HOPS,
    OWNERS,
    POOL_HOPS,
    PORT,
    SOURCE,
    STATE_VERSION,
    WAYS,
    PortKind,
)
from .flow_hops import FlowHops, flow_hops, hops_of_flows, joined
from .hop_sums import HopSums, hop_sums
from .path_hops import PathHops, path_hops
from .slots import hop_blocks, live_flows

Records = npt.NDArray[np.void]
_SEQUENCE_BITS = (22, 32)


class StateReader:
    """The tables of all shards in a folder; reading never blocks their writers."""

    def __init__(self, shards: list[dict[str, Region]]) -> None:
        self._shards = shards

    @classmethod
    def attach(cls, folder: Path) -> StateReader:
        """Map the regions of every worker in a folder. Raises RegionError for a foreign file, or if there are
        no regions.
        """
        shards = [
            {
                kind: Region.attach(path.with_suffix(f".{kind}"), kind, STATE_VERSION)
                for kind in ("flows", "ports", "sources")
            }
            for path in sorted(folder.glob("worker-*.flows"))
        ]
        if not shards:
            raise RegionError(f"{folder}: has no state of a worker (worker-N.flows)")
        return cls(shards)

    def is_current(self) -> bool:
        """Whether no worker has recreated its regions since they were mapped."""
        return all(region.is_current() for shard in self._shards for region in shard.values())

    def flows(self) -> Records:
        """FLOW [flows], each flow once; for a flow in several shards, the newest row."""
        return _newest([live_flows(shard["flows"]) for shard in self._shards], FLOW, ("flow_id",))

    def ports(self) -> Records:
        """PORT [rows], each key once. A queue in several shards of a sink has the newest value, the highest
        value of all shards, the sums of samples and drops, and the alarms of every shard.
        """
        found = []
        for shard in self._shards:
            rows = shard["ports"]["ports"]
            (copy,) = _rows(rows, np.flatnonzero(rows["key"] > 1))
            found.append(rows_where(copy, copy["key"] > 1))
        rows = _newest(found, PORT, ("key",))
        if len(found) > 1:
            every = np.concatenate(found)
            at = np.searchsorted(rows["key"], every["key"])
            for name, merge in (
                *(("samples", np.add), ("drops", np.add)),
                *(("highest", np.maximum), ("alarm", np.bitwise_or)),
            ):
                merged = np.zeros_like(rows[name])
                merge.at(merged, at, every[name])
                rows[name] = merged
        return rows

    def sources(self) -> Records:
        """SOURCE [rows], each sequence space once."""
        found = []
        for shard in self._shards:
            rows = shard["sources"]["sources"]
            (copy,) = _rows(rows, np.flatnonzero(rows["bits"] > 1))
            found.append(rows_where(copy, np.isin(copy["bits"], _SEQUENCE_BITS)))
        return _newest(found, SOURCE, ("source_hi", "source_lo", "node_id", "hw_id", "bits"))

    def fill(self) -> dict[str, float]:
        """Share of rows in use in the fullest shard, for `ports`, and for `sources` without silent ones."""
        found = {"ports": 0.0, "sources": 0.0}
        for shard in self._shards:
            ports, sources = shard["ports"], shard["sources"]["sources"]
            heard = (sources["bits"] > 1) & (sources["silent"] == 0)
            found["ports"] = max(found["ports"], int(ports["shares"][OWNERS]) / len(ports["ports"]))
            found["sources"] = max(found["sources"], int(heard.sum()) / len(sources))
        return found

    def hops_of(self, flow: np.void) -> Records:
        """HOP_STATE [hops] of a row of `flows`, in path order; empty for an evicted flow. If the pool had no
        room for a longer path, only its first 8 hops are known.
        """
        best: Records = np.empty(0, HOP_STATE)
        newest = -1
        for shard in self._shards:
            found = _hops(shard["flows"], flow)
            if found is not None and found[0] > newest:
                newest, best = found
        return best

    def paths(self) -> Iterator[FlowHops]:
        """All live flows with their hops, in blocks; a flow in several shards occurs several times."""
        for shard in self._shards:
            yield from flow_hops(shard["flows"], shard["ports"])

    def path_hops(self) -> PathHops:
        """Hops of all paths as columns; a flow in several shards occurs several times."""
        return path_hops([shard["flows"] for shard in self._shards])

    def hop_sums(self) -> HopSums:
        """Latency sums of the hops of all live flows."""
        return hop_sums([shard["flows"] for shard in self._shards])

    def paths_of(self, flows: Records) -> FlowHops:
        """These rows of `flows`, each once, read again with their hops; evicted flows are left out."""
        blocks = [
            hops_of_flows(shard["flows"], shard["ports"], flows["flow_id"].copy()) for shard in self._shards
        ]
        found = joined(blocks)
        order = np.lexsort((found.flows["last_ns"], found.flows["flow_id"]))
        ids = found.flows["flow_id"][order]
        newest = np.zeros(len(order), bool)
        newest[order[np.append(ids[1:] != ids[:-1], True)[: len(order)]]] = True
        return found.only(newest)

    def path_of(self, flow: np.void) -> FlowHops | None:
        """Hops of a row of `flows` with their queues; None for an evicted flow."""
        found = self.paths_of(np.array([flow]))
        return found if len(found.flows) else None

    def through(self, node_id: int, egress_port: int | None = None) -> npt.NDArray[np.uint64]:
        """Ids of the flows whose path has this switch, or this egress port of it; uint64 [flows]."""
        found = [_through(shard["flows"], node_id, egress_port) for shard in self._shards]
        return np.unique(np.concatenate([np.empty(0, np.uint64), *found]))


def queues_by_port(ports: Records) -> bool:
    """Whether the keys of queues include the port (`detect.queue_key`), derived from PORT records. If all
    ports are 0, both forms of key are the same.
    """
    queues = ports["key"][ports["kind"] == PortKind.QUEUE]
    return bool((queues >> np.uint64(40) & np.uint64(0xFFFF)).any())


def _through(region: Region, node_id: int, egress_port: int | None) -> npt.NDArray[np.uint64]:
    found = []
    for block in hop_blocks(region):
        here = block.node == node_id
        if egress_port is not None:
            here &= block.port == egress_port
        found.append(np.asarray(block.flows["flow_id"][block.owner[here]]))
    return np.asarray(np.concatenate(found), np.uint64)


def _rows(rows: Records, numbers: npt.NDArray[Any]) -> tuple[Records]:
    """Consistent copies of rows with a version field."""
    _, copies = consistent(rows["version"], lambda at: (rows_at(rows, at),), numbers)
    return (copies[0],)


def _hops(region: Region, flow: np.void) -> tuple[int, Records] | None:
    """(Time of the last report, hops) of a flow in one shard; its id gives its row."""
    rows, flows, hops = region["rows"], region["flows"].reshape(-1, WAYS), region["hops"]
    row = int(flow["flow_id"]) & (len(rows) - 1)
    key = ["src_hi", "src_lo", "dst_hi", "dst_lo", "sport", "dport", "proto", "ip_version"]

    def read(at: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], ...]:
        copy = flows[at]
        parts = [hops[: flows.size * INLINE_HOPS].reshape(-1, WAYS, INLINE_HOPS)[at]]
        blocks = hops[flows.size * INLINE_HOPS :].reshape(-1, POOL_HOPS)
        pooled = np.zeros((len(at), WAYS, POOL_HOPS), HOP_STATE)
        for i, way in zip(*np.nonzero(copy["pool_block"]), strict=True):
            block = int(copy["pool_block"][i, way]) - 1
            if block < len(blocks):
                pooled[i, way] = blocks[block]
        return (rows["tag"][at], copy, *parts, pooled)

    _, (tags, copies, inline, pooled) = consistent(rows["version"], read, np.array([row]))
    if not len(tags):
        return None
    for way in np.flatnonzero(tags[0]):
        found = copies[0, way]
        if all(found[name] == flow[name] for name in key):
            known = np.concatenate([inline[0, way], pooled[0, way]])
            count = int(found["hop_count"])
            if not found["pool_block"]:
                count = min(count, INLINE_HOPS)
            return int(found["last_ns"]), known[:count]
    return None


def _newest(shards: list[Records], dtype: np.dtype[Any], key: tuple[str, ...]) -> Records:
    """Rows of all shards; among rows with the same key, only the one with the newest report."""
    if len(shards) == 1:
        return shards[0]
    rows = np.concatenate([np.empty(0, dtype), *shards])
    order = np.lexsort((rows["last_ns"], *(rows[name] for name in key)))
    rows = rows[order]
    last = np.ones(len(rows), bool)
    last[:-1] = np.any([rows[name][1:] != rows[name][:-1] for name in key], axis=0)
    return rows[last]
