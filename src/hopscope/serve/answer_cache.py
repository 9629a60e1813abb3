"""Caches answers for some seconds, so that queries of many viewers are computed once."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

T = TypeVar("T")
MOST = 64
"""Maximum number of cached answers."""
BUDGET = 0.25
"""Share of a core that renewing all cached answers together may take. The time for which an answer waits
for a processor on a busy machine does not count.
"""
WATCHED_SECONDS = 15.0
"""How long an answer counts towards the budget after its last request."""
LONGEST_SECONDS = 60.0
"""Maximum time for which an answer is cached to stay within the budget."""


@dataclass(slots=True)
class _Answer:
    value: Any
    until: float
    took: float
    """CPU seconds."""
    asked: float
    """Time of the last request."""


class AnswerCache:
    """A few answers by query; safe to use from several threads. A thread that asks a query waits if
    another thread is already answering it.
    """

    def __init__(self) -> None:
        self._answers: OrderedDict[Hashable, _Answer] = OrderedDict()
        self._lock = threading.Lock()
        self._making: dict[Hashable, threading.Lock] = {}

    def of(self, query: Hashable, seconds: float, make: Callable[[], T]) -> T:
        """The answer to a query, computed by `make`.

        It is at most `seconds` old, or older if BUDGET requires it: watched answers are renewed one after the
        other, and that may take only this share of the time.
        """
        with self._lock:
            kept = self._known(query)
            if kept is not None:
                return cast(T, kept.value)
            making = self._making.setdefault(query, threading.Lock())
        with making:
            with self._lock:
                kept = self._known(query)
            try:
                return cast(T, kept.value) if kept is not None else self._made(query, seconds, make)
            finally:
                with self._lock:
                    self._making.pop(query, None)

    def _known(self, query: Hashable) -> _Answer | None:
        kept, now = self._answers.get(query), time.monotonic()
        if kept is None:
            return None
        kept.asked = now
        return kept if now < kept.until else None

    def _made(self, query: Hashable, seconds: float, make: Callable[[], T]) -> T:
        now, spent = time.monotonic(), time.thread_time()
        answer = make()
        done, spent = time.monotonic(), time.thread_time() - spent
        with self._lock:
            self._answers[query] = kept = _Answer(answer, now, spent, done)
            self._answers.move_to_end(query)
            while len(self._answers) > MOST:
                self._answers.popitem(last=False)
            turn = sum(each.took for each in self._answers.values() if done - each.asked < WATCHED_SECONDS)
            kept.until = max(now + seconds, done + min(turn / BUDGET, LONGEST_SECONDS))
        return answer
