"""Readers of lists: every entry is read once, whole and in order, or counted as lost."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopscope.direct.primitive import WriterStart
from hopscope.direct.primitives.append import AppendLayout, AppendWriter, ListReader, ListsReader
from hopscope.direct.primitives.append_reader import Start
from hopscope.direct.stores.store import Store
from hopscope.rdma.records import VerbBlock
from support.direct.append_make import Bench, Plain, appended, numbers

pytestmark = pytest.mark.kernel


def test_a_slow_reader_learns_what_it_lost() -> None:
    """The ring is overrun: the reader gets what is left and the exact number of entries that are gone."""
    bench = Bench(AppendLayout(batches=4, batch=4))
    reader = ListReader(bench.store, 0)
    bench.take(0, numbers(0, 6))
    assert len(reader.read()[0]) == 4
    bench.flush()  # a batch of two
    bench.take(0, numbers(6, 40))
    got, lost = reader.read()
    assert (got == numbers(30, 16)).all()
    assert lost == 26  # the batch of two, and six full ones
    oldest, lost = ListReader(bench.store, 0, "oldest").read()
    assert (oldest == got).all()
    assert lost == 0
    assert (ListReader(bench.store, 0, 2).read()[0] == got[-8:]).all()


def test_many_lists_are_polled_in_turn() -> None:
    """What found no room in one poll comes first in the next; every list's order is kept."""
    bench = Bench(AppendLayout(batches=8, lists=50, batch=4))
    reader = ListsReader(bench.store, np.arange(50))
    lists = np.repeat(np.arange(50), 8)
    bench.take(lists, numbers(0, 400))
    seen: list[tuple[int, bytes]] = []
    for _ in range(40):
        which, entries = reader.poll(limit=13)
        assert len(entries) <= 13
        seen += [(int(one), bytes(entry)) for one, entry in zip(which, entries, strict=True)]
    expected = list(zip(lists.tolist(), map(bytes, numbers(0, 400)), strict=True))
    assert sorted(seen) == sorted(expected)
    for number in range(50):
        assert [entry for one, entry in seen if one == number] == [e for one, e in expected if one == number]
    assert not reader.lost.any()


def test_a_restarted_translator_continues() -> None:
    """Heads are found in the memory; a reader notices nothing, and entries are counted on."""
    bench = Bench(AppendLayout(batches=4, lists=2, batch=2))
    reader = ListReader(bench.store, 1)
    bench.take(1, numbers(0, 14))
    bench.writer = AppendWriter(bench.store.layout, [0])  # type: ignore[arg-type]
    bench.writer.begin(0, WriterStart(77, bench.store.memory))
    bench.take(1, numbers(14, 4))
    got, lost = reader.read()
    assert lost == 10
    assert (got == numbers(10, 8)).all()
    assert reader.restarts == 0


@pytest.mark.parametrize("read_before", [0, 3, 14])
@pytest.mark.parametrize("after", [2, 6, 20])
def test_a_translator_that_cannot_read_begins_a_generation(read_before: int, after: int) -> None:
    """A new generation begins with batch 0: a reader finds it, and reads no old batch again."""
    bench = Bench(AppendLayout(batches=4, lists=2, batch=1))
    reader = ListReader(bench.store, 1)
    bench.take(1, numbers(0, read_before))
    reader.read()
    bench.writer.begin(0, WriterStart(5))
    bench.take(1, numbers(100, after))
    got, lost = reader.read()
    assert (got == numbers(100 + max(0, after - 4), min(after, 4))).all()
    assert lost == max(0, after - 4)
    assert reader.restarts == (1 if read_before else 0)
    assert (ListReader(bench.store, 1, "oldest").read()[0] == got).all()


def test_lost_batches_do_not_stop_a_reader() -> None:
    """Writes that never come (an unreliable transport) are passed after some polls, and counted."""
    bench = Bench(AppendLayout(batches=64, batch=2))
    reader = ListReader(bench.store, 0)
    bench.take(0, numbers(0, 4))
    for first in (4, 16):
        bench.verbs(*appended(0, numbers(first, 6)))  # three batches that nothing executes
        bench.take(0, numbers(first + 6, 6))
    got, lost = [], 0
    for _ in range(64):
        entries, missed = reader.read()
        got += entries[:, 3].tolist()
        lost += missed
    assert got == [*range(4), *range(10, 16), *range(22, 28)]
    assert lost == 12
    bench.writer.begin(0, WriterStart(1, bench.store.memory))
    bench.take(0, numbers(28, 2))
    assert reader.read()[0][:, 3].tolist() == [28, 29]


@pytest.mark.parametrize("sent", [0, 1, 7, 8, 9, 30])
def test_readers_begin_where_they_are_asked_to(sent: int) -> None:
    """So many batches before the newest, as far as they are there."""
    bench = Bench(AppendLayout(batches=8, batch=1))
    bench.take(0, numbers(0, sent))
    there = list(range(sent))[-8:]
    for back in range(10):
        got = ListReader(bench.store, 0, back).read()[0]
        assert got[:, 3].tolist() == there[len(there) - min(back, len(there)) :]


def test_numbers_wrap() -> None:
    """Batch numbers begin again after 2^31, entries after 2^32; readers and a new translator follow."""
    bench = Bench(AppendLayout(batches=4, batch=2))
    pending = bench.writer._pending.view(np.uint32)
    pending[:2] = [0xFFFFFFFC, 0xFFFFFFFD]
    bench.take(0, numbers(0, 2))
    reader = ListReader(bench.store, 0, "oldest")
    assert (reader.read()[0] == numbers(0, 2)).all()
    bench.take(0, numbers(2, 8))
    got, lost = reader.read()
    assert (got == numbers(2, 8)).all()
    assert lost == 0
    bench.writer.begin(0, WriterStart(1, bench.store.memory))
    bench.take(0, numbers(10, 20))
    got, lost = reader.read()
    assert (got == numbers(22, 8)).all()
    assert lost == 12
    assert (ListReader(bench.store, 0, "oldest").read()[0] == got).all()


@settings(max_examples=60)
@given(st.data())
def test_reading_and_writing_in_any_order(data: st.DataObject) -> None:
    """Readers that look between any two words that a write copies get what the twin sent, each entry once.

    What was read and what was lost together are what was sent; at the end the ring is the twin's.
    """
    layout = AppendLayout(
        batches=data.draw(st.sampled_from([1, 2, 4, 8])), lists=2, batch=data.draw(st.integers(1, 5)),
        data_bytes=data.draw(st.sampled_from([3, 4, 6, 8, 20])),
    )  # fmt: skip
    bench, plain = Bench(layout), Plain(layout)
    draw = np.random.default_rng(data.draw(st.integers(0, 1 << 32)))
    readers = [ListReader(bench.store, number) for number in (0, 0, 1)]
    eager = [1.0, 0.1, 0.4]
    got: list[list[bytes]] = [[], [], []]
    lost = [0, 0, 0]

    def look() -> None:
        for which, reader in enumerate(readers):
            if draw.random() < eager[which]:
                entries, missed = reader.read(int(draw.integers(1, 20)))
                got[which] += map(bytes, entries)
                lost[which] += missed

    count = 0
    for _ in range(30):
        lists = draw.integers(0, 2, draw.integers(1, 12))
        entries = numbers(count, len(lists), layout.data_bytes)
        count += len(lists)
        block = bench.verbs(*appended(lists, entries))
        for number, entry in zip(lists.tolist(), entries, strict=True):
            plain.take(number, bytes(entry))
        if draw.random() < 0.3:
            bench.transport.submit(block)
            block = VerbBlock.of(*bench.writer.room(9))
            assert not bench.writer.flush(block)
            plain.flush(0)
            plain.flush(1)
        for verb in block.filled:  # as apply does it, from the lowest address on
            for at in range(0, int(verb["length"]), 8):
                to, source = int(verb["address"]) + at, int(verb["payload_at"]) + at
                bench.store.memory[to : to + 8] = block.payload[source : source + 8]
                if draw.random() < 0.1:
                    look()
        look()
    for which, number in enumerate((0, 0, 1)):
        while len(more := readers[which].read(7)[0]):
            got[which] += map(bytes, more)
        sent = [entry for batch in plain.sent.get(number, []) for entry in batch]
        assert len(got[which]) + int(readers[which]._reader.lost[0]) == len(sent)
        rest = iter(sent)
        assert all(entry in rest for entry in got[which]), "an entry twice, torn or out of order"
        assert got[which][-1:] == sent[-1:]
    for number in range(2):
        ring = list(map(bytes, ListReader(bench.store, number, "oldest").read(1 << 12)[0]))
        assert ring == plain.ring(number)
    assert bench.writer.counters["waiting"] == sum(map(len, plain.waiting.values()))


@settings(max_examples=60)
@given(st.binary(min_size=2 * 4 * 32, max_size=2 * 4 * 32), st.integers(1, 40))
def test_readers_survive_any_memory(content: bytes, limit: int) -> None:
    """Memory that no translator wrote gives some entries or none, never more than were asked for."""
    layout = AppendLayout(batches=4, lists=2, batch=3, data_bytes=5)
    store = Store.create(None, layout)
    store.memory[:] = np.frombuffer(content, np.uint8)[: layout.nbytes]
    starts: tuple[Start, ...] = ("new", "oldest")
    for start in starts:
        reader = ListsReader(store, [1, 0], start)
        for _ in range(3):
            assert len(reader.poll(limit)[0]) <= max(limit, 3)
    AppendWriter(layout, [0]).begin(0, WriterStart(1, store.memory))


def test_a_reader_during_writes() -> None:
    """Two threads: 384,000 entries of 64 equal bytes, none torn, none twice, all read or counted."""
    layout = AppendLayout(batches=1, data_bytes=64, batch=16)
    bench = Bench(layout)
    reader = ListReader(bench.store, 0)
    rounds, size = 8, 48_000
    entries = np.repeat(np.arange(rounds * size) & 0xFF, 64).astype(np.uint8).reshape(-1, 64)
    done = threading.Event()

    def feed() -> None:
        for at in range(0, rounds * size, size):
            bench.take(0, entries[at : at + size])
        done.set()

    reader.read()
    bench.take(0, entries[:0])
    thread = threading.Thread(target=feed)
    thread.start()
    at, last = 0, False
    while True:
        last = done.is_set()
        got, lost = reader.read()
        if len(got):
            assert (got == got[:, :1]).all(), "a torn entry"
            assert (np.diff(got[:, 0].reshape(-1, 16)) == 1).all(), "batches are mixed"
        at += len(got) + lost
        if last and not len(got):
            break
    thread.join()
    assert at == rounds * size


def test_a_reader_takes_part_of_a_batch() -> None:
    """One entry at a time, by readers that begin where another ended; each is returned once."""
    bench = Bench(AppendLayout(batches=4, batch=4))
    got: list[bytes] = []
    place = None
    for count in range(0, 40, 5):
        bench.take(0, numbers(count, 5))
        for _ in range(5):
            reader = ListReader(bench.store, 0, "oldest", place)
            entries, lost = reader.read(1)
            got += map(bytes, entries)
            assert lost == 0
            place = reader.place
    assert got == [bytes(entry) for entry in numbers(0, len(got))]
    assert len(got) >= 36


def test_the_place_in_an_empty_list_is_taken() -> None:
    """What `direct list --follow` and the API continue from: the first entries come, those of a ring that has
    wrapped meanwhile count as lost.
    """
    bench = Bench(AppendLayout(batches=4, batch=4))
    place = ListReader(bench.store, 0, "oldest").place
    entries, lost = ListReader(bench.store, 0, place=place).read(100)
    assert (len(entries), lost) == (0, 0)
    bench.take(0, numbers(0, 8))
    entries, lost = ListReader(bench.store, 0, place=place).read(100)
    assert (list(map(bytes, entries)), lost) == (list(map(bytes, numbers(0, 8))), 0)
    bench.take(0, numbers(8, 16))
    entries, lost = ListReader(bench.store, 0, place=place).read(100)
    assert (list(map(bytes, entries)), lost) == (list(map(bytes, numbers(8, 16))), 8)


def test_the_rest_of_an_overwritten_batch_is_lost() -> None:
    """Two of four entries were read before the ring came around: the other two are lost, the rest is read."""
    bench = Bench(AppendLayout(batches=4, batch=4))
    reader = ListReader(bench.store, 0, "oldest")
    bench.take(0, numbers(0, 4))
    assert len(reader.read(2)[0]) == 2
    bench.take(0, numbers(4, 16))
    entries, lost = reader.read(100)
    assert [bytes(entry) for entry in entries] == [bytes(entry) for entry in numbers(4, 16)]
    assert lost == 2
