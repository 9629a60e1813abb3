"""Paths come back by key, and why not where they do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from hopscope.direct.hashing import Hashing
from hopscope.direct.primitive import load
from hopscope.direct.primitives import fetch_kernel
from hopscope.direct.primitives.postcarding import (
    PathVerdict,
    PostcardingLayout,
    PostcardingWriter,
    Values,
    query,
)
from hopscope.direct.stores.answers import QueryOptions, Status
from hopscope.direct.stores.store import Store, StoreError
from hopscope.direct.transport import MemoryTransport
from hopscope.rdma.records import VerbBlock
from oracle import direct as twins
from support.direct.direct_make import as_bytes
from support.direct.postcard_make import BLANK, MISSING, Bench, cards, paths

pytestmark = pytest.mark.kernel


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
    assert (answers.verdict[~good] != PathVerdict.FOUND).all()
    strangers = query(bench.store, as_bytes(np.arange(500, 600, dtype=np.uint64), 13), values=np.arange(1000))
    assert (strangers.status == Status.EMPTY).all()
    assert (strangers.verdict == PathVerdict.NO_CHUNK).all()


def test_a_path_with_holes_is_returned_only_on_request() -> None:
    """Flushed without its second hop it is no path by the paper's rule; `partial` reports what is known."""
    bench = Bench(PostcardingLayout(chunks=1 << 10))
    keys, values, _ = paths(4, [5])
    for hop in (1, 3):
        bench.take(cards(keys, values, hop))
    bench.flush()
    assert (query(bench.store, keys, values=np.arange(1000)).verdict == PathVerdict.HOLES).all()
    answers = query(bench.store, keys, values=np.arange(1000), partial=True)
    assert answers.found.all()
    assert (answers.known == [True, False, True, False, False]).all()
    assert (answers.length == 3).all()
    assert (answers.path[:, [0, 2]] == values[:, [0, 2]]).all()
    told = load()[4].answer(
        bench.store, keys[:1], QueryOptions(values=np.arange(1000, dtype=np.uint32), partial=True)
    )
    assert told == [
        {"status": "found", "path": [int(values[0, 0]), None, int(values[0, 2])], "hops": 3, "votes": 1}
    ]
    with pytest.raises(StoreError, match="needs the values that hops can have"):
        load()[4].answer(bench.store, keys[:1], QueryOptions())


def test_a_prefix_that_was_flushed_is_a_path() -> None:
    """Hops 1 and 2 of unknown length, flushed: values, then blanks, which is a path of two hops."""
    bench = Bench(PostcardingLayout(chunks=1 << 10))
    keys, values, _ = paths(4, [5])
    for hop in (2, 1):
        bench.take(cards(keys, values, hop))
    bench.flush()
    answers = query(bench.store, keys, values=np.arange(1000))
    assert (answers.length == 2).all()
    assert (answers.path[:, :2] == values[:, :2]).all()


@pytest.mark.parametrize("hashing", [Hashing.MIX, Hashing.CRC])
@pytest.mark.parametrize("left", ["early", "aged", "flushed"])
def test_the_first_hops_of_a_known_length_are_no_whole_path(hashing: Hashing, left: str) -> None:
    """Hops 1 and 2 of 4, however they leave the cache: hops 3 and 4 are missing, so no shorter path is found;
    `partial` has their number.
    """
    layout = PostcardingLayout(chunks=1 << 10, hashing=hashing)
    bench = Bench(layout, rows=1)
    keys, values, _ = paths(2, [4])
    for hop in (1, 2):
        bench.take(cards(keys[:1], values[:1], hop, path_length=4))
    if left == "early":
        bench.take(cards(keys[1:], values[1:], 1, path_length=4))
    elif left == "aged":
        for now_ns in (0, 5, 100):
            bench.flush(now_ns)
    else:
        bench.flush()
    assert bench.writer.counters[left] == 1
    answers = query(bench.store, keys[:1], values=np.arange(1000))
    assert (answers.status[0], answers.verdict[0]) == (Status.EMPTY, PathVerdict.HOLES)
    answers = query(bench.store, keys[:1], values=np.arange(1000), partial=True)
    assert answers.path.tolist() == [[*values[0, :2], BLANK, BLANK, BLANK]]
    assert answers.known.tolist() == [[True, True, False, False, False]]
    assert answers.length.tolist() == [4]
    options = QueryOptions(values=np.arange(1000, dtype=np.uint32), partial=True)
    (told,) = load()[4].answer(bench.store, keys[:1], options)
    assert (told["path"], told["hops"]) == ([int(values[0, 0]), int(values[0, 1]), None, None], 4)


@pytest.mark.parametrize("reserved", [BLANK, MISSING])
@pytest.mark.parametrize("told", [0, 3])
def test_a_hop_that_reports_a_reserved_value_is_on_the_path(reserved: int, told: int) -> None:
    """The last of three hops has no value of its own: that is no path of two hops."""
    bench = Bench(PostcardingLayout(chunks=1 << 10))
    keys, values, _ = paths(1, [3])
    values[0, 2] = reserved
    for hop in (1, 2, 3):
        bench.take(cards(keys, values, hop, path_length=told))
    bench.flush()
    assert query(bench.store, keys, values=np.arange(1000)).verdict[0] == PathVerdict.HOLES
    answers = query(bench.store, keys, values=np.arange(1000), partial=True)
    assert (answers.length[0], answers.path[0, 2], answers.known[0, 2]) == (3, BLANK, False)


def test_chunks_that_disagree_are_a_conflict() -> None:
    """Where another path was written into one of two chunks, neither is reported."""
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
    assert (answers.status[0], answers.verdict[0]) == (Status.CONFLICT, PathVerdict.DISAGREE)
    assert query(bench.store, keys, values=np.arange(1001), copies=1).found.all()


def test_values_that_share_a_word_are_ambiguous() -> None:
    """With 8 bits and 200 values some share a g: their path is no answer, others' are."""
    layout = PostcardingLayout(chunks=1 << 12, checksum_bits=8, hops=16)
    bench = Bench(layout)
    prepared = Values(np.arange(200), layout)
    assert prepared.shared > 0
    assert Values(np.arange(1 << 18), PostcardingLayout(chunks=1)).shared == 0
    codes = [twins.mix32(value) % 256 for value in (*range(200), BLANK, MISSING)]
    unique = [value for value in range(200) if codes.count(codes[value]) == 1]
    double = [value for value in range(200) if codes.count(codes[value]) > 1]
    keys = as_bytes(np.arange(2, dtype=np.uint64), 13)
    values = np.array([unique[:16], [*unique[:15], double[0]]], np.uint32)
    for hop in range(1, 17):
        bench.take(cards(keys, values, hop))
    answers = query(bench.store, keys, values=prepared)
    assert answers.verdict.tolist() == [PathVerdict.FOUND, PathVerdict.AMBIGUOUS]
    assert answers.status.tolist() == [Status.FOUND, Status.CONFLICT]
    assert (answers.path[0] == values[0]).all()


class _Interleaved:
    """`fetch` before each of whose readings a part of every chunk is that of the new path, the rest old."""

    def __init__(
        self,
        stores: list[Store],
        images: list[list[npt.NDArray[np.uint8]]],
        layout: PostcardingLayout,
        parts: list[int],
    ) -> None:
        self._stores, self._images, self._layout, self._parts = stores, images, layout, parts
        self._fetch, self._calls = _FETCH, 0

    def __call__(self, *arguments: Any) -> None:
        reading = self._calls // len(self._stores)
        part = self._parts[min(reading, len(self._parts) - 1)]
        new = np.arange(self._layout.nbytes) % self._layout.stride < part
        for store, before, after in zip(self._stores, *self._images, strict=True):
            store.memory[:] = np.where(new, after, before)
        self._calls += 1
        self._fetch(*arguments)


_FETCH = fetch_kernel.fetch


@pytest.mark.parametrize("collectors", [1, 2])
def test_a_chunk_that_is_written_while_it_is_read(monkeypatch: pytest.MonkeyPatch, collectors: int) -> None:
    """Half of a new path is there at the first reading, the rest before the second: the new path is found.
    One that changes between any two readings is a conflict.
    """
    layout = PostcardingLayout(chunks=1 << 16, collectors=collectors)  # no two keys share one
    keys, values, _ = paths(8, [5])
    images = []
    for path in (values, values[::-1]):
        stores = [Store.create(None, layout) for _ in range(collectors)]
        writer, transport = PostcardingWriter(layout, range(collectors)), MemoryTransport(stores)
        for hop in range(1, 6):
            reports, arena = cards(keys, path, hop)
            block = VerbBlock.of(*writer.room(len(reports)))
            writer.write(reports, np.arange(len(reports), dtype=np.uint32), arena, block)
            transport.submit(block)
        images.append([store.memory.copy() for store in stores])
    # the first reading: 8 bytes of the new path, 12 of the old one
    monkeypatch.setattr(fetch_kernel, "fetch", _Interleaved(stores, images, layout, [8, 20]))
    answers = query(stores, keys, values=np.arange(1000))
    assert answers.found.all()
    assert (answers.path == values[::-1, :5]).all()
    monkeypatch.setattr(fetch_kernel, "fetch", _Interleaved(stores, images, layout, [8, 20, 0, 12] * 4))
    assert (query(stores, keys, values=np.arange(1000)).status == Status.CONFLICT).all()
