"""Key-Increment: counters are never too small, and too large no more often than a count-min sketch's."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hopscope.direct.hashing import Hashing
from hopscope.direct.primitive import named
from hopscope.direct.primitives.key_increment import (
    KeyIncrementLayout,
    KeyIncrementWriter,
    bound,
    query,
)
from hopscope.direct.reporter import Reporter
from hopscope.direct.stores.answers import QueryOptions, Status
from hopscope.direct.stores.store import Store, StoreError
from hopscope.direct.translation.translator import Translator
from hopscope.direct.transport import MemoryTransport
from hopscope.rdma.records import Verb
from hopscope.wire.dta.forms import Form
from hopscope.wire.dta.records import DtaFlag
from hopscope.wire.reasons import DtaReason
from oracle import hashing as twin
from oracle.dta import parse_scalar
from support.direct.direct_make import as_bytes, dta

pytestmark = pytest.mark.kernel

COUNTER = np.zeros((1, 8), np.uint8)


def count(store: Store, numbers: np.ndarray, values: np.ndarray, copies: int = 2) -> Translator:
    """Report counters of keys."""
    translator = Translator([store.layout], MemoryTransport([store]))
    keys = as_bytes(numbers)
    data = np.repeat(COUNTER, len(keys), axis=0)
    translator.translate(*dta(3, keys, data, redundancy=copies, counter=values))
    return translator


@pytest.mark.parametrize("hashing", Hashing)
@pytest.mark.parametrize("slots", [1, 3, 64])
def test_memory_and_answers_are_those_of_plain_python(hashing: Hashing, slots: int) -> None:
    """Crowded counters, over two collectors: the least of a key's slots, each of which got a report once."""
    layout = KeyIncrementLayout(slots=slots, copies=4, hashing=hashing, seed=5, collectors=2)
    stores = [Store.create(None, layout) for _ in range(2)]
    random = np.random.default_rng(slots)
    numbers, values = random.integers(0, 40, 200).astype(np.uint64), random.integers(0, 2**40, 200)
    translator = Translator([layout], [MemoryTransport([store]) for store in stores])
    keys = as_bytes(numbers)
    translator.translate(*dta(3, keys, np.zeros((200, 8), np.uint8), redundancy=4, counter=values))
    memories = [[0] * slots for _ in range(2)]
    for key, value in zip(keys, values.tolist(), strict=True):
        owner = twin.collector(hashing, key.tobytes(), 5, 2)
        for slot in {twin.slot(hashing, key.tobytes(), 5, copy, slots) for copy in range(4)}:
            memories[owner][slot] += value
    assert [store.memory.view(np.uint64).tolist() for store in stores] == memories
    found = query(stores, keys)
    for key, counter in zip(keys, found.counter.tolist(), strict=True):
        owner = twin.collector(hashing, key.tobytes(), 5, 2)
        assert counter == min(
            memories[owner][twin.slot(hashing, key.tobytes(), 5, copy, slots)] for copy in range(4)
        )


def test_counters_are_never_too_small_and_seldom_too_large() -> None:
    """20,000 keys over as many slots: the bound e S / M is exceeded by less than e^-N of them."""
    for copies in (1, 2, 3):
        store = Store.create(None, KeyIncrementLayout(slots=20_000, copies=3))
        random = np.random.default_rng(copies)
        numbers = np.arange(20_000, dtype=np.uint64)
        values = random.integers(1, 100, len(numbers)).astype(np.uint64)
        count(store, numbers, values, copies)
        found = query(store, as_bytes(numbers), copies=copies)
        assert (found.counter >= values).all()
        most, risk = bound(store, copies)
        assert risk == math.exp(-copies)
        sum_of_all = int(values.sum()) * copies
        assert most == pytest.approx(
            math.e * sum_of_all / 20_000, rel=1e-3
        )  # two copies in one slot count once
        assert np.count_nonzero(found.counter - values > most) < risk * len(numbers)


def test_a_key_that_was_never_counted_is_empty() -> None:
    """A zero among its slots says so; a counter that is there is found, and told with its bound."""
    store = Store.create(None, KeyIncrementLayout(slots=1 << 16))
    count(store, np.arange(10, dtype=np.uint64), np.full(10, 7, np.uint64))
    keys = as_bytes(np.arange(20, dtype=np.uint64))
    assert query(store, keys).status.tolist() == [Status.FOUND] * 10 + [Status.EMPTY] * 10
    told = named("key-increment").answer(store, keys[9:11], QueryOptions())
    assert [row["status"] for row in told] == ["found", "empty"]
    assert told[0]["counter"] == 7
    assert told[0]["bound"] == pytest.approx(math.e * 140 / (1 << 16), abs=0.001)


def test_what_is_reported_by_default_is_found_by_default() -> None:
    """Reporter, store and query have the same default number of copies."""
    store = Store.create(None, KeyIncrementLayout(slots=1 << 16))
    keys = as_bytes(np.arange(100, dtype=np.uint64))
    frames = Reporter(Form.SIZED).key_increment(keys, np.full(100, 5, np.uint64))
    Translator([store.layout], MemoryTransport([store])).translate(
        parse_scalar(frames, Form.SIZED), frames.arena
    )
    assert (query(store, keys).counter >= 5).all()


def test_counters_wrap_at_64_bits() -> None:
    """As RDMA's fetch-and-add does."""
    store = Store.create(None, KeyIncrementLayout(slots=64))
    count(store, np.zeros(2, np.uint64), np.array([2**64 - 1, 6], np.uint64), 1)
    assert query(store, as_bytes(np.zeros(1, np.uint64)), copies=1).counter.tolist() == [5]


def test_wrong_reports_change_nothing() -> None:
    """Redundancy 0 or above the most, a counter of another length, no key: counted with their reasons."""
    store = Store.create(None, KeyIncrementLayout(slots=64))
    translator = count(store, np.arange(3, dtype=np.uint64), np.ones(3, np.uint64), 3)
    assert translator.rejected[DtaReason.BAD_REDUNDANCY] == 3
    translator = count(store, np.arange(3, dtype=np.uint64), np.ones(3, np.uint64), 0)
    assert translator.rejected[DtaReason.BAD_REDUNDANCY] == 3
    keys = as_bytes(np.arange(3, dtype=np.uint64))
    translator.translate(*dta(3, keys, keys, redundancy=1, counter=1))
    translator.translate(*dta(3, keys[:, :0], np.zeros((3, 8), np.uint8), redundancy=1, counter=1))
    assert translator.rejected[DtaReason.BAD_LENGTH] == 6
    assert not store.memory.any()


def test_impossible_values_are_rejected() -> None:
    """Counters of 4 bytes, as in the paper, and queries that do not fit."""
    with pytest.raises(ValueError, match="data_bytes is 4, expected 8: the operand of fetch-and-add"):
        KeyIncrementLayout(slots=64, data_bytes=4)
    with pytest.raises(ValueError, match="copies is 0"):
        KeyIncrementLayout(slots=64, copies=0)
    store = Store.create(None, KeyIncrementLayout(slots=64))
    with pytest.raises(StoreError, match="3 copies: the store has 2"):
        query(store, as_bytes(np.zeros(1, np.uint64)), copies=3)
    with pytest.raises(StoreError, match="keys of shape"):
        query(store, np.zeros(4, np.uint8))


def test_only_atomics_are_made() -> None:
    """Verbs are fetch-and-adds of 8 aligned bytes."""
    from hopscope.direct.primitives.key_increment import KeyIncrementWriter
    from hopscope.rdma.records import VerbBlock

    writer = KeyIncrementWriter(KeyIncrementLayout(slots=1000, copies=4), [3])
    keys = as_bytes(np.arange(50, dtype=np.uint64))
    block = VerbBlock.of(*writer.room(50))
    reports, arena = dta(3, keys, np.zeros((50, 8), np.uint8), redundancy=4, counter=9)
    writer.write(reports, np.arange(50, dtype=np.uint32), arena, block)
    assert set(block.filled["kind"].tolist()) == {Verb.FETCH_ADD}
    assert set(block.filled["target"].tolist()) == {3}
    assert not (block.filled["address"] % 8).any()
    assert (block.filled["value"] == 9).all()


def test_combined_increments_are_the_same_counters() -> None:
    """What is held and written later adds up to the counters of a dictionary, over two collectors; additions
    to one counter become one operation, and every report is in one of them or combined.
    """
    layout = KeyIncrementLayout(slots=512, copies=2, seed=3, collectors=2)
    stores = [Store.create(None, layout) for _ in range(2)]
    translator = Translator([layout], [MemoryTransport([store]) for store in stores])
    (writer,) = translator.writers
    assert isinstance(writer, KeyIncrementWriter)
    writer.combine(64)  # fewer than the counters: some make room for others
    random = np.random.default_rng(1)
    memories = [[0] * layout.slots for _ in range(2)]
    additions = 0
    for _ in range(20):
        numbers = random.zipf(1.2, 500).clip(0, 1000).astype(np.uint64)
        values = random.integers(0, 2**64, 500, np.uint64)
        keys = as_bytes(numbers)
        translator.translate(*dta(3, keys, np.repeat(COUNTER, 500, 0), redundancy=2, counter=values))
        for key, value in zip(keys, values.tolist(), strict=True):
            owner = twin.collector(layout.hashing, key.tobytes(), 3, 2)
            slots = {twin.slot(layout.hashing, key.tobytes(), 3, copy, layout.slots) for copy in range(2)}
            additions += len(slots)
            for slot in slots:
                memories[owner][slot] = (memories[owner][slot] + value) % 2**64
    assert writer.counters["waiting"] == 64
    while not translator.flush():
        pass
    assert [store.memory.view(np.uint64).tolist() for store in stores] == memories
    operations = int(translator.fanout.kinds[Verb.FETCH_ADD])
    assert operations + writer.counters["combined"] == additions
    assert operations < additions / 2
    assert writer.counters["waiting"] == 0


def test_held_increments_are_written_in_time() -> None:
    """After `idle_ns`, as calls of `flush` count time, and not before; one with a notice at once."""
    store = Store.create(None, KeyIncrementLayout(slots=64, copies=1))
    translator = Translator([store.layout], MemoryTransport([store]))
    (writer,) = translator.writers
    assert isinstance(writer, KeyIncrementWriter)
    writer.combine()
    writer.idle_ns = 100
    keys = as_bytes(np.zeros(3, np.uint64))

    def report(flags: int = 0) -> int:
        translator.translate(
            *dta(3, keys, np.repeat(COUNTER, 3, 0), redundancy=1, counter=np.array([1, 2, 3]), flags=flags)
        )
        return int(store.memory.view(np.uint64).sum())

    assert translator.flush(1000)
    assert report() == 0
    assert translator.flush(1010)
    assert int(store.memory.view(np.uint64).sum()) == 6, "nothing was written for long"
    assert report() == 6
    assert translator.flush(1109)
    assert int(store.memory.view(np.uint64).sum()) == 6
    assert translator.flush(1110)
    assert int(store.memory.view(np.uint64).sum()) == 12
    assert report(int(DtaFlag.IMMEDIATE)) == 18
