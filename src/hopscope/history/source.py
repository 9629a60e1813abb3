"""Snapshots of a data folder: undamaged segments, and newer events in journals."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb
import numpy as np

from ..detect.records import EVENT
from ..wire.records import Records
from .checksums import wrong_sums
from .columns import connect, register
from .distributions import EVERYTHING, PeriodSnapshot, Window, snapshot
from .files import DamagedError, HistoryError, list_journals, list_segments, segment_covering
from .journal_file import JournalReader
from .period_files import check_periods
from .segments import check_footers, check_pages, first_line, segments_sql


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All events at one moment, each once."""

    paths: list[Path]
    """Segments."""
    fresh: list[Records]
    """EVENT blocks of journals that are not in segments."""
    long: bool = True
    """As in `columns.register`."""

    def select(self, connection: duckdb.DuckDBPyConnection) -> str:
        """A SELECT of all, with the columns of `columns`; registers journals with the connection."""
        blocks = self.fresh if len(self.fresh) <= 4 else [np.concatenate(self.fresh)]
        parts = [register(connection, f"journal_{i}", block, self.long) for i, block in enumerate(blocks)]
        if self.paths:
            parts.insert(0, segments_sql(self.paths))
        if not parts:
            parts.append(register(connection, "journal_0", np.empty(0, EVENT)))
        return " UNION ALL ".join(parts)


class HistorySource:
    """Reads a data folder while others write and archive. Threads may share it.

    HistoryError: the folder is missing, not ours, or of another version.
    """

    def __init__(self, folder: Path, damaged: Mapping[Path, DamagedError] | None = None) -> None:
        """`damaged`: files that another one found so; it has checked the others, too."""
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise HistoryError(f"data folder {self.folder} does not exist")
        if not any((self.folder / part).is_dir() for part in ("journal", "segments")):
            raise HistoryError(
                f"{self.folder} is not a Hopscope data folder: it has no journal and no segments"
            )
        self.damaged: dict[Path, DamagedError] = dict(damaged or {})
        """Skipped files, with the reason."""
        self._sums = damaged is None
        self._checked: set[Path] = set()
        self._checked_periods: set[Path] = set()
        self._journals: dict[Path, JournalReader] = {}
        self._lock = threading.Lock()
        self._connection = connect(256 * 1024**2, threads=1)

    def close(self) -> None:
        """Close DuckDB."""
        self._connection.close()

    def snapshot(self, long: bool = True) -> Snapshot:
        """All events. Journals are read before segments are listed, so that each is there once."""
        with self._lock:
            readers: dict[Path, JournalReader] = {}
            blocks = []
            for journal in list_journals(self.folder):
                reader = self._journals.get(journal.path) or JournalReader(journal.path)
                try:
                    blocks.append((journal, reader.read()))
                except FileNotFoundError:
                    continue  # a segment by now
                except DamagedError as damage:
                    self.damaged[journal.path] = damage
                    continue
                readers[journal.path] = reader
            self._journals = readers
            segments = list_segments(self.folder)
            fresh = [e for j, e in blocks if len(e) and not segment_covering(segments, j.shard, j.first)]
            self._check([segment.path for segment in segments])
            return Snapshot([s.path for s in segments if s.path not in self.damaged], fresh, long)

    def periods(self, window: Window = EVERYTHING) -> PeriodSnapshot:
        """The distributions of a window."""
        with self._lock:
            found = snapshot(self.folder, time.time_ns(), window)
            fresh = [path for path in found.paths if path not in self._checked_periods | set(self.damaged)]
            self.damaged |= check_periods(self._connection, fresh)
            self._check_sums(fresh)
            self._checked_periods = set(found.paths).difference(self.damaged)
            return replace(found, paths=[path for path in found.paths if path not in self.damaged])

    def blame(self, snapshot: Snapshot | PeriodSnapshot, error: duckdb.Error) -> None:
        """Handle the failure of a query. Returns if another one may succeed, else raises HistoryError.

        DuckDB reports a damaged page with the file's name, or (rarely) as an error without a kind.
        """
        if not all(path.exists() for path in snapshot.paths):
            return
        suspects = [path for path in snapshot.paths if str(path) in str(error)]
        if not suspects and type(error) is duckdb.Error:
            suspects = snapshot.paths
        with self._lock:
            before = len(self.damaged)
            for path in suspects:
                try:
                    check_pages(self._connection, path)
                except DamagedError as damage:
                    self.damaged[path] = damage
            if len(self.damaged) == before:
                raise HistoryError(first_line(error)) from error

    def check(self) -> dict[Path, DamagedError]:
        """Check all files that are new; returns the damaged ones."""
        with self._lock:
            self._check([segment.path for segment in list_segments(self.folder)])
        self.periods()
        return self.damaged

    def _check_sums(self, paths: list[Path]) -> None:
        """Compare files with their checksums."""
        if self._sums:
            self.damaged |= wrong_sums(path for path in paths if path not in self.damaged)

    def _check(self, paths: list[Path]) -> None:
        fresh = [path for path in paths if path not in self._checked and path not in self.damaged]
        if fresh:
            self.damaged |= check_footers(self._connection, fresh)
            self._check_sums(fresh)
        self._checked = {path for path in paths if path not in self.damaged}
