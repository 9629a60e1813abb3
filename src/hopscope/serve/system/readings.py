"""Keeps readings of counters between answers about the collector itself, to compute rates."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from ...base.process import control_client as control
from ...present.collector_state import RATE_SECONDS
from ...present.processes import Process, processes_of
from ..context import Context
from .counters import CounterReadings
from .disk import OldestEvent


class ProcessReadings:
    """Reads processes, and remembers a reading of their CPU times. One thread uses it at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._older: tuple[float, dict[int, float]] = (0.0, {})
        self._newer: tuple[float, dict[int, float]] = (0.0, {})

    def read(self) -> list[tuple[Process, float | None]]:
        """Each process with its share of a core (None: not known yet); empty if no collector answers."""
        try:
            found = processes_of(control.request(self._folder, {"status": {}})["processes"])
        except (control.ControlError, KeyError):
            return []
        now = time.monotonic()
        if now - self._newer[0] >= RATE_SECONDS:
            used = {each.pid: each.cpu_seconds for each in found if each.pid and each.cpu_seconds is not None}
            self._older, self._newer = self._newer, (now, used)
        return [(each, self._share(each, now)) for each in found]

    def _share(self, process: Process, now: float) -> float | None:
        for at, used in (self._older, self._newer):
            before = used.get(process.pid or 0)
            if before is not None and process.cpu_seconds is not None and now > at:
                return max(0.0, process.cpu_seconds - before) / (now - at)
        return None


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
