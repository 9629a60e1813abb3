"""What there is to read right now: sound segments, and what journals have beyond them."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb
import numpy as np

from ..detect.records import EVENT
from ..wire.records import Records
from .columns import NAMES, connect, register
from .distributions import EVERYTHING, PeriodSnapshot, Window, snapshot
from .files import HistoryError, list_journals, list_segments, segment_covering
from .journal_file import JournalReader
from .period_files import check_periods
from .segments import DamagedError, check_footers, check_pages, first_line, parquet_sql


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Every event of a moment, once."""

    paths: list[Path]
    """Segments."""
    fresh: list[Records]
    """EVENT blocks of journals that no segment covers."""
    long: bool = True
    """As in `columns.register`."""

    def select(self, connection: duckdb.DuckDBPyConnection) -> str:
        """A SELECT of all of it, with the columns of `columns`; registers journals with the connection."""
        blocks = self.fresh if len(self.fresh) <= 4 else [np.concatenate(self.fresh)]
        parts = [register(connection, f"journal_{i}", block, self.long) for i, block in enumerate(blocks)]
        if self.paths:
            parts.insert(0, f"SELECT {NAMES} FROM {parquet_sql(self.paths)}")
        if not parts:
            parts.append(register(connection, "journal_0", np.empty(0, EVENT)))
        return " UNION ALL ".join(parts)


class Source:
    """The events of a data folder, whoever writes and archives meanwhile. Threads may share it.

    HistoryError: the folder is missing, foreign, or of another version.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise HistoryError(f"data folder {self.folder} does not exist")
        if not any((self.folder / part).is_dir() for part in ("journal", "segments")):
            raise HistoryError(
                f"{self.folder} is not a Hopscope data folder: it has no journal and no segments"
            )
        self.damaged: dict[Path, DamagedError] = {}
        """Segments that are left out, and why."""
        self._sound: set[Path] = set()
        self._sound_periods: set[Path] = set()
        self._journals: dict[Path, JournalReader] = {}
        self._lock = threading.Lock()
        self._connection = connect(256 * 1024**2, threads=1)

    def close(self) -> None:
        """Let go of DuckDB."""
        self._connection.close()

    def snapshot(self, long: bool = True) -> Snapshot:
        """Journals are read before segments are listed, so no event is missed, none is there twice."""
        with self._lock:
            readers: dict[Path, JournalReader] = {}
            blocks = []
            for journal in list_journals(self.folder):
                reader = self._journals.get(journal.path) or JournalReader(journal.path)
                try:
                    blocks.append((journal, reader.read()))
                except FileNotFoundError:
                    continue  # a segment by now
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
            fresh = [path for path in found.paths if path not in self._sound_periods | set(self.damaged)]
            self.damaged |= check_periods(self._connection, fresh)
            self._sound_periods = set(found.paths).difference(self.damaged)
            return replace(found, paths=[path for path in found.paths if path not in self.damaged])

    def blame(self, snapshot: Snapshot | PeriodSnapshot, error: duckdb.Error) -> None:
        """A query over a snapshot failed. Returns if another one may succeed, else raises HistoryError.

        A damaged page is told with the file's name, or (in few places) as an error of no kind.
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

    def _check(self, paths: list[Path]) -> None:
        fresh = [path for path in paths if path not in self._sound and path not in self.damaged]
        if fresh:
            self.damaged |= check_footers(self._connection, fresh)
        self._sound = {path for path in paths if path not in self.damaged}
