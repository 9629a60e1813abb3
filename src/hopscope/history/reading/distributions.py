"""Distributions of a time window, from the files of periods and the workers' counts since the last period."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb
import numpy as np

from ...detect.distributions.quantiles import VIEWS, By, Distribution
from ...detect.distributions.reader import ShardCounts, attach, copy_region, shard_of
from ...detect.distributions.region import KIND
from ...detect.records import BINS, DISTRIBUTED, DISTRIBUTION
from ...detect.sink.records import MEASURES, Measure
from ...memory.region import RegionError
from ..columns import quoted
from ..errors import HistoryError
from ..files.period_files import NAMES, Period, list_files, register
from ..files.period_note import read_note
from ..files.segments import parquet_sql
from .filters import QueueFilters, to_ns
from .table import fetch

_PLACES = ("node_id", "port", "queue_id")


@dataclass(frozen=True, slots=True)
class Window:
    """Filters of distributions, all of which must match."""

    start_ns: int | None = None
    """Only periods that end after this time."""
    end_ns: int | None = None
    """Only periods that begin before this time."""
    nodes: Collection[int] = ()
    ports: Collection[int] = ()
    queues: Collection[int] = ()
    measures: Collection[str] = ()

    @classmethod
    def of(cls, filters: QueueFilters) -> Window:
        """The window that these filters describe."""
        times = (filters.get("start"), filters.get("end"))
        start_ns, end_ns = (None if moment is None else to_ns(moment) for moment in times)
        nodes, ports, queues = filters.get("nodes", ()), filters.get("ports", ()), filters.get("queues", ())
        return cls(start_ns, end_ns, nodes, ports, queues, filters.get("measures", ()))

    def when(self) -> str:
        """The SQL condition on periods."""
        terms = ["true"]
        if self.start_ns is not None:
            terms.append(f'"until" > make_timestamp_ns({self.start_ns})')
        if self.end_ns is not None:
            terms.append(f"since < make_timestamp_ns({self.end_ns})")
        return " AND ".join(terms)

    def where(self) -> str:
        """The SQL condition on places and measures. HistoryError: an unknown measure."""
        terms = ["true"]
        known = [measure.label for measure in Measure]
        for name in self.measures:
            if name not in known:
                raise HistoryError(f"unknown measure {name!r}: expected one of {', '.join(known)}")
        if self.measures:
            terms.append(f"measure IN ({', '.join(map(quoted, self.measures))})")
        for column, numbers in zip(_PLACES, (self.nodes, self.ports, self.queues), strict=True):
            if numbers:
                terms.append(f"{column} IN ({', '.join(str(int(number)) for number in numbers)})")
        return " AND ".join(terms)


EVERYTHING = Window()


@dataclass(frozen=True, slots=True)
class PeriodSnapshot:
    """All periods at one moment, each contained once."""

    paths: list[Path]
    """Files of periods."""
    live: list[tuple[ShardCounts, Period]]
    """The workers' counts since the last period in files."""

    def select(self, connection: duckdb.DuckDBPyConnection) -> str:
        """A SELECT of all periods, with period_files.COLUMNS; registers the live
        counts with the connection.
        """
        parts = [register(connection, f"live_{counts.shard}", counts, period) for counts, period in self.live]
        if self.paths:
            newer = " OR ".join(
                f"(shard = {period.shard} AND generation = {counts.generation} AND number >= {period.number})"
                for counts, period in self.live
            )
            parts.append(f"SELECT {NAMES} FROM {parquet_sql(self.paths)} WHERE NOT ({newer or 'false'})")
        if not parts:
            parts.append(register(connection, "live_none", _NOTHING, Period(0, 0, 0, 0)))
        return " UNION ALL ".join(parts)


def snapshot(folder: Path, now_ns: int, window: Window = EVERYTHING) -> PeriodSnapshot:
    """Periods of a data folder. Workers' counts are copied before files are listed, so none is missed.

    HistoryError: a file or a region is not ours.
    """
    live = list(_live(folder, now_ns))
    paths = [
        file.path
        for file in list_files(folder)
        if (window.start_ns is None or file.until_ns > window.start_ns)
        and (window.end_ns is None or file.since_ns < window.end_ns)
    ]
    return PeriodSnapshot(paths, live)


def _live(folder: Path, now_ns: int) -> Iterator[tuple[ShardCounts, Period]]:
    """Counts of each region that are not in files, with the current period."""
    for path in sorted((folder / "regions").glob(f"worker-*.{KIND}")):
        try:
            shard = shard_of(path)
            note = read_note(path.parent, shard)
            counts = copy_region(attach(path), shard)
        except RegionError as error:
            if not path.exists():
                continue  # the collector has just stopped, and has written all counts to files
            raise HistoryError(str(error)) from error
        number, since_ns, change = 0, counts.made_ns, counts
        if note is not None and note.counts is not None and note.counts.generation == counts.generation:
            number, since_ns = note.number, note.until_ns
            change = counts.since(note.counts) or replace(counts, at=counts.at[:0], rows=counts.rows[:0])
        yield change, Period(shard, number, since_ns, max(now_ns, since_ns + 1))


_NOTHING = ShardCounts(
    0, 0, 0, np.empty(0, np.int64), np.empty(0, DISTRIBUTION),
    np.empty((0, DISTRIBUTED, BINS), np.uint64), np.zeros((MEASURES, BINS), np.uint64),
)  # fmt: skip


def read(
    select: str, cursor: duckdb.DuckDBPyConnection, window: Window, by: By, bucket_ns: int | None = None
) -> list[Distribution]:
    """The distributions of a window, merged for each queue, port or switch, or for the network. With
    `bucket_ns` there is one for each bucket of time, of the periods that begin in it, the oldest first.
    """
    places = _PLACES[: len(VIEWS) - 1 - VIEWS.index(by)]
    names = ["bucket", "measure", *places]
    key = ", ".join(names)
    bucket = "0" if bucket_ns is None else f"epoch_ns(since) // {bucket_ns}"
    every = f"(SELECT *, {bucket} AS bucket FROM ({select}) WHERE {window.when()})"
    periods = f"(SELECT * FROM {every} WHERE {window.where()})"
    covered = {
        at: (since_ns, until_ns)
        for at, since_ns, until_ns in cursor.execute(
            f'SELECT bucket, min(epoch_ns(since)), max(epoch_ns("until")) FROM {every} GROUP BY bucket'
        ).fetchall()
    }
    heads = fetch(
        cursor,
        f"""SELECT {key}, sum("sum") AS total, max(highest) AS highest FROM {periods}
        GROUP BY {key} ORDER BY {key}""",
        None,
    )
    bins = fetch(
        cursor,
        f"""SELECT {key}, low, high, sum(n)::UBIGINT AS n FROM (
        SELECT {key}, unnest(lower) AS low, unnest(upper) AS high, unnest(counts) AS n FROM {periods})
        GROUP BY {key}, low, high ORDER BY {key}, low, high""",
        None,
    )
    keys = list(zip(*(bins[name].tolist() for name in names), strict=True))
    starts = {k: at for at, k in reversed(list(enumerate(keys)))}
    begins = [starts[k] for k in zip(*(heads[name].tolist() for name in names), strict=True)]
    labels = {measure.label: measure for measure in Measure}
    found = []
    for row, first, end in zip(heads.rows(), begins, [*begins, len(keys)][1:], strict=True):
        since_ns, until_ns = covered[row["bucket"]]
        distribution = Distribution(
            labels[row["measure"]],
            bins["low"][first:end],
            bins["high"][first:end],
            bins["n"][first:end],
            sum=int(row["total"]),
            highest=int(row["highest"]),
            node=row.get("node_id"),
            port=row.get("port"),
            queue=row.get("queue_id"),
            since_ns=since_ns,
            until_ns=until_ns,
        )
        found.append((row["bucket"], distribution))
    found.sort(key=lambda pair: (pair[0], pair[1].measure))
    return [distribution for _, distribution in found]
