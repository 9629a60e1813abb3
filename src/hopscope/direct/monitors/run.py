"""Run monitors over observations: reports pass through a translator into stores, ready for queries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...wire.records import Records
from ..stores.store import Store
from ..translation.translator import Translator
from ..transport import MemoryTransport
from .monitor import Monitor, Reports


@dataclass(slots=True)
class MonitorRun:
    """A monitor, its store, and the translator between them."""

    monitor: Monitor
    store: Store
    translator: Translator
    reports: int = 0
    """Reports so far."""

    def take(self, observations: Records) -> None:
        """Report a batch of OBSERVATION records."""
        self._translate(self.monitor.observe(observations))

    def flush(self) -> None:
        """Report the monitor's remaining state, and write the reports that the translator holds."""
        self._translate(self.monitor.flush())
        while not self.translator.flush():
            pass

    def _translate(self, made: Reports) -> None:
        if len(made):
            self.reports += len(made)
            self.translator.translate(made.records, made.arena)


def start(monitor: Monitor, expected: int = 4096, path: Path | str | None = None) -> MonitorRun:
    """Start a monitor with its own store for `expected` keys or events, in memory or in a file."""
    store = Store.create(path, monitor.layout(expected))
    return MonitorRun(monitor, store, Translator([store.layout], MemoryTransport([store])))


def run_monitors(
    observations: Records | Iterable[Records],
    monitors: Mapping[str, Monitor] | Sequence[Monitor | str],
    *,
    expected: int = 4096,
    folder: Path | None = None,
) -> dict[str, MonitorRun]:
    """Run monitors, by name or instance, over OBSERVATION records or batches of them, and flush them.

    `folder`: stores become files NAME.region there. Raises MonitorError for an unknown name.
    """
    from .registry import make_monitors

    chosen = make_monitors(monitors)
    running = {
        name: start(monitor, expected, folder / f"{name}.region" if folder else None)
        for name, monitor in chosen.items()
    }
    for batch in [observations] if isinstance(observations, np.ndarray) else observations:
        for run in running.values():
            run.take(batch)
    for run in running.values():
        run.flush()
    return running
