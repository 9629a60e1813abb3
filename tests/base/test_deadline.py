"""Pauses of threads that retry."""

from __future__ import annotations

import random

from hopscope.base.deadline import jittered


def test_pauses_differ_within_bounds_and_leave_the_programs_numbers_alone() -> None:
    """A program that seeds the generator of `random` gets the same numbers with a collector in it."""
    random.seed(7)
    pauses = [jittered(10.0, 0.8, 1.2) for _ in range(100)]
    after = random.random()
    random.seed(7)
    assert random.random() == after
    assert all(8.0 <= pause <= 12.0 for pause in pauses)
    assert len(set(pauses)) > 90
