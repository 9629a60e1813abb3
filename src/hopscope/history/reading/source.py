"""Snapshots of a data folder: undamaged segments, and newer events in journals."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt

from ...detect.records import EVENT
from ..columns import connect, fields_of, register
from ..errors import DamagedError, HistoryError
from ..files.checksums import wrong_sums
from ..files.journal_chunks import JournalPart, JournalReader, Selected, read_columns
from ..files.names import JournalFile, SegmentFile, list_journals, list_segments, segment_covering
from ..files.period_files import check_periods
from ..files.segment_index import ROW, Criteria, Part, SegmentIndex, read_index
from ..files.segments import check_footers, check_pages, first_line, parts_sql
from .distributions import EVERYTHING, PeriodSnapshot, Window, snapshot
from .filters import is_further
from .long_paths import MAX_RECORDS

Numbers = npt.NDArray[np.integer[Any]]
LONG_PATH_COLUMNS = ("metric", "path", "hop", "shard", "sequence")
"""Columns of the records of long paths, see `long_paths`."""


class Sequences:
    """Sequences of events, by shard."""

    def __init__(self, shards: Numbers, sequences: Numbers) -> None:
        self._sorted = {int(shard): np.sort(sequences[shards == shard]) for shard in np.unique(shards)}

    def between(self, shard: int, first: int, last: int) -> Numbers:
        """Those of a shard from `first` to `last`, sorted."""
        found = self._sorted.get(shard)
        if found is None:
            return np.empty(0, np.uint64)
        begin, end = np.searchsorted(found, np.array([max(0, first), last + 1], found.dtype))
        return found[begin:end]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The events that a query may need, at one moment, each contained once."""

    parts: list[Part]
    """Parts of segments."""
    fresh: list[JournalPart]
    """Parts of journals that are not in segments yet, in the order of shard and sequence."""
    criteria: Criteria
    """Other events of journals are left out."""
    texts: bool = True
    """The argument of `columns.register` for events of journals."""

    @property
    def paths(self) -> list[Path]:
        """The segments."""
        return list(dict.fromkeys(part.segment.path for part in self.parts))

    def select(
        self,
        connection: duckdb.DuckDBPyConnection,
        names: Collection[str],
        name: str = "journal",
        selected: Selected | None = None,
        rows: bool = False,
    ) -> str:
        """A SELECT of these columns of COLUMNS, of all events. The events of journals are registered with the
        connection as `name`; `selected` says which of them are needed. With `rows` also of ROW,
        which is NULL for events of journals.
        """
        shown = ", ".join(names)
        selects = [parts_sql(self.parts, f"{shown}, {ROW}" if rows else shown)] if self.parts else []
        if self.fresh or not selects:
            read = read_columns(self.fresh, fields_of(names, self.texts), self.criteria, selected)
            row = f", NULL AS {ROW}" if rows else ""
            selects.append(
                f"SELECT {shown}{row} FROM ({register(connection, name, read, self.texts, names)})"
            )
        return " UNION ALL ".join(selects)

    def select_all(self, connection: duckdb.DuckDBPyConnection) -> str:
        """A SELECT of all events, with columns.COLUMNS. Journals are mapped, see `OpenJournal.mapped`, and
        registered with the connection as `journal_0` and so on.
        """
        selects = [parts_sql(self.parts)] if self.parts else []
        ends = {part.journal: part.last + 1 - part.journal.first for part in self.fresh}
        blocks = [journal.mapped(end) for journal, end in ends.items()]
        for number, events in enumerate(blocks if blocks or selects else [np.empty(0, EVENT)]):
            selects.append(register(connection, f"journal_{number}", events))
        return " UNION ALL ".join(selects)

    def near(self, batch: Snapshot) -> Snapshot:
        """The parts that may have records of a batch's events, which may continue in other parts."""
        ranges: dict[int, tuple[int, int]] = {}
        for part in batch.parts:
            first, last = ranges.get(part.segment.shard, (part.first, part.last))
            ranges[part.segment.shard] = min(first, part.first), max(last, part.last)
        parts = []
        for part in self.parts:
            first, last = ranges.get(part.segment.shard, (0, -MAX_RECORDS))
            if part.first <= last + MAX_RECORDS and part.last >= first:
                parts.append(part)
        return replace(self, parts=parts)

    @property
    def has_long_paths(self) -> bool:
        """Whether there may be records of paths of more than PATH_PART nodes."""
        return any(part.long for part in self.parts) or any(part.long for part in self.fresh)

    def long_paths(self, connection: duckdb.DuckDBPyConnection) -> str | None:
        """A SELECT of all events that may be records of paths of more than PATH_PART nodes, or None if there
        are none.
        """
        parts = [part for part in self.parts if part.long]
        fresh = [part for part in self.fresh if part.long]
        if not parts and not fresh:
            return None
        chosen = replace(self, parts=parts, fresh=fresh)
        return chosen.select(connection, LONG_PATH_COLUMNS, "long", selected=is_further)

    def holding(self, sequences: Sequences, following: int = 0) -> Snapshot:
        """The segments and parts of journals that have these events, or one of the `following` events after
        one of them.
        """

        def has(part: SegmentFile | JournalPart) -> bool:
            return len(sequences.between(part.shard, part.first - following, part.last)) > 0

        segments = dict.fromkeys(part.segment for part in self.parts)
        return replace(
            self,
            parts=[Part.whole(segment) for segment in segments if has(segment)],
            fresh=[part for part in self.fresh if has(part)],
        )


class HistorySource:
    """Reads a data folder while other processes write and archive it. Threads may share a source.

    HistoryError: the folder is missing, not ours, or of another version.
    """

    def __init__(
        self,
        folder: Path,
        damaged: Mapping[Path, str] | None = None,
        checked: Collection[Path] = (),
    ) -> None:
        """`damaged` and `checked`: files that another source has found damaged, and undamaged."""
        self.folder = Path(folder)
        if not self.folder.is_dir():
            found = "is not a folder" if self.folder.exists() else "does not exist"
            raise HistoryError(f"data folder {self.folder} {found}")
        if not any((self.folder / part).is_dir() for part in ("journal", "segments")):
            raise HistoryError(
                f"{self.folder} is not a Hopscope data folder: it has no journal and no segments"
            )
        self.damaged: dict[Path, str] = dict(damaged or {})
        """Skipped files, with what is wrong: not the errors, whose tracebacks would keep what was read."""
        self._sums = damaged is None
        self._checked: set[Path] = set(checked)
        self._checked_periods: set[Path] = set(checked)
        self._journals: dict[Path, JournalReader] = {}
        self._indexes: dict[Path, SegmentIndex | None] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close DuckDB."""
        if "_connection" in vars(self):
            self._connection.close()

    @cached_property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        """A DuckDB for checking files."""
        return connect(256 * 1024**2, threads=1)

    def snapshot(self, criteria: Criteria | None = None, texts: bool = True) -> Snapshot:
        """The events that may meet the criteria; None: all. Segments are not checked yet, see `undamaged`.

        Journals are read before segments are listed, so that no event is missed.
        """
        with self._lock:
            readers: dict[Path, JournalReader] = {}
            found: list[tuple[JournalFile, list[JournalPart]]] = []
            for journal in list_journals(self.folder):
                reader = self._journals.get(journal.path) or JournalReader(journal.path)
                try:
                    found.append((journal, reader.parts(criteria)))
                except FileNotFoundError:
                    continue  # it has become a segment
                except DamagedError as damage:
                    self.damaged[journal.path] = str(damage)
                    continue
                readers[journal.path] = reader
            self._journals = readers
            segments = list_segments(self.folder)
            self._checked.intersection_update(segment.path for segment in segments)
            fresh = [
                part
                for journal, parts in found
                if parts and not segment_covering(segments, journal.shard, journal.first)
                for part in parts
            ]
            return Snapshot(self._parts(segments, criteria), fresh, criteria or Criteria(), texts)

    def undamaged(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot without damaged segments. Segments that have not been checked yet are checked."""
        with self._lock:
            self._check(snapshot.paths)
            return replace(
                snapshot, parts=[part for part in snapshot.parts if part.segment.path not in self.damaged]
            )

    def _parts(self, segments: list[SegmentFile], criteria: Criteria | None) -> list[Part]:
        """The parts of segments that may have rows that meet the criteria; without an index, the whole
        segment.
        """
        if criteria is None:
            return [Part.whole(segment) for segment in segments]
        since = dict(criteria.since)
        known: dict[Path, SegmentIndex | None] = {}
        parts: list[Part] = []
        for segment in segments:
            index = self._indexes.get(segment.path) or read_index(segment)
            known[segment.path] = index
            if index is not None:
                parts += index.parts(criteria)
            elif segment.last >= since.get(segment.shard, 0):
                parts.append(Part.whole(segment))
        self._indexes = known
        return parts

    def chunks(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot, with all chunks of its segments."""
        parts: list[Part] = []
        for segment in dict.fromkeys(part.segment for part in snapshot.parts):
            index = self._indexes.get(segment.path)
            parts += [Part.whole(segment)] if index is None else index.parts(Criteria())
        return replace(snapshot, parts=parts)

    def periods(self, window: Window = EVERYTHING) -> PeriodSnapshot:
        """The undamaged files of distributions, and the live counts, of a window."""
        with self._lock:
            found = snapshot(self.folder, time.time_ns(), window)
            fresh = [path for path in found.paths if path not in self._checked_periods | set(self.damaged)]
            self._skip(check_periods(self._connection, fresh))
            self._check_sums(fresh)
            self._checked_periods = set(found.paths).difference(self.damaged)
            return replace(found, paths=[path for path in found.paths if path not in self.damaged])

    def blame(self, paths: list[Path], error: duckdb.Error) -> None:
        """Handle the failure of a query of these files: return if another attempt may succeed, because a file
        was deleted or is now known to be damaged; else raise HistoryError.

        DuckDB reports a damaged page with the file's name, or (rarely) as a plain `duckdb.Error`.
        """
        if not all(path.exists() for path in paths):
            return
        suspects = [path for path in paths if str(path) in str(error)]
        if not suspects and type(error) is duckdb.Error:
            suspects = paths
        with self._lock:
            before = len(self.damaged)
            for path in suspects:
                try:
                    check_pages(self._connection, path)
                except DamagedError as damage:
                    self.damaged[path] = str(damage)
            if len(self.damaged) == before:
                raise HistoryError(first_line(error)) from error

    def check(self) -> tuple[dict[Path, str], set[Path]]:
        """Check all new files; returns all damaged files with what is wrong, and all undamaged ones."""
        with self._lock:
            self._check([segment.path for segment in list_segments(self.folder)])
        self.periods()
        return self.damaged, self._checked | self._checked_periods

    def _skip(self, damaged: Mapping[Path, DamagedError]) -> None:
        self.damaged |= {path: str(error) for path, error in damaged.items()}

    def _check_sums(self, paths: list[Path]) -> None:
        """Compare files with their checksums, unless another source has done so."""
        if self._sums:
            self._skip(wrong_sums(path for path in paths if path not in self.damaged))

    def _check(self, paths: list[Path]) -> None:
        fresh = [path for path in paths if path not in self._checked and path not in self.damaged]
        if fresh:
            self._skip(check_footers(self._connection, fresh))
            self._check_sums(fresh)
        self._checked |= {path for path in fresh if path not in self.damaged}
