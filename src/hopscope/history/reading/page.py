"""A page of events. The parts of history that may have its rows are searched, the most likely ones first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import duckdb
import numpy as np
import numpy.typing as npt

from ...wire.records import Records
from ..columns import COLUMNS, NAMES, named_in
from ..errors import HistoryError
from ..files.chunk_files import chunk_files
from ..files.journal_chunks import JournalPart, Selected, narrowed
from ..files.names import SegmentFile
from ..files.segment_index import CHUNK_EVENTS, ROW, Criteria, Part
from ..files.segments import files_sql, rows_sql, union_sql
from ..files.sorting import SORTED_EVENTS
from .source import Sequences, Snapshot
from .table import Table, fetch

Order = Literal["newest", "oldest", "sequence"]
_BY = {
    "newest": "time DESC, shard DESC, sequence DESC",
    "oldest": "time, shard, sequence",
    "sequence": "shard, sequence",
}
_WHOLE_SEGMENTS = 32
"""A batch of at least this many parts ends at the end of a segment, because adjacent parts need only one
scan.
"""
_LEAST = 8
"""Parts of later batches, at least: preparing to read a segment takes as long as reading some chunks."""
_GROWTH = 4
"""Growth of batches. A query costs about as much as scanning ten parts, so few large batches are best."""
_MARGIN = 1.25
"""So many times more parts are read than have the missing rows on average: another query would cost more."""
_MAX_PARTS = 512
_ALL = 2**62
_RARE = 4
"""If the index of a segment leaves less than one of so many chunks, they are expected to have few rows."""
_LISTED = 1000
"""Up to this many rows of a segment are fetched by a list, so that DuckDB skips the chunks between them."""
_FETCHED = NAMES.replace(" src,", " NULL AS src,").replace(" dst,", " NULL AS dst,")
"""Columns to fetch: without the texts of addresses, which take longest; `name_ends` adds them."""
_NO_ROWS = f"SELECT {', '.join(f'NULL::{kind} AS {name}' for name, kind in COLUMNS)} WHERE false"
_WIDE = 64
"""A search of up to this many parts, all of segments, reads `chunk_files`, also the columns to fetch; those
of a chunk without a matching row are not read.
"""
_KEY = np.dtype([("time", "<i8"), ("shard", "<u2"), ("sequence", "<u8"), ("row", "<i8"), ("known", "<i8")])
_PLACE = ("sequence", "shard", "time")

Keys = npt.NDArray[Any]


class Page:
    """At most `limit` events (None: all) in an order, after the last event of the previous page.

    First, its rows are searched, in batches of parts. A large batch, or one of journals whose events were not
    selected before, is searched only for the keys of rows; these rows are fetched at the end. `selected`:
    which events of journals may be rows (None: all). HistoryError: `after` does not come from a table, or the
    limit is negative.
    """

    def __init__(
        self, order: Order, limit: int | None, after: str | None, selected: Selected | None = None
    ) -> None:
        if limit is not None and limit < 0:
            raise HistoryError(f"limit: found {limit}, expected 0 or more, or None")
        self._order, self._selected = order, selected
        self._limit = _ALL if limit is None else limit
        self._after = None if after is None else _position(after)
        self._keys: Keys = np.empty(0, _KEY)
        self._known: list[Table] = []
        """Rows whose keys have their place in these tables, one after another, as `known`."""

    def limited(self, criteria: Criteria) -> Criteria:
        """The criteria, limited to times after the previous page."""
        if self._after is None or self._order == "sequence":
            return criteria
        if self._order == "newest":
            return replace(criteria, end_ns=min(criteria.end_ns, self._after[0]))
        return replace(criteria, start_ns=max(criteria.start_ns, self._after[0]))

    def batches(self, snapshot: Snapshot) -> Iterator[Snapshot]:
        """Batches of a snapshot's parts, until the remaining parts cannot have a row of the page.

        Each batch after the first one has _GROWTH times as many parts as the one before; or, if that one had
        rows, as many as are expected to have the missing rows.
        """
        self._keys, self._known = np.empty(0, _KEY), []
        both: list[Part | JournalPart] = [*snapshot.parts, *snapshot.fresh]
        parts, begin = sorted(both, key=self._best), 0
        if self._limit == _ALL:
            size = _ALL
        elif self._selected is None or not snapshot.fresh:
            size = _first_size(parts)
        else:
            parts, size = self._searched(parts, snapshot.criteria, self._selected)
        end = size
        while begin < len(parts) and not (begin and self._is_complete(parts[begin])):
            batch, before = parts[begin:end], len(self._keys)
            yield replace(
                snapshot,
                parts=[part for part in batch if isinstance(part, Part)],
                fresh=[part for part in batch if isinstance(part, JournalPart)],
            )
            begin = end
            expected = self._expected(begin) if len(self._keys) > before else 0
            size = min(max(expected, _LEAST) if expected else _GROWTH * size, _MAX_PARTS)
            end = begin + size if expected else _end(parts, begin + size)

    def _searched(
        self, parts: list[Part | JournalPart], criteria: Criteria, selected: Selected
    ) -> tuple[list[Part | JournalPart], int]:
        """The parts, with those of journals `narrowed`; and the size of the first batch, which has all that
        were searched, since these have few rows, and parts of segments if more rows are needed.
        """
        journals = [part for part in parts if isinstance(part, JournalPart)]
        chosen = narrowed(journals, criteria, selected, self._limit + 1)
        known = [part for part in chosen if part.selected is not None]
        others = [part for part in chosen if part.selected is None]
        rest: list[Part | JournalPart] = [part for part in parts if isinstance(part, Part)]
        rest = sorted([*rest, *others], key=self._best)
        is_full = sum(part.selected or 0 for part in known) > self._limit
        return [*known, *rest], len(known) + (0 if is_full else _first_size(rest))

    def search(self, snapshot: Snapshot, condition: str, cursor: duckdb.DuckDBPyConnection) -> None:
        """Search a batch for rows of the page."""
        if not snapshot.parts and not snapshot.fresh:
            return  # all parts are damaged
        where = f"{condition} AND {self._after_sql()}"
        if len(snapshot.parts) <= _WIDE and all(part.selected is not None for part in snapshot.fresh):
            with chunk_files(snapshot.parts) as (files, others):
                if files:
                    cursor.execute("SET SESSION parquet_metadata_cache = false")
                selects = [files_sql(files, others)] if snapshot.parts else []
                if snapshot.fresh:
                    fresh = replace(snapshot, parts=[])
                    selects.append(fresh.select(cursor, named_in(NAMES), selected=self._selected))
                source = " UNION ALL ".join(selects)
                found = self._read(f"SELECT {_FETCHED} FROM ({source}) WHERE {where}", cursor)
        else:
            names = named_in(f"time, shard, sequence, {where}")
            source = snapshot.select(cursor, names, selected=self._selected, rows=True)
            found = self._find(f"SELECT * FROM ({source}) WHERE {where}", cursor)
        keys = np.concatenate([self._keys, found])
        keys = keys[
            np.lexsort([keys[name] for name in (_PLACE[:2] if self._order == "sequence" else _PLACE)])
        ]
        is_further = np.append(True, np.diff(keys["sequence"]) | np.diff(keys["shard"]))[: len(keys)] != 0
        keys = keys[is_further]  # a row between two parts may be found in two batches
        self._keys = (keys[::-1] if self._order == "newest" else keys)[: self._limit + 1]

    def _find(self, select: str, cursor: duckdb.DuckDBPyConnection) -> Keys:
        """The keys of the first rows of a SELECT."""
        got = cursor.execute(
            f"""SELECT time, shard, sequence, coalesce({ROW}, 0) AS row FROM ({select})
            ORDER BY {_BY[self._order]} LIMIT {self._limit + 1}"""
        ).fetchnumpy()  # events of journals have no row
        return _keys({**got, "known": -1})

    def _read(self, select: str, cursor: duckdb.DuckDBPyConnection) -> Keys:
        """The keys of the first rows of a SELECT of all columns, which are kept."""
        select = f"SELECT * FROM ({select}) ORDER BY {_BY[self._order]} LIMIT {self._limit + 1}"
        table = fetch(cursor, select, None, COLUMNS)
        begin = sum(map(len, self._known))
        self._known.append(table)
        return _keys({**table.columns, "row": 0, "known": begin + np.arange(len(table))})

    def fetch(self, snapshot: Snapshot, cursor: duckdb.DuckDBPyConnection) -> Table:
        """The rows that were found, with addresses only as numbers. HistoryError: some are gone."""
        keys = self._keys[: self._limit]
        at, is_new = keys["known"].copy(), keys["known"] < 0
        tables = self._known
        if is_new.any() or not tables:
            at[is_new] = np.arange(is_new.sum()) + sum(map(len, tables))
            fetched = self._fetched(keys[is_new], snapshot, cursor)
            if len(fetched) != is_new.sum():
                raise HistoryError("files of history changed while they were read: try again")
            tables = [*tables, fetched]
        columns = {name: _joined([table[name] for table in tables])[at] for name, _ in COLUMNS}
        table = Table(columns, len(self._keys) > len(keys), types=tables[0].types)
        if table.truncated and len(keys):
            table.after = "-".join(str(part) for part in keys[["time", "shard", "sequence"]][-1].tolist())
        return table

    def _fetched(self, keys: Keys, snapshot: Snapshot, cursor: duckdb.DuckDBPyConnection) -> Table:
        """The rows with these keys, in order."""
        wanted = Sequences(keys["shard"], keys["sequence"])
        holding = snapshot.holding(wanted)
        arms = []
        for number, segment in enumerate(part.segment for part in holding.parts):
            within = (keys["sequence"] >= segment.first) & (keys["sequence"] <= segment.last)
            rows = np.ascontiguousarray(keys["row"][within & (keys["shard"] == segment.shard)])
            if len(rows) <= _LISTED:
                chosen = f"IN ({', '.join(map(str, rows.tolist()))})"
            else:
                cursor.register(f"rows_{number}", {"row": rows})  # DuckDB before 2.0 reads strides wrongly
                chosen = f"IN (SELECT row FROM rows_{number})"
            arms.append(rows_sql([segment], f"{ROW} {chosen}"))
        selects = [union_sql(arms, _FETCHED)] if arms else []
        if holding.fresh:
            fresh = replace(holding, parts=[], criteria=Criteria())  # which all of these meet
            source = fresh.select(cursor, named_in(NAMES), selected=partial(_have, wanted))
            selects.append(f"SELECT {_FETCHED} FROM ({source})")
        select = f"{' UNION ALL '.join(selects)} ORDER BY {_BY[self._order]}" if selects else _NO_ROWS
        return fetch(cursor, select, None, COLUMNS)

    def _expected(self, read: int) -> int:
        """How many parts to read for the missing rows, if the parts have as many rows as those before; 0 if
        no row is missing.
        """
        found = len(self._keys)
        missing = self._limit + 1 - found
        return 1 + int(_MARGIN * read * missing / found) if missing else 0

    def _best(self, part: Part | JournalPart) -> tuple[int, int]:
        """The first place in the order that a row of this part can have."""
        place = (part.segment if isinstance(part, Part) else part).shard, part.first
        return {"newest": (-part.newest, 0), "oldest": (part.oldest, 0)}.get(self._order, place)

    def _is_complete(self, following: Part | JournalPart) -> bool:
        """Whether all rows of the page, and one more, come before those of the part `following`."""
        if len(self._keys) <= self._limit:
            return False
        time_ns, shard, sequence, *_ = self._keys[max(0, self._limit - 1)].tolist()
        last = {"newest": (-time_ns, 0), "oldest": (time_ns, 0)}.get(self._order, (shard, sequence))
        return bool(last < self._best(following))

    def _after_sql(self) -> str:
        if self._after is None:
            return "true"
        time_ns, shard, sequence = self._after
        if self._order == "sequence":
            return f"(shard, sequence) > ({shard}, {sequence})"
        sign, time = "<" if self._order == "newest" else ">", f"make_timestamp_ns({time_ns})"
        return f"time {sign}= {time} AND (time, shard, sequence) {sign} ({time}, {shard}, {sequence})"


def _keys(columns: Mapping[str, Any]) -> Keys:
    """Keys [n] made from the columns of _KEY."""
    keys = np.empty(len(columns["time"]), _KEY)
    for name in _KEY.names or ():
        keys[name] = columns[name]
    return keys


def _joined(columns: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Columns of tables, one after another; masked if a value is missing."""
    values = np.concatenate([np.ma.getdata(column) for column in columns])
    missing = np.concatenate([np.ma.getmaskarray(column) for column in columns])
    return np.ma.masked_array(values, mask=missing) if missing.any() else values


def _have(sequences: Sequences, events: Records) -> npt.NDArray[np.bool_]:
    """bool [events]: which of a journal's events have one of these sequences."""
    found = np.zeros(len(events), bool)
    if len(events):
        first = events["sequence"][0]
        found[
            sequences.between(int(events["shard"][0]), int(first), int(first) + len(events) - 1) - first
        ] = True
    return found


def _first_size(parts: list[Part | JournalPart]) -> int:
    """How many parts to read first: one of a journal, or those that may have the first row of all; at least
    two, because the last part of a segment may be short, and at most as many as are sorted together. If the
    rows are rare, always as many.
    """
    if not parts or isinstance(parts[0], JournalPart):
        return 1
    first, parts = parts[0], parts[: SORTED_EVENTS // CHUNK_EVENTS]
    segments = {part.segment for part in parts if isinstance(part, Part)}
    chunks = sum((segment.last - segment.first) // CHUNK_EVENTS + 1 for segment in segments)
    if len(parts) * _RARE < chunks:
        return len(parts)
    return max(2, sum(part.newest >= first.oldest and part.oldest <= first.newest for part in parts))


def _end(parts: list[Part | JournalPart], end: int) -> int:
    """The end of a batch that should end at `end`: later if it would split the parts of a segment."""
    if _WHOLE_SEGMENTS <= end < len(parts):
        segment = _segment(parts[end - 1])
        while end < len(parts) and segment is not None and _segment(parts[end]) == segment:
            end += 1
    return end


def _segment(part: Part | JournalPart) -> SegmentFile | None:
    return part.segment if isinstance(part, Part) else None


def _position(after: str) -> tuple[int, int, int]:
    """Time (ns), shard and sequence of the last row of a page."""
    try:
        time_ns, shard, sequence = (int(part) for part in after.rsplit("-", 2))
    except ValueError as error:
        raise HistoryError(f"after: expected the `after` of the page before, found {after[:60]!r}") from error
    return time_ns, shard, sequence
