"""Key-Write: what was reported is found, as plain Python finds it, and whatever is wrong is rejected."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from hopscope.direct.hashing import Hashing, slots_of
from hopscope.direct.primitives.key_write import KeyWriteLayout, KeyWriteWriter, Variant, query
from hopscope.direct.stores.answers import Status
from hopscope.direct.stores.store import Store, StoreError
from hopscope.direct.theory import Rule
from hopscope.direct.translation.translator import Translator
from hopscope.direct.transport import MemoryTransport
from hopscope.rdma.records import VerbBlock
from hopscope.wire.reasons import DtaReason
from oracle.key_write import KeyWrite
from support.direct.dart_reporter import DartReporter
from support.direct.direct_make import as_bytes, dta

pytestmark = pytest.mark.kernel


def test_a_report_is_found() -> None:
    """What a translator wrote answers a query by its key."""
    store = Store.create(None, KeyWriteLayout(slots=1 << 12, data_bytes=4))
    translator = Translator([store.layout], MemoryTransport([store]))
    keys, values = as_bytes(np.arange(100, dtype=np.uint64), 13), as_bytes(np.arange(100, dtype=np.uint64))
    translator.translate(*dta(1, keys, values, redundancy=2))
    answers = query(store, keys)
    assert answers.found.all()
    assert (answers.data == values).all()
    assert not query(store, keys + np.uint8(100)).found.any()


def test_redundancy_out_of_range_is_rejected() -> None:
    """No copies, and more than the store allows, change nothing and are counted."""
    store = Store.create(None, KeyWriteLayout(slots=64, copies=2))
    translator = Translator([store.layout], MemoryTransport([store]))
    keys = as_bytes(np.arange(3, dtype=np.uint64))
    translator.translate(*dta(1, keys, keys, redundancy=np.array([0, 2, 3])))
    assert translator.rejected[DtaReason.BAD_REDUNDANCY] == 2
    assert query(store, keys).found.tolist() == [False, True, False]


@pytest.mark.parametrize("width", [1, 3, 8, 13, 255])
@pytest.mark.parametrize("data_bytes", [1, 4, 7, 8, 9, 20, 64])
@pytest.mark.parametrize("bits", [8, 20, 32, 64])
def test_every_width_is_read_back(width: int, data_bytes: int, bits: int) -> None:
    """Keys of 1 to 255 bytes, data of 1 to 64 bytes, checksums of 8 to 64 bits."""
    random = np.random.default_rng(width * 100 + data_bytes)
    store = Store.create(None, KeyWriteLayout(slots=997, data_bytes=data_bytes, checksum_bits=bits))
    twin = KeyWrite(store.layout)  # type: ignore[arg-type]
    keys = random.integers(0, 256, (20, width)).astype(np.uint8)
    values = random.integers(0, 256, (20, data_bytes)).astype(np.uint8)
    Translator([store.layout], MemoryTransport([store])).translate(*dta(1, keys, values, redundancy=3))
    for key, value in zip(keys, values, strict=True):
        twin.write(key.tobytes(), value.tobytes(), 3)
    assert (store.memory == twin.as_arrays()[0]).all()
    answers = query(store, keys)
    for row, key in enumerate(keys):
        status, data, votes = twin.query(key.tobytes(), 4, 1, Rule.NEWEST)
        assert (answers.status[row], answers.votes[row]) == (status, votes)
        assert status is not Status.FOUND or answers.data[row].tobytes() == data


@hypothesis_settings(max_examples=60)
@given(st.data())
def test_kernels_agree_with_plain_python(data: st.DataObject) -> None:
    """Crowded stores of every kind: equal memories, and equal answers by every rule and any consensus."""
    swap = data.draw(st.booleans())
    collectors = data.draw(st.integers(1, 4))
    copies = 2 if swap else data.draw(st.integers(1, 5))
    layout = KeyWriteLayout(
        slots=data.draw(st.integers(1, 12)),
        data_bytes=4 if swap else data.draw(st.sampled_from([1, 4, 12])),
        checksum_bits=32 if swap else data.draw(st.sampled_from([8, 32])),
        copies=copies,
        variant=Variant(swap),
        spread=collectors >= copies and data.draw(st.booleans()),
        collectors=collectors,
        hashing=data.draw(st.sampled_from(list(Hashing)[: 2 if swap else 3])),
        seed=data.draw(st.integers(0, 2**64 - 1)),
    )
    stores = [Store.create(None, layout) for _ in range(collectors)]
    twin = KeyWrite(layout)
    writer = KeyWriteWriter(layout, range(collectors))
    writer.copies_now = data.draw(st.integers(1, copies))
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    keys = as_bytes(random.integers(0, 30, 40).astype(np.uint64))
    values = random.integers(0, 2, (40, layout.data_bytes)).astype(np.uint8)
    redundancy = random.integers(1, copies + 1, 40)
    reports, arena = dta(1, keys, values, redundancy=redundancy)
    block = VerbBlock.of(*writer.room(len(reports)))
    writer.write(reports, np.arange(len(reports), dtype=np.uint32), arena, block)
    MemoryTransport(stores).submit(block)
    for key, value, asked in zip(keys, values, redundancy.tolist(), strict=True):
        twin.write(key.tobytes(), value.tobytes(), min(asked, writer.copies_now))
    for store, expected in zip(stores, twin.as_arrays(), strict=True):
        assert (store.memory == expected).all()
    looked_at = data.draw(st.integers(1, copies))
    consensus = data.draw(st.integers(1, looked_at))
    rule = data.draw(st.sampled_from(Rule))
    answers = query(stores, keys, copies=looked_at, consensus=consensus, rule=rule)
    for row, key in enumerate(keys):
        if layout.hashing is Hashing.PUBLISHED and not twin.check(key.tobytes()).strip(b"\0"):
            continue
        status, value, votes = twin.query(key.tobytes(), looked_at, consensus, rule)
        assert (answers.status[row], answers.votes[row]) == (status, votes)
        assert status is not Status.FOUND or answers.data[row].tobytes() == value


def test_two_values_are_a_conflict_until_one_leads() -> None:
    """By plurality one vote each is a conflict, and two win over one; by SINGLE any two values are one; by
    default the newest is the answer, if it has the consensus.
    """
    layout = KeyWriteLayout(slots=1 << 20, copies=3)
    store = Store.create(None, layout)
    translator = Translator([layout], MemoryTransport([store]))
    key = as_bytes(np.zeros(1, np.uint64))
    for value, copies in ((1, 3), (2, 2), (3, 1)):  # 3, 2, 1
        translator.translate(*dta(1, key, as_bytes(np.full(1, value, np.uint64)), redundancy=copies))
    assert query(store, key, rule=Rule.PLURALITY).status.tolist() == [Status.CONFLICT]
    assert query(store, key).data.tolist() == [[0, 0, 0, 3]]
    assert query(store, key, copies=1).data.tolist() == [[0, 0, 0, 3]]
    translator.translate(*dta(1, key, as_bytes(np.full(1, 2, np.uint64)), redundancy=2))  # 2, 2, 1
    for answers in (query(store, key, rule=Rule.PLURALITY), query(store, key)):
        assert answers.data.tolist() == [[0, 0, 0, 2]]
        assert answers.votes.tolist() == [2]
    assert query(store, key, rule=Rule.SINGLE).status.tolist() == [Status.CONFLICT]
    assert query(store, key, consensus=3).status.tolist() == [Status.EMPTY]
    translator.translate(*dta(1, key, as_bytes(np.full(1, 4, np.uint64)), redundancy=1))  # 4, 2, 1
    translator.translate(*dta(1, key, as_bytes(np.full(1, 1, np.uint64)), redundancy=3))
    translator.translate(*dta(1, key, as_bytes(np.full(1, 5, np.uint64)), redundancy=1))  # 5, 1, 1
    assert query(store, key, consensus=2).status.tolist() == [Status.CONFLICT]
    assert query(store, key, rule=Rule.PLURALITY).data.tolist() == [[0, 0, 0, 1]]
    assert query(store, key).data.tolist() == [[0, 0, 0, 5]]


@hypothesis_settings(max_examples=150)
@given(st.data())
def test_an_answer_is_the_newest_that_is_left(data: st.DataObject) -> None:
    """Against a dictionary of slots: keys reported again with any number of copies, by translators that adapt
    it or swap the second copy, or by switches that draw one. A value that is found is the newest that is
    left; only drawn copies may be in conflict.
    """
    kind = data.draw(st.sampled_from(["write", "swap", "drawn", "drawn swap"]))
    swap, drawn = "swap" in kind, "drawn" in kind
    copies = 2 if swap else data.draw(st.integers(1, 5))
    layout = KeyWriteLayout(
        slots=data.draw(st.integers(2, 60)), copies=copies, variant=Variant(swap), drawn=drawn,
        seed=data.draw(st.integers(0, 1000)),
    )  # fmt: skip
    store = Store.create(None, layout)
    transport, writer = MemoryTransport([store]), KeyWriteWriter(layout, [0])
    keys = as_bytes(np.arange(12, dtype=np.uint64))
    slots = slots_of(layout.params(), keys).tolist()
    model: dict[int, tuple[int, int]] = {}
    reports = st.tuples(st.integers(0, 11), st.integers(1, copies), st.integers(1, copies))
    for number, (key, asked, now) in enumerate(data.draw(st.lists(reports, max_size=40)), 1):
        value = as_bytes(np.full(1, number, np.uint64))
        if drawn:
            reporter = DartReporter(layout, seed=number)
            (block,) = reporter.report(keys[key : key + 1], value)
            written = np.flatnonzero(reporter.sent).tolist()
        else:
            writer.copies_now = now
            rows, arena = dta(1, keys[key : key + 1], value, redundancy=asked)
            block = VerbBlock.of(*writer.room(1))
            writer.write(rows, np.zeros(1, np.uint32), arena, block)
            written = list(range(min(asked, now)))
        transport.submit(block)
        for copy in written:
            if not (swap and copy == 1 and slots[key][1] in model):
                model[slots[key][copy]] = (key, number)
    answers = query(store, keys)
    for key, places in enumerate(slots):
        left = {model[place][1] for place in places if place in model and model[place][0] == key}
        if not left:
            assert answers.status[key] == Status.EMPTY
        elif not drawn or len(left) == 1:
            assert answers.status[key] == Status.FOUND
        else:
            assert answers.status[key] == Status.CONFLICT
        if answers.status[key] == Status.FOUND:
            assert int.from_bytes(answers.data[key].tobytes()) == max(left)


def test_an_empty_store_has_no_answer_even_for_short_checksums() -> None:
    """Slots that were never written belong to no key: no checksum is 0."""
    for hashing in (Hashing.MIX, Hashing.CRC):
        store = Store.create(None, KeyWriteLayout(slots=64, checksum_bits=8, hashing=hashing))
        assert not query(store, as_bytes(np.arange(5000, dtype=np.uint64))).status.any()


def test_a_swapped_copy_takes_only_an_empty_slot() -> None:
    """With one slot a second key's first copy overwrites it, but no second copy does (DART 7)."""
    layout = KeyWriteLayout(slots=1 << 16, copies=2, variant=Variant.SWAP)
    store = Store.create(None, layout)
    translator = Translator([layout], MemoryTransport([store]))
    key = as_bytes(np.zeros(1, np.uint64))
    for value in (1, 2):
        translator.translate(*dta(1, key, as_bytes(np.full(1, value, np.uint64)), redundancy=2))
    assert sorted(query(store, key, copies=1).data[:, 3].tolist()) == [2]
    assert query(store, key, rule=Rule.SINGLE).status.tolist() == [Status.CONFLICT]
    assert query(store, key).data.tolist() == [[0, 0, 0, 2]]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"slots": 0}, "slots is 0"),
        ({"data_bytes": 65}, "data_bytes is 65"),
        ({"checksum_bits": 7}, "checksum_bits is 7"),
        ({"copies": 17}, "copies is 17"),
        ({"spread": True, "collectors": 3}, "4 copies spread over 3 collectors"),
        ({"variant": Variant.SWAP}, "compare-and-swap takes 2 copies of 32 bits and 4 B"),
        ({"variant": Variant.SWAP, "copies": 2, "data_bytes": 20}, "compare-and-swap"),
        ({"variant": Variant.SWAP, "copies": 2, "checksum_bits": 64}, "compare-and-swap"),
        ({"variant": Variant.SWAP, "copies": 2, "hashing": Hashing.PUBLISHED}, "published checksum may be 0"),
    ],
)
def test_impossible_layouts_are_rejected(fields: dict[str, object], told: str) -> None:
    """The error names the field or what a variant needs."""
    with pytest.raises(ValueError, match=told):
        KeyWriteLayout(**{"slots": 64, **fields})  # type: ignore[arg-type]


def test_unsuitable_queries_are_rejected() -> None:
    """More copies than the store has, a consensus above them, no keys, other stores than its collectors'."""
    layout = KeyWriteLayout(slots=64, copies=2, collectors=2)
    store = Store.create(None, layout)
    keys = as_bytes(np.arange(3, dtype=np.uint64))
    for asked, message in (
        ({"copies": 3}, "3 copies: the store has 2"),
        ({"copies": 0}, "0 copies: the store has 2"),
        ({"consensus": 3}, "a consensus of 3, expected 1 to 2 copies"),
        ({"copies": 1, "consensus": 2}, "a consensus of 2, expected 1 to 1 copies"),
    ):
        with pytest.raises(StoreError, match=message):
            query(store, keys, **asked)  # type: ignore[arg-type]
    for bad in (np.zeros(4, np.uint8), np.zeros((1, 0), np.uint8), np.zeros((1, 256), np.uint8)):
        with pytest.raises(StoreError, match="keys of shape"):
            query(store, bad)
    with pytest.raises(StoreError, match="3 stores"):
        query([store] * 3, keys)
    assert len(query(store, keys[:0])) == 0


def test_immediate_marks_the_first_copy() -> None:
    """The owner of the memory is notified once, with the lower half of the checksum."""
    from hopscope.direct.hashing import checksums_of
    from hopscope.rdma.records import VerbFlag
    from hopscope.wire.dta.records import DtaFlag

    layout = KeyWriteLayout(slots=64)
    writer = KeyWriteWriter(layout, [0])
    keys = as_bytes(np.arange(2, dtype=np.uint64))
    reports, arena = dta(1, keys, keys, redundancy=2, flags=np.array([DtaFlag.IMMEDIATE, 0]))
    block = VerbBlock.of(*writer.room(2))
    writer.write(reports, np.arange(2, dtype=np.uint32), arena, block)
    assert block.filled["flags"].tolist() == [VerbFlag.IMMEDIATE, 0, 0, 0]
    assert block.filled["immediate"][0] == checksums_of(layout.params(), keys)[0]


def test_the_published_memory_is_read_and_written() -> None:
    """A slot of 8 bytes at CRC32(key, n) mod slots: the CRC32 of the key, little-endian, and the data."""
    layout = KeyWriteLayout(slots=1 << 16, hashing=Hashing.PUBLISHED)
    store = Store.create(None, layout)
    key, value = as_bytes(np.full(1, 0x01020304, np.uint64)), as_bytes(np.full(1, 0x0A0B0C0D, np.uint64))
    Translator([layout], MemoryTransport([store])).translate(*dta(1, key, value, redundancy=4))
    for slot in (0x3B881B1C, 0x4C8F2B8A, 0xD5867A30, 0xA2814AA6):  # wire-formats.md, section 3
        at = slot % layout.slots * 8
        assert store.memory[at : at + 8].tobytes() == bytes.fromhex("06a451e9 0a0b0c0d")
    assert np.count_nonzero(store.memory.view(np.uint64)) == 4
    answers = query(store, key)
    assert (answers.votes[0], answers.data[0].tobytes()) == (4, bytes.fromhex("0a0b0c0d"))
