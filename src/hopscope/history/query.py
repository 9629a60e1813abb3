"""Queries of history: DuckDB over segments and journals. Each event is found once, also while other processes
write and archive.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, Unpack

import duckdb
import numpy as np
import numpy.typing as npt

from ..base.names import Names
from ..detect.distributions.quantiles import By, Distribution
from ..detect.flows.flow_id_set import FlowIdSet
from ..wire.records import Records
from .columns import connect, named_in
from .errors import HistoryError, TooLargeError
from .files.segment_index import flow_key
from .files.segments import first_line
from .reading.distributions import PeriodSnapshot, Window, read
from .reading.event_queries import LOCAL, EventQueries, name_ends, of_records
from .reading.filters import Filters, Flow, QueueFilters, criteria_of, selection, where
from .reading.long_paths import MAX_RECORDS, add_long_paths
from .reading.page import Order, Page
from .reading.source import HistorySource, Sequences, Snapshot
from .reading.table import Table, fetch
from .sandbox.processes import Sandbox
from .sandbox.query import ParquetFile, folder_source

__all__ = ["Filters", "Flow", "History", "HistoryError", "Table"]

Result = TypeVar("Result")
Files = TypeVar("Files", Snapshot, PeriodSnapshot)
_SUMS = (
    *((name, "UBIGINT") for name in ("flow_id", "src_hi", "src_lo", "dst_hi", "dst_lo")),
    ("sport", "USMALLINT"),
    ("dport", "USMALLINT"),
    ("proto", "UTINYINT"),
    ("first", "TIMESTAMP_NS"),
    ("last", "TIMESTAMP_NS"),
    *((name, "BIGINT") for name in ("events", "path_changes", "drops")),
    *(("highest_latency", "UBIGINT"), ("packets", "UBIGINT"), ("mean_latency", "DOUBLE")),
    *(("worst_node_id", "UINTEGER"), ("worst_port", "USMALLINT"), ("worst_latency", "UBIGINT")),
)
"""Columns of `sums_of`, and their DuckDB types."""
_EVERY = "<every event>"
"""Stands for the SELECT of all events in a statement whose columns are not known yet."""
_MAX_KEYS = 1000
"""Largest number of flows that are looked up in the indexes of segments."""
_MAX_KEPT = 100
"""Largest number of segments whose footers DuckDB keeps for pages of events: 1.3 MB each. To read one again
takes 2 ms, and a page would read each up to four times.
"""
_TRIES = 20
"""How many snapshots a query tries if the archive replaces segments meanwhile."""


class History(EventQueries):
    """The events of the data folder `folder`. Threads may share a History.

    `names` adds the columns `node` and `port_name`. `memory_bytes` and `threads` limit its queries.
    `member`: the name of this member of a cluster; for SQL, it becomes the column `member` of `events`.
    Without `check_sums`, segments are read whatever their checksums, for which each is read whole.
    Every method may raise HistoryError, with one line that says what to do.
    """

    def __init__(
        self,
        folder: Path | str,
        names: Names | None = None,
        *,
        memory_bytes: int = 1024**3,
        threads: int | None = None,
        member: str = "",
        check_sums: bool = True,
    ) -> None:
        super().__init__(names)
        self.folder, self._member = Path(folder), member
        self._source = HistorySource(self.folder, None if check_sums else {})
        self._sandbox = Sandbox()
        self._connect = partial(connect, memory_bytes, threads or min(4, os.cpu_count() or 1), quick=True)
        self._connection = self._connect()
        self._kept: set[Path] = set()
        self._closed = False

    @property
    def problems(self) -> list[str]:
        """A line for each file that is skipped because it is damaged."""
        return list(self._source.damaged.values())

    def close(self) -> None:
        """Close DuckDB, and end running SQL queries; later queries raise HistoryError."""
        self._closed = True
        self._sandbox.close()
        self._connection.close()
        self._source.close()

    def __enter__(self) -> History:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def events(
        self,
        *,
        limit: int | None = 1000,
        order: Order = "newest",
        after: str | None = None,
        **filters: Unpack[Filters],
    ) -> Table:
        """At most `limit` events, ordered by time (then shard and sequence), or by shard and sequence.

        For the next page, repeat the call with `after=table.after`.
        """
        page = Page(order, limit, after, selection(filters))

        def ask(snapshot: Snapshot, cursor: duckdb.DuckDBPyConnection) -> Table:
            def search(batch: Snapshot) -> None:
                self._keep(batch.paths, cursor)

                def long_paths() -> str | None:
                    return self._source.undamaged(snapshot.near(batch)).long_paths(cursor)

                condition = self._where if snapshot.has_long_paths else where
                page.search(batch, condition(filters, long_paths), cursor)

            for batch in page.batches(snapshot):
                search(self._source.undamaged(batch))
            return self._with_long_paths(page.fetch(snapshot, cursor), snapshot, cursor)

        table = self._ask(ask, lambda: self._source.snapshot(page.limited(criteria_of(filters)), texts=False))
        name_ends(table)
        self._name(table)
        return table

    def distributions(
        self, *, by: By = "queue", bucket_ns: int | None = None, **filters: Unpack[QueueFilters]
    ) -> list[Distribution]:
        """Histograms of values by measure and place, with quantiles.

        A time window includes all periods that overlap it, also the current one; `since_ns` and `until_ns` of
        the result state the time that is covered. `by`: one histogram for each queue, port or switch, or for
        the whole network. End-to-end latency has no place, and is left out if the filters name a place.
        With `bucket_ns`, there is a histogram for each bucket (counted from the epoch), the oldest first, of
        the periods that begin in it.
        """
        window = Window.of(filters)
        return self._ask(
            lambda periods, cursor: read(periods.select(cursor), cursor, window, by, bucket_ns),
            lambda: self._source.periods(window),
        )

    def sql(
        self,
        text: str,
        *,
        limit: int = 10_000,
        seconds: float = 10.0,
        memory_bytes: int = 512 * 1024**2,
        stop: threading.Event | None = None,
    ) -> Table:
        """One SELECT over the view `events`, at most `limit` rows, in a process of its own.

        The process can only read the folders of segments and distributions, and is limited to `seconds` and
        `memory_bytes`, see `sandbox.query`. It is killed when `stop` is set.
        """
        self._check_open()
        source = folder_source(self.folder, *self._source.check(), self._member)
        return self._sandbox.run(
            text, source, limit=limit, seconds=seconds, memory_bytes=memory_bytes, stop=stop
        )

    def parquet(
        self,
        text: str,
        *,
        limit: int = 10_000,
        seconds: float = 10.0,
        memory_bytes: int = 512 * 1024**2,
        stop: threading.Event | None = None,
    ) -> ParquetFile:
        """The answer of `sql` as a Parquet file."""
        self._check_open()
        source = folder_source(self.folder, *self._source.check(), self._member)
        return self._sandbox.parquet(
            text, source, limit=limit, seconds=seconds, memory_bytes=memory_bytes, stop=stop
        )

    def _check_open(self) -> None:
        if self._closed:
            raise HistoryError(f"history of {self.folder} is closed: open it again")

    def sums_of(
        self, ids: FlowIdSet, inside: bool = True, *, limit: int | None = 1000, **filters: Unpack[Filters]
    ) -> Table:
        """The rows of `flows` for these flows, or (not `inside`) for all other flows, with the addresses as
        numbers (`src_hi`, `src_lo` …) instead of texts.
        """
        return self._grouped(self._flows_sql(), limit, filters, of_records(filters), (ids, inside), _SUMS)

    def _grouped(
        self,
        select: str,
        limit: int | None,
        filters: Filters,
        recorded: Filters | None = None,
        chosen: tuple[FlowIdSet, bool] | None = None,
        described: Sequence[tuple[str, str]] | None = None,
        *,
        given: Mapping[str, npt.NDArray[Any]] | None = None,
    ) -> Table:
        """Run a SELECT over EVENTS, the events that match `filters`; RECORDED, those that match `recorded`;
        and GIVEN, rows of these columns.

        `chosen`: only events of these flows (True), or of all other flows (False); `described`: as in
        `fetch`.
        """

        def ask(snapshot: Snapshot, cursor: duckdb.DuckDBPyConnection) -> Table:
            snapshot = self._source.undamaged(snapshot)
            if given is not None:
                cursor.register("GIVEN", dict(given))
            every, selected = _EVERY, None
            if chosen is not None:
                cursor.register("chosen", {"id": chosen[0].ids})
                within = "IN" if chosen[1] else "NOT IN"
                every = f"SELECT * FROM ({_EVERY}) WHERE flow_id {within} (SELECT id FROM chosen)"
                selected = partial(_of_flows, *chosen)
            statement = self._selected(select, every, filters, recorded, lambda: snapshot.long_paths(cursor))
            known = snapshot.select(cursor, named_in(statement), selected=selected)
            statement = statement.replace(_EVERY, known)
            table = fetch(cursor, statement, limit, described)
            return self._with_long_paths(table, snapshot, cursor) if "path" in table.columns else table

        criteria = criteria_of(filters if recorded is None else recorded)
        if chosen is not None and chosen[1] and len(chosen[0]) <= _MAX_KEYS:
            ids = tuple(flow_key(flow_id) for flow_id in chosen[0].ids.tolist())
            criteria = replace(criteria, keys=(*criteria.keys, ids))
        texts = recorded is None  # statements with RECORDED read addresses as numbers
        return self._ask(ask, lambda: self._source.snapshot(criteria, texts))

    def _with_long_paths(self, table: Table, snapshot: Snapshot, cursor: duckdb.DuckDBPyConnection) -> Table:
        """Complete long paths: add the nodes in their further records to the row of their first record."""

        def find(table: Table, rows: npt.NDArray[np.intp]) -> str | None:
            shards, later = table["shard"][rows], table["sequence"][rows] + np.uint64(1)
            holding = snapshot.holding(Sequences(shards, later), MAX_RECORDS)
            return self._source.undamaged(self._source.chunks(holding)).long_paths(cursor)

        return add_long_paths(table, cursor, LOCAL.shard, find)

    def _keep(self, paths: list[Path], cursor: duckdb.DuckDBPyConnection) -> None:
        """Let DuckDB keep the footers of these segments, unless they are many. A new DuckDB forgets all."""
        few = len(paths) <= _MAX_KEPT // 4
        cursor.execute(f"SET parquet_metadata_cache = {few}")
        self._kept.update(paths if few else ())
        if len(self._kept) > _MAX_KEPT:
            self._kept.clear()
            self._connection = self._connect()  # running queries have cursors of the one before

    def _ask(
        self, ask: Callable[[Files, duckdb.DuckDBPyConnection], Result], look: Callable[[], Files]
    ) -> Result:
        """Query the snapshot that `look` takes; take another one if a file was deleted or found damaged."""
        self._check_open()
        for attempt in range(_TRIES):
            snapshot = look()
            with self._connection.cursor() as cursor:
                try:
                    return ask(snapshot, cursor)
                except (duckdb.OutOfMemoryException, duckdb.InterruptException) as error:
                    raise TooLargeError(f"the query needs too much memory: {first_line(error)}") from error
                except duckdb.Error as error:
                    if attempt == _TRIES - 1:
                        raise HistoryError(first_line(error)) from error
                    self._source.blame(snapshot.paths, error)
        raise AssertionError


def _of_flows(ids: FlowIdSet, inside: bool, events: Records) -> npt.NDArray[np.bool_]:
    """bool [events]: which events belong to these flows, or (not `inside`) to other flows."""
    found: npt.NDArray[np.bool_] = ids.has(events["flow_id"]) == inside
    return found
