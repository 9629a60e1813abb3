"""AnswerCache answers stay within one budget, however many are watched."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from hopscope.serve import answer_cache
from hopscope.serve.answer_cache import BUDGET, LONGEST_SECONDS, WATCHED_SECONDS, AnswerCache
from support.waiting import HANG_SECONDS


class Clock:
    """Time that passes only while something says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    thread_time = monotonic


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(answer_cache, "time", made)
    return made


class Asked:
    """Answers that take some seconds to make."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.kept = clock, AnswerCache()
        self.made: Counter[str] = Counter()

    def ask(self, query: str, seconds: float, takes: float) -> int:
        """Which making of the answer this is."""
        return self.kept.of(query, seconds, self._make(query, takes))

    def _make(self, query: str, takes: float) -> Callable[[], int]:
        def make() -> int:
            self.clock.now += takes
            self.made[query] += 1
            return self.made[query]

        return make


def test_a_cheap_answer_is_made_again_when_it_is_old(clock: Clock) -> None:
    asked = Asked(clock)
    assert [asked.ask("a", 2.0, 0.0) for _ in range(3)] == [1, 1, 1]
    clock.now += 1.9
    assert asked.ask("a", 2.0, 0.0) == 1
    clock.now += 0.2
    assert asked.ask("a", 2.0, 0.0) == 2


@pytest.mark.parametrize("count", [1, 9, 30])
def test_all_answers_together_stay_within_the_budget(clock: Clock, count: int) -> None:
    asked = Asked(clock)
    for number in range(count):
        asked.ask(str(number), 2.0, 0.1)
    begin, first = clock.now, asked.made.total()
    while clock.now - begin < 300:
        for number in range(count):
            asked.ask(str(number), 2.0, 0.1)
        clock.now += 0.5
    busy = (asked.made.total() - first) * 0.1 / (clock.now - begin)
    assert busy <= BUDGET
    assert busy > 0.6 * min(BUDGET, count * 0.1 / 2.0), "nor are they older than they need to be"


def test_what_nobody_watches_leaves_the_budget_to_others(clock: Clock) -> None:
    asked = Asked(clock)
    asked.ask("large", 2.0, 5.0)
    asked.ask("small", 2.0, 0.1)
    clock.now += 5.1 / BUDGET - 2
    assert asked.ask("small", 2.0, 0.1) == 1, "one turn of both takes a fourth of the time"
    clock.now += max(3.0, WATCHED_SECONDS)
    assert asked.ask("small", 2.0, 0.1) == 2
    clock.now += 2.1
    assert asked.ask("small", 2.0, 0.1) == 3


def test_no_answer_is_kept_too_long(clock: Clock) -> None:
    asked = Asked(clock)
    asked.ask("slow", 2.0, LONGEST_SECONDS)
    clock.now += LONGEST_SECONDS
    assert asked.ask("slow", 2.0, 0.0) == 2


def test_an_answer_that_is_being_made_is_not_made_twice() -> None:
    """Two threads ask the same: the second waits for the first, while a third gets the answer to another
    query.
    """
    kept_answers, free, made = AnswerCache(), threading.Event(), Counter[str]()

    def slow() -> int:
        made["slow"] += 1
        free.wait(HANG_SECONDS)
        return 7

    with ThreadPoolExecutor(3) as pool:
        same = [pool.submit(kept_answers.of, "slow", 60.0, slow) for _ in range(2)]
        try:
            assert pool.submit(kept_answers.of, "quick", 60.0, lambda: 8).result(HANG_SECONDS / 2) == 8
        finally:
            free.set()
        assert [each.result() for each in same] == [7, 7]
    assert made["slow"] == 1


def test_waiting_for_a_processor_is_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that took 10 s on a busy machine, and 0.1 s of a processor, is kept for 0.4 s then."""
    monotonic, thread_time = iter([0.0, 0.0, 0.0, 10.0]), iter([5.0, 5.1])
    busy = SimpleNamespace(monotonic=lambda: next(monotonic), thread_time=lambda: next(thread_time))
    monkeypatch.setattr(answer_cache, "time", busy)
    answers = AnswerCache()
    assert answers.of("a", 0.0, lambda: 1) == 1
    assert answers._answers["a"].until == pytest.approx(10 + 0.1 / BUDGET)
