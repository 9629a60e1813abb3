"""Append: entries go out in batches, each into the next slot of its list."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopscope.direct.primitive import WriterStart, load
from hopscope.direct.primitives.append import AppendLayout, AppendWriter, ListReader, ListsReader
from hopscope.direct.stores.answers import QueryOptions
from hopscope.direct.stores.store import Store, StoreError
from hopscope.direct.translation.translator import Translator
from hopscope.direct.transport import MemoryTransport
from hopscope.rdma.records import VerbBlock
from hopscope.wire.dta.records import DtaFlag
from hopscope.wire.reasons import DtaReason
from support.direct.append_make import Bench, appended, numbers
from support.direct.direct_make import as_bytes

pytestmark = pytest.mark.kernel


@pytest.mark.parametrize("width", [1, 3, 4, 7, 8, 18, 64])
@pytest.mark.parametrize("batch", [1, 5, 16])
def test_entries_come_back_in_order(width: int, batch: int) -> None:
    """Full batches at once, the rest after a flush; nothing twice."""
    bench = Bench(AppendLayout(batches=16, lists=3, data_bytes=width, batch=batch))
    reader = ListReader(bench.store, 1)
    entries = numbers(0, 13, width)
    bench.take(1, entries)
    got, lost = reader.read()
    assert (got == entries[: 13 // batch * batch]).all()
    assert lost == 0
    bench.flush()
    rest, lost = reader.read()
    assert (np.concatenate([got, rest]) == entries).all()
    assert reader.read()[0].shape == (0, width)
    assert ListReader(bench.store, 0, "oldest").read()[0].shape == (0, width)


def test_only_old_batches_age() -> None:
    """A batch goes out once its oldest entry is old enough, however many come after it."""
    bench = Bench(AppendLayout(batches=8, lists=2), idle_ns=100)
    reader = ListsReader(bench.store, [0, 1])
    bench.take(0, numbers(0, 1))
    bench.flush(50)
    bench.take([0, 1], numbers(1, 2))
    bench.flush(149)
    assert len(reader.poll()[0]) == 0
    bench.flush(150)
    assert reader.poll()[0].tolist() == [0, 0]
    assert bench.writer.counters == {"waiting": 1, "full": 0, "partial": 0, "aged": 1}
    bench.flush(250)
    assert reader.poll()[0].tolist() == [1]


def test_lists_and_lengths_that_do_not_fit_are_rejected() -> None:
    """A list that is not there, data of another length: counted; layouts and readers say what is wrong."""
    bench = Bench(AppendLayout(batches=2, lists=7, batch=1))
    assert bench.take([6, 7, 1 << 31], numbers(0, 3))["reason"].tolist() == [
        DtaReason.NONE, DtaReason.BAD_LIST, DtaReason.BAD_LIST,
    ]  # fmt: skip
    assert (bench.take([1], numbers(0, 1, 5))["reason"] == DtaReason.BAD_LENGTH).all()
    with pytest.raises(StoreError, match="list 7: the store has lists 0 to 6"):
        ListReader(bench.store, 7)
    for name, value in (
        ("batches", 3),
        ("batches", 0),
        ("lists", 131_073),
        ("batch", 17),
        ("data_bytes", 65),
    ):
        fields: dict[str, Any] = {"batches": 1, name: value}
        with pytest.raises(ValueError, match=name):
            AppendLayout(**fields)
    layout = AppendLayout(batches=8, lists=5, batch=3, data_bytes=18)
    assert AppendLayout.of(layout.params()) == layout
    assert AppendLayout.sized(1 << 20).batches == 8192
    assert AppendLayout.sized(1 << 20).nbytes <= 1 << 20
    with pytest.raises(StoreError, match="one batch of every list"):
        AppendLayout.sized(1000, lists=100)
    told = load()[2].answer(bench.store, as_bytes(np.array([6, 7], np.uint64)), QueryOptions(limit=5))
    assert told == [
        {"status": "found", "entries": ["00000000"]},
        {"status": "empty", "reason": "list 7: the store has lists 0 to 6"},
    ]


def test_the_immediate_flag_marks_the_batch() -> None:
    """The write of a batch with such an entry reports the list's number; the next one does not."""
    bench = Bench(AppendLayout(batches=4, lists=9, batch=2))
    flags = [0, DtaFlag.IMMEDIATE, 0, 0]
    verbs = bench.verbs(*appended(5, numbers(0, 4), flags=flags)).filled
    assert verbs["flags"].tolist() == [1, 0]
    assert verbs["immediate"][0] == 5


def test_lists_are_spread_over_collectors() -> None:
    """List l is at collector l mod collectors, and resumes from that one's memory."""
    layout = AppendLayout(batches=4, lists=4, batch=1, collectors=2)
    stores = [Store.create(None, layout) for _ in range(2)]
    transport = MemoryTransport(stores)
    for turn in range(2):
        writer = AppendWriter(layout, [0, 1])
        for which, store in enumerate(stores):
            writer.begin(which, WriterStart(3, store.memory))
        reports, arena = appended(np.arange(4), numbers(4 * turn, 4))
        block = VerbBlock.of(*writer.room(4))
        writer.write(reports, np.arange(4, dtype=np.uint32), arena, block)
        transport.submit(block)
    for number in range(4):
        got = ListReader(stores[number % 2], number, "oldest").read()[0]
        assert got[:, 3].tolist() == [number, number + 4]
        assert len(ListReader(stores[1 - number % 2], number, "oldest").read()[0]) == 0


@settings(max_examples=40)
@given(st.data())
def test_no_records_write_outside_the_store(data: st.DataObject) -> None:
    """Whatever stands in the records, every verb is one slot of the store."""
    layout = AppendLayout(
        batches=data.draw(st.sampled_from([1, 4, 1 << 20])), lists=data.draw(st.integers(1, 5)),
        batch=data.draw(st.integers(1, 3)), data_bytes=data.draw(st.integers(1, 64)),
    )  # fmt: skip
    writer = AppendWriter(layout, [0])
    draw = np.random.default_rng(data.draw(st.integers(0, 1 << 32)))
    arena = draw.integers(0, 256, 4096).astype(np.uint8)
    reports = appended(0, np.zeros((64, 4), np.uint8))[0]
    for name in ("hop", "path_length", "redundancy", "flags", "key_bytes"):
        reports[name] = draw.integers(0, 256, 64)
    reports["data_bytes"] = draw.choice([layout.data_bytes, 0, 4, 255], 64)
    reports["key_at"], reports["data_at"] = draw.integers(0, 4032, (2, 64))
    reports["list"] = draw.choice([0, layout.lists - 1, layout.lists, 0xFFFFFFFF], 64)
    block = VerbBlock.of(*writer.room(64))
    writer.write(reports, np.arange(64, dtype=np.uint32), arena, block)
    while writer.flush(block):
        pass
    verbs = block.filled
    assert (verbs["address"] + verbs["length"] <= layout.nbytes).all()
    assert (verbs["address"] % layout.slot_bytes == 0).all()
    assert (verbs["length"] == layout.slot_bytes).all()
    assert (verbs["payload_at"] + verbs["length"] <= block.fill[1]).all()
    assert block.fill[1] <= len(block.payload)


def test_a_transport_with_little_room_gets_everything_in_parts() -> None:
    """Where the connection takes ten verbs at a time, entries are accepted and batches that wait go out."""

    class Narrow(MemoryTransport):
        taken = 0

        def room(self) -> int:
            return 10

        def submit(self, block: VerbBlock) -> None:
            self.taken += len(block)
            super().submit(block)

    store = Store.create(None, AppendLayout(batches=1, lists=500))
    transport = Narrow([store])
    translator = Translator([store.layout], transport)
    for first in range(0, 500, 10):
        translator.translate(*appended(np.arange(first, first + 10), numbers(first, 10)))
    assert translator.rejected[DtaReason.CONGESTED] == 0
    assert translator.flush()
    assert transport.taken == 500
    which, entries = ListsReader(store, np.arange(500), "oldest").poll()
    assert (entries == numbers(0, 500)).all()
    assert (which == np.arange(500)).all()
