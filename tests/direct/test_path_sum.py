"""The query answered at the translator: sums are those of a plain twin, collisions are counted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopscope.direct.primitives.postcarding import PostcardingLayout
from hopscope.direct.stores.store import Store
from hopscope.direct.translation.path_sum import PATH_SUM, PathSum, entries
from hopscope.direct.translation.translator import Translator
from hopscope.direct.transport import MemoryTransport
from hopscope.wire.records import Records
from oracle import direct as twins
from support.direct.direct_make import as_bytes, dta

pytestmark = pytest.mark.kernel


def test_slow_paths_are_reported_as_they_pass() -> None:
    """A translator's observer reports flow, path and sum of exactly the paths above the threshold."""
    found: list[Records] = []
    store = Store.create(None, PostcardingLayout(chunks=1 << 12))
    translator = Translator([store.layout], MemoryTransport([store]))
    observer = PathSum(1000, found.append, latency_bits=20)
    translator.observers[4] = observer
    draw = np.random.default_rng(1)
    keys = as_bytes(np.arange(200, dtype=np.uint64), 13)
    latency = draw.integers(0, 400, (200, 5)).astype(np.uint64)
    nodes = draw.integers(1, 100, (200, 5)).astype(np.uint64)
    values = nodes << np.uint64(20) | latency
    for hop in draw.permutation(5) + 1:
        translator.translate(*dta(4, keys, as_bytes(values[:, hop - 1]), hop=hop))
    told = np.concatenate(found)
    slow = latency.sum(axis=1) > 1000
    order = np.argsort(told["key"][:, 12])
    assert (told["key"][order][:, :13] == keys[slow]).all()
    assert (told["sum"][order] == latency.sum(axis=1)[slow]).all()
    assert (told["values"][order][:, :5] == values[slow]).all()
    above = int(slow.sum())
    assert observer.counters == {
        "above": above, "below": 200 - above, "unanswered": 0, "duplicates": 0, "skipped": 0,
    }  # fmt: skip
    rows = entries(told[order], 13, 5)
    assert rows.shape == (above, 38)
    assert (rows[:, :13] == keys[slow]).all()
    assert (rows[:, 13:17].copy().view(">u4")[:, 0] == latency.sum(axis=1)[slow]).all()
    assert (rows[:, 17] == 5).all()
    assert (rows[:, 18:].copy().view(">u4") == values[slow]).all()


def test_a_path_that_waits_too_long_is_not_mixed_with_the_next() -> None:
    """Postcards of a later packet do not complete a path whose own were lost."""
    found: list[Records] = []
    observer = PathSum(0, found.append, hops=2, idle_ns=100)
    for hop, value, now in ((1, 7, 0), (2, 5, 101), (1, 1, 150)):
        reports, arena = dta(4, np.ones((1, 4), np.uint8), as_bytes(np.array([value], np.uint64)), hop=hop)
        observer.observe(reports, np.zeros(1, np.uint32), arena, now)
    assert [int(one["sum"]) for block in found for one in block] == [6]
    assert observer.counters["unanswered"] == 1


@settings(max_examples=40)
@given(st.data())
def test_sums_are_those_of_the_plain_twin(data: st.DataObject) -> None:
    """Any postcards through a small cache: the paths, sums and counters that dicts give."""
    rows, hops, threshold = 4, data.draw(st.integers(1, 5)), data.draw(st.integers(0, 300))
    told: list[tuple[bytes, int, list[int]]] = []

    def found(records: Records) -> None:
        told.extend(
            (bytes(one["key"][: one["key_bytes"]]), int(one["sum"]), one["values"][: one["hops"]].tolist())
            for one in records
        )

    observer = PathSum(threshold, found, hops=hops, rows=rows)
    cache: dict[int, tuple[bytes, dict[int, int], int]] = {}
    expected: list[tuple[bytes, int, list[int]]] = []
    counts = dict.fromkeys(observer.counters, 0)
    draw = np.random.default_rng(data.draw(st.integers(0, 1 << 32)))
    count = 120
    keys = draw.integers(0, 6, (count, 5)).astype(np.uint8)
    keys[:] = keys[:, :1]
    values, numbers = draw.integers(0, 100, count), draw.integers(0, hops + 2, count)
    lengths = draw.choice([0, 0, hops, 1, hops + 1], count)
    reports, arena = dta(4, keys, as_bytes(values.astype(np.uint64)), hop=numbers, path_length=lengths)
    observer.observe(reports, np.arange(count, dtype=np.uint32), arena, 0)
    for key, hop, length, value in zip(
        map(bytes, keys), numbers.tolist(), lengths.tolist(), values.tolist(), strict=True
    ):
        if not 1 <= hop <= hops or length > hops:
            counts["skipped"] += 1
            continue
        row = twins.key_hash(key, 0) % rows
        if row in cache and cache[row][0] != key:
            counts["unanswered"] += 1
            del cache[row]
        _, seen, known = cache.pop(row, (key, {}, 0))
        counts["duplicates"] += hop in seen
        seen[hop] = value
        known = length or known
        if any(one not in seen for one in range(1, (known or hops) + 1)):
            cache[row] = (key, seen, known)
            continue
        path = [seen[one] for one in range(1, (known or hops) + 1)]
        counts["above" if sum(path) > threshold else "below"] += 1
        if sum(path) > threshold:
            expected.append((key, sum(path), path))
    assert told == expected
    assert observer.counters == counts


def test_wrong_settings_are_rejected() -> None:
    """Each is named; a record has the size that its documentation says."""
    for name, value in (("hops", 17), ("latency_bits", 0), ("rows", 3), ("idle_ns", 0)):
        with pytest.raises(ValueError, match=name):
            PathSum(0, print, **{name: value})
    assert PATH_SUM.itemsize == 144
