"""Latency of the hops of all live flows as columns: what groups of 100,000 flows by switch or port need.

Of a hop's 64 bytes only the first 32 are read, as four words: 0.14 s for 88,000 flows, not 0.5 s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...memory.region import Region
from ...memory.snapshot import consistent
from ...wire.records import Records
from ..records import HOP_STATE, INLINE_HOPS, NO_NODE, POOL_HOPS, WAYS

Words = npt.NDArray[np.uint64]
_WORDS = 4
_HEAD = ("node_id", "latency_latest", "egress_port", "state", "latency_sum", "samples")
assert [HOP_STATE.fields[name][1] for name in _HEAD] == [0, 4, 12, 15, 16, 24]  # type: ignore[index]


@dataclass(frozen=True, slots=True)
class HopSums:
    """Hops with a node, uint64 [hops] each."""

    flow_id: Words
    packets: Words
    """Of the flow."""
    node: Words
    port: Words
    """Egress port; NO_PORT: unknown."""
    latest: Words
    """Latest hop latency, ns; 0: unknown."""
    latency_sum: Words
    samples: Words


def hop_sums(tables: Sequence[Region]) -> HopSums:
    """Hops of the flow tables of all shards; those of a flow in several shards occur several times."""
    parts = [_of(table) for table in tables]
    return HopSums(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


class _VersionOf:
    """Version of the row that a slot (row * WAYS + way) is in."""

    def __init__(self, rows: Records) -> None:
        self._versions = rows["version"]

    def __getitem__(self, slots: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        return np.asarray(self._versions[slots // WAYS])


def _of(table: Region) -> tuple[Words, ...]:
    rows, flows, hops = table["rows"], table["flows"], table["hops"]
    tags = rows["tag"]
    words = hops.view(np.uint64).reshape(len(hops), -1)[:, :_WORDS]
    inline = words[: flows.size * INLINE_HOPS].reshape(-1, INLINE_HOPS, _WORDS)
    pool = words[flows.size * INLINE_HOPS :].reshape(-1, POOL_HOPS, _WORDS)
    more = POOL_HOPS if int(table["pool"][0]) < len(table["pool"]) - 1 else 0
    names = ("hop_count", "pool_block", "flow_id", "packets")

    def read(slots: npt.NDArray[np.int64]) -> tuple[npt.NDArray[Any], ...]:
        found = inline[slots]
        if more:
            blocks = flows["pool_block"][slots].astype(np.int64) - 1
            found = np.concatenate([found, pool[np.clip(blocks, 0, len(pool) - 1)]], axis=1)
        return tags[slots // WAYS, slots % WAYS], *(flows[name][slots] for name in names), found

    versions: Any = _VersionOf(rows)
    _, (live, counts, blocks, ids, packets, found) = consistent(versions, read, np.flatnonzero(tags.ravel()))
    room = np.where(blocks > 0, INLINE_HOPS + more, INLINE_HOPS)
    there = np.arange(INLINE_HOPS + more) < np.minimum(counts, room)[:, None]
    there &= (live != 0)[:, None]
    there &= found[..., 0] & np.uint64(0xFFFFFFFF) != NO_NODE
    owner, _ = np.nonzero(there)
    first, second, sums, last = found[there].T
    low = np.uint64(0xFFFFFFFF)
    known = second >> np.uint64(56) & np.uint64(1) != 0
    return (
        ids[owner],
        packets[owner],
        first & low,
        second >> np.uint64(32) & np.uint64(0xFFFF),
        np.where(known, first >> np.uint64(32), np.uint64(0)),
        sums,
        last & low,
    )
