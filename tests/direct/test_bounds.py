"""Whatever a report says, nothing outside of a store is written; a damaged file is rejected in one line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from hopscope.base.errors import HopscopeError
from hopscope.direct.hashing import Hashing
from hopscope.direct.primitive import Writer, attach
from hopscope.direct.primitives import key_increment, key_write
from hopscope.direct.primitives.key_increment import KeyIncrementLayout, KeyIncrementWriter
from hopscope.direct.primitives.key_write import KeyWriteLayout, KeyWriteWriter, Variant
from hopscope.direct.stores import params as at
from hopscope.direct.stores.store import Layout, Store, StoreError
from hopscope.direct.translation.translator import Translator
from hopscope.direct.transport import MemoryTransport
from hopscope.memory.region import RegionError
from hopscope.rdma.records import COUNT, PAYLOAD, Verb, VerbBlock
from hopscope.wire.dta.records import DTA
from hopscope.wire.reasons import DtaReason
from hopscope.wire.records import Records
from support.direct.direct_make import as_bytes, dta

pytestmark = pytest.mark.kernel

GUARD = 64


def any_reports(random: np.random.Generator, count: int, arena: int) -> Records:
    """Records whose every byte is random, half of them pulled towards what is accepted."""
    reports: Records = random.integers(0, 256, count * DTA.itemsize).astype(np.uint8).view(DTA).copy()
    likely = random.integers(0, 2, count).astype(bool)
    reports["reason"] = 0
    for name, values in (
        ("redundancy", random.integers(0, 6, count)),
        ("key_bytes", random.integers(0, 20, count)),
        ("key_at", random.integers(0, arena + 4, count)),
        ("data_at", random.integers(0, arena + 4, count)),
        ("data_bytes", random.choice([4, 8, 20], count)),
    ):
        reports[name] = np.where(likely, values, reports[name])
    return reports


def writer_of(layout: Layout) -> Writer:
    return (
        KeyWriteWriter(layout, [7] * layout.collectors)
        if isinstance(layout, KeyWriteLayout)
        else KeyIncrementWriter(layout, [7] * layout.collectors)  # type: ignore[arg-type]
    )


LAYOUTS = st.one_of(
    st.builds(
        KeyWriteLayout,
        slots=st.integers(1, 40),
        data_bytes=st.sampled_from([4, 8, 20]),
        checksum_bits=st.integers(8, 64),
        copies=st.integers(1, 5),
        hashing=st.sampled_from(Hashing),
        seed=st.integers(0, 2**64 - 1),
        collectors=st.integers(1, 3),
    ),
    st.builds(KeyWriteLayout, slots=st.integers(1, 40), copies=st.just(2), variant=st.just(Variant.SWAP)),
    st.builds(
        KeyIncrementLayout,
        slots=st.integers(1, 40),
        copies=st.integers(1, 5),
        hashing=st.sampled_from(Hashing),
    ),
)


@hypothesis_settings(max_examples=150)
@given(LAYOUTS, st.integers(0, 2**32 - 1), st.integers(0, 300))
def test_no_verb_is_outside_of_its_store(layout: Layout, seed: int, size: int) -> None:
    """Records of any content over any arena: verbs lie in the store, and the bytes around it stay."""
    from hopscope.base.kernels.jit import readonly
    from hopscope.rdma.apply_kernel import apply

    random = np.random.default_rng(seed)
    arena = random.integers(0, 256, size).astype(np.uint8)
    reports = any_reports(random, 30, size)
    writer = writer_of(layout)
    verbs, payload = writer.room(30)
    block = VerbBlock.of(verbs + 1, payload + GUARD)
    block.verbs[-1]["kind"] = 99
    block.payload[payload:] = 0xA5
    writer.write(reports, np.arange(30, dtype=np.uint32), arena, block)
    assert block.fill[COUNT] <= verbs
    assert block.fill[PAYLOAD] <= payload
    assert block.verbs[-1]["kind"] == 99
    assert (block.payload[payload:] == 0xA5).all()
    made = block.filled
    length = np.where(made["kind"] == Verb.WRITE, made["length"], 8)
    assert (made["address"] + length <= layout.nbytes).all()
    assert (made["payload_at"] + made["length"] <= payload)[made["kind"] == Verb.WRITE].all()
    accepted = np.count_nonzero(reports["reason"] == DtaReason.NONE)
    assert accepted <= len(made) or layout.nbytes == 0
    around = random.integers(0, 256, layout.nbytes + 2 * GUARD).astype(np.uint8)
    before = around.copy()
    refused = apply(
        made, np.uint64(0), np.uint64(len(made)), readonly(block.payload), around[GUARD:-GUARD], np.uint64(7)
    )
    assert refused == 0
    assert (around[:GUARD] == before[:GUARD]).all()
    assert (around[-GUARD:] == before[-GUARD:]).all()


@hypothesis_settings(max_examples=100)
@given(st.integers(0, 2**32 - 1), st.integers(0, 80))
def test_verbs_of_any_content_stay_inside(seed: int, size: int) -> None:
    """What plain Python allows is done, everything else is rejected and changes nothing, also not outside."""
    from hopscope.base.kernels.jit import readonly
    from hopscope.rdma.apply_kernel import apply
    from hopscope.rdma.records import VERB, VerbFlag

    random = np.random.default_rng(seed)
    verbs: Records = random.integers(0, 256, 40 * VERB.itemsize).astype(np.uint8).view(VERB).copy()
    near = random.integers(0, 4, 40) > 0
    for name, values in (
        ("address", random.integers(0, size + 10, 40).astype(np.uint64)),
        ("length", random.integers(0, 30, 40)),
        ("payload_at", random.integers(0, 70, 40)),
        ("compare", np.zeros(40, np.uint64)),
    ):
        verbs[name] = np.where(near, values, verbs[name])
    verbs["kind"], verbs["target"] = random.integers(1, 4, 40), random.integers(0, 2, 40)
    verbs["flags"] = 0
    payload = random.integers(0, 256, 64).astype(np.uint8)
    around = random.integers(0, 3, size + 2 * GUARD).astype(np.uint8)
    around[random.integers(0, len(around), len(around) // 2)] = 0
    expected = around.copy()
    refused = 0
    for verb in verbs:
        if verb["target"] != 1:
            continue
        first = int(verb["address"])
        length = int(verb["length"]) if verb["kind"] == Verb.WRITE else 8
        source = int(verb["payload_at"])
        if first + length > size or (
            source + length > len(payload) if verb["kind"] == Verb.WRITE else first % 8
        ):
            refused += 1
            continue
        here = slice(GUARD + first, GUARD + first + length)
        if verb["kind"] == Verb.WRITE:
            expected[here] = payload[source : source + length]
            continue
        before = int.from_bytes(expected[here].tobytes(), "little")
        after = (
            (before + int(verb["value"])) % 2**64 if verb["kind"] == Verb.FETCH_ADD else int(verb["value"])
        )
        if verb["kind"] == Verb.FETCH_ADD or before == verb["compare"]:
            expected[here] = np.frombuffer(after.to_bytes(8, "little"), np.uint8)
    found = apply(
        verbs, np.uint64(0), np.uint64(40), readonly(payload), around[GUARD : GUARD + size], np.uint64(1)
    )
    assert found == refused == np.count_nonzero(verbs["flags"] & VerbFlag.REJECTED)
    assert (around == expected).all()


def some_store(path: Path) -> Store:
    store = Store.create(path, KeyWriteLayout(slots=100))
    keys = as_bytes(np.arange(10, dtype=np.uint64))
    Translator([store.layout], MemoryTransport([store])).translate(*dta(1, keys, keys, redundancy=2))
    return store


def test_a_store_that_is_deleted_goes_on_answering_its_reader(tmp_path: Path) -> None:
    """What is mapped stays; `is_current` says that it is gone, or that another has taken its name."""
    path = tmp_path / "flows.region"
    some_store(path)
    reader = attach(path)
    keys = as_bytes(np.arange(10, dtype=np.uint64))
    assert reader.region.is_current()
    path.unlink()
    assert not reader.region.is_current()
    assert key_write.query(reader, keys).found.all()
    some_store(path)
    assert not reader.region.is_current()
    assert key_write.query(reader, keys).found.all()


def test_a_reader_cannot_write(tmp_path: Path) -> None:
    """A store is attached read-only unless it is asked for otherwise."""
    some_store(tmp_path / "flows.region")
    with pytest.raises(ValueError, match="read-only"):
        attach(tmp_path / "flows.region").memory[0] = 1


@pytest.mark.parametrize(
    ("place", "value", "told"),
    [
        (at.OPCODE, 3, "its header is damaged|expected"),
        (at.OPCODE, 250, "unknown primitive 250"),
        (at.SCHEMA, 2, "layout 2 of primitive 1, expected 1"),
        (at.COLLECTORS, 2**40, "its header is damaged: .* collectors"),
        (at.HASHING, 9, "its header is damaged: 9 is not a valid Hashing"),
        (at.SLOTS, 0, "its header is damaged: slots is 0"),
        (at.SLOTS, 101, "its header says 808"),
        (at.STRIDE, 1 << 40, "inconsistent parameters"),
        (at.SLOTS, 2**40, "its header is damaged: slots is"),
        (at.DATA_BYTES, 5, "inconsistent parameters"),
        (at.DATA_BYTES, 65, "data_bytes is 65"),
        (at.CHECKSUM_BITS, 65, "checksum_bits is 65"),
        (at.COPIES, 0, "copies is 0"),
        (at.COPIES, 255, "copies is 255"),
        (at.VARIANT, 7, "7 is not a valid Variant"),
        (at.SPREAD, 1, "4 copies spread over 1"),
    ],
)
def test_an_impossible_header_is_rejected(tmp_path: Path, place: int, value: int, told: str) -> None:
    """Every parameter of a store's file, changed: one line says what was found."""
    path = tmp_path / "flows.region"
    store = some_store(path)
    store.region["params"][place] = value
    with pytest.raises(StoreError, match=told):
        attach(path)


def test_another_primitives_store_is_rejected(tmp_path: Path) -> None:
    """A query that is meant for Key-Write does not read counters."""
    Store.create(tmp_path / "counters.region", KeyIncrementLayout(slots=10))
    with pytest.raises(StoreError, match=r"primitive 3, expected 1 of 1 \(key-write\)"):
        Store.attach(tmp_path / "counters.region", KeyWriteLayout)


@pytest.mark.parametrize("cut", [0, 3, 63, 64, 200, 4095])
def test_a_truncated_file_is_rejected(tmp_path: Path, cut: int) -> None:
    """An empty file, half a header, half a memory."""
    path = tmp_path / "flows.region"
    some_store(path)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(RegionError, match=str(path)):
        attach(path)


def test_any_damage_to_a_header_is_rejected_or_harmless(tmp_path: Path) -> None:
    """Each byte before the memory, changed: an error of ours, or a store that is queried without a crash."""
    path = tmp_path / "flows.region"
    some_store(path)
    whole = path.read_bytes()
    table = json.loads(whole[64 : 64 + int.from_bytes(whole[20:24], "little")])
    memory = next(offset for name, _, _, offset in table if name == "memory")
    keys = as_bytes(np.arange(10, dtype=np.uint64))
    random = np.random.default_rng(1)
    told: list[str] = []
    for place in range(memory):
        damaged = bytearray(whole)
        damaged[place] ^= int(random.integers(1, 256))
        path.unlink()
        path.write_bytes(damaged)
        try:
            store = attach(path)
            if isinstance(store.layout, KeyWriteLayout):
                key_write.query(store, keys)
            elif isinstance(store.layout, KeyIncrementLayout):
                key_increment.query(store, keys)
        except HopscopeError as error:
            told.append(str(error))
    assert len(told) > 64
    assert all(str(path) in text for text in told)


def same_slot_twice(memory: npt.NDArray[np.uint8], changed_to: npt.NDArray[np.uint8]) -> list[list[int]]:
    """Marks and slot after two looks at a slot of 24 B, between which it changed."""
    from hopscope.base.kernels.jit import readonly
    from hopscope.direct.primitives.fetch_kernel import fetch

    zero, one, look = np.uint64(0), np.uint64(1), np.ones(1, np.uint8)
    slots, changed = np.zeros(32, np.uint8), np.zeros(1, np.uint8)
    places, owners = np.zeros(1, np.uint64), np.zeros(0, np.uint64)
    result = []
    for again in (False, True, True):
        changed[:] = 0
        fetch(readonly(memory), places, owners, zero, one, zero, np.uint64(24), look, again, slots, changed)
        result.append([int(changed[0]), int(slots[0]), int(slots[23])])
        memory[:] = changed_to
    return result


def test_a_slot_that_changes_while_it_is_read_is_read_again() -> None:
    """The second look at a slot that was half written finds it changed; the third one that it stays."""
    half = np.repeat(np.array([1, 2], np.uint8), [8, 16])
    assert same_slot_twice(half, np.full(24, 1, np.uint8)) == [[0, 1, 2], [1, 1, 1], [0, 1, 1]]
