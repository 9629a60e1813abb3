"""Answers that are kept for some seconds: what many viewers ask is computed once."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

T = TypeVar("T")
MOST = 64
"""Answers that are kept at a time."""
BUDGET = 0.25
"""Share of a processor that making kept answers again may take, of all answers together."""
WATCHED_SECONDS = 15.0
"""How long an answer counts towards the budget after it was last asked for."""
LONGEST_SECONDS = 60.0
"""An answer is not kept longer than this to stay within the budget."""


@dataclass(slots=True)
class _Answer:
    value: Any
    until: float
    took: float
    asked: float
    """When it was last asked for."""


class Kept:
    """A few answers by their question; safe to use from several threads."""

    def __init__(self) -> None:
        self._answers: OrderedDict[Hashable, _Answer] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, question: Hashable, seconds: float, make: Callable[[], T]) -> T:
        """The answer to a question; `make` works it out.

        It is at most `seconds` old, or older if BUDGET requires it: what pages watch is made in turn, and a
        turn takes this share of the time.
        """
        now = time.monotonic()
        with self._lock:
            kept = self._answers.get(question)
            if kept is not None:
                kept.asked = now
                if now < kept.until:
                    return cast(T, kept.value)
        answer = make()
        done = time.monotonic()
        with self._lock:
            self._answers[question] = kept = _Answer(answer, now, done - now, done)
            self._answers.move_to_end(question)
            while len(self._answers) > MOST:
                self._answers.popitem(last=False)
            turn = sum(each.took for each in self._answers.values() if done - each.asked < WATCHED_SECONDS)
            kept.until = now + max(seconds, min(turn / BUDGET, LONGEST_SECONDS))
        return answer
