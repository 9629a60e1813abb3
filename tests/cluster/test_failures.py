"""The simulation of failures at 100 members, beside closed forms and a count of all cases."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from hopscope.cluster.planning.failures import (
    ACTIONS,
    HASHES,
    FailureModel,
    FailureReport,
    Hash,
    expected_moved,
    ideal,
    place,
    simulate,
)
from hopscope.cluster.planning.sizing import SizingError

MODEL = FailureModel(members=100, sources=2000, buckets=2000, rounds=300)


@pytest.fixture(scope="module")
def report() -> FailureReport:
    """One simulation."""
    return simulate(MODEL)


def test_moved_sources_are_those_of_the_closed_form(report: FailureReport) -> None:
    """100 members: 1 % with resilient buckets and no source of others; 33.7 % (join: 50 %) with thresholds;
    99 % with modulo."""
    for each in report.moved:
        assert each.share.mean == pytest.approx(each.expected, abs=0.005), each
        assert each.share.mean == pytest.approx(each.ideal, abs=0.001) or each.hash != "resilient"
        if each.hash == "resilient":
            assert each.others.most == 0
    assert {each.ideal for each in report.moved} == {1 / 100, 1 / 101}


def test_times_are_those_of_the_closed_form(report: FailureReport) -> None:
    """Killed: moved after 2.5 probes of 0.3 s and half of 0.5 s; gone after 10 s less half a heartbeat; back
    after 5 s and 7 s on average; in the lake half of 30 s and a commit later."""
    found = {(each.action, each.what): each for each in report.taken}
    assert found["kill", "sources_moved"].expected == pytest.approx(2.5 * 0.3 + 0.25)
    assert found["kill", "member_gone"].expected == 8.5
    assert found["kill", "answers_complete"].expected == 12
    assert found["kill", "lake_caught_up"].expected == pytest.approx(12 + 15 + 0.4)
    for each in report.taken:
        deviation = max(each.seconds.most - each.expected, 0.1)
        assert each.seconds.mean == pytest.approx(each.expected, abs=deviation / 4), each
    assert found["kill", "member_gone"].seconds.most <= 10
    assert found["kill", "sources_moved"].seconds.most <= 3 * 0.3 + 0.5


@pytest.mark.parametrize("kind", ["threshold", "modulo"])
@pytest.mark.parametrize("members", [2, 3, 7])
def test_the_closed_form_beside_all_hashes(kind: Hash, members: int) -> None:
    """Every hash of a whole period, every member that leaves: the mean share that moves, counted."""
    period = members * (members - 1) * (members + 1)
    if kind == "modulo":
        hashes = np.arange(period, dtype=np.uint64)
    else:  # the middle of each of as many equal parts of the range
        hashes = ((np.arange(period, dtype=np.float64) + 0.5) * 2**32 / period).astype(np.uint64)
    before = list(range(members))
    old = place(kind, hashes, before, ())
    if members > 2:
        left = [
            np.mean(old != place(kind, hashes, [each for each in before if each != gone], ()))
            for gone in before
        ]
        assert np.mean(left) == pytest.approx(expected_moved(members, "kill", kind))
    joined = np.mean(old != place(kind, hashes, [*before, members], ()))
    assert joined == pytest.approx(expected_moved(members, "join", kind))


def test_a_seed_gives_the_same_again() -> None:
    """Two runs with a seed agree, another seed does not."""
    small = FailureModel(members=4, sources=50, buckets=64, rounds=5)
    assert simulate(small) == simulate(small)
    other = FailureModel(members=4, sources=50, buckets=64, rounds=5, seed=2)
    assert simulate(small).moved != simulate(other).moved
    assert {(each.action, each.hash) for each in simulate(small).moved} == set(product(ACTIONS, HASHES))
    assert ideal(4, "join") == 1 / 5


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (FailureModel(members=1), "members: found 1"),
        (FailureModel(sources=0), "sources: found 0"),
        (FailureModel(rounds=0), "rounds: found 0"),
        (FailureModel(members=100, buckets=100), "buckets: found 100"),
    ],
)
def test_a_model_without_sense_is_rejected(model: FailureModel, text: str) -> None:
    """One line names the value."""
    with pytest.raises(SizingError, match=text):
        simulate(model)
