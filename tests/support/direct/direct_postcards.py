"""Postcarding: stores filled with paths of known order, and flows that meet in the translator's cache."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hopscope.direct.primitives.postcarding import (
    PathVerdict,
    PostcardingLayout,
    PostcardingWriter,
    Values,
    query,
)
from hopscope.direct.stores.answers import Status
from hopscope.direct.stores.store import Store
from hopscope.direct.transport import MemoryTransport
from hopscope.rdma.records import VerbBlock
from hopscope.wire.dta.records import DTA
from hopscope.wire.records import Records

from .direct_measured import KEY_BYTES, Tally, keys_of

GROUP = 1 << 13
"""Flows that are written in one call."""


def distinct_values(count: int, layout: PostcardingLayout) -> int:
    """The first of so many consecutive values of which no two have the same code g(v), as theory assumes."""
    for first in range(1, 1000 * count, count):
        if not Values(np.arange(first, first + count), layout).shared:
            return first
    raise ValueError(f"no {count} values with codes of their own in {layout.checksum_bits} bits")


class Paths:
    """Writes paths of flows into a store, flow after flow; every hop's value is drawn from `values`."""

    def __init__(self, layout: PostcardingLayout, values: int, seed: int) -> None:
        self.layout, self.seed, self.done = layout, seed, 0
        self.store = Store.create(None, layout)
        first_value = distinct_values(values, layout)
        self.values = Values(np.arange(first_value, first_value + values), layout)
        self._range = (first_value, first_value + values)
        self.sender = Sender(layout, self.store)

    def paths_of(self, first: int, last: int) -> npt.NDArray[np.uint32]:
        """Values of flows, uint32 [flows, hops]."""
        noise = keys_of(first * 4, last * 4, self.seed + 77).view(np.uint32).reshape(last - first, -1)
        low, high = self._range
        return (noise[:, : self.layout.hops] % np.uint32(high - low) + np.uint32(low)).astype(np.uint32)

    def until(self, total: int) -> None:
        """Write up to flow number `total`, each flow's postcards one after the other."""
        while self.done < total:
            last = min(self.done + GROUP, total)
            keys = keys_of(self.done, last, self.seed)
            self.sender.send(keys, self.paths_of(self.done, last), np.arange(last - self.done), by_flow=True)
            self.done = last

    def ask(self, first: int, last: int) -> Tally:
        """Query for these flows."""
        sums = np.zeros(5, np.int64)
        for at in range(first, last, GROUP):
            end = min(at + GROUP, last)
            found = query(self.store, keys_of(at, end, self.seed), values=self.values)
            right = (found.path == self.paths_of(at, end)).all(axis=1)
            answered = found.status == Status.FOUND
            disagree = int((found.verdict == PathVerdict.DISAGREE).sum())
            correct, wrong = int((answered & right).sum()), int((answered & ~right).sum())
            sums += (end - at, correct, wrong, end - at - correct - wrong - disagree, disagree)
        return Tally(*(int(one) for one in sums))


class Sender:
    """Postcards of groups of flows to a store, through the translator's cache."""

    def __init__(self, layout: PostcardingLayout, store: Store, rows: int = 1 << 15) -> None:
        self.layout = layout
        self.writer = PostcardingWriter(layout, [0], rows=rows)
        self._transport = MemoryTransport([store])
        self._block = VerbBlock.of(0, 0)
        self._reports: Records = np.zeros(0, DTA)

    def send(
        self, keys: npt.NDArray[np.uint8], paths: npt.NDArray[np.uint32], order: npt.NDArray[np.int64], *,
        by_flow: bool,
    ) -> None:  # fmt: skip
        """All hops of these flows: flow by flow, or hop by hop, all flows in turn."""
        flows, hops = paths.shape
        arena = np.zeros((flows * hops, KEY_BYTES + 4), np.uint8)
        flow, hop = np.divmod(np.arange(flows * hops), hops)
        if not by_flow:
            hop, flow = np.divmod(np.arange(flows * hops), flows)
        arena[:, :KEY_BYTES] = keys[order[flow]]
        arena[:, KEY_BYTES:] = paths[order[flow], hop].astype(">u4").view(np.uint8).reshape(-1, 4)
        reports = np.zeros(flows * hops, DTA)
        reports["opcode"], reports["hop"], reports["path_length"] = self.layout.opcode, hop + 1, hops
        reports["key_at"] = np.arange(flows * hops) * arena.shape[1]
        reports["data_at"] = reports["key_at"] + KEY_BYTES
        reports["key_bytes"], reports["data_bytes"] = KEY_BYTES, 4
        verbs, payload = self.writer.room(len(reports))
        if len(self._block.verbs) < verbs or len(self._block.payload) < payload:
            self._block = VerbBlock.of(verbs, payload)
        self._block.clear()
        self.writer.write(reports, np.arange(len(reports), dtype=np.uint32), arena.reshape(-1), self._block)
        self._transport.submit(self._block)


def complete_share(rows: int, flows_between: int, groups: int, hops: int = 5) -> float:
    """Share of paths that leave the cache whole, with so many other flows between a flow's postcards."""
    layout = PostcardingLayout(chunks=1 << 10, hops=hops)
    sender = Sender(layout, Store.create(None, layout), rows)
    flows = flows_between + 1
    for group in range(groups):
        keys = keys_of(group * flows, (group + 1) * flows, 9)
        paths = np.ones((flows, hops), np.uint32)
        sender.send(keys, paths, np.arange(flows), by_flow=False)
    return sender.writer.counters["completed"] / (flows * groups)
