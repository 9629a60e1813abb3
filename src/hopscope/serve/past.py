"""History as the API asks for it: opened when first needed, and one clear line where it cannot be read."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..names import Names


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Which events; None: any."""

    since_ns: int | None = None
    until_ns: int | None = None
    kinds: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    node: int | None = None
    flow: int | None = None
    prefix: str | None = None


class Past:
    """One `History`, shared by the requests of this process."""

    def __init__(self, folder: Path, names: Names) -> None:
        self._folder, self._names = folder, names
        self._lock = threading.Lock()
        self._history: Any = None

    def history(self) -> Any:
        """The history of the data folder, opened once."""
        with self._lock:
            if self._history is None:
                from ..history.query import History  # DuckDB is not needed before

                self._history = History(self._folder, self._names)
            return self._history

    def close(self) -> None:
        """Close it, if it was opened."""
        with self._lock:
            if self._history is not None:
                self._history.close()
                self._history = None
