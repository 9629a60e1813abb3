"""A cache of postcards, its store, and its plain twin."""

from __future__ import annotations

import numpy as np

from hopscope.direct.hashing import Hashing
from hopscope.direct.primitives.postcarding import PostcardingLayout, PostcardingWriter
from hopscope.direct.stores.store import Store
from hopscope.direct.transport import MemoryTransport
from hopscope.rdma.records import VerbBlock
from hopscope.wire.records import Records
from oracle import direct as twins
from support.direct.direct_make import as_bytes, dta

BLANK = 0xFFFFFFFF
MISSING = 0xFFFFFFFE


class Plain:
    """The twin: a dict of rows, and a list of what is written where."""

    def __init__(self, layout: PostcardingLayout, rows: int) -> None:
        self.layout, self.rows = layout, rows
        self.cache: dict[int, tuple[bytes, dict[int, int], int]] = {}
        self.memory = bytearray(layout.nbytes)
        self.counts = dict.fromkeys(("completed", "early", "flushed", "duplicates"), 0)

    def take(self, key: bytes, hop: int, length: int, value: int) -> None:
        row = twins.key_hash(key, self.layout.seed) % self.rows
        if row in self.cache and self.cache[row][0] != key:
            self._emit(row, "early")
        _, values, known = self.cache.get(row, (key, {}, 0))
        self.counts["duplicates"] += hop in values
        values[hop] = value
        known = length or known
        self.cache[row] = (key, values, known)
        if all(hop in values for hop in range(1, (known or self.layout.hops) + 1)):
            self._emit(row, "completed")

    def flush(self) -> None:
        for row in sorted(self.cache):
            self._emit(row, "flushed")

    def _emit(self, row: int, why: str) -> None:
        key, values, length = self.cache.pop(row)
        self.counts[why] += 1
        layout = self.layout
        size = -(-layout.checksum_bits // 8)
        h = twins.key_hash(key, layout.seed)
        words = b""
        for hop in range(layout.hops):
            value = values.get(hop + 1, MISSING if hop < length else BLANK)
            value = MISSING if hop + 1 in values and value == BLANK else value
            if layout.hashing is Hashing.MIX:
                g = twins.mix32(value) | twins.mix64(value + 1) >> 32 << 32
                word = twins.hashed(h, 64 + hop) ^ g
            else:
                word = twins.crc(key, 8 + hop) ^ twins.crc(value.to_bytes(4, "big"), 0)
            words += (word % (1 << layout.checksum_bits)).to_bytes(size, "little")
        for copy in range(layout.copies):
            if layout.hashing is Hashing.MIX:
                upper = twins.hashed(h, copy) >> 32
            else:
                upper = twins.crc(key, copy)
            at = (upper * layout.chunks >> 32) * layout.stride
            self.memory[at : at + len(words)] = words


class Bench:
    """A writer, its store and what connects them."""

    def __init__(self, layout: PostcardingLayout, rows: int = 1 << 15, idle_ns: int = 10) -> None:
        self.store = Store.create(None, layout)
        self.writer = PostcardingWriter(layout, [0] * layout.collectors, rows=rows, idle_ns=idle_ns)
        self.transport = MemoryTransport([self.store])

    def take(self, records: tuple[Records, np.ndarray]) -> Records:
        reports, arena = records
        block = VerbBlock.of(*self.writer.room(len(reports)))
        self.writer.write(reports, np.arange(len(reports), dtype=np.uint32), arena, block)
        self.transport.submit(block)
        assert self.transport.out_of_bounds == 0
        return block.filled

    def flush(self, now_ns: int | None = None, room: int = 64) -> None:
        more = True
        while more:
            block = VerbBlock.of(*self.writer.room(room))
            more = self.writer.flush(block, now_ns)
            self.transport.submit(block)


def paths(flows: int, lengths: list[int], seed: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Keys uint8 [flows, 13], values uint32 [flows, 16] below 1000, and path lengths."""
    draw = np.random.default_rng(seed)
    return (
        as_bytes(np.arange(flows, dtype=np.uint64), 13),
        draw.integers(0, 1000, (flows, 16)).astype(np.uint32),
        draw.choice(lengths, flows),
    )


def cards(keys: np.ndarray, values: np.ndarray, hop: int, **fields: object) -> tuple[Records, np.ndarray]:
    """Postcards of one hop (from 1) of every key."""
    return dta(4, keys, as_bytes(values[:, hop - 1].astype(np.uint64)), hop=hop, **fields)
