"""Answers that are kept for some seconds: what many viewers ask is computed once."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar, cast

T = TypeVar("T")
MOST = 64
"""Answers that are kept at a time."""


class Kept:
    """A few answers by their question; safe to use from several threads."""

    def __init__(self) -> None:
        self._answers: OrderedDict[Hashable, tuple[float, Any]] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, question: Hashable, seconds: float, make: Callable[[], T], share: float = 1.0) -> T:
        """The answer to a question, at most `seconds` old; `make` works it out.

        It is kept longer if it took long to make: at most `share` of the time is spent on it.
        """
        now = time.monotonic()
        with self._lock:
            kept = self._answers.get(question)
        if kept is not None and now - kept[0] < seconds:
            return cast(T, kept[1])
        answer = make()
        took = time.monotonic() - now
        with self._lock:
            self._answers[question] = now + max(0.0, took / share - seconds), answer
            self._answers.move_to_end(question)
            while len(self._answers) > MOST:
                self._answers.popitem(last=False)
        return answer
