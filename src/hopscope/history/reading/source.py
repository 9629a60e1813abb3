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

from ...detect.flows.flow_ids import FlowIds
from ...detect.records import EVENT
from ...memory.snapshot import rows_at
from ...wire.records import Records
from ..columns import connect, register
from ..errors import DamagedError, HistoryError
from ..files.checksums import wrong_sums
from ..files.journal_file import JournalReader
from ..files.names import SegmentFile, list_journals, list_segments, segment_covering
from ..files.period_files import check_periods
from ..files.segment_index import Criteria, Part, SegmentIndex, read_index
from ..files.segments import check_footers, check_pages, first_line, parts_sql
from .distributions import EVERYTHING, PeriodSnapshot, Window, snapshot
from .filters import is_further

Numbers = npt.NDArray[np.integer[Any]]


_LARGE_EVENTS = 32_768
"""Blocks of at least this many events are not copied: that would take longer than planning a query over one
more block, and would double the memory that a storm's journals take.
"""


def joined(blocks: list[Records]) -> list[Records]:
    """The same events in fewer blocks: all small blocks are copied into one."""
    large = [block for block in blocks if len(block) >= _LARGE_EVENTS]
    small = [block for block in blocks if len(block) < _LARGE_EVENTS]
    return [*large, *([np.concatenate(small)] if len(small) > 1 else small)]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The events that a query may need, at one moment, each contained once."""

    parts: list[Part]
    """Parts of segments."""
    fresh: list[Records]
    """EVENT blocks of journals that are not in segments yet."""
    texts: bool = True
    """The argument of `columns.register` for events of journals."""

    @property
    def paths(self) -> list[Path]:
        """The segments."""
        return list(dict.fromkeys(part.segment.path for part in self.parts))

    def select(self, connection: duckdb.DuckDBPyConnection, name: str = "journal") -> str:
        """A SELECT of all events, with columns.COLUMNS; registers the events of journals with the connection,
        as `name_0` and so on.
        """
        blocks = joined(self.fresh)
        selects = [register(connection, f"{name}_{i}", block, self.texts) for i, block in enumerate(blocks)]
        if self.parts:
            selects.insert(0, parts_sql(self.parts))
        if not selects:
            selects.append(register(connection, f"{name}_0", np.empty(0, EVENT)))
        return " UNION ALL ".join(selects)

    def of_flows(self, ids: FlowIds, inside: bool) -> Snapshot:
        """This snapshot, with only those events of journals that belong to these flows, or (not `inside`) to
        other flows.
        """
        fresh = []
        for events in self.fresh:
            kept = np.flatnonzero(ids.has(events["flow_id"]) == inside)
            fresh.append(events if len(kept) == len(events) else rows_at(events, kept))
        return replace(self, fresh=fresh)

    def near(self, batch: Snapshot) -> Snapshot:
        """The parts of a batch, and those that follow them: the records of an event may continue there."""
        begins = {(part.segment.shard, part.first): part for part in self.parts}
        parts = dict.fromkeys(batch.parts)
        for part in batch.parts:
            if following := begins.get((part.segment.shard, part.last + 1)):
                parts[following] = None
        return replace(self, parts=list(parts))

    def long_paths(self, connection: duckdb.DuckDBPyConnection) -> str | None:
        """A SELECT of all events that may be records of paths of more than PATH_PART nodes, or None if there
        are none.
        """
        parts = [part for part in self.parts if part.long]
        fresh = [events for events in self.fresh if is_further(events).any()]
        return replace(self, parts=parts, fresh=fresh).select(connection, "long") if parts or fresh else None

    def holding(self, shards: Numbers, sequences: Numbers) -> Snapshot:
        """The segments and journals that have these events."""
        parts = []
        outside = np.ones(len(sequences), bool)
        for segment in dict.fromkeys(part.segment for part in self.parts):
            here = (shards == segment.shard) & (sequences >= segment.first) & (sequences <= segment.last)
            if here.any():
                parts.append(Part(segment, segment.first, segment.last))
                outside &= ~here
        return replace(self, parts=parts, fresh=self.fresh if outside.any() else [])


class HistorySource:
    """Reads a data folder while other processes write and archive it. Threads may share a source.

    HistoryError: the folder is missing, not ours, or of another version.
    """

    def __init__(
        self,
        folder: Path,
        damaged: Mapping[Path, DamagedError] | None = None,
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
        self.damaged: dict[Path, DamagedError] = dict(damaged or {})
        """Skipped files, with the error."""
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
            blocks = []
            for journal in list_journals(self.folder):
                reader = self._journals.get(journal.path) or JournalReader(journal.path)
                try:
                    blocks.append((journal, reader.read()))
                except FileNotFoundError:
                    continue  # it has become a segment
                except DamagedError as damage:
                    self.damaged[journal.path] = damage
                    continue
                readers[journal.path] = reader
            self._journals = readers
            segments = list_segments(self.folder)
            self._checked.intersection_update(segment.path for segment in segments)
            fresh = [e for j, e in blocks if len(e) and not segment_covering(segments, j.shard, j.first)]
            return Snapshot(self._parts(segments, criteria), fresh, texts)

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
            return [Part(segment, segment.first, segment.last) for segment in segments]
        since = dict(criteria.since)
        known: dict[Path, SegmentIndex | None] = {}
        parts: list[Part] = []
        for segment in segments:
            index = self._indexes.get(segment.path) or read_index(segment)
            known[segment.path] = index
            if index is not None:
                parts += index.parts(criteria)
            elif segment.last >= since.get(segment.shard, 0):
                parts.append(Part(segment, segment.first, segment.last))
        self._indexes = known
        return parts

    def periods(self, window: Window = EVERYTHING) -> PeriodSnapshot:
        """The undamaged files of distributions, and the live counts, of a window."""
        with self._lock:
            found = snapshot(self.folder, time.time_ns(), window)
            fresh = [path for path in found.paths if path not in self._checked_periods | set(self.damaged)]
            self.damaged |= check_periods(self._connection, fresh)
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
                    self.damaged[path] = damage
            if len(self.damaged) == before:
                raise HistoryError(first_line(error)) from error

    def check(self) -> tuple[dict[Path, DamagedError], set[Path]]:
        """Check all new files; returns all damaged files with the error, and all undamaged ones."""
        with self._lock:
            self._check([segment.path for segment in list_segments(self.folder)])
        self.periods()
        return self.damaged, self._checked | self._checked_periods

    def _check_sums(self, paths: list[Path]) -> None:
        """Compare files with their checksums, unless another source has done so."""
        if self._sums:
            self.damaged |= wrong_sums(path for path in paths if path not in self.damaged)

    def _check(self, paths: list[Path]) -> None:
        fresh = [path for path in paths if path not in self._checked and path not in self.damaged]
        if fresh:
            self.damaged |= check_footers(self._connection, fresh)
            self._check_sums(fresh)
        self._checked |= {path for path in fresh if path not in self.damaged}
