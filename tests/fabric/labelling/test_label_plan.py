"""Plans of labelling: the formula against drawn gaps, what is chosen, what cannot be."""

import math

import numpy as np
import pytest

from hopscope.fabric.labelling.theory.plan import (
    LabelDemand,
    PlanError,
    choose,
    coverages,
    expected_coverage,
    interval_for,
    plan_labels,
)

DEMAND = LabelDemand(resolution=10, coverage=0.999, rate=5e6, delay=0.002)


@pytest.mark.parametrize(
    ("interval", "rate", "delay"),
    [(0.05, 1e6, 0.0), (0.09, 5e5, 0.004), (0.1, 5e6, 0.02), (0.12, 4e5, 0.001), (0.08, 5e7, 0.03)],
)
def test_expected_coverage_is_that_of_drawn_updates(interval: float, rate: float, delay: float) -> None:
    """Windows of T_i over a long row of gaps T + T_p + Q are empty as often as the formula says."""
    demand = LabelDemand(resolution=10, coverage=0.9, rate=rate, delay=delay)
    rng = np.random.default_rng(5)
    gaps = interval + rng.exponential(demand.gap, 400_000)
    gaps += rng.normal(0, demand.sigma * math.sqrt(2 * demand.hops), len(gaps))
    gaps += rng.choice([demand.path_skew, 0, 0, -demand.path_skew], len(gaps))
    empty = np.maximum(gaps - demand.telemetry, 0).sum() / gaps.sum()
    assert expected_coverage(interval, demand) == pytest.approx(1 - empty, abs=8e-4)


def test_labels_in_disorder_cover_at_least_what_is_expected() -> None:
    """Delays that vary by many T: a row of labels with delays of their own leaves fewer windows empty."""
    demand = LabelDemand(resolution=100, coverage=0.9, rate=1e9, delay=0.002)
    rng = np.random.default_rng(6)
    for interval in (0.002, 0.004, 0.007):
        sent = np.cumsum(interval + rng.exponential(demand.gap, 200_000))
        got = np.sort(sent + rng.normal(0, demand.sigma * math.sqrt(demand.hops), len(sent)))
        empty = np.maximum(np.diff(got) - demand.telemetry, 0).sum() / (got[-1] - got[0])
        assert 0.5 < expected_coverage(interval, demand) <= 1 - empty + 1e-3


def test_coverage_falls_with_the_interval() -> None:
    """Everywhere, also where jitter is many packets long and the closed form takes its tail."""
    for rate in (1e5, 5e6, 1e10):
        for delay in (0.0, 1e-6, 0.01):
            demand = LabelDemand(10, 0.9, rate, delay=delay)
            found = coverages(np.geomspace(1e-4, 1, 300), demand)
            assert np.isfinite(found).all()
            assert (np.diff(found) <= 1e-4).all()  # (between the intervals that bound shorter ones)
            assert 0 <= found.min() <= found.max() <= 1


def test_the_interval_is_the_longest_that_keeps_the_coverage() -> None:
    """One step of its last digit more, and the coverage is missed."""
    for coverage in (0.5, 0.99, 0.99999):
        interval = interval_for(coverage, DEMAND)
        assert expected_coverage(interval, DEMAND) >= coverage
        assert expected_coverage(interval * 1.011, DEMAND) < coverage


def test_a_plan_has_what_was_asked_for_among_its_choices() -> None:
    """Choices go from little coverage, rarely labels and little cost to much of all."""
    plan = plan_labels(DEMAND)
    assert plan.best in plan.choices
    assert plan.best.target == 0.999
    for before, after in zip(plan.choices, plan.choices[1:], strict=False):
        assert before.target < after.target
        assert before.interval > after.interval
        assert before.overhead < after.overhead
    assert plan.delay == pytest.approx(0.008 / 2)


def test_base_a_costs_what_its_intervals_say() -> None:
    """By hand: 5 ports label one packet of 63 each; bytes of each label on the links after its port."""
    demand = LabelDemand(10, 0.9, 5e6, algorithm="base-a")
    found = choose(0.1, 0.9, demand)
    share = 1 / (0.1 / 0.0016 + 1)
    assert found.port_labels == pytest.approx(share / 0.0016)
    assert found.labelled == pytest.approx(1 - (1 - share) ** 5)
    carried = sum(32 * n * share + 2 * (1 - (1 - share) ** n) for n in range(1, 5))
    assert found.overhead == pytest.approx(carried / 6000)


def test_base_b_gathers_labels_in_fewer_packets() -> None:
    """With its chance, fewer packets have labels, and more each."""
    one = choose(0.1, 0.9, LabelDemand(10, 0.9, 5e6, algorithm="base-a"))
    other = choose(0.1, 0.9, LabelDemand(10, 0.9, 5e6, algorithm="base-b"))
    assert other.labelled < 0.6 * one.labelled
    assert other.labels > 2 * one.labels


def test_an_impossible_demand_names_what_is_possible() -> None:
    """Too little traffic for the resolution: the resolution that is named can be planned."""
    with pytest.raises(PlanError, match=r"updated in 46\.47 % .* allows 90\.5/s") as told:
        plan_labels(LabelDemand(1000, 0.999, 5e6))
    possible = float(str(told.value).split("coverage allows ")[1].split("/s")[0])
    assert plan_labels(LabelDemand(possible * 0.999, 0.999, 5e6)).best.interval < 0.001


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"coverage": 1.0}, "coverage 1: expected a share between 0 and 1"),
        ({"rate": 0.0}, "rate 0: expected 1 to 1e"),
        ({"rate": 1e30}, "rate 1e.30: expected"),
        ({"resolution": 1e-300}, "resolution 1e-300: expected"),
        ({"delay": -1.0}, "delay -1: expected 0 to 1000"),
        ({"jitter": math.nan}, "jitter nan: expected"),
        ({"hops": 0}, "hops 0: expected 1 to 100"),
    ],
)
def test_invalid_demands_are_rejected(change: dict[str, float], said: str) -> None:
    """One line each: which value, what was found, what was expected."""
    with pytest.raises(PlanError, match=said):
        LabelDemand(**({"resolution": 10, "coverage": 0.99, "rate": 5e6} | change))  # type: ignore[arg-type]
