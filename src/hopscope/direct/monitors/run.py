"""Monitors over observations: reports through a translator into stores, ready for queries."""

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
class Running:
    """A monitor, its store, and the translator between them."""

    monitor: Monitor
    store: Store
    translator: Translator
    reports: int = 0
    """Reports so far."""

    def take(self, observations: Records) -> None:
        """Report a batch of OBSERVATION records."""
        self._give(self.monitor.observe(observations))

    def flush(self) -> None:
        """Report what the monitor holds, and write what the translator holds."""
        self._give(self.monitor.flush())
        while not self.translator.flush():
            pass

    def _give(self, made: Reports) -> None:
        if len(made):
            self.reports += len(made)
            self.translator.translate(made.records, made.arena)


def start(monitor: Monitor, expected: int = 4096, path: Path | str | None = None) -> Running:
    """A monitor with a store of its own for `expected` keys or events, in memory or as a file."""
    store = Store.create(path, monitor.layout(expected))
    return Running(monitor, store, Translator([store.layout], MemoryTransport([store])))


def run_monitors(
    observations: Records | Iterable[Records],
    monitors: Mapping[str, Monitor] | Sequence[Monitor | str],
    *,
    expected: int = 4096,
    folder: Path | None = None,
) -> dict[str, Running]:
    """Monitors (by name, or made) over OBSERVATION records, or batches of them; everything is flushed.

    `folder`: stores become files NAME.region there. Raises MonitorError where a name is not known.
    """
    from .registry import made

    chosen = made(monitors)
    running = {
        name: start(monitor, expected, folder / f"{name}.region" if folder else None)
        for name, monitor in chosen.items()
    }
    for batch in [observations] if isinstance(observations, np.ndarray) else observations:
        for one in running.values():
            one.take(batch)
    for one in running.values():
        one.flush()
    return running
