"""Reads live flows and their hops from a flow table by slot: the slot of a way of a row is row * WAYS + way.

Records are copied as words, a block of slots at a time, and processed while they are in the CPU's caches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ....memory.region import Region
from ....memory.snapshot import CHUNK, consistent, rows_at
from ....wire.records import Records
from ...records import HOP_STATE, INLINE_HOPS, NO_NODE, POOL_HOPS, WAYS

Words = npt.NDArray[np.uint64]
Slots = npt.NDArray[np.int64]
LOW = np.uint64(0xFFFFFFFF)
_WORDS = HOP_STATE.itemsize // 8
_HEAD = ("node_id", "latency_latest", "egress_port", "alarm", "state", "latency_sum", "samples")
assert [HOP_STATE.fields[name][1] for name in _HEAD] == [0, 4, 12, 14, 15, 16, 24]  # type: ignore[index]


@dataclass(frozen=True, slots=True)
class HopBlock:
    """A block of flows, with those of their hops whose node is known."""

    flows: Records
    """FLOW [flows]."""
    room: Slots
    """How many hops of each flow could be read, int64 [flows]."""
    owner: Slots
    """Row of the flow, int64 [hops]."""
    number: Slots
    """Place on its path, from 0, int64 [hops]."""
    words: tuple[Words, Words, Words, Words]
    """First words of HOP_STATE, uint64 [hops] each."""

    @property
    def node(self) -> Words:
        """Node ids."""
        return self.words[0] & LOW

    @property
    def port(self) -> Words:
        """Egress ports; NO_PORT: unknown."""
        return self.words[1] >> np.uint64(32) & np.uint64(0xFFFF)

    @property
    def latency(self) -> Words:
        """Latest hop latencies, ns; valid where `has_latency` is true."""
        return self.words[0] >> np.uint64(32)

    @property
    def has_latency(self) -> npt.NDArray[np.bool_]:
        """Whether the latest latency is known."""
        return np.asarray(self.words[1] >> np.uint64(56) & np.uint64(1) != 0)

    @property
    def alarm(self) -> npt.NDArray[np.bool_]:
        """Whether the latency is above its limit."""
        return np.asarray(self.words[1] >> np.uint64(48) & np.uint64(0xFF) != 0)


def live_flows(table: Region) -> Records:
    """FLOW [flows] of one table."""
    flows, tags, versions = table["flows"], table["rows"]["tag"], _Versions(table["rows"])

    def read(slots: Slots) -> tuple[npt.NDArray[Any], ...]:
        return tags[slots // WAYS, slots % WAYS], rows_at(flows, slots)

    parts = [consistent(versions, read, slots)[1] for slots in used_slots(tags)]
    live, copy = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return copy if live.all() else rows_at(copy, np.flatnonzero(live))


def hop_blocks(table: Region) -> Iterator[HopBlock]:
    """The hops of all live flows of one table; one empty block if there are no flows."""
    for slots in used_slots(table["rows"]["tag"]):
        yield _block(table, slots)


def used_slots(tags: npt.NDArray[Any]) -> Iterator[Slots]:
    """Used slots in blocks that keep the ways of a row together: a flow may move from one way to another."""
    used, at = np.flatnonzero(tags.ravel()), 0
    while at < max(1, len(used)):
        end = min(at + CHUNK, len(used))
        while 0 < end < len(used) and used[end] // WAYS == used[end - 1] // WAYS:
            end -= 1
        yield used[at:end]
        at = max(end, 1)


class _Versions:
    """Version of the row of each slot, read once for all ways of the row."""

    def __init__(self, rows: Records) -> None:
        self._versions = rows["version"]

    def __getitem__(self, slots: Slots) -> npt.NDArray[Any]:
        rows = slots // WAYS
        first = np.flatnonzero(np.diff(rows, prepend=-1))
        return np.repeat(self._versions[rows[first]], np.diff(first, append=len(rows)))


@dataclass(frozen=True, slots=True)
class States:
    """A consistent copy of some slots."""

    flows: Records
    """FLOW [slots]."""
    live: npt.NDArray[np.bool_]
    """Whether the slot has a flow, bool [slots]."""
    room: Slots
    """How many hops of each could be read, int64 [slots]."""
    hops: Words
    """HOP_STATE as words, uint64 [slots, hops, words]."""
    there: npt.NDArray[np.bool_]
    """Hops of live flows that have a node, bool [slots, hops]."""


def states_at(table: Region, used: Slots) -> States:
    """Flows and hops of the slots `used`, in which the ways of a row must be adjacent."""
    rows, flows = table["rows"], table["flows"]
    tags, hops = rows["tag"], table["hops"].view(np.uint64)
    inline = hops[: flows.size * INLINE_HOPS * _WORDS].reshape(-1, INLINE_HOPS * _WORDS)
    pool = hops[flows.size * INLINE_HOPS * _WORDS :].reshape(-1, POOL_HOPS * _WORDS)
    more = POOL_HOPS if int(table["pool"][0]) < len(table["pool"]) - 1 else 0

    def read(slots: Slots) -> tuple[npt.NDArray[Any], ...]:
        copy, found = rows_at(flows, slots), inline.take(slots, axis=0)
        if more:
            blocks = copy["pool_block"].astype(np.int64) - 1
            found = np.concatenate([found, pool.take(blocks, axis=0, mode="clip")], axis=1)
        return tags[slots // WAYS, slots % WAYS], copy, found

    _, (tag, copy, found) = consistent(_Versions(rows), read, used)
    states = found.reshape(len(copy), INLINE_HOPS + more, _WORDS)
    room = np.where(copy["pool_block"] > 0, INLINE_HOPS + more, INLINE_HOPS)
    there = np.arange(INLINE_HOPS + more) < np.minimum(copy["hop_count"], room)[:, None]
    there &= (tag != 0)[:, None]
    there &= states[..., 0] & LOW != NO_NODE
    return States(copy, tag != 0, room, states, there)


def _block(table: Region, used: Slots) -> HopBlock:
    found = states_at(table, used)
    first, second, third, fourth = (found.hops[..., word][found.there] for word in range(4))
    owner, number = np.nonzero(found.there)
    return HopBlock(found.flows, found.room, owner, number, (first, second, third, fourth))
