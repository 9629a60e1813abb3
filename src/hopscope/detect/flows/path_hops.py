"""Hops of all live paths as columns: what a map of the network needs of 100,000 flows.

Of a hop's 64 bytes only the first 16 are read, as two words: copying whole records takes ten times as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...memory.region import Region
from ...memory.snapshot import consistent
from ..records import HOP_STATE, INLINE_HOPS, NO_NODE, NO_PORT, POOL_HOPS, WAYS, FlowState

Ints = npt.NDArray[np.int64]
NONE = -1
_ROWS = 512
"""Rows read at a time: their hops stay in the caches of a core."""
_WORDS = HOP_STATE.itemsize // 8
_HEAD = ["node_id", "latency_latest", "latency_stored", "egress_port", "alarm", "state"]
assert [HOP_STATE.fields[name][1] for name in _HEAD] == [0, 4, 8, 12, 14, 15]  # type: ignore[index]


@dataclass(frozen=True, slots=True)
class PathHops:
    """Hops of live flows that have a node; int64 or bool [hops]."""

    place: Ints
    """node << 16 | egress port."""
    following: Ints
    """Next node on the path; NONE: it is the last, or the next one is unknown."""
    last: npt.NDArray[np.bool_]
    """It is the last hop of a whole path: hosts, or another network, are beyond it."""
    first: npt.NDArray[np.bool_]
    """It is the first hop of a whole path."""
    latency: Ints
    """Latest hop latency, ns; NONE: unknown."""
    alarm: npt.NDArray[np.bool_]
    """Its latency is above its limit."""
    time_ns: Ints
    """When the flow's last report arrived."""

    def __len__(self) -> int:
        return len(self.place)


NO_HOPS = PathHops(
    *(np.empty(0, dtype) for dtype in (np.int64, np.int64, bool, bool, np.int64, bool, np.int64))
)


def path_hops(tables: Sequence[Region]) -> PathHops:
    """Hops of the flow tables of all shards."""
    parts = []
    for table in tables:
        used = np.flatnonzero(table["rows"]["tag"].any(axis=1))
        parts += [_block(table, used[at : at + _ROWS]) for at in range(0, max(1, len(used)), _ROWS)]
    return PathHops(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _block(table: Region, used: Ints) -> tuple[npt.NDArray[Any], ...]:
    rows, flows, hops = table["rows"], table["flows"].reshape(-1, WAYS), table["hops"]
    words = hops.view(np.uint64).reshape(-1, _WORDS)[:, :2]
    inline = words[: flows.size * INLINE_HOPS].reshape(-1, WAYS, INLINE_HOPS, 2)
    pool = words[flows.size * INLINE_HOPS :].reshape(-1, POOL_HOPS, 2)
    more = POOL_HOPS if int(table["pool"][0]) < len(table["pool"]) - 1 else 0
    names = ("hop_count", "state", "pool_block", "last_ns")

    def read(at: Ints) -> tuple[npt.NDArray[Any], ...]:
        found = inline[at]
        if more:
            blocks = flows["pool_block"][at].astype(np.int64) - 1
            found = np.concatenate([found, pool[np.clip(blocks, 0, len(pool) - 1)]], axis=2)
        return rows["tag"][at], *(flows[name][at] for name in names), found

    _, (tags, counts, states, blocks, times, found) = consistent(rows["version"], read, used)
    live = tags != 0
    room = np.where(blocks[live] > 0, INLINE_HOPS + more, INLINE_HOPS)
    whole_count = counts[live].astype(np.int64)
    count = np.minimum(whole_count, room)
    state = states[live]
    whole = (state & FlowState.HAS_PATH > 0) & (count == whole_count)
    number = np.arange(INLINE_HOPS + more)
    there = number < count[:, None]
    near, far = found[live][..., 0], found[live][..., 1]
    node = np.where(there, near & np.uint64(0xFFFFFFFF), np.uint64(NO_NODE)).astype(np.int64)
    port = (far >> np.uint64(32) & np.uint64(0xFFFF)).astype(np.int64)
    following = np.full_like(node, NONE)
    following[:, :-1] = np.where((node[:, 1:] != NO_NODE) & whole[:, None], node[:, 1:], NONE)
    kept = there & (node != NO_NODE)
    return (
        (node << 16 | port)[kept],
        np.where(port == NO_PORT, NONE, following)[kept],
        (whole[:, None] & (number == count[:, None] - 1))[kept],
        (whole[:, None] & (number == 0))[kept],
        np.where(far >> np.uint64(56) & np.uint64(1), (near >> np.uint64(32)).astype(np.int64), NONE)[kept],
        (far >> np.uint64(48) & np.uint64(0xFF) != 0)[kept],
        np.broadcast_to(times[live][:, None], node.shape)[kept],
    )
