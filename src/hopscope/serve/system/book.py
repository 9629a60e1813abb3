"""Keeps readings of counters between answers about the collector itself, to compute rates."""

from __future__ import annotations

import threading
from types import TracebackType

from ..context import Context
from .counters import CounterBook
from .disk import Reach
from .processes import ProcessBook


class Book:
    """The readings of one application; used with `with`, which locks out other threads."""

    def __init__(self, context: Context) -> None:
        self.counters = CounterBook(context.state, context.stores)
        self.processes = ProcessBook(context.folder)
        self.reach = Reach(context.past)
        self._lock = threading.Lock()

    @staticmethod
    def of(context: Context) -> Book:
        """The book of an application."""
        return context.made(Book)

    def __enter__(self) -> Book:
        self._lock.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()
