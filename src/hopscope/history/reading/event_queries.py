"""Queries of events. Each is one SELECT, which does not depend on where the events are read from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Unpack, cast

import numpy as np
import numpy.typing as npt

from ...base.names import Names
from ...detect.places import Place
from ...detect.records import MEASURED, Kind
from ...wire.address import address
from ..errors import HistoryError, TooLargeError
from .filters import HEAD, Filters, to_ns, where
from .highest import By, Highest, Part, highest_sql, listed_sql, sums_sql, values_sql
from .long_paths import LongPaths
from .map_sql import STEP_KINDS, VALUE_KINDS, activity_sql, moment_sql, steps_sql
from .page import Order
from .table import Table

_OF_HOP = "kind = 'flow_record' AND metric = 'hop_latency'"
_PARTS, _MAX_PARTS = 8, 64
"""If a query needs too much memory, it is split by switches into this many parts, then into the maximum."""
_OF_FLOWS = ("start", "end", "flow", "flows", "prefix", "since")
"""Filters that match either all events of a flow record, or none of them."""
_SWEPT = f"kind = 'push' OR (kind = 'cleared' AND reason NOT IN {MEASURED})"
"""Events of a flow that were not caused by a report, and so may be later than the last report."""
_ENDS = ("src_hi", "src_lo", "dst_hi", "dst_lo")


@dataclass(frozen=True, slots=True)
class Identity:
    """Columns that identify a shard, and a flow. The columns of the shard and
    `sequence` identify an event.
    """

    shard: tuple[str, ...]
    flow: tuple[str, ...]

    @property
    def event(self) -> str:
        """The columns that identify an event, in order, as SQL."""
        return ", ".join((*self.shard, "sequence"))


LOCAL = Identity(("shard",), ("flow_id",))
"""The columns for one data folder."""


class EventQueries(ABC):
    """Queries of events; a subclass, which reads the events, defines `events` and `_grouped`.

    `names` adds the columns `node` and `port_name`. Every method may raise HistoryError, with one line that
    says what to do.
    """

    identity: Identity = LOCAL

    def __init__(self, names: Names | None = None) -> None:
        self.names = names

    @abstractmethod
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

    def flows(self, *, limit: int | None = 1000, **filters: Unpack[Filters]) -> Table:
        """Flows with events, newest first: 5-tuple, first and last time (for a flow that has left the table,
        the time of its last report), numbers of events by kind, and `highest_latency`, the highest flow
        latency in its events; packets without an event may have had a higher one.

        Sums of its flow records: `packets`, `mean_latency` (of packets), and the hop with the highest mean
        latency in a matching record: `worst_node_id`, `worst_port`, `worst_latency`. They are NULL while the
        flow is live. A flow that left and returned has several records. In a cluster, members may give a
        flow different ids; `flow_id` is one of these.
        """
        table = self._grouped(self._flows_sql(), limit, filters, of_records(filters))
        _replace_ends(table)
        self._name(table, "worst_")
        return table

    def _flows_sql(self) -> str:
        """The statement of `flows`, with addresses as numbers: to format addresses of every event would take
        three times as long as everything else.
        """
        key = ", ".join(self.identity.flow)
        shown = ", ".join(
            name
            if name in self.identity.flow
            else f"{'max' if name == 'flow_id' else 'any_value'}({name}) AS {name}"
            for name in ("flow_id", *_ENDS, "sport", "dport", "proto")
        )
        record = ", ".join((*self.identity.flow, "time", *self.identity.shard))
        records = f"""SELECT {key}, sum(packets)::UBIGINT AS packets,
            (sum(packets * latency::DOUBLE) / sum(packets) FILTER (latency IS NOT NULL)) AS mean_latency
            FROM (SELECT {key}, max(value) FILTER (metric = 'flow_path') AS packets,
                max(value) FILTER (metric = 'flow_latency') AS latency
                FROM RECORDED WHERE kind = 'flow_record' GROUP BY {record})
            GROUP BY {key}"""
        if self.identity is not LOCAL:
            shown += ", list_sort(list(DISTINCT member)) AS members"
        return f"""SELECT * EXCLUDE (worst_node_id, worst_port, worst_latency),
            worst_node_id, worst_port, worst_latency
            FROM (SELECT {shown}, min(time) AS first,
                CASE WHEN max(time) FILTER (NOT ({_SWEPT})) = max(time) FILTER (kind = 'flow_record')
                    THEN max(time) FILTER (kind = 'flow_record') ELSE max(time) END AS last,
                count(*) AS events,
                count(*) FILTER (kind = 'path_change') AS path_changes,
                count(*) FILTER (kind = 'drop') AS drops,
                max(CASE kind WHEN 'flow_record' THEN greatest(value, previous) ELSE value END)
                    FILTER (metric = 'flow_latency' AND kind != 'cleared') AS highest_latency,
                arg_max(node_id, value) FILTER ({_OF_HOP}) AS worst_node_id,
                arg_max(port, value) FILTER ({_OF_HOP}) AS worst_port,
                max(value) FILTER ({_OF_HOP}) AS worst_latency
                FROM EVENTS WHERE flow_id IS NOT NULL GROUP BY {key})
            LEFT JOIN ({records}) USING ({key})
            ORDER BY last DESC, {key}"""

    def paths(self, *, limit: int | None = 1000, **filters: Unpack[Filters]) -> Table:
        """Paths of flows over time, oldest first, each with the kind of the event that stored it."""
        return self._grouped(
            f"""SELECT time, kind, flow_id, src, dst, sport, dport, proto, path, {self.identity.event}
            FROM EVENTS WHERE path IS NOT NULL ORDER BY time, {self.identity.event}""",
            limit,
            filters,
        )

    def summary(self, *, bucket_seconds: float | None = None, **filters: Unpack[Filters]) -> Table:
        """Events by kind and metric; with `bucket_seconds` also by time, in buckets
        counted from the epoch.
        """
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
        """Hops, ordered by the highest latency in their events: node, port, number of events, highest and
        mean value (ns), and the last time that the value was so high."""
        table = self._grouped(
            """SELECT node_id, port, count(*) AS events, max(value) AS highest, avg(value) AS mean,
            arg_max(time, (value, time)) AS time
            FROM EVENTS WHERE metric = 'hop_latency' AND kind != 'cleared'
            GROUP BY node_id, port ORDER BY highest DESC, node_id, port""",
            limit,
            _only(filters, metrics=["hop_latency"]),
        )
        self._name(table)
        return table

    def peaks(
        self,
        metric: str,
        *,
        bucket_ns: int | None = None,
        limit: int | None = 100,
        places: Collection[Place] = (),
        **filters: Unpack[Filters],
    ) -> Table:
        """Places, ordered by the highest value of a metric in their events: node, port, ident (queue or
        buffer), highest and lowest value, the latest value and its time, and the number of events. `drop` is
        a metric here: each drop report has the value 1. `places`: only these places.

        With `bucket_ns` also by time, in buckets counted from the epoch, the oldest first.
        """
        bucket, by, order = "NULL", "node_id, port, ident", "highest DESC"
        if bucket_ns is not None:
            if bucket_ns <= 0:
                raise HistoryError("a bucket must be longer than 0 s")
            bucket = f"make_timestamp_ns(epoch_ns(time) // {bucket_ns} * {bucket_ns})"
            by, order = f"bucket, {by}", "bucket"
        return self._grouped(
            f"""SELECT {by}, max(highest)::UBIGINT AS highest, min(value)::UBIGINT AS lowest,
            arg_max(value, (time, sequence))::UBIGINT AS latest, max(time) AS time, count(*) AS events
            FROM (SELECT *, {bucket} AS bucket FROM ({values_sql(metric)}){listed_sql(places)})
            GROUP BY {by} ORDER BY {order}, node_id, port, ident""",
            limit,
            _of_metric(filters, metric),
        )

    def highest(
        self,
        metric: str,
        *,
        by: By = "highest",
        limit: int = 100,
        more: Mapping[str, npt.NDArray[Any]] | None = None,
        **filters: Unpack[Filters],
    ) -> Highest:
        """The places with the highest values of a metric, or with the most events that have one, and the
        number of all places. Places without a value above 0 come last; see `peaks`.

        `more`: additional values that are not from events, in the columns `node_id`, `port`, `ident` (-1:
        unknown) and `value`.
        """
        return self._in_parts(
            lambda part: highest_sql(metric, by, part, with_more=more is not None),
            limit,
            _of_metric(filters, metric),
            by,
            more,
        )

    def sums(self, metric: str, *, limit: int | None = 100, **filters: Unpack[Filters]) -> Highest:
        """The places with the highest sums of `hop_latency` in their events (by switch and port), or with the
        most `drop` reports (by switch, port and queue); the sum over all places, and their number.
        """
        return self._in_parts(lambda part: sums_sql(metric, part), limit, _of_metric(filters, metric))

    def _in_parts(
        self,
        select: Callable[[Part], str],
        limit: int | None,
        filters: Filters,
        by: By = "highest",
        more: Mapping[str, npt.NDArray[Any]] | None = None,
    ) -> Highest:
        """The first places of a SELECT. A storm may have as many places as events: if they need too much
        memory, the switches are split into parts, which are queried one after another.
        """
        parts = 1
        while True:
            try:
                tables = [
                    self._grouped(select((part, parts)), limit, filters, given=more) for part in range(parts)
                ]
                return Highest.of(tables, by, limit)
            except TooLargeError:
                parts *= _PARTS
                if parts > _MAX_PARTS:
                    raise

    def labels(self, *, limit: int | None = 1000, **filters: Unpack[Filters]) -> Table:
        """Labels by port and period, newest first: number of labels; mean and highest latency (ns) and queue
        occupancy (bytes).
        """
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
            _only(filters, kinds=["label_record"]),
        )
        self._name(table)
        return table

    def coverage(self, *, limit: int | None = 1000, **filters: Unpack[Filters]) -> Table:
        """Coverage of labels by period, newest first: number of telemetry intervals with traffic, and the
        mean and lowest coverage in them.
        """
        return self._grouped(
            """SELECT time, ident AS intervals, value / 1e6 AS coverage, previous / 1e6 AS lowest
            FROM EVENTS WHERE kind = 'label_record' AND metric = 'label_coverage' ORDER BY time DESC""",
            limit,
            _only(filters, metrics=["label_coverage"]),
        )

    def moment(self, *, highest_from: int, **filters: Unpack[Filters]) -> Table:
        """Values of places at the end of the filters' time range: metric (or `drops`), node, port, last
        value, highest value since `highest_from` (ns), open alarms, time of the last event.
        """
        return self._grouped(moment_sql(highest_from), None, {**filters, "kinds": VALUE_KINDS})

    def steps(self, **filters: Unpack[Filters]) -> Table:
        """The next node behind each port, according to the paths of flows: node, port, next node, number of
        flows, and how many of them begin or end at the node.
        """
        sql = steps_sql(self.identity.shard, self.identity.flow)
        return self._grouped(sql, None, {**filters, "kinds": STEP_KINDS})

    def activity(self, metric: str, *, bucket_seconds: float, **filters: Unpack[Filters]) -> Table:
        """Notable events and the highest value of a metric (or the number of drops) over time, in buckets
        counted from the start of the filters' time range, or from the epoch if it has no start.
        """
        origin_ns = to_ns(filters.get("start") or 0)
        return self._grouped(activity_sql(bucket_seconds, metric, origin_ns), None, filters)

    @abstractmethod
    def _grouped(
        self,
        select: str,
        limit: int | None,
        filters: Filters,
        recorded: Filters | None = None,
        *,
        given: Mapping[str, npt.NDArray[Any]] | None = None,
    ) -> Table:
        """Run a SELECT over EVENTS, the events that match `filters`; RECORDED, those that match `recorded`;
        and GIVEN, rows of these columns.
        """

    def _selected(
        self, select: str, every: str, filters: Filters, recorded: Filters | None, long_paths: LongPaths
    ) -> str:
        """The statement that `_grouped` runs; `every` is a SELECT of all events, `long_paths` is as in
        `where`.
        """

        def table(name: str, chosen: Filters) -> str:
            where = self._where(chosen, long_paths)
            return f"{name} AS NOT MATERIALIZED (SELECT * FROM ({every}) WHERE {where})"

        tables = [table("EVENTS", filters)]
        if recorded is not None:  # if one were read from the other, DuckDB would hold all columns in memory
            tables.append(table("RECORDED", recorded))
        return f"WITH {', '.join(tables)} {select}"

    def _where(self, filters: Filters, long_paths: LongPaths) -> str:
        """The SQL condition of events that match; a long path matches only in its first record."""
        return f"{where(filters, long_paths, self.identity.shard)} AND {HEAD}"

    def _name(self, table: Table, prefix: str = "") -> None:
        """Add columns with the names of nodes and ports, if names are known.
        `prefix`: of all these columns.
        """
        if not self.names:
            return
        nodes: list[Any] = table[f"{prefix}node_id"].tolist()
        ports: list[Any] = table[f"{prefix}port"].tolist()
        node = [None if n is None else self.names.node(n) for n in nodes]
        port = [
            None if n is None or p is None else self.names.port(n, p)
            for n, p in zip(nodes, ports, strict=True)
        ]
        table.columns[f"{prefix}node"] = text_column(node)
        table.columns[f"{prefix}port_name"] = text_column(port)


def _of_metric(filters: Filters, metric: str) -> Filters:
    if metric == Kind.DROP.label:
        return _only(filters, kinds=[metric])
    return _only(filters, metrics=[metric])


def _only(filters: Filters, **conditions: Collection[str]) -> Filters:
    """The filters, and conditions that the SELECT has anyway: as filters, they let indexes rule out files."""
    return cast(Filters, {**conditions, **filters})


def of_records(filters: Filters) -> Filters:
    """Those of the filters that match either all events of a flow record, or none of them."""
    return cast(Filters, {name: value for name, value in filters.items() if name in _OF_FLOWS})


def _replace_ends(table: Table) -> None:
    """Replace the numbers of addresses by their texts."""
    columns = dict(table.columns)
    table.columns.clear()
    for name, column in columns.items():
        side, _, half = name.partition("_")
        if name not in _ENDS:
            table.columns[name] = column
        elif half == "hi":
            table.columns[side] = _address_texts(column, columns[f"{side}_lo"])


def name_ends(table: Table) -> None:
    """Add the texts of addresses to their numbers; None if the event has no flow."""
    for side in ("src", "dst"):
        high, low = table[f"{side}_hi"], table[f"{side}_lo"]
        texts = _address_texts(high, low)
        texts[(high | low) == 0] = None
        table.columns[side] = texts


def _address_texts(high: npt.NDArray[np.uint64], low: npt.NDArray[np.uint64]) -> npt.NDArray[np.object_]:
    """Texts of addresses [n]; each address is formatted once."""
    known, at = np.unique(np.stack([high, low], axis=1), axis=0, return_inverse=True)
    texts: npt.NDArray[np.object_] = text_column([address(*pair) for pair in known.tolist()])[at]
    return texts


def text_column(values: list[str | None]) -> Any:
    """A column of texts, as an array of objects."""
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column
