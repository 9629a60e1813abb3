"""Routes: which store, at which collector, takes a report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from hopscope.direct.hashing import Hashing, tables
from hopscope.direct.primitives.append import AppendLayout, ListReader
from hopscope.direct.primitives.key_write import KeyWriteLayout, Variant, query
from hopscope.direct.stores.store import Layout, Store
from hopscope.direct.translation.rate import TokenBucket
from hopscope.direct.translation.routes import (
    NO_LANE,
    Route,
    RouteError,
    StoreRule,
    compile_routes,
    routes_of,
)
from hopscope.direct.translation.translator import Translator
from hopscope.direct.transport import MemoryTransport
from hopscope.rdma.records import Verb, VerbBlock
from hopscope.wire.reasons import DtaReason
from hopscope.wire.records import FRAME, Records
from support.direct.direct_make import as_bytes, dta

pytestmark = pytest.mark.kernel


@dataclass(frozen=True, kw_only=True)
class ListsLayout(Layout):
    """As Append's, with nothing after it."""

    opcode: ClassVar[int] = 2
    name: ClassVar[str] = "append"
    lists: int = 1

    @property
    def count(self) -> int:
        return self.lists


def lane_of(report: np.void, frame: np.void, rules: list[Route], chosen: Any) -> tuple[int, int, int] | None:
    """The plain twin: rule, collector and the store's own list of one report."""
    source = (int(frame["source_hi"]) << 64) | int(frame["source_lo"])
    for number, rule in enumerate(rules):
        if (
            rule.layout.opcode == report["opcode"]
            and (rule.lists is None or rule.lists[0] <= report["list"] <= rule.lists[1])
            and rule.port in (0, frame["port"])
            and rule.sources[0] <= source <= rule.sources[1]
            and rule.key_bytes in (0, report["key_bytes"])
            and rule.data_bytes in (0, report["data_bytes"])
        ):
            share = chosen(rule, report) if len(rule.at) > 1 else 0
            first = rule.lists[0] if rule.lists else 0
            return number, rule.at[share][0], int(report["list"]) - first
    return None


def test_partition_is_that_of_the_plain_twin() -> None:
    """Mixed opcodes, lists, ports, addresses and lengths go where the rules say, in their order."""
    from hopscope.direct.hashing_kernel import begin, collector
    from hopscope.direct.translation.translator_kernel import partition

    rng = np.random.default_rng(4)
    single = KeyWriteLayout(slots=64, seed=6)
    low, high = 0xFFFF_0A00_0000, 0xFFFF_0A00_00FF
    rules = [
        Route(layout=single, at=((0, 0),), port=7),
        Route(layout=single, at=((1, 1),), sources=(low, high), key_bytes=5),
        Route(
            layout=KeyWriteLayout(slots=64, seed=5, collectors=3), at=((2, 0), (0, 2), (1, 0)), data_bytes=4
        ),
        Route(layout=ListsLayout(lists=4), at=((1, 2),), lists=(3, 6)),
        Route(layout=ListsLayout(lists=2), at=((2, 1),), lists=(7, 8)),
    ]
    table = compile_routes(rules, 3)
    crc = tables(Hashing.CRC)
    count = 2000
    reports, arena = dta(1, rng.integers(0, 256, (count, 5), np.uint8), np.zeros((count, 8), np.uint8))
    reports["opcode"] = rng.choice([1, 2, 3], count)
    reports["list"] = rng.integers(0, 12, count)
    reports["key_bytes"] = rng.integers(4, 6, count)
    reports["data_bytes"] = rng.choice([4, 8], count)
    reports["reason"][rng.random(count) < 0.1] = DtaReason.TRUNCATED
    frames: Records = np.zeros(count, FRAME)
    frames["port"] = rng.choice([7, 8], count)
    frames["source_lo"] = low + rng.integers(0, 512, count)

    def chosen(rule: Route, report: np.void) -> int:
        at, width = np.uint64(report["key_at"]), np.uint64(report["key_bytes"])
        h = begin(np.uint64(0), arena, at, width, np.uint64(rule.layout.seed))
        return int(collector(np.uint64(0), crc, np.uint64(h), arena, at, width, np.uint64(3)))

    before = reports.copy()
    lanes, order = np.zeros(count, np.uint32), np.zeros(count, np.uint32)
    counts, down = np.zeros(len(table.rules), np.uint64), np.array([0, 0, 1], np.uint8)
    whole = partition(
        reports, frames, arena, table.routes, table.first, np.full(256, NO_LANE, np.uint32), table.shares,
        down, crc, lanes, counts, order,
    )  # fmt: skip
    assert whole == -1
    for row in range(count):
        if before["reason"][row]:
            assert lanes[row] == NO_LANE
            assert reports["reason"][row] == DtaReason.TRUNCATED
            continue
        expected = lane_of(before[row], frames[row], rules, chosen)
        if expected is None:
            lists = before["opcode"][row] == 2
            assert reports["reason"][row] == (DtaReason.BAD_LIST if lists else DtaReason.UNKNOWN_OPCODE)
            continue
        rule, at, own = expected
        assert reports["list"][row] == own
        assert reports["reason"][row] == (DtaReason.NO_COLLECTOR if down[at] else DtaReason.NONE)
        assert lanes[row] == (NO_LANE if down[at] else rule)
    good = np.flatnonzero(lanes != NO_LANE)
    assert (order[: len(good)] == good[np.argsort(lanes[good], kind="stable")]).all()
    assert (counts == np.bincount(lanes[good], minlength=len(counts))).all()


def test_keys_are_spread_over_collectors_by_their_hash() -> None:
    """Every key is at exactly one of three collectors, each of which has about a third."""
    layout = KeyWriteLayout(slots=1 << 14, collectors=3)
    stores = [Store.create(None, layout) for _ in range(3)]
    translator = Translator([layout], [MemoryTransport([store]) for store in stores])
    keys = as_bytes(np.arange(3000, dtype=np.uint64), 8)
    translator.translate(*dta(1, keys, keys[:, 4:], redundancy=1))
    found = np.array([query(store, keys, copies=1).found for store in stores])
    assert found.sum(axis=0).max() == 1
    assert translator.rejected[DtaReason.NONE] == 3000
    assert (np.abs(found.sum(axis=1) - 1000) < 4 * np.sqrt(3000 * 2 / 9) + 3000 / 16).all()


@pytest.mark.parametrize(("swap", "bytes_each"), [(False, 3 * 8), (True, 8)])
def test_bytes_written_are_those_of_all_copies(swap: bool, bytes_each: int) -> None:
    """Copies of a report share its payload, but each writes a slot of 8 bytes; a swap is an atomic, and none
    of them.
    """
    layout = KeyWriteLayout(slots=1 << 10, copies=2 if swap else 3, variant=Variant(swap))
    translator = Translator([layout], [MemoryTransport([Store.create(None, layout)])])
    keys = as_bytes(np.arange(100, dtype=np.uint64), 8)
    translator.translate(*dta(1, keys, keys[:, 4:], redundancy=layout.copies))
    assert translator.fanout.written_bytes == 100 * bytes_each
    assert translator.fanout.kinds[Verb.CMP_SWAP] == 100 * swap


def test_reports_for_a_collector_that_is_down_are_counted() -> None:
    """They change nothing elsewhere, and what the others take is not less."""
    layout = KeyWriteLayout(slots=1 << 14, collectors=2)
    store = Store.create(None, layout)
    translator = Translator([layout], [MemoryTransport([store]), None])
    keys = as_bytes(np.arange(500, dtype=np.uint64), 8)
    reports, arena = dta(1, keys, keys[:, 4:], redundancy=1)
    translator.translate(reports, arena)
    down = int(translator.rejected[DtaReason.NO_COLLECTOR])
    assert 150 < down < 350
    assert int(translator.translated[1]) == 500 - down
    assert not query(store, keys[reports["reason"] == DtaReason.NO_COLLECTOR]).found.any()


def test_stores_of_one_primitive_are_distinguished() -> None:
    """By the length of data, lists too, which keep their numbers; else the start says what is missing. Lists
    that are not spread are numbered on from one collector to the next.
    """
    first, second = (
        AppendLayout(batches=1, lists=4, data_bytes=4),
        AppendLayout(batches=1, lists=2, data_bytes=8),
    )
    routes = routes_of([first, second, KeyWriteLayout(slots=8, collectors=2)], 2)
    assert [(route.at, route.lists, route.data_bytes) for route in routes if route.lists] == [
        (((0, 0),), (0, 3), 4), (((1, 0),), (4, 7), 4), (((0, 1),), (0, 1), 8), (((1, 1),), (2, 3), 8),
    ]  # fmt: skip
    with pytest.raises(RouteError, match="does not distinguish"):
        routes_of([first, first])
    two = [KeyWriteLayout(slots=8, data_bytes=4), KeyWriteLayout(slots=8, data_bytes=20)]
    assert [route.data_bytes for route in routes_of(two)] == [4, 20]
    with pytest.raises(RouteError, match="does not distinguish"):
        routes_of([two[0], two[0]])
    with pytest.raises(RouteError, match="store key-write has collectors=1, but 2 are written to"):
        routes_of(two[:1], 2)
    with pytest.raises(RouteError, match="expected collectors 0 to 0"):
        compile_routes([Route(layout=two[0], at=((1, 0),))], 1)
    with pytest.raises(RouteError, match="2 targets, its keys are spread over 1"):
        compile_routes([Route(layout=two[0], at=((0, 0), (1, 0)))], 2)


NET = (0xFFFF_0A01_0000, 0xFFFF_0A01_FFFF)
OTHER_NET = (0xFFFF_0A02_0000, 0xFFFF_0A02_FFFF)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"port": 7}, {"port": 8}),
        ({"sources": NET}, {"sources": OTHER_NET}),
        ({"key_bytes": 4}, {"key_bytes": 13}),
        ({"data_bytes": 4}, {"data_bytes": 5}),
    ],
)
def test_rules_distinguish_stores(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Any condition that no report can fit twice is enough; a store without a rule would take both."""
    layouts, names = [KeyWriteLayout(slots=8)] * 2, ["one", "other"]
    rules = [StoreRule(store="one", **one), StoreRule(store="other", **other)]
    assert len(routes_of(layouts, names=names, rules=rules)) == 2
    for wrong in (rules[:1], [rules[0], StoreRule(store="other", **one)]):
        with pytest.raises(RouteError, match="stores one and other take the same key-write reports"):
            routes_of(layouts, names=names, rules=wrong)


def test_wrong_rules_are_rejected_at_start() -> None:
    """An unknown store, more lists than it has, lists without Append, lists that two stores share."""
    lists, names = [AppendLayout(batches=1, lists=4)] * 2, ["a", "b"]
    for rules, said in (
        ([StoreRule(store="c")], "names the store 'c', which is unknown; known: a, b"),
        ([StoreRule(store="a", lists=(8, 12))], "store a: a rule for 5 lists, it has 4"),
        (
            [StoreRule(store="a", lists=(8, 11)), StoreRule(store="b", lists=(11, 14))],
            "a those with lists 8 to 11, data of 4 B; b those with lists 11 to 14, data of 4 B",
        ),
    ):
        with pytest.raises(RouteError, match=said):
            routes_of(lists, names=names, rules=rules)
    with pytest.raises(RouteError, match="store a: a rule with lists, but its primitive is key-write"):
        routes_of([KeyWriteLayout(slots=8)], names=["a"], rules=[StoreRule(store="a", lists=(0, 1))])


def test_reports_go_where_rules_say() -> None:
    """Two stores of a kind, by source and by list; two rules of one store share its writer."""
    keyed = KeyWriteLayout(slots=1 << 12)
    lists = AppendLayout(batches=4, lists=2, batch=1)
    layouts, names = [keyed, keyed, lists, lists], ["red", "blue", "first", "second"]
    rules = [
        StoreRule(store="red", sources=NET),
        StoreRule(store="red", sources=OTHER_NET),
        StoreRule(store="blue", port=9),
        StoreRule(store="first", lists=(100, 101)),
        StoreRule(store="second", lists=(200, 201)),
    ]
    with pytest.raises(RouteError, match="red and blue"):
        routes_of(layouts, names=names, rules=rules)
    rules[:2] = [StoreRule(store="red", sources=net, port=8) for net in (NET, OTHER_NET)]
    stores = [Store.create(None, layout) for layout in layouts]
    transport = MemoryTransport(stores)
    translator = Translator(layouts, transport, routes=routes_of(layouts, names=names, rules=rules))
    assert len(translator.writers) == 4
    keys = as_bytes(np.arange(4, dtype=np.uint64))
    frames: Records = np.zeros(4, FRAME)
    frames["source_lo"] = [NET[0] + 1, OTHER_NET[1], NET[0], 7]
    frames["port"] = [8, 8, 9, 8]
    reports, arena = dta(1, keys, keys, redundancy=1)
    translator.translate(reports, arena, frames)
    assert query(stores[0], keys).found.tolist() == [True, True, False, False]
    assert query(stores[1], keys).found.tolist() == [False, False, True, False]
    assert reports["reason"].tolist() == [0, 0, 0, DtaReason.UNKNOWN_OPCODE]
    numbers = np.array([100, 101, 201, 0])
    reports, arena = dta(2, as_bytes(numbers), keys, list=numbers)
    translator.translate(reports, arena, frames)
    assert reports["reason"].tolist() == [0, 0, 0, DtaReason.BAD_LIST]
    got = [[bytes(e) for e in ListReader(stores[s], n, "oldest").read()[0]] for s in (2, 3) for n in (0, 1)]
    assert got == [[bytes(keys[0])], [bytes(keys[1])], [], [bytes(keys[2])]]


class Narrow:
    """A transport with room for so many verbs."""

    def __init__(self, verbs: int) -> None:
        self.verbs = verbs

    def room(self) -> int:
        return self.verbs

    def submit(self, block: VerbBlock) -> None:
        self.verbs -= len(block)


def test_reports_beyond_the_transports_room_are_congested() -> None:
    """As many are taken as surely fit; the rest is rejected and no verb too many is submitted."""
    narrow = Narrow(100)
    translator = Translator([KeyWriteLayout(slots=64, copies=3)], narrow)
    keys = as_bytes(np.arange(50, dtype=np.uint64))
    translator.translate(*dta(1, keys, keys, redundancy=3))
    assert translator.rejected[DtaReason.CONGESTED] == 17
    assert narrow.verbs == 1
    translator.translate(*dta(1, keys, keys, redundancy=3))
    assert translator.rejected[DtaReason.CONGESTED] == 67


def test_the_rate_limit_passes_its_rate_and_its_burst() -> None:
    """1000 a second with a burst of 50: damaged reports take nothing of it."""
    store = Store.create(None, KeyWriteLayout(slots=64))
    translator = Translator([store.layout], MemoryTransport([store]), limit=TokenBucket(1000, 50))
    keys = as_bytes(np.arange(100, dtype=np.uint64))
    reports, arena = dta(1, keys, keys, redundancy=1)
    reports["reason"][:20] = DtaReason.TRUNCATED
    translator.translate(reports, arena, now_ns=0)
    assert translator.rejected[DtaReason.RATE_LIMITED] == 30
    for tick in range(1, 11):
        reports["reason"] = 0
        translator.translate(reports, arena, now_ns=tick * 10_000_000)
    assert translator.rejected[DtaReason.NONE] == 50 + 100
