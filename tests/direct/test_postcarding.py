"""Postcarding: paths come back, as the plain twin says, and why not where they do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import twins
from direct_make import as_bytes, dta
from hypothesis import given, settings
from hypothesis import strategies as st

from hopscope.direct.answers import Question, Status
from hopscope.direct.hashing import Hashing
from hopscope.direct.postcarding import PostcardingLayout, PostcardingWriter, Values, Why, query
from hopscope.direct.primitive import load
from hopscope.direct.store import Store, StoreError
from hopscope.direct.transport import MemoryTransport
from hopscope.rdma.records import VerbBlock
from hopscope.wire.reasons import DtaReason
from hopscope.wire.records import DtaFlag, Records

pytestmark = pytest.mark.kernel
BLANK = 0xFFFFFFFF


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
        key, values, _ = self.cache.pop(row)
        self.counts[why] += 1
        layout = self.layout
        size = -(-layout.checksum_bits // 8)
        h = twins.key_hash(key, layout.seed)
        words = b""
        for hop in range(layout.hops):
            value = values.get(hop + 1, BLANK)
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
        assert self.transport.refused == 0
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


@pytest.mark.parametrize("hashing", [Hashing.MIX, Hashing.CRC])
@pytest.mark.parametrize(("hops", "bits", "copies", "padded"), [(5, 32, 2, True), (8, 24, 1, False)])
def test_paths_come_back(hashing: Hashing, hops: int, bits: int, copies: int, padded: bool) -> None:
    """Whole paths, with and without a length told, are found as they were; a stranger's key is not."""
    layout = PostcardingLayout(
        chunks=1 << 14, hops=hops, checksum_bits=bits, copies=copies, padded=padded, hashing=hashing
    )
    bench = Bench(layout)
    keys, values, lengths = paths(100, [1, 2, hops - 1, hops])
    for hop in range(1, hops + 1):
        there = lengths >= hop
        told = np.where(lengths[there] == hops, 0, lengths[there])
        bench.take(cards(keys[there], values[there], hop, path_length=told))
    assert bench.writer.counters["completed"] == 100
    assert bench.writer.counters["waiting"] == 0
    answers = query(bench.store, keys, values=np.arange(1000))
    expected = np.where(np.arange(hops) < lengths[:, None], values[:, :hops], BLANK)
    good = answers.found
    assert good.sum() >= 97  # the others have a chunk that a later key overwrote
    assert (answers.path[good] == expected[good]).all()
    assert (answers.length[good] == lengths[good]).all()
    assert (answers.why[~good] != Why.FOUND).all()
    strangers = query(bench.store, as_bytes(np.arange(500, 600, dtype=np.uint64), 13), values=np.arange(1000))
    assert (strangers.status == Status.EMPTY).all()
    assert (strangers.why == Why.NO_CHUNK).all()


def test_a_path_with_holes_is_told_only_when_asked_for() -> None:
    """Flushed without its second hop it is no path by the paper's rule; `partial` tells what is known."""
    bench = Bench(PostcardingLayout(chunks=1 << 10))
    keys, values, _ = paths(4, [5])
    for hop in (1, 3):
        bench.take(cards(keys, values, hop))
    bench.flush()
    assert (query(bench.store, keys, values=np.arange(1000)).why == Why.HOLES).all()
    answers = query(bench.store, keys, values=np.arange(1000), partial=True)
    assert answers.found.all()
    assert (answers.known == [True, False, True, False, False]).all()
    assert (answers.length == 3).all()
    assert (answers.path[:, [0, 2]] == values[:, [0, 2]]).all()
    told = load()[4].tell(
        bench.store, keys[:1], Question(values=np.arange(1000, dtype=np.uint32), partial=True)
    )
    assert told == [
        {"status": "found", "path": [int(values[0, 0]), None, int(values[0, 2])], "hops": 3, "votes": 1}
    ]
    with pytest.raises(StoreError, match="none were given"):
        load()[4].tell(bench.store, keys[:1], Question())


def test_a_prefix_that_was_flushed_is_a_path() -> None:
    """Hops 1 and 2, flushed: values, then blanks, which is a path of two hops."""
    bench = Bench(PostcardingLayout(chunks=1 << 10))
    keys, values, _ = paths(4, [5])
    for hop in (2, 1):
        bench.take(cards(keys, values, hop))
    bench.flush()
    answers = query(bench.store, keys, values=np.arange(1000))
    assert (answers.length == 2).all()
    assert (answers.path[:, :2] == values[:, :2]).all()


def test_chunks_that_disagree_are_a_conflict() -> None:
    """Where another path was written into one of two chunks, neither is told."""
    bench = Bench(PostcardingLayout(chunks=1 << 10, copies=2))
    keys, values, _ = paths(1, [5])
    for hop in range(1, 6):
        block = bench.take(cards(keys, values, hop))
    first = bench.store.memory.copy()
    for hop in range(1, 6):
        bench.take(cards(keys, values + np.uint32(1), hop))
    at = int(block["address"][1])
    bench.store.memory[at : at + 20] = first[at : at + 20]
    answers = query(bench.store, keys, values=np.arange(1001))
    assert (answers.status[0], answers.why[0]) == (Status.CONFLICT, Why.DISAGREE)
    assert query(bench.store, keys, values=np.arange(1001), copies=1).found.all()


def test_values_that_share_a_word_are_told_as_ambiguous() -> None:
    """With 8 bits and 200 values some share a g: their path is no answer, others' are."""
    layout = PostcardingLayout(chunks=1 << 12, checksum_bits=8, hops=16)
    bench = Bench(layout)
    prepared = Values(np.arange(200), layout)
    assert prepared.shared > 0
    assert Values(np.arange(1 << 18), PostcardingLayout(chunks=1)).shared == 0
    codes = [twins.mix32(value) % 256 for value in (*range(200), BLANK)]
    unique = [value for value in range(200) if codes.count(codes[value]) == 1]
    double = [value for value in range(200) if codes.count(codes[value]) > 1]
    keys = as_bytes(np.arange(2, dtype=np.uint64), 13)
    values = np.array([unique[:16], [*unique[:15], double[0]]], np.uint32)
    for hop in range(1, 17):
        bench.take(cards(keys, values, hop))
    answers = query(bench.store, keys, values=prepared)
    assert answers.why.tolist() == [Why.FOUND, Why.AMBIGUOUS]
    assert answers.status.tolist() == [Status.FOUND, Status.CONFLICT]
    assert (answers.path[0] == values[0]).all()


def test_only_idle_rows_age() -> None:
    """`flush` with a time sends what had no postcard for as long as allowed, and nothing younger."""
    bench = Bench(PostcardingLayout(chunks=1 << 10), idle_ns=100)
    keys, values, _ = paths(3, [5])
    bench.flush(0)
    bench.take(cards(keys[:1], values[:1], 1))
    bench.flush(50)
    bench.take(cards(keys[1:2], values[1:2], 1))
    bench.flush(149)
    assert bench.writer.counters["aged"] == 0
    bench.take(cards(keys[2:], values[2:], 1))
    bench.flush(150)  # the first has been idle since 50 at the latest
    assert bench.writer.counters["aged"] == 1
    assert query(bench.store, keys, values=np.arange(1000)).found.tolist() == [True, False, False]
    bench.flush(1000)
    assert bench.writer.counters["aged"] == 3
    assert bench.writer.counters["waiting"] == 0


@pytest.mark.parametrize(
    ("hop", "length", "reason"),
    [(0, 0, 6), (6, 0, 6), (1, 6, 6), (3, 2, 6), (5, 5, 0), (1, 0, 0)],
)
def test_hops_out_of_range_are_refused(hop: int, length: int, reason: int) -> None:
    """Hop 0, a hop or a path length above the chunk's, a hop behind its path's end: counted, nothing kept."""
    bench = Bench(PostcardingLayout(chunks=16))
    reports, arena = dta(4, np.ones((1, 4), np.uint8), np.ones((1, 4), np.uint8), hop=hop, path_length=length)
    bench.take((reports, arena))
    assert reports["reason"][0] == reason
    assert bench.writer.counters["waiting"] == (not reason)


def test_lengths_and_layouts_that_do_not_fit_are_refused() -> None:
    """Values of other than four bytes, keys too long for the CRCs' cache, layouts that no writer can fill."""
    bench = Bench(PostcardingLayout(chunks=16, hashing=Hashing.CRC))
    for key_bytes, data_bytes in ((4, 3), (4, 8), (64, 4), (4, 4)):
        reports, arena = dta(4, np.ones((1, key_bytes), np.uint8), np.ones((1, data_bytes), np.uint8), hop=1)
        bench.take((reports, arena))
        assert reports["reason"][0] == (DtaReason.NONE if (key_bytes, data_bytes) == (4, 4) else 3)
    for name, value in (("hops", 17), ("hops", 0), ("copies", 9), ("checksum_bits", 7), ("chunks", 0)):
        fields: dict[str, Any] = {"chunks": 1, name: value}
        with pytest.raises(ValueError, match=name):
            PostcardingLayout(**fields)
    with pytest.raises(ValueError, match="never finished"):
        PostcardingLayout(chunks=1, hashing=Hashing.PUBLISHED)
    layout = PostcardingLayout(chunks=77, hops=3, checksum_bits=17, padded=False, copies=3, seed=9)
    assert PostcardingLayout.of(layout.params()) == layout
    with pytest.raises(StoreError, match="blank"):
        query(Store.create(None, layout), np.ones((1, 4), np.uint8), values=[1, BLANK])
    with pytest.raises(StoreError, match="copies"):
        query(Store.create(None, layout), np.ones((1, 4), np.uint8), values=[1], copies=4)


def test_the_immediate_flag_comes_through() -> None:
    """A path one of whose postcards asks for a notification is told once, by its first copy."""
    bench = Bench(PostcardingLayout(chunks=16, copies=2, hops=2))
    keys, values, _ = paths(1, [2])
    bench.take(cards(keys, values, 1, flags=DtaFlag.IMMEDIATE))
    verbs = bench.take(cards(keys, values, 2))
    assert verbs["flags"].tolist() == [1, 0]


def test_chunks_are_spread_over_collectors() -> None:
    """A key's chunks go to one of the targets that its layout names, always the same."""
    writer = PostcardingWriter(PostcardingLayout(chunks=64, hops=1, collectors=3), [7, 8, 9])
    keys, values, _ = paths(300, [1])
    reports, arena = cards(keys, values, 1)
    targets = []
    for _ in range(2):
        block = VerbBlock.of(*writer.room(300))
        writer.write(reports, np.arange(300, dtype=np.uint32), arena, block)
        targets.append(block.filled["target"].copy())
    assert (targets[0] == targets[1]).all()
    assert np.bincount(targets[0])[7:].min() > 60


@settings(max_examples=40)
@given(st.data())
def test_the_writer_is_its_plain_twin(data: st.DataObject) -> None:
    """Any postcards through a small cache leave the memory and the counters that dicts leave."""
    hashing = data.draw(st.sampled_from([Hashing.MIX, Hashing.CRC]))
    layout = PostcardingLayout(
        chunks=data.draw(st.integers(1, 40)), hops=data.draw(st.integers(1, 8)),
        checksum_bits=data.draw(st.sampled_from([8, 16, 24, 32] if hashing else [8, 17, 32, 48, 64])),
        copies=data.draw(st.integers(1, 3)), padded=data.draw(st.booleans()), hashing=hashing,
        seed=data.draw(st.integers(0, 3)),
    )  # fmt: skip
    draw = np.random.default_rng(data.draw(st.integers(0, 1 << 32)))
    bench, plain = Bench(layout, rows=8), Plain(layout, rows=8)
    width = data.draw(st.integers(1, 20))
    for _ in range(data.draw(st.integers(1, 3))):
        count = 50
        keys = draw.integers(0, 5, (count, 1), np.uint8).repeat(width, axis=1)
        values = draw.integers(0, 1 << 32, (count, 1))
        values[draw.random((count, 1)) < 0.1] = BLANK
        hops = draw.integers(0, layout.hops + 2, count)
        lengths = draw.choice([0, 0, 1, layout.hops, layout.hops + 1], count)
        reports, arena = dta(4, keys, as_bytes(values[:, 0].astype(np.uint64)), hop=hops, path_length=lengths)
        bench.take((reports, arena))
        for key, hop, length, value in zip(keys, hops, lengths, values[:, 0], strict=True):
            if 1 <= hop <= layout.hops and length <= layout.hops and (not length or hop <= length):
                plain.take(key.tobytes(), int(hop), int(length), int(value))
        assert bytes(bench.store.memory) == plain.memory
        assert bench.writer.counters["waiting"] == len(plain.cache)
    bench.flush(room=1)
    plain.flush()
    assert bytes(bench.store.memory) == plain.memory
    assert {name: bench.writer.counters[name] for name in plain.counts} == plain.counts


@settings(max_examples=40)
@given(st.data())
def test_no_records_write_outside_the_store(data: st.DataObject) -> None:
    """Whatever stands in the records, every verb lies in the store and every byte in the payload."""
    layout = PostcardingLayout(
        chunks=data.draw(st.sampled_from([1, 7, 1 << 20])), hops=data.draw(st.integers(1, 16)), copies=2
    )
    writer = PostcardingWriter(layout, [0], rows=4)
    draw = np.random.default_rng(data.draw(st.integers(0, 1 << 32)))
    arena = draw.integers(0, 256, 4096).astype(np.uint8)
    reports = dta(4, np.zeros((64, 4), np.uint8), np.zeros((64, 4), np.uint8))[0]
    for name in ("hop", "path_length", "redundancy", "flags", "key_bytes", "data_bytes"):
        reports[name] = draw.choice([0, 1, 2, 4, 4, 5, 16, 17, 255], 64)
    reports["key_at"], reports["data_at"] = draw.integers(0, 3800, (2, 64))
    reports["list"], reports["counter"] = draw.integers(0, 1 << 32, (2, 64))
    block = VerbBlock.of(*writer.room(64))
    writer.write(reports, np.arange(64, dtype=np.uint32), arena, block)
    verbs = block.filled
    assert (verbs["address"] + verbs["length"] <= layout.nbytes).all()
    assert (verbs["payload_at"] + verbs["length"] <= block.fill[1]).all()
    assert block.fill[1] <= len(block.payload)
    assert (verbs["length"] == layout.chunk_bytes).all()
