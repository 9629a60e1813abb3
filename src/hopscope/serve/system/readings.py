"""Keeps readings of counters between answers about the collector itself, to compute rates."""

from __future__ import annotations

import threading

from ..context import Context
from .counters import CounterReadings
from .disk import OldestEvent
from .processes import ProcessReadings


class Readings:
    """The readings of one application; used with `with`, which locks out other threads."""

    def __init__(self, context: Context) -> None:
        self.counters = CounterReadings(context.state, context.stores)
        self.processes = ProcessReadings(context.folder)
        self.oldest_event = OldestEvent(context.past)
        self._lock = threading.Lock()

    @staticmethod
    def of(context: Context) -> Readings:
        """The readings of an application."""
        return context.made(Readings)

    def __enter__(self) -> Readings:
        self._lock.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()
