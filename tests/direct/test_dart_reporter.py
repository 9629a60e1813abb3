"""DART's reporter: random copies, collectors by key, and the query success that follows."""

from __future__ import annotations

import numpy as np
import pytest

from hopscope.direct.hashing import collectors_of, slots_of
from hopscope.direct.primitives.key_write import KeyWriteLayout, Variant, query
from hopscope.direct.stores.store import Store, StoreError
from hopscope.direct.theory.copies import distinct_copies
from hopscope.direct.translation.translator import Translator
from hopscope.direct.transport import MemoryTransport
from hopscope.rdma.advertisement import RemoteRegion, encode
from hopscope.rdma.endpoint import Endpoint, Session
from hopscope.rdma.records import Verb
from hopscope.wire.address import number_of
from support.direct.dart_reporter import DartReporter
from support.direct.direct_make import as_bytes, dta

pytestmark = pytest.mark.kernel


@pytest.mark.parametrize("copies", [1, 2, 4])
def test_filled_slots_by_reports_of_a_key(copies: int) -> None:
    """N (1 - (1 - 1/N)^r) slots on average over 3,000 keys, within four standard errors, r = 1 to 6."""
    layout = KeyWriteLayout(slots=1 << 22, copies=copies, drawn=True)
    store = Store.create(None, layout)
    transport, reporter = MemoryTransport([store]), DartReporter(layout, seed=copies)
    keys = as_bytes(np.arange(3000, dtype=np.uint64), 13)
    for reports in range(1, 7):
        transport.submit(reporter.report(keys, keys[:, 9:])[0])
        votes = query(store, keys).votes.astype(float)
        expected = copies * (1 - (1 - 1 / copies) ** reports)
        overwritten = expected * copies * 3000 / layout.slots
        assert abs(votes.mean() - expected) <= 4 * votes.std() / np.sqrt(3000) + overwritten
        chances = distinct_copies(reports, copies)
        assert abs(float(np.arange(len(chances)) @ chances) - expected) < 1e-9
    shares = reporter.sent / reporter.sent.sum()
    assert np.abs(shares - 1 / copies).max() < 4 * np.sqrt(0.25 / 18000)


def test_copies_are_those_of_a_translator() -> None:
    """All copies together are the bytes that a translator writes, and a query finds them."""
    layout = KeyWriteLayout(slots=1 << 20, copies=3, data_bytes=20, checksum_bits=24, drawn=True)
    here, there = Store.create(None, layout), Store.create(None, layout)
    keys = as_bytes(np.arange(40, dtype=np.uint64), 8)
    data = np.random.default_rng(2).integers(0, 256, (40, 20), np.uint8)
    assert len(np.unique(slots_of(layout.params(), keys))) == 120, "the seed's keys must not collide"
    Translator([layout], MemoryTransport([there])).translate(*dta(1, keys, data, redundancy=3))
    reporter, transport = DartReporter(layout, seed=1), MemoryTransport([here])
    for _ in range(40):
        transport.submit(reporter.report(keys, data)[0])
    assert (here.memory == there.memory).all()


def test_the_second_copy_is_swapped_into_an_empty_slot_only() -> None:
    """A slot that is taken stays; every copy 0 is a write, every copy 1 a compare-and-swap with 0."""
    layout = KeyWriteLayout(slots=1 << 10, copies=2, variant=Variant.SWAP, drawn=True)
    store = Store.create(None, layout)
    transport, reporter = MemoryTransport([store]), DartReporter(layout, seed=3)
    keys = as_bytes(np.arange(300, dtype=np.uint64), 8)
    for value in (1, 2):
        data = np.full((300, 4), value, np.uint8)
        for _ in range(20):
            (block,) = reporter.report(keys, data)
            assert set(np.unique(block.verbs["kind"])) == {Verb.WRITE, Verb.CMP_SWAP}
            before = store.memory.view("<u8").copy()
            transport.submit(block)
            swaps = block.verbs[block.verbs["kind"] == Verb.CMP_SWAP]
            taken = before[swaps["address"] // np.uint64(8)] != 0
            assert (swaps["result"][taken] != 0).all()
    second = slots_of(layout.params(), keys)[:, 1]
    assert (store.memory.view("<u8")[second] != 0).all()


@pytest.mark.parametrize("spread", [False, True])
def test_reports_go_to_the_collector_of_their_key(spread: bool) -> None:
    """Over RoCEv2, one connection and packet number per collector, three switches that know nothing of each
    other: the memories are those that the same operations leave without packets.
    """
    layout = KeyWriteLayout(slots=1 << 12, collectors=2, copies=2, spread=spread, drawn=True)
    direct = [Store.create(None, layout) for _ in range(2)]
    nics = [Endpoint(f"127.0.0.{1 + number}") for number in range(2)]
    memories = [np.zeros(layout.nbytes, np.uint8) for _ in nics]
    for nic, memory in zip(nics, memories, strict=True):
        row = nic.table.add(memory)[0]
        region = RemoteRegion("store", int(row["base"]), int(row["length"]), int(row["key"]), 3)
        nic.serve(1330, lambda connection, region=region: encode([region], connection.path_mtu))  # type: ignore[misc]
    switches = [Endpoint(f"127.0.1.{number}") for number in range(3)]
    ends = {number_of(f"127.0.0.{1 + number}"): nic for number, nic in enumerate(nics)} | {
        number_of(f"127.0.1.{number}"): switch for number, switch in enumerate(switches)
    }
    now = 0

    def turns(count: int) -> None:
        nonlocal now
        for _ in range(count):
            now += 1_000_000
            for own, end in ends.items():
                for batch in end.frames(now):
                    for to in set(batch.frames["source_lo"].tolist()):
                        part = batch.frames[batch.frames["source_lo"] == to].copy()
                        part["source_hi"], part["source_lo"] = 0, own
                        ends[to].receive(type(batch)(batch.arena, part), now, now)

    sessions: list[list[Session]] = [
        [switch.connect(f"127.0.0.{1 + number}", 1330, 0) for number in range(2)] for switch in switches
    ]
    turns(10)
    keys = as_bytes(np.arange(400, dtype=np.uint64), 8)
    reporters = [DartReporter(layout, seed=number) for number in range(3)]
    for _ in range(4):
        for reporter, mine in zip(reporters, sessions, strict=True):
            for session, store, block in zip(mine, direct, reporter.report(keys, keys[:, 4:]), strict=True):
                session.submit(block)
                MemoryTransport([store]).submit(block)
            turns(6)
    turns(10)
    for memory, store in zip(memories, direct, strict=True):
        assert (memory == store.memory).all()
    found = query(direct, keys)
    assert found.found.mean() > 0.95
    owners = collectors_of(layout.params(), keys)
    alone = query(direct[0], keys[owners == 1]).found.mean()
    assert (alone > 0.5) if spread else (alone == 0)


def test_reports_that_do_not_fit_the_store_are_rejected() -> None:
    """Data of another length, keys without bytes, too few targets: an error that says what was expected."""
    reporter = DartReporter(KeyWriteLayout(slots=8, drawn=True))
    keys = as_bytes(np.arange(3, dtype=np.uint64))
    with pytest.raises(StoreError, match=r"expected .* \[reports, 4\]"):
        reporter.report(keys, keys[:, :3])
    with pytest.raises(StoreError, match="keys of shape"):
        reporter.report(keys[:, :0], keys)
    with pytest.raises(ValueError, match="1 targets, expected one for each of 2"):
        DartReporter(KeyWriteLayout(slots=8, collectors=2, drawn=True), targets=[0])
    with pytest.raises(ValueError, match="drawn = false, expected true"):
        DartReporter(KeyWriteLayout(slots=8))
