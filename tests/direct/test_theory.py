"""Closed forms: the papers' numbers, agreement with each other and with a plain simulation of their model."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from hopscope.direct import theory


@pytest.mark.parametrize(("copies", "percent"), [(1, 9.5), (2, 3.3), (4, 1.2)])
def test_numbers_of_dta_key_write(copies: int, percent: float) -> None:
    """DTA §4 at age 0.1 with 32 bits: empty returns of 9.5, 3.3 and 1.2 %, and an error below 1.6e-11."""
    assert round(100 * float(sum(theory.empty_terms(0.1, copies, 32))), 1) == percent
    if copies == 2:
        assert float(theory.error_bound(0.1, 2, 32)) < 1.6e-11


def test_numbers_of_dta_postcarding() -> None:
    """DTA §4 with 2^18 switches, five hops, two copies: no path 3.3 %, a wrong path below 1e-22."""
    assert 100 * float(sum(theory.postcard_empty_terms(0.1, 2, 32, 1 << 18, 5))) < 3.3
    assert float(theory.postcard_error_bound(0.1, 2, 32, 1 << 18, 5)) < 1e-22
    assert 1 - (1 - float(theory.error_bound(0.1, 2, 32))) ** 5 == pytest.approx(8e-11, rel=0.05)


def test_numbers_of_dart() -> None:
    """DART §5.2: 3 GB are 3000 MiB of 24 B slots: oldest 38.7 %, mean 71.4 %; at 30 GB 99.3 and 99.9 %."""
    load = 1e8 / (3000 * 2**20 / 24)
    assert float(theory.outcomes(load, 2, 32).correct) == pytest.approx(0.387, abs=0.001)
    assert float(theory.average(load, 2, 32).correct) == pytest.approx(0.714, abs=0.0005)
    assert round(float(theory.average(load / 10, 2, 32).correct), 3) == 0.993
    assert round(float(theory.average(load / 10, 4, 32).correct), 3) == 0.999


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("copies", [1, 2, 3, 4, 8])
def test_bounds_hold_the_exact_values(copies: int, bits: int) -> None:
    """The single rule is the papers': its misses are equations 1-3, its errors their lower bound."""
    age = np.geomspace(1e-3, 4, 30)
    single = theory.outcomes(age, copies, bits, "single")
    low, high = theory.empty_bounds(age, copies, bits)
    np.testing.assert_allclose(single.unanswered, high, rtol=1e-12)
    assert (low <= high).all()
    low, high = theory.error_bounds(age, copies, bits)
    np.testing.assert_allclose(single.wrong, low, rtol=1e-12)
    assert (low <= high * (1 + 1e-12)).all()
    assert (high <= theory.error_bound(age, copies, bits) * (1 + 1e-12)).all()
    for rule in theory.Rule:
        found = theory.outcomes(age, copies, bits, rule)
        np.testing.assert_allclose(found.correct + found.wrong + found.unanswered, 1, rtol=1e-12)


def test_small_probabilities_are_exact() -> None:
    """A checksum of 64 bits and an age of 1e-9 give the leading term, not rounding."""
    assert float(theory.outcomes(1e-9, 2, 64).wrong) == pytest.approx(4e-18 * 2 * 2.0**-64, rel=1e-6)
    assert float(theory.empty_terms(1e-9, 3, 64)[2]) == pytest.approx(3 * 3e-9 * 2.0**-64, rel=1e-6)
    assert theory.stranger(2, 64) == pytest.approx(2.0**-63)
    assert float(theory.postcard_error_bound(1e-9, 2, 64, 1 << 18, 5)) > 0
    assert theory.chunk_match(1 << 18, 32, 5) < theory.cell_match(1 << 18, 32) ** 5


@pytest.mark.parametrize("load", [1e-9, 0.01, 0.24, 1, 2, 50, 1e6])
@pytest.mark.parametrize("copies", [1, 2, 4])
def test_the_mean_over_ages(copies: int, load: float) -> None:
    """The quadrature equals the integral of the powers of exp(-N age), checksums being long."""
    steps = [
        (-1) ** (k + 1) * (copies, copies * (copies - 1) / 2, copies, 1)[k - 1] / (k * copies)
        for k in range(1, copies + 1)
    ]
    if copies == 4:
        steps = [4 / 4, -6 / 8, 4 / 12, -1 / 16]
    exact = sum(a * -np.expm1(-k * copies * load) for k, a in enumerate(steps, 1)) / load
    assert float(theory.average(load, copies, 64).correct) == pytest.approx(exact, abs=1e-7, rel=1e-9)


@pytest.mark.parametrize("rule", list(theory.Rule))
@pytest.mark.parametrize("consensus", [1, 2])
def test_outcomes_by_simulation(rule: theory.Rule, consensus: int) -> None:
    """Slots drawn at random and judged by their votes give the probabilities, within 4.5 standard errors."""
    random, count, copies, match, age = np.random.default_rng(5), 200_000, 3, 2.0**-2, 0.3
    own = random.random((count, copies)) < np.exp(-age * copies)
    votes = own.sum(axis=1)
    strangers = ~own & (random.random((count, copies)) < match)
    false = strangers.sum(axis=1)
    one_value = np.where(votes > 0, false == 0, false == 1)
    if rule is theory.Rule.SINGLE:
        clear = one_value
    else:
        clear = np.where(votes > 1, True, one_value)  # a false value has one vote
    best = np.maximum(votes, false > 0)
    enough = best >= consensus
    right = votes > 0
    if rule is theory.Rule.NEWEST:
        first = (own | strangers).argmax(axis=1)
        right = own[np.arange(count), first]
        clear = np.where(right, votes, 1) >= consensus
    conflict = ~clear & (votes + false > 0) & (enough | (rule is theory.Rule.SINGLE))
    found = clear & enough & (votes + false > 0)
    measured = (
        (found & right).mean(), (found & ~right).mean(), (~found & ~conflict).mean(), conflict.mean(),
    )  # fmt: skip
    expected = theory.outcomes(age, copies, 2, rule, consensus)
    for got, chance in zip(
        measured, (expected.correct, expected.wrong, expected.empty, expected.conflict), strict=True
    ):
        assert abs(got - chance) <= 4.5 * np.sqrt(chance * (1 - chance) / count)


def test_inverse_functions() -> None:
    """The load and the age that a success allows give that success."""
    for copies in (1, 2, 4):
        assert float(theory.average(theory.load_for(0.999, copies), copies, 32).correct) == pytest.approx(
            0.999
        )
        assert float(theory.outcomes(theory.age_for(0.5, copies), copies, 32).correct) == pytest.approx(0.5)
    for wrong in (0.0, 1.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="probability"):
            theory.load_for(wrong, 2)


def test_more_copies_help_until_they_do_not() -> None:
    """The best N falls from 4 to 1 as the load grows; around each bound two of them find equally many."""
    found = theory.optimum(4)
    assert [copies for copies, _ in found] == [4, 3, 2, 1]
    for (copies, load), (after, _) in pairwise(found):
        here, there = (float(theory.average(load, n, 32).correct) for n in (copies, after))
        assert here == pytest.approx(there, abs=1e-9)
    assert theory.best_copies([0.01, 0.3, 0.6, 2.0]).tolist() == [4, 3, 2, 1]


def test_copies_after_reports() -> None:
    """r reports that draw one of N: 1 report 1 copy, many reports N, and the mean of the distribution."""
    for copies in (1, 2, 4):
        for reports in (1, 2, 3, 50):
            mean = float(theory.distinct_copies(reports, copies) @ np.arange(copies + 1))
            assert float(theory.copies_present(reports, copies)) == pytest.approx(mean)
    one, many = theory.success_after_reports(0.2, 2, 1), theory.success_after_reports(0.2, 2, 60)
    assert float(one.correct) == pytest.approx(float(np.exp(-0.2)))
    assert float(many.correct) == pytest.approx(float(theory.outcomes(0.2, 2, 32).correct))


def _written(random: np.random.Generator, slots: int, keys: int, copies: int, reports: int) -> float:
    """DART's reporters on a plain array of owners: share of keys that are found."""
    table = np.full(slots, -1)
    places = random.integers(0, slots, (keys, copies))
    drawn = random.integers(0, copies, (keys, reports))
    for report in range(keys * reports):
        key, turn = divmod(report, reports)
        table[places[key, drawn[key, turn]]] = key
    return float((table[places] == np.arange(keys)[:, None]).any(axis=1).mean())


def test_reports_per_key_by_simulation() -> None:
    """DART without a translator, 1 to 6 reports of a key: the mean success, within 4 standard errors."""
    random, slots, keys = np.random.default_rng(11), 20_000, 10_000
    ages = np.linspace(0, keys / slots, 201)
    for reports in (1, 2, 4, 6):
        expected = theory.success_after_reports(ages, 2, reports).correct
        mean = float(np.trapezoid(expected, ages) / ages[-1])
        found = _written(random, slots, keys, 2, reports)
        assert abs(found - mean) < 4 * np.sqrt(mean * (1 - mean) / keys)


def test_write_and_swap_by_simulation() -> None:
    """A write and a swap into an empty slot: old, young and all keys within 4.5 standard errors."""
    random, slots, keys = np.random.default_rng(3), 40_000, 30_000
    table = np.full(slots, -1)
    places = random.integers(0, slots, (keys, 2))
    for key, (first, second) in enumerate(places.tolist()):
        table[first] = key
        if table[second] < 0:
            table[second] = key
    found = (table[places] == np.arange(keys)[:, None]).any(axis=1)
    load = keys / slots
    for part in (slice(0, 3000), slice(keys - 3000, keys), slice(0, keys)):
        ages = (keys - 1 - np.arange(keys)[part]) / slots
        mean = float(theory.write_swap_success(ages, load).mean())
        share = found[part]
        assert abs(share.mean() - mean) < 4.5 * np.sqrt(mean * (1 - mean) / len(share))
    assert float(theory.write_swap_average(load)) == pytest.approx(
        float(theory.write_swap_success(np.linspace(0, load, 10_001), load).mean()), abs=1e-4
    )


def test_counters_by_simulation() -> None:
    """One array, N counters a key: how many counts are exact, how much too high, and the Count-Min bound."""
    random, counters, keys, copies = np.random.default_rng(7), 10_000, 4_000, 2
    places = random.integers(0, counters, (keys, copies))
    table = np.bincount(places.reshape(-1), minlength=counters)
    excess = table[places].min(axis=1) - 1
    exact = float(theory.increment_exact(keys / counters, copies))
    assert abs((excess == 0).mean() - exact) < 4.5 * np.sqrt(exact * (1 - exact) / keys)
    mean = theory.increment_excess(keys / counters, copies)
    assert abs(excess.mean() - mean) < 4.5 * excess.std() / np.sqrt(keys)
    bound = float(theory.increment_error_chance(4, counters, copies, keys))
    assert (excess >= 4).mean() <= bound < 0.05


def test_sizes_of_sketches() -> None:
    """Count-Min's size for an error and a chance; HyperLogLog's error."""
    counters, copies = theory.increment_size(1e-3, 0.01)
    assert (counters, copies) == (13592, 5)
    assert float(theory.increment_error_chance(1e-3 * 1e6, counters, copies, 1e6)) <= 0.01
    assert theory.cardinality_error(16384) == pytest.approx(0.008125)


def test_cache_by_simulation() -> None:
    """Flows in turn through a direct-mapped cache: early emissions within 4.5 standard errors."""
    random, rows, between, flows = np.random.default_rng(2), 1024, 300, 20_000
    place = random.integers(0, rows, (flows, between + 1))
    share = float((place[:, 1:] != place[:, :1]).all(axis=1).mean())
    chance = float(theory.early_emission(between, rows))
    assert abs(1 - share - chance) < 4.5 * np.sqrt(chance * (1 - chance) / flows)
    assert theory.early_emission([0, 5], 1).tolist() == [0, 1]


def test_lists() -> None:
    """An entry of a ring of 8 batches of 16 goes with the 128th later one, and waits for 15 at most."""
    assert theory.append_age(16, 8) == 128
    assert theory.append_wait(16) == 15
