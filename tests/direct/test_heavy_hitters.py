"""Heavy hitters: those of a dictionary, each once in a period, whatever reporter has which part."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from hopscope.direct.primitives.append_layout import AppendLayout
from hopscope.direct.primitives.append_reader import ListReader
from hopscope.direct.primitives.key_increment import KeyIncrementLayout
from hopscope.direct.stores.store import Store, StoreError
from hopscope.direct.translation.heavy_hitters import ROWS, WIDTH, HeavyHitters
from hopscope.direct.translation.translator import Translator
from hopscope.direct.transport import MemoryTransport
from hopscope.wire.reasons import DtaReason
from support.direct.direct_make import as_bytes, dta

pytestmark = pytest.mark.kernel
SECOND = 1_000_000_000


def made(threshold: int, data_bytes: int = 21) -> tuple[Translator, HeavyHitters, Store]:
    """A translator that looks for heavy hitters, and the store of its list."""
    stores = [
        Store.create(None, KeyIncrementLayout(slots=4096)),
        Store.create(None, AppendLayout(lists=2, data_bytes=data_bytes, batch=1, batches=4096)),
    ]
    translator = Translator([store.layout for store in stores], MemoryTransport(stores))
    heavy = HeavyHitters(threshold, period_ns=10 * SECOND, list_number=1)
    heavy.watch(translator)
    return translator, heavy, stores[1]


def report(
    translator: Translator, heavy: HeavyHitters, numbers: np.ndarray, values: np.ndarray, now_ns: int
) -> None:
    """Count keys of 13 bytes."""
    keys = as_bytes(numbers.astype(np.uint64), 13)
    records, arena = dta(3, keys, np.zeros((len(keys), 8), np.uint8), redundancy=2, counter=values)
    translator.translate(records, arena, now_ns=now_ns)
    heavy.append(translator, now_ns)


def told(store: Store) -> list[tuple[int, int]]:
    """Key and estimate of each entry."""
    entries, _ = ListReader(store, 1, "oldest").read(4096)
    return [(int.from_bytes(bytes(one[:13])), int.from_bytes(bytes(one[13:]))) for one in entries]


def test_heavy_hitters_are_those_of_a_dictionary() -> None:
    """None is missed, none comes twice, and none is far below the threshold: what the sketch may add is less
    than its bound.
    """
    translator, heavy, store = made(5000)
    draw = np.random.default_rng(1)
    truth: Counter[int] = Counter()
    for _ in range(40):
        numbers = draw.zipf(1.3, 1000).clip(0, 20_000)
        values = draw.integers(1, 100, 1000)
        for key, value in zip(numbers.tolist(), values.tolist(), strict=True):
            truth[key] += value
        report(translator, heavy, numbers, values, 1)
    found = dict(told(store))
    assert len(found) == len(told(store)) == heavy.appended
    wanted = {key for key, total in truth.items() if total >= 5000}
    assert len(wanted) > 20
    assert wanted <= set(found)
    excess = np.e * truth.total() / WIDTH
    assert all(truth[key] >= 5000 - excess for key in found)
    assert all(5000 <= estimate < 5100 + excess for estimate in found.values())
    assert ROWS == 4


def test_a_period_begins_with_nothing() -> None:
    """Sums of one period do not count in the next, where a key is reported again."""
    translator, heavy, store = made(10)
    for now, value in ((1, 9), (11 * SECOND, 9), (12 * SECOND, 1), (13 * SECOND, 50), (30 * SECOND, 2**63)):
        report(translator, heavy, np.array([7]), np.array([value], np.uint64), now)
    report(translator, heavy, np.array([7]), np.array([2**63], np.uint64), 31 * SECOND)
    assert told(store) == [(7, 10), (7, 2**63)]


def test_rejected_reports_do_not_count() -> None:
    """What is not added to a counter makes nobody heavy."""
    translator, heavy, store = made(10)
    keys = as_bytes(np.array([7], np.uint64), 13)
    records, arena = dta(3, keys, np.zeros((1, 8), np.uint8), redundancy=9, counter=np.array([50]))
    translator.translate(records, arena)
    heavy.append(translator, 1)
    assert records["reason"].tolist() == [DtaReason.BAD_REDUNDANCY]
    assert told(store) == []


def test_entries_need_room_for_a_key() -> None:
    """The start says what is needed."""
    with pytest.raises(StoreError, match="heavy hitters need list 1 with entries of at least 9 B"):
        made(10, data_bytes=8)
    with pytest.raises(ValueError, match="a threshold of 0"):
        HeavyHitters(0, period_ns=1)
