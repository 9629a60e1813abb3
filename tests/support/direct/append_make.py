"""A writer of lists, its store, and its plain twin."""

from __future__ import annotations

from typing import Any

import numpy as np

from hopscope.direct.primitives.append import AppendLayout, AppendWriter
from hopscope.direct.stores.store import Store
from hopscope.direct.transport import MemoryTransport
from hopscope.rdma.records import VerbBlock
from hopscope.wire.records import Records
from support.direct.direct_make import as_bytes, dta


class Plain:
    """The twin: lists of entries, batches in dicts."""

    def __init__(self, layout: AppendLayout) -> None:
        self.layout = layout
        self.waiting: dict[int, list[bytes]] = {}
        self.sent: dict[int, list[list[bytes]]] = {}

    def take(self, number: int, entry: bytes) -> None:
        batch = self.waiting.setdefault(number, [])
        batch.append(entry)
        if len(batch) == self.layout.batch:
            self.flush(number)

    def flush(self, number: int) -> None:
        if batch := self.waiting.pop(number, None):
            self.sent.setdefault(number, []).append(batch)

    def ring(self, number: int) -> list[bytes]:
        """What is in the ring, the oldest first."""
        return [entry for batch in self.sent.get(number, [])[-self.layout.batches :] for entry in batch]


class Bench:
    """A writer, its store and what connects them."""

    def __init__(self, layout: AppendLayout, idle_ns: int = 100) -> None:
        self.store = Store.create(None, layout)
        self.writer = AppendWriter(layout, [0] * layout.collectors, idle_ns=idle_ns)
        self.transport = MemoryTransport([self.store])

    def take(self, lists: Any, entries: np.ndarray, **fields: object) -> Records:
        reports, arena = appended(lists, entries, **fields)
        block = self.verbs(reports, arena)
        self.transport.submit(block)
        assert self.transport.out_of_bounds == 0
        return reports

    def verbs(self, reports: Records, arena: np.ndarray) -> VerbBlock:
        block = VerbBlock.of(*self.writer.room(len(reports)))
        self.writer.write(reports, np.arange(len(reports), dtype=np.uint32), arena, block)
        return block

    def flush(self, now_ns: int | None = None) -> None:
        more = True
        while more:
            block = VerbBlock.of(*self.writer.room(0))
            more = self.writer.flush(block, now_ns)
            self.transport.submit(block)


def appended(lists: Any, entries: np.ndarray, **fields: object) -> tuple[Records, np.ndarray]:
    """Reports that append entries uint8 [n, d] to lists."""
    fields["list"] = lists
    return dta(2, np.zeros((len(entries), 4), np.uint8), entries, **fields)


def numbers(first: int, count: int, width: int = 4) -> np.ndarray:
    """Entries that answer their number, uint8 [count, width]."""
    octets = as_bytes(np.arange(first, first + count, dtype=np.uint64), 8)
    return octets[:, -width:] if width <= 8 else np.tile(octets, (1, 8))[:, :width]
