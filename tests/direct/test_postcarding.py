"""Postcarding: the cache writes what the plain twin writes, and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopscope.direct.hashing import Hashing
from hopscope.direct.primitives.postcarding import PostcardingLayout, PostcardingWriter, query
from hopscope.direct.stores.store import Store, StoreError
from hopscope.rdma.records import VerbBlock
from hopscope.wire.dta.records import DtaFlag
from hopscope.wire.reasons import DtaReason
from support.direct.direct_make import as_bytes, dta
from support.direct.postcard_make import BLANK, MISSING, Bench, Plain, cards, paths

pytestmark = pytest.mark.kernel


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
def test_hops_out_of_range_are_rejected(hop: int, length: int, reason: int) -> None:
    """Hop 0, a hop or a path length above the chunk's, a hop after its path's end: counted, nothing kept."""
    bench = Bench(PostcardingLayout(chunks=16))
    reports, arena = dta(4, np.ones((1, 4), np.uint8), np.ones((1, 4), np.uint8), hop=hop, path_length=length)
    bench.take((reports, arena))
    assert reports["reason"][0] == reason
    assert bench.writer.counters["waiting"] == (not reason)


def test_lengths_and_layouts_that_do_not_fit_are_rejected() -> None:
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
    for reserved in (BLANK, MISSING):
        with pytest.raises(StoreError, match=f"{reserved:#x} is reserved"):
            query(Store.create(None, layout), np.ones((1, 4), np.uint8), values=[1, reserved])
    with pytest.raises(StoreError, match="copies"):
        query(Store.create(None, layout), np.ones((1, 4), np.uint8), values=[1], copies=4)


def test_the_immediate_flag_comes_through() -> None:
    """A path one of whose postcards asks for a notification is reported once, by its first copy."""
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
        lengths = draw.choice([0, 0, 1, layout.hops - 1, layout.hops, layout.hops + 1], count)
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
