"""Closed forms against the real writer and query: loads, copies and checksums."""

from __future__ import annotations

import numpy as np
import pytest

from hopscope.direct import theory
from hopscope.direct.hashing import Hashing
from hopscope.direct.primitives.append import AppendLayout
from hopscope.direct.primitives.append_reader import ListsReader
from hopscope.direct.primitives.key_increment import KeyIncrementLayout
from hopscope.direct.primitives.key_increment import query as increments
from hopscope.direct.primitives.key_write import Variant
from hopscope.direct.primitives.postcarding import PostcardingLayout
from hopscope.direct.stores.store import Store
from hopscope.direct.translation.translator import Translator
from hopscope.direct.transport import MemoryTransport
from hopscope.wire.dta.records import DTA
from support.direct.dart_reports import expected, found_by_reports
from support.direct.direct_measured import KEY_BYTES, Tally, filled, keys_of
from support.direct.direct_postcards import Paths, complete_share

pytestmark = pytest.mark.kernel
SLOTS = 1 << 16


def within(found: int, asked: int, chance: float, errors: float = 4.5) -> None:
    """A count is where a binomial number lies; overwriting makes the true spread smaller, never larger."""
    spread = np.sqrt(asked * chance * (1 - chance))
    assert abs(found - asked * chance) <= errors * spread + 4, (found, asked * chance, spread)


def compare(tally: Tally, expected: theory.Outcomes) -> None:
    within(tally.correct, tally.asked, float(expected.correct))
    within(tally.wrong, tally.asked, float(expected.wrong))
    within(tally.empty, tally.asked, float(expected.empty))
    within(tally.conflict, tally.asked, float(expected.conflict))


@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("copies", [1, 2, 3, 4])
@pytest.mark.parametrize("load", [0.01, 0.1, 0.5, 1.0, 2.0])
def test_key_write_answers_as_often_as_theory_says(load: float, copies: int, bits: int) -> None:
    """All keys of a store, and its oldest, get each outcome as often as computed, by both rules."""
    keys = round(load * SLOTS)
    filler = filled(SLOTS, keys, copies, bits=bits, seed=copies)
    worth, old = theory.used_bits(bits), keys // 20
    ages = (keys - 1 - np.arange(old)) / SLOTS
    for rule in theory.Rule:
        compare(filler.ask(0, keys, rule.value), theory.average(load, copies, worth, rule))
        each = theory.outcomes(ages, copies, worth, rule)
        compare(
            filler.ask(0, old, rule.value),
            theory.Outcomes(each.correct.mean(), each.wrong.mean(), each.empty.mean(), each.conflict.mean()),
        )


@pytest.mark.parametrize("load", [0.1, 0.5, 1.0, 2.0])
def test_write_and_swap_finds_as_many_as_theory_says(load: float) -> None:
    """A second copy swapped into an empty slot: all keys, the oldest; more than one or two writes find."""
    keys = round(load * SLOTS)
    filler = filled(SLOTS, keys, 2, variant=Variant.SWAP)
    every = filler.ask(0, keys)
    within(every.correct, every.asked, float(theory.write_swap_average(load)))
    oldest = filler.ask(0, keys // 20)
    ages = (keys - 1 - np.arange(keys // 20)) / SLOTS
    within(oldest.correct, oldest.asked, float(theory.write_swap_success(ages, load).mean()))
    assert every.success > max(float(theory.average(load, n, 32).correct) for n in (1, 2))


def test_crc_with_a_polynomial_per_copy_is_as_good() -> None:
    """CRCs of different polynomials are independent enough for the closed form, at load 0.24."""
    keys = round(0.24 * SLOTS)
    for copies in (1, 2, 4):
        tally = filled(SLOTS, keys, copies, hashing=Hashing.CRC).ask(0, keys)
        within(tally.correct, tally.asked, float(theory.average(0.24, copies, 32).correct))


def test_published_hashing_makes_redundancy_harmful() -> None:
    """CRC32(key, n) of the published DTA: more copies find fewer keys, 89.0, 79.5 and 64.5 % at load 0.24."""
    keys = round(0.24 * SLOTS)
    shares = [
        100 * filled(SLOTS, keys, copies, hashing=Hashing.PUBLISHED).ask(0, keys).success
        for copies in (1, 2, 4)
    ]
    assert shares == pytest.approx([89.0, 79.5, 64.5], abs=1.5)
    for share, copies in zip(shares, (1, 2, 4), strict=True):  # all copies are one: N times the load
        assert share == pytest.approx(100 * -np.expm1(-0.24 * copies) / (0.24 * copies), abs=1.5)


@pytest.mark.parametrize("load", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("copies", [1, 2, 3, 4])
def test_postcarding_answers_as_often_as_theory_says(load: float, copies: int) -> None:
    """All paths of a store are correct, wrong, missing and in conflict as often as equations 9-12 say.

    Words of 12 bits and 150 values make foreign chunks readable: one in 750 of two hops.
    """
    chunks, values, hops, bits = 1 << 14, 150, 2, 12
    layout = PostcardingLayout(chunks=chunks, hops=hops, checksum_bits=bits, copies=copies, padded=False)
    flows = round(load * chunks)
    paths = Paths(layout, values, seed=copies)
    paths.until(flows)
    ages = (flows - 1 - np.arange(flows)) / chunks
    each = theory.postcard_outcomes(ages, copies, bits, values, hops)
    tally = paths.ask(0, flows)
    compare(
        tally,
        theory.Outcomes(each.correct.mean(), each.wrong.mean(), each.empty.mean(), each.conflict.mean()),
    )
    assert float(each.wrong.mean()) <= float(
        theory.postcard_error_bound(ages, copies, bits, values, hops).mean()
    )


@pytest.mark.parametrize("between", [0, 100, 1000])
def test_the_cache_emits_early_as_often_as_theory_says(between: int) -> None:
    """Paths that leave the translator's cache whole, with other flows between their postcards."""
    groups = min(500, -(-20_000 // (between + 1)))
    share = complete_share(1 << 10, between, groups)
    flows = groups * (between + 1)
    within(round(share * flows), flows, 1 - float(theory.early_emission(between, 1 << 10)), errors=6)


@pytest.mark.parametrize("copies", [1, 2, 4])
def test_counters_are_exact_as_often_as_theory_says(copies: int) -> None:
    """Key-Increment's store: exact counts, the mean excess, and never less."""
    counters, keys = 1 << 15, 1 << 14
    layout = KeyIncrementLayout(slots=counters, copies=copies)
    store = Store.create(None, layout)
    reports = np.zeros(keys, DTA)
    reports["opcode"], reports["redundancy"], reports["counter"] = layout.opcode, copies, 1
    reports["key_at"], reports["key_bytes"] = np.arange(keys) * KEY_BYTES, KEY_BYTES
    reports["data_bytes"] = layout.data_bytes
    names = keys_of(0, keys, 5)
    Translator([layout], MemoryTransport([store])).translate(reports, names.reshape(-1))
    excess = increments(store, names).counter.astype(np.int64) - 1
    assert excess.min() == 0
    within(int((excess == 0).sum()), keys, float(theory.increment_exact(keys / counters, copies)))
    mean = theory.increment_excess(keys / counters, copies)
    assert abs(excess.mean() - mean) < 4.5 * excess.std() / np.sqrt(keys)


def test_an_entry_is_overwritten_after_the_ring_s_length() -> None:
    """The oldest entry that a reader of a list gets is as old as the ring is long."""
    layout = AppendLayout(batches=8, batch=4, data_bytes=4)
    store = Store.create(None, layout)
    entries = np.zeros(60, DTA)
    entries["opcode"], entries["data_bytes"], entries["data_at"] = layout.opcode, 4, np.arange(60) * 4
    numbers = np.arange(60, dtype="<u4").view(np.uint8)
    Translator([layout], MemoryTransport([store])).translate(entries, numbers)
    _, data = ListsReader(store, 0, "oldest").poll()
    assert data.view("<u4").ravel().tolist() == list(range(60 - theory.append_age(4, 8), 60))


@pytest.mark.parametrize("reports", [1, 2, 5])
def test_reports_that_draw_their_copy(reports: int) -> None:
    """DART without a translator on a real store: success by reports per key, two copies, load 0.3."""
    keys = 20_000
    share = found_by_reports(1 << 16, keys, 2, reports)
    within(round(share * keys), keys, expected(keys / (1 << 16), 2, reports))
