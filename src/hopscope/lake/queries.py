"""Queries of history over the lake, and over members' events that it does not have yet; each event counts
once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Unpack

import duckdb
import numpy as np
import numpy.typing as npt

from ..base.deadline import Deadline
from ..base.names import Names
from ..detect.records import EVENT, PATH_PART
from ..history.columns import COLUMNS
from ..history.errors import HistoryError
from ..history.reading.event_queries import EventQueries, Identity
from ..history.reading.filters import Filters, to_ns
from ..history.reading.long_paths import add_long_paths
from ..history.reading.page import Order
from ..history.reading.table import Table, fetch
from ..history.sandbox.files import NAMES, of_member
from ..wire.records import Records
from .cursor import ClusterCursor, order_sql
from .reader import LakeReader
from .snapshot import LakeSnapshot

MEMBERS = Identity(
    ("member", "incarnation", "shard"), ("src_hi", "src_lo", "dst_hi", "dst_lo", "sport", "dport", "proto")
)
"""The columns for several data folders. A flow is identified by its 5-tuple, because its hash is keyed, and
so differs between members."""
DESCRIBED = [("member", "VARCHAR"), *COLUMNS, ("incarnation", "VARCHAR")]
_KEY = f"time, {MEMBERS.event}"
_LISTED = 1000
"""Up to this many rows are fetched by a list of their sequences, so that DuckDB
skips the rows between them.
"""
_FURTHER = f"metric = 'flow_path' AND hop >= {PATH_PART}"
_EVERY = "SELECT * FROM everything"


@dataclass(frozen=True, slots=True)
class TailRequest:
    """The events to request from members: those after their marks that match, and all records of long paths.
    A member may send more.
    """

    filters: Filters
    columns: frozenset[str] = frozenset(name for name, _ in COLUMNS)
    """The columns of history that are needed."""
    order: Order = "newest"
    limit: int | None = None
    """Only the first events in this order …"""
    after: ClusterCursor | None = None
    """… that come after this event."""


@dataclass(frozen=True, slots=True)
class Tail:
    """Events of one member after its marks."""

    member: str
    incarnation: str
    events: Records


Tails = Callable[[LakeSnapshot, TailRequest], list[Tail]]
"""Requests events from the members."""


@dataclass
class LakeQueries(EventQueries):
    """Queries of the events of all members. Every method may raise HistoryError and LakeError."""

    reader: LakeReader
    tails: Tails
    names: Names | None = None
    deadline: Deadline | None = None
    """Deadline for the snapshot and the tails; reading them has no time limit."""
    identity: Identity = field(default=MEMBERS, init=False)

    def events(
        self,
        *,
        limit: int | None = 1000,
        order: Order = "newest",
        after: str | None = None,
        **filters: Unpack[Filters],
    ) -> Table:
        """See `EventQueries`; ordered by time, then by member, shard, sequence and incarnation."""
        cursor = None if after is None else ClusterCursor.parse(after)
        by, rows = order_sql(order), "" if limit is None else f"LIMIT {limit + 1}"
        matching = self._where(filters, lambda: _further(filters))
        requested = filters
        if cursor is not None:
            matching += f" AND {cursor.sql(order)}"
            requested = cursor.limited(filters, order)
        # First the keys of the rows are selected, then the rows, so that few columns of large files are read.
        # With a LIMIT in each arm, materialized, DuckDB skips files that cannot have the first rows.
        arms = {
            f"some_{source}": f"SELECT {_KEY} FROM {source} WHERE {matching} ORDER BY {by} {rows}"
            for source in ("of_lake", "of_members")
        }
        first = ", ".join(f"{name} AS MATERIALIZED ({arm})" for name, arm in arms.items())
        both = " UNION ALL ".join(f"SELECT * FROM {name}" for name in arms)
        keys = f"WITH {first} SELECT * FROM ({both}) ORDER BY {by} {rows}"
        request = TailRequest(
            requested, order=order, limit=None if limit is None else limit + 1, after=cursor
        )
        table = self._asked(request, partial(_page, keys, by, limit))
        self._name(table)
        return table

    def _grouped(
        self,
        select: str,
        limit: int | None,
        filters: Filters,
        recorded: Filters | None = None,
        *,
        given: Mapping[str, npt.NDArray[Any]] | None = None,
    ) -> Table:
        assert given is None  # rows of one member
        statement = self._selected(select, _EVERY, filters, recorded, lambda: _further(filters))
        requested = filters if recorded is None else recorded
        return self._asked(
            TailRequest(requested, _named_columns(statement)), partial(_rows, statement, limit)
        )

    def _asked(self, request: TailRequest, find: Callable[[_Ready], Table]) -> Table:
        if request.filters.get("since"):
            raise HistoryError("since: sequences are those of one member, not of a cluster")
        return self.reader.ask(
            lambda snapshot: self.tails(snapshot, request), partial(_read, find), self.deadline
        )


@dataclass(frozen=True, slots=True)
class _Ready:
    """A snapshot and the tails of the members, ready for SELECTs."""

    cursor: duckdb.DuckDBPyConnection
    snapshot: LakeSnapshot
    tails: str

    def fetch(self, select: str, limit: int | None, described: list[tuple[str, str]] | None = None) -> Table:
        """Run a SELECT over `of_lake`, `of_members`, and `everything`, which is both."""
        return fetch(self.cursor, self._over(select), limit, described)

    def keys(self, select: str) -> list[tuple[Any, ...]]:
        """Rows of a SELECT of _KEY, with the time in ns since the epoch."""
        columns = _KEY.replace("time", "epoch_ns(time)::BIGINT", 1)
        return self.cursor.execute(self._over(f"SELECT {columns} FROM ({select})")).fetchall()

    def page(self, keys: list[tuple[Any, ...]], by: str) -> Table:
        """The rows with these keys, ordered by `by`."""
        if not keys:
            return self.fetch(f"SELECT {NAMES} FROM everything WHERE false", None, DESCRIBED)
        times, members, incarnations, shards, sequences = zip(*keys, strict=True)
        page = {
            "member": np.array(members),
            "incarnation": np.array(incarnations),
            "shard": np.array(shards, np.uint16),
            "sequence": np.array(sequences, np.uint64),
        }
        self.cursor.register("page", page)
        within = f"sequence BETWEEN {min(sequences)} AND {max(sequences)}"
        if len(keys) <= _LISTED:
            within = f"sequence IN ({', '.join(map(str, sequences))})"
        return self.fetch(
            f"""SELECT {NAMES} FROM everything SEMI JOIN page USING ({MEMBERS.event})
            WHERE time BETWEEN make_timestamp_ns({min(times)}) AND make_timestamp_ns({max(times)})
            AND {within} ORDER BY {by}""",
            None,
            DESCRIBED,
        )

    def with_long_paths(self, table: Table) -> Table:
        """The table, with its long paths completed from their further records."""

        def find(table: Table, rows: npt.NDArray[np.intp]) -> str:
            times = table["time"][rows].astype(np.int64)
            window: Filters = {"start": int(times.min()), "end": int(times.max()) + 1}
            return self._over(_further(window))

        return add_long_paths(table, self.cursor, MEMBERS.shard, find)

    def _over(self, select: str) -> str:
        return (
            f"WITH of_lake AS NOT MATERIALIZED ({self.snapshot.events}),"
            f" of_members AS NOT MATERIALIZED ({self.tails}),"
            " everything AS NOT MATERIALIZED (SELECT * FROM of_lake UNION ALL SELECT * FROM of_members)"
            f" SELECT * FROM ({select})"
        )


def _read(
    find: Callable[[_Ready], Table],
    cursor: duckdb.DuckDBPyConnection,
    snapshot: LakeSnapshot,
    tails: list[Tail],
) -> Table:
    return find(_Ready(cursor, snapshot, register_tails(cursor, tails)))


def _page(keys: str, by: str, limit: int | None, ready: _Ready) -> Table:
    """At most `limit` rows whose keys the SELECT `keys` finds, with the argument for the next page."""
    found = ready.keys(keys)
    table = ready.page(found if limit is None else found[:limit], by)
    if limit is not None and len(found) > limit:
        table.truncated = True
        table.after = str(ClusterCursor.last(table)) if limit else None
    return ready.with_long_paths(table)


def _rows(statement: str, limit: int | None, ready: _Ready) -> Table:
    table = ready.fetch(statement, limit)
    return ready.with_long_paths(table) if "path" in table.columns else table


def register_tails(connection: duckdb.DuckDBPyConnection, tails: list[Tail]) -> str:
    """A SELECT of the tails' events, with the columns NAMES; registers them with the connection."""
    filled = [tail for tail in tails if len(tail.events)] or [Tail("", "", np.empty(0, EVENT))]
    selects = []
    for number, tail in enumerate(filled):
        selects.append(of_member(connection, f"tail_{number}", tail.member, tail.incarnation, tail.events))
    return " UNION ALL ".join(selects)


def _further(filters: Filters) -> str:
    """A SELECT of all further records of long paths in a time range; they have the
    time of the first record.
    """
    start, end = filters.get("start"), filters.get("end")
    since = "" if start is None else f" AND time >= make_timestamp_ns({to_ns(start)})"
    until = "" if end is None else f" AND time < make_timestamp_ns({to_ns(end)})"
    return f"{_EVERY} WHERE {_FURTHER}{since}{until}"


def _named_columns(statement: str) -> frozenset[str]:
    """The columns of history that a statement names."""
    words = set(re.findall(r"\w+", statement))
    return frozenset(name for name, _ in COLUMNS if name in words)
