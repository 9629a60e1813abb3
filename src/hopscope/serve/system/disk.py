"""The disk of the data folder: size of history, free space, and how far history reaches back."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from ...history.errors import HistoryError
from ...history.files.names import damaged_files
from ...history.writing.space import kept_bytes
from ...memory.data_folder import read_owner
from ...present.collector_state import CollectorState
from ...present.events import wide
from ...present.history import SharedHistory
from ..models.system import Files, HistoryState, Retention

_PARTS = ("journal", "segments", "distributions")
_OLDEST_SECONDS = 10.0
"""How long the oldest event is cached; it only changes when a segment is deleted."""


def history_state(state: CollectorState, folder: Path, oldest: str | None) -> HistoryState:
    """History of a data folder and its disk; `oldest`: time of the oldest event. Raises OSError: the folder
    cannot be read.
    """
    found = os.statvfs(folder)
    to_disk = state.to_disk()
    retention = read_owner(folder).get("retention")
    return HistoryState(
        free_bytes=found.f_bavail * found.f_frsize,
        total_bytes=found.f_blocks * found.f_frsize,
        kept_bytes=kept_bytes(folder, retention["keep_free"]) if retention else None,
        parts={part: _files(folder / part) for part in _PARTS},
        retention=Retention.model_validate(retention) if retention else None,
        oldest=oldest,
        failing=to_disk.failing,
        waiting_events=wide(to_disk.waiting),
        lost_events=wide(to_disk.lost),
        damaged_files=len(damaged_files(folder)),
    )


def _files(folder: Path) -> Files:
    sizes = list(_sizes(folder))
    return Files(files=len(sizes), bytes=sum(sizes))


def _sizes(folder: Path) -> Iterator[int]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                try:
                    yield entry.stat().st_blocks * 512
                except FileNotFoundError:
                    continue  # retention has deleted the file meanwhile
    except FileNotFoundError:
        return


class OldestEvent:
    """How far history reaches back. One thread uses it at a time."""

    def __init__(self, past: SharedHistory) -> None:
        self._past = past
        self._oldest: str | None = None
        self._looked_at: float | None = None

    def read(self) -> str | None:
        """Time of the oldest event, up to some seconds out of date; None: there is none, or it is unknown."""
        now = time.monotonic()
        if self._looked_at is None or now - self._looked_at >= _OLDEST_SECONDS:
            self._looked_at = now
            try:
                rows = self._past.history().events(limit=1, order="oldest").rows()
            except HistoryError:
                rows = []
            self._oldest = str(rows[0]["time"]) if rows else None
        return self._oldest
