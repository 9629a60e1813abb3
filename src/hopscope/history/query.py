"""Queries of history: DuckDB over segments and journals, each event once, while others write."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, Unpack, cast

import duckdb
import numpy as np
import numpy.typing as npt

from ..base.names import Names
from ..detect.distributions.quantiles import By, Distribution
from ..detect.records import PATH_PART, Metric
from ..wire.address import address
from .columns import connect
from .distributions import PeriodSnapshot, Window, read
from .files import HistoryError
from .filters import HEAD, Filters, Flow, to_ns, wanted, where
from .page import Order, Page
from .sandbox import Sandbox
from .segments import first_line
from .source import HistorySource, Snapshot
from .table import Table, fetch

__all__ = ["Filters", "Flow", "History", "HistoryError", "Table"]

Result = TypeVar("Result")
Files = TypeVar("Files", Snapshot, PeriodSnapshot)
_TRIES = 20
"""Snapshots tried while the archive replaces segments during a query."""
_MOST_RECORDS = 255 // PATH_PART
"""Further records of a path, at most."""
_MOST_RANGES = 200
_OF_HOP = "kind = 'flow_record' AND metric = 'hop_latency'"
_RECORDS = """SELECT flow_id, sum(packets)::UBIGINT AS packets,
    (sum(packets * latency::DOUBLE) / sum(packets) FILTER (latency IS NOT NULL)) AS mean_latency FROM (
        SELECT flow_id, max(value) FILTER (metric = 'flow_path') AS packets,
        max(value) FILTER (metric = 'flow_latency') AS latency
        FROM RECORDED WHERE kind = 'flow_record' GROUP BY flow_id, time, shard)
    GROUP BY flow_id"""
"""Sums of the flow records of each flow: one record has one time."""
_OF_FLOWS = ("start", "end", "flow", "prefix", "since")
"""Filters that keep all events of a flow's record, or none."""
_FLOW = ", ".join(f"any_value({part}) AS {part}" for part in ("src", "dst", "sport", "dport", "proto"))


class History:
    """The events of the data folder `folder`. Threads may share one.

    `names` adds the columns `node` and `port_name`.  `memory_bytes` and `threads` limit its queries.
    HistoryError (of every method): one line that says what to do.
    """

    def __init__(
        self,
        folder: Path | str,
        names: Names | None = None,
        *,
        memory_bytes: int = 1024**3,
        threads: int | None = None,
    ) -> None:
        self.folder = Path(folder)
        self.names = names
        self._source = HistorySource(self.folder)
        self._sandbox = Sandbox(self.folder)
        self._connection = connect(memory_bytes, threads or min(4, os.cpu_count() or 1))

    @property
    def problems(self) -> list[str]:
        """A line for each file that is skipped because it is damaged."""
        return [str(error) for error in self._source.damaged.values()]

    def close(self) -> None:
        """Close DuckDB, and end SQL queries."""
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
        """Events, at most `limit`, by time (then shard and sequence), or by shard and sequence.

        For the next page, repeat the call with `after=table.after`.
        """
        page = Page(order, limit, after)

        def ask(snapshot: Snapshot, cursor: duckdb.DuckDBPyConnection) -> Table:
            def search(batch: Snapshot) -> None:
                def long_paths() -> str | None:
                    return self._source.undamaged(snapshot.near(batch)).long_paths(cursor)

                page.search(batch, f"{where(filters, long_paths)} AND {HEAD}", cursor)

            for batch in page.batches(snapshot):
                search(self._source.undamaged(batch))
            return _with_long_paths(page.fetch(snapshot, cursor), snapshot, cursor)

        table = self._ask(ask, lambda: self._source.snapshot(page.limited(wanted(filters)), long=False))
        _complete(table)
        self._name(table)
        return table

    def flows(self, *, limit: int | None = 1000, **filters: Unpack[Filters]) -> Table:
        """Flows with events, newest first: 5-tuple, first and last time, numbers of events by kind.

        The sums of its flow records: `packets`, `mean_latency` (of packets), and the hop with the highest
        mean latency, `worst_node_id`, `worst_port`, `worst_latency`, of those that match; NULL while the flow
        is live.  A flow that left and returned has several records.
        """
        whole = cast(Filters, {name: value for name, value in filters.items() if name in _OF_FLOWS})
        table = self._grouped(
            f"""SELECT flow_id, {_FLOW}, min(time) AS first, max(time) AS last, count(*) AS events,
            count(*) FILTER (kind = 'path_change') AS path_changes, count(*) FILTER (kind = 'drop') AS drops,
            max(value) FILTER (metric = 'flow_latency' AND kind NOT IN ('flow_record', 'cleared'))
                AS highest_latency,
            any_value(r.packets) AS packets, any_value(r.mean_latency) AS mean_latency,
            arg_max(node_id, value) FILTER ({_OF_HOP}) AS worst_node_id,
            arg_max(port, value) FILTER ({_OF_HOP}) AS worst_port,
            max(value) FILTER ({_OF_HOP}) AS worst_latency
            FROM EVENTS LEFT JOIN ({_RECORDS}) r USING (flow_id) WHERE flow_id IS NOT NULL
            GROUP BY flow_id ORDER BY last DESC, flow_id""",
            limit,
            filters,
            whole,
        )
        self._name(table, "worst_")
        return table

    def paths(self, *, limit: int | None = 1000, **filters: Unpack[Filters]) -> Table:
        """Paths of flows over time, oldest first, with the kind of event that stored each."""
        return self._grouped(
            """SELECT time, kind, flow_id, src, dst, sport, dport, proto, path, shard, sequence
            FROM EVENTS WHERE path IS NOT NULL ORDER BY time, shard, sequence""",
            limit,
            filters,
        )

    def summary(self, *, bucket_seconds: float | None = None, **filters: Unpack[Filters]) -> Table:
        """Events by kind and metric; with `bucket_seconds` also by time, in buckets from the epoch on."""
        bucket = by = ""
        if bucket_seconds is not None:
            ns = int(bucket_seconds * 1e9)
            if ns <= 0:
                raise HistoryError("a bucket must be longer than 0 s")
            bucket, by = f"make_timestamp_ns(epoch_ns(time) // {ns} * {ns}) AS bucket,", "bucket,"
        return self._grouped(
            f"""SELECT {bucket} kind, metric, count(*) AS events, min(time) AS first, max(time) AS last
            FROM EVENTS GROUP BY {by} kind, metric ORDER BY {by} events DESC, kind, metric""",
            None,
            filters,
        )

    def hops(self, *, limit: int | None = 100, **filters: Unpack[Filters]) -> Table:
        """Hops by the highest latency of their events: node, port, events, highest and mean value (ns)."""
        table = self._grouped(
            """SELECT node_id, port, count(*) AS events, max(value) AS highest, avg(value) AS mean,
            arg_max(time, value) AS time
            FROM EVENTS WHERE metric = 'hop_latency' AND kind != 'cleared'
            GROUP BY node_id, port ORDER BY highest DESC, node_id, port""",
            limit,
            filters,
        )
        self._name(table)
        return table

    def peaks(self, metric: str, *, limit: int | None = 100, **filters: Unpack[Filters]) -> Table:
        """Places by the highest value of a metric in their events: node, port, ident (queue), highest."""
        return self._grouped(
            f"""SELECT node_id, port, ident, max(value) AS highest
            FROM EVENTS WHERE metric = '{Metric[metric.upper()].label}' AND node_id IS NOT NULL
            AND kind NOT IN ('flow_record', 'cleared')
            GROUP BY node_id, port, ident ORDER BY highest DESC, node_id, port, ident""",
            limit,
            filters,
        )

    def labels(self, *, limit: int | None = 1000, **filters: Unpack[Filters]) -> Table:
        """Labels by port and period, newest first: number, mean and highest latency (ns), queue (bytes)."""
        values = ", ".join(
            f"max({column}) FILTER (metric = '{metric}') AS {name}"
            for metric, name, highest in (
                ("label_latency", "latency_ns", "highest_latency_ns"),
                ("label_occupancy", "occupancy", "highest_occupancy"),
            )
            for column, name in (("value", name), ("previous", highest))
        )
        table = self._grouped(
            f"""SELECT time, node_id, port, max(ident) AS labels, {values}
            FROM EVENTS WHERE kind = 'label_record' AND port IS NOT NULL
            GROUP BY time, node_id, port ORDER BY time DESC, node_id, port""",
            limit,
            filters,
        )
        self._name(table)
        return table

    def coverage(self, *, limit: int | None = 1000, **filters: Unpack[Filters]) -> Table:
        """Coverage of labels by period, newest first: telemetry intervals with traffic, mean and lowest."""
        return self._grouped(
            """SELECT time, ident AS intervals, value / 1e6 AS coverage, previous / 1e6 AS lowest
            FROM EVENTS WHERE kind = 'label_record' AND metric = 'label_coverage' ORDER BY time DESC""",
            limit,
            filters,
        )

    def distributions(
        self,
        *,
        start: int | datetime | None = None,
        end: int | datetime | None = None,
        nodes: Collection[int] = (),
        ports: Collection[int] = (),
        queues: Collection[int] = (),
        measures: Collection[str] = (),
        by: By = "queue",
    ) -> list[Distribution]:
        """Histograms of values by measure and place, with quantiles.

        A time window includes all periods that overlap it, also the current one; `since_ns` and `until_ns`
        have the time covered.  `by` queue, port, switch, or over the network; end-to-end latency has no
        place, and is left out if one is given.
        """
        start_ns, end_ns = (None if moment is None else to_ns(moment) for moment in (start, end))
        window = Window(start_ns, end_ns, nodes, ports, queues, measures)
        return self._ask(
            lambda periods, cursor: read(periods.select(cursor), cursor, window, by),
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

        That process can only read the folder of segments, cannot write, and is limited to `seconds` and
        `memory_bytes`: see `sandboxed_query`.  It is killed when `stop` is set.
        """
        damaged, checked = self._source.check()
        return self._sandbox.run(
            text, damaged, checked, limit=limit, seconds=seconds, memory_bytes=memory_bytes, stop=stop
        )

    def _grouped(
        self, select: str, limit: int | None, filters: Filters, recorded: Filters | None = None
    ) -> Table:
        """Run a SELECT over EVENTS, the filtered events, and RECORDED, those of fewer filters."""

        def ask(snapshot: Snapshot, cursor: duckdb.DuckDBPyConnection) -> Table:
            snapshot = self._source.undamaged(snapshot)

            def kept(chosen: Filters, events: str) -> str:
                condition = f"{where(chosen, lambda: snapshot.long_paths(cursor))} AND {HEAD}"
                return f"SELECT * FROM {events} WHERE {condition}"

            every = f"({snapshot.select(cursor)})"
            views = f"EVENTS AS ({kept(filters, every)})"
            if recorded is not None:
                views = f"RECORDED AS ({kept(recorded, every)}), EVENTS AS ({kept(filters, 'RECORDED')})"
            table = fetch(cursor, f"WITH {views} {select}", limit)
            return _with_long_paths(table, snapshot, cursor) if "path" in table.columns else table

        read = filters if recorded is None else recorded
        return self._ask(ask, lambda: self._source.snapshot(wanted(read)))

    def _ask(
        self, ask: Callable[[Files, duckdb.DuckDBPyConnection], Result], look: Callable[[], Files]
    ) -> Result:
        """Query the snapshot that `look` takes; another one if a file disappeared, or was found damaged."""
        for attempt in range(_TRIES):
            snapshot = look()
            with self._connection.cursor() as cursor:
                try:
                    return ask(snapshot, cursor)
                except (duckdb.OutOfMemoryException, duckdb.InterruptException) as error:
                    raise HistoryError(f"the query needs too much memory: {first_line(error)}") from error
                except duckdb.Error as error:
                    if attempt == _TRIES - 1:
                        raise HistoryError(first_line(error)) from error
                    self._source.blame(snapshot.paths, error)
        raise AssertionError

    def _name(self, table: Table, prefix: str = "") -> None:
        """Add names of nodes and ports, if there are any; `prefix`: of their columns."""
        if not self.names:
            return
        nodes: list[Any] = table[f"{prefix}node_id"].tolist()
        ports: list[Any] = table[f"{prefix}port"].tolist()
        node = [None if n is None else self.names.node(n) for n in nodes]
        port = [
            None if n is None or p is None else self.names.port(n, p)
            for n, p in zip(nodes, ports, strict=True)
        ]
        table.columns[f"{prefix}node"] = _texts(node)
        table.columns[f"{prefix}port_name"] = _texts(port)


def _with_long_paths(table: Table, snapshot: Snapshot, cursor: duckdb.DuckDBPyConnection) -> Table:
    """Add the further records of long paths to the rows that begin them."""
    paths, shards, sequences = (table[name].tolist() for name in ("path", "shard", "sequence"))
    places = {
        (shard, sequence): at
        for at, (path, shard, sequence) in enumerate(zip(paths, shards, sequences, strict=True))
        if path is not None and len(path) == PATH_PART
    }
    if not places:
        return table
    later = np.array([(shard, sequence + 1) for shard, sequence in places], np.uint64)
    ends = later + np.array([0, _MOST_RECORDS], np.uint64)
    found = snapshot.holding(*np.concatenate([later, ends]).T).long_paths(cursor)
    if found is None:
        return table
    first = f"(shard, sequence - hop // {PATH_PART})"
    parts = cursor.execute(
        f"""SELECT shard, sequence - hop // {PATH_PART}, path FROM ({found}) WHERE NOT {HEAD}
        AND {_within(later[:, 1])}
        AND {first} IN (SELECT unnest($shards::USMALLINT[]), unnest($sequences::UBIGINT[])) ORDER BY hop""",
        {"shards": [shard for shard, _ in places], "sequences": [sequence for _, sequence in places]},
    ).fetchall()
    for shard, sequence, path in parts:
        at = places[shard, sequence]
        paths[at] = np.append(paths[at], np.array(path, np.uint32))
    column = np.empty(len(paths), object)
    for at, path in enumerate(paths):
        column[at] = path
    table.columns["path"] = np.ma.masked_array(column, mask=[path is None for path in paths])
    return table


def _within(begins: npt.NDArray[np.uint64]) -> str:
    """A condition for the sequences of further records that begin at one of `begins`."""
    ends = begins + np.uint64(_MOST_RECORDS)
    if len(begins) > _MOST_RANGES:
        return f"sequence BETWEEN {begins.min()} AND {ends.max()}"
    ranges = zip(begins.tolist(), ends.tolist(), strict=True)
    return f"({' OR '.join(f'sequence BETWEEN {begin} AND {end}' for begin, end in ranges)})"


def _complete(table: Table) -> None:
    """Add the addresses that SQL left out: IPv6 in journals."""
    for side in ("src", "dst"):
        hi, lo = table[f"{side}_hi"], table[f"{side}_lo"]
        texts = table[side].tolist()
        for i in np.flatnonzero(np.ma.getmaskarray(table[side]) & ((hi | lo) != 0)).tolist():
            texts[i] = address(int(hi[i]), int(lo[i]))
        table.columns[side] = _texts(texts)


def _texts(values: list[str | None]) -> Any:
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column
