"""History of a cluster without a lake: every member asks its own, and the tables are merged.

A flow is known by its 5-tuple: its id is that of one member, and other members have other ids for it.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, Unpack

import numpy as np
import numpy.typing as npt

from ...base.deadline import Deadline
from ...detect.distributions.quantiles import By, Distribution, grouped
from ...detect.places import Place
from ...detect.records import Kind
from ...history.errors import HistoryError
from ...history.reading.distributions import Window
from ...history.reading.filters import Filters, QueueFilters
from ...history.reading.highest import By as HighestBy
from ...history.reading.highest import Highest, PlacePeak
from ...history.reading.map_sql import DROPS
from ...history.reading.page import Order
from ...history.reading.table import Table
from ...lake.cursor import ClusterCursor
from ..connection import ClusterError
from .client import REJECTED, QueryClient
from .cluster_answer import ClusterAnswer
from .history_query import MAX_FLOWS, TUPLE, FiltersModel, FlowModel, HistoryQuery, Method
from .parts import Answer
from .tables import Counts, Row, Rows, encode, read_any_rows, read_distributions, read_rows, table_of

F = TypeVar("F", Rows, Counts)
_HOP = ("node_id", "port")
MAX_DROPS = 100_000
"""Maximum number of drop reports that are counted."""


class MembersHistory:
    """See `history.history_like.HistoryLike`. If NATS is unreachable, answers are from `folder` alone."""

    def __init__(
        self, folder: Path, member: str, client: QueryClient, deadline: Deadline | None = None
    ) -> None:
        """`deadline`: a deadline that the caller has started; None: a new one for each query."""
        self.folder, self._member, self._client, self._deadline = folder, member, client, deadline
        self.answer = ClusterAnswer()
        """Who answered since it was opened."""
        self._problems: dict[str, tuple[str, ...]] = {}
        self._asked = False

    @property
    def problems(self) -> list[str]:
        """Damaged files, by member."""
        return [f"{member}: {line}" for member, lines in self._problems.items() for line in lines]

    def __enter__(self) -> MembersHistory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Nothing to close: the client has the connection."""

    def events(
        self,
        *,
        limit: int | None = 1000,
        order: Order = "newest",
        after: str | None = None,
        **filters: Unpack[Filters],
    ) -> Table:
        """Events by time, then member, shard and sequence; `after` is a `ClusterCursor`."""
        if order == "sequence":
            raise HistoryError("events of a cluster have an order by time only, found sequence")
        if after is not None:
            ClusterCursor.parse(after)
        found = self._rows(_query("events", filters, limit=limit, order=order, after=after))
        table = _sorted(found, limit, _place, descends=order == "newest")
        if table.truncated and len(table):
            last = {name: table[name][-1] for name in ("time", "member", "shard", "sequence")}
            time_ns = int(np.datetime64(last["time"].removesuffix("Z"), "ns").astype(np.int64))
            table.after = str(ClusterCursor(time_ns, last["member"], last["shard"], last["sequence"]))
        return table

    def flows(self, *, limit: int | None = 1000, **filters: Unpack[Filters]) -> Table:
        """Flows by their 5-tuple, newest first; `flow_id` is that of the member that saw it last."""
        query = _query("flows", filters, limit=limit)
        found = self._rows(query)
        groups = _grouped(found, TUPLE)
        truncated = any(each.truncated for each in found.values())
        newest = sorted(groups, key=lambda key: max(row["last"] or "" for row in groups[key]), reverse=True)
        shown = newest if limit is None else newest[:limit]
        if truncated and len(found) > 1 and shown:
            # a member may have left out its part of a flow that is newer elsewhere
            again = query.model_copy(
                update={
                    "filters": query.filters.model_copy(update={"flows": flows_of(shown[:MAX_FLOWS])}),
                    "limit": None,
                }
            )
            groups = _grouped(self._rows(again), TUPLE) | {key: groups[key] for key in shown[MAX_FLOWS:]}
        rows = [_flow(groups[key]) for key in shown if key in groups]
        columns = (*_columns(found)[1:], "members")
        return table_of(rows, columns, truncated=truncated or len(shown) < len(newest))

    def paths(self, *, limit: int | None = 1000, **filters: Unpack[Filters]) -> Table:
        """Paths by time, then member, shard and sequence."""
        return _sorted(self._rows(_query("paths", filters, limit=limit)), limit, _place)

    def summary(self, *, bucket_seconds: float | None = None, **filters: Unpack[Filters]) -> Table:
        """Sums over members."""
        found = self._rows(_query("summary", filters, bucket_seconds=bucket_seconds))
        key = ("kind", "metric") if bucket_seconds is None else ("bucket", "kind", "metric")
        rows = [
            {
                **parts[0],
                "events": _total(parts, "events"),
                "first": _lowest(parts, "first"),
                "last": _highest(parts, "last"),
            }
            for parts in _grouped(found, key).values()
        ]
        rows.sort(
            key=lambda row: (row.get("bucket") or "", -row["events"], row["kind"] or "", row["metric"] or "")
        )
        return table_of(rows, _columns(found)[1:], truncated=False)

    def hops(self, *, limit: int | None = 100, **filters: Unpack[Filters]) -> Table:
        """Hops of all members, by their highest latency."""
        found = self._rows(_query("hops", filters))
        rows = [_hop(parts) for parts in _grouped(found, _HOP).values()]
        return _top(rows, found, limit, _HOP)

    def peaks(
        self,
        metric: str,
        *,
        bucket_ns: int | None = None,
        limit: int | None = 100,
        places: Collection[Place] = (),
        **filters: Unpack[Filters],
    ) -> Table:
        """Places of all members by the highest value of a metric, or their values by time."""
        place = (*_HOP, "ident")
        key = place if bucket_ns is None else ("bucket", *place)
        found = self._rows(_query("peaks", filters, metric=metric, bucket_ns=bucket_ns))
        groups = _grouped(found, key)
        rows = [_peak(parts) for group, parts in groups.items() if not places or group[-3:] in places]
        if bucket_ns is None:
            return _top(rows, found, limit, place)
        rows.sort(key=lambda row: (row["bucket"], *_numbers(row, place)))
        truncated = limit is not None and len(rows) > limit
        return table_of(rows[:limit], _columns(found)[1:], truncated=truncated)

    def highest(
        self,
        metric: str,
        *,
        by: HighestBy = "highest",
        limit: int = 100,
        more: Mapping[str, npt.NDArray[Any]] | None = None,
        **filters: Unpack[Filters],
    ) -> Highest:
        """The first places over all members; a place may rank high overall, but at no single member."""
        assert more is None
        table = self.peaks(metric, limit=None, **filters)
        values = "events" if metric == Kind.DROP.label else "highest"
        columns = (table[name].tolist() for name in (*_HOP, "ident", values, "events"))
        rows = [
            PlacePeak(tuple(place), value, events) for *place, value, events in zip(*columns, strict=True)
        ]
        return Highest.ranked(len(rows), 0, rows, by, limit)

    def sums(self, metric: str, *, limit: int | None = 100, **filters: Unpack[Filters]) -> Highest:
        """Sums over all members; for drop reports, over the newest MAX_DROPS of each."""
        if metric == Kind.DROP.label:
            chosen: Filters = {**filters, "kinds": (metric,)}
            table = self.events(limit=MAX_DROPS, **chosen)
            columns = (table[name].tolist() for name in (*_HOP, "ident"))
            drops = Counter(
                (node, port, None if ident is None else ident & 0xFF)
                for node, port, ident in zip(*columns, strict=True)
                if node is not None
            )
            rows = [PlacePeak(place, count, count) for place, count in drops.items()]
        else:
            table = self.hops(limit=None, **filters)
            columns = (table[name].tolist() for name in (*_HOP, "mean", "events"))
            rows = [
                PlacePeak((node, port, None), round(mean * events), events)
                for node, port, mean, events in zip(*columns, strict=True)
                if node is not None
            ]
        return Highest.ranked(len(rows), sum(row.highest for row in rows), rows, "highest", limit)

    def labels(self, *, limit: int | None = 1000, **filters: Unpack[Filters]) -> Table:
        """Labels from each member that takes them."""
        return _newest_first(self._rows(_query("labels", filters, limit=limit)), limit, _HOP)

    def coverage(self, *, limit: int | None = 1000, **filters: Unpack[Filters]) -> Table:
        """Coverage from each member that takes labels."""
        return _newest_first(self._rows(_query("coverage", filters, limit=limit)), limit, ())

    def moment(self, *, highest_from: int, **filters: Unpack[Filters]) -> Table:
        """The newest and highest values of all members."""
        found = self._rows(_query("moment", filters, highest_from=highest_from))
        rows = [_place_value(parts) for parts in _grouped(found, ("metric", *_HOP)).values()]
        return table_of(rows, _columns(found)[1:], truncated=False)

    def steps(self, **filters: Unpack[Filters]) -> Table:
        """Sums over members; a flow that two members have counts twice."""
        found = self._rows(_query("steps", filters))
        rows = [
            {
                **parts[0],
                **{name: _total(parts, name) for name in ("flows", "ends")},
                "time": _highest(parts, "time"),
            }
            for parts in _grouped(found, (*_HOP, "next_node_id")).values()
        ]
        return table_of(rows, _columns(found)[1:], truncated=False)

    def activity(self, metric: str, *, bucket_seconds: float, **filters: Unpack[Filters]) -> Table:
        """Sums over members, and the highest of their values."""
        found = self._rows(_query("activity", filters, metric=metric, bucket_seconds=bucket_seconds))
        counts = ("events", "drops", "path_changes", "alarms")
        rows = [
            {
                **max(parts, key=lambda part: part["highest"] or 0),
                **{name: _total(parts, name) for name in counts},
                **({"highest": _total(parts, "highest")} if metric == DROPS else {}),
            }
            for parts in _grouped(found, ("bucket",)).values()
        ]
        rows.sort(key=lambda row: row["bucket"] or "")
        return table_of(rows, _columns(found)[1:], truncated=False)

    def distributions(
        self, *, by: By = "queue", bucket_ns: int | None = None, **filters: Unpack[QueueFilters]
    ) -> list[Distribution]:
        """Counts of all members, added."""
        window = Window.of(filters)
        query = HistoryQuery(
            method="distributions",
            filters=FiltersModel(
                start=window.start_ns, end=window.end_ns, nodes=list(window.nodes), ports=list(window.ports)
            ),
            queues=list(window.queues),
            measures=list(window.measures),
            by=by,
            bucket_ns=bucket_ns,
        )
        found = self._ask(query, read_distributions)
        buckets: dict[int, list[Distribution]] = {}
        for counts in found.values():
            for each in counts.distributions:
                bucket = 0 if bucket_ns is None else (each.since_ns or 0) // bucket_ns
                buckets.setdefault(bucket, []).append(each)
        return [one for bucket in sorted(buckets) for one in grouped(buckets[bucket], by)]

    def sql(
        self,
        text: str,
        *,
        limit: int = 10_000,
        seconds: float = 10.0,
        memory_bytes: int = 512 * 1024**2,
        stop: threading.Event | None = None,
    ) -> Table:
        """Each member runs the SELECT over its own history. Returns the rows of all members, with the column
        `member` first unless the SELECT has it; so there is one sum per member. Raises SqlError if no member
        can run it.
        """
        from ...history.sandbox.query import SqlError

        query = HistoryQuery(
            method="sql", text=text, limit=limit, seconds=min(seconds, 60.0), memory_bytes=memory_bytes
        )
        found = self._ask(query, read_any_rows)
        rejected = [why for why in self.answer.missing.values() if why.startswith(REJECTED)]
        if rejected and not found:
            raise SqlError(rejected[0].removeprefix(REJECTED))
        columns = list(dict.fromkeys(name for each in found.values() for name in each.columns))
        rows = [(name, row) for name, each in found.items() for row in each.rows]
        truncated = len(rows) > limit or any(each.truncated for each in found.values())
        if "member" in columns and all(row.get("member") == name for name, row in rows):
            return table_of([row for _, row in rows[:limit]], columns, truncated=truncated)
        member = "member"
        while member in columns:
            member += "_"
        named = [{**row, member: name} for name, row in rows[:limit]]
        return table_of(named, (member, *columns), truncated=truncated)

    # ----------------------------------------------------------------------------------------- asking

    def _rows(self, query: HistoryQuery) -> dict[str, Rows]:
        """Rows by member, with the column `member`."""
        found = self._ask(query, read_rows)
        for member, each in found.items():
            for row in each.rows:
                row["member"] = member
        return found

    def _ask(self, query: HistoryQuery, read: Callable[[Answer], F]) -> dict[str, F]:
        body = {"ask": query.model_dump(exclude_defaults=True)}
        try:
            found, answer = self._gathered(body, read)
        except ClusterError as error:
            found, answer = (
                {self._member: read(self.alone(query, error))},
                ClusterAnswer((self._member,), {}, str(error)),
            )
        self.answer = self.answer.joined(answer) if self._asked else answer
        self._asked = True
        self._problems |= {member: each.problems for member, each in found.items()}
        return found

    def _gathered(
        self, body: Mapping[str, Any], read: Callable[[Answer], F]
    ) -> tuple[dict[str, F], ClusterAnswer]:
        gathered = self._client.ask("history", body, read, deadline=self._deadline).of_cluster(self._member)
        return gathered.found, gathered.of_history

    def alone(self, query: HistoryQuery, error: ClusterError) -> Answer:
        """The answer from this data folder, since NATS is unreachable. Raises HistoryError."""
        from ...history.query import History

        try:
            with History(self.folder, member=self._member) as history:
                return Answer(200, encode(query.ask(history, self._member), history.problems))
        except HistoryError as local:
            raise HistoryError(f"{error}; and {local}") from None


def _query(method: Method, filters: Filters, **more: Any) -> HistoryQuery:
    return HistoryQuery(method=method, filters=FiltersModel.of(filters), **more)


def _place(row: Row) -> tuple[Any, ...]:
    return row["time"] or "", row["member"], row["shard"] or 0, row["sequence"] or 0


def _sorted(
    found: Mapping[str, Rows],
    limit: int | None,
    key: Callable[[Row], tuple[Any, ...]],
    *,
    descends: bool = False,
) -> Table:
    """All rows in an order."""
    rows = sorted((row for each in found.values() for row in each.rows), key=key, reverse=descends)
    truncated = any(each.truncated for each in found.values()) or (limit is not None and len(rows) > limit)
    return table_of(rows[:limit], _columns(found), truncated=truncated)


def _newest_first(found: Mapping[str, Rows], limit: int | None, place: Sequence[str]) -> Table:
    table = {
        member: replace(each, rows=sorted(each.rows, key=lambda row: _numbers(row, place)))
        for member, each in found.items()
    }
    return _sorted(table, limit, lambda row: (row["time"] or "",), descends=True)


def _top(rows: list[Row], found: Mapping[str, Rows], limit: int | None, place: Sequence[str]) -> Table:
    """Places by their highest value."""
    rows.sort(key=lambda row: (-(row["highest"] or 0), *_numbers(row, place)))
    truncated = limit is not None and len(rows) > limit
    return table_of(rows[:limit], _columns(found)[1:], truncated=truncated)


def _numbers(row: Row, names: Iterable[str]) -> tuple[Any, ...]:
    return tuple(float("inf") if row[name] is None else row[name] for name in names)


def _columns(found: Mapping[str, Rows]) -> tuple[str, ...]:
    """`member` and all other columns, in the order of the first member."""
    every = dict.fromkeys(name for each in found.values() for name in each.columns)
    return ("member", *(name for name in every if name != "member"))


def _grouped(found: Mapping[str, Rows], key: Sequence[str]) -> dict[tuple[Any, ...], list[Row]]:
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for each in found.values():
        for row in each.rows:
            groups.setdefault(tuple(row[name] for name in key), []).append(row)
    return groups


def _values(parts: Iterable[Row], name: str) -> list[Any]:
    return [part[name] for part in parts if part[name] is not None]


def _total(parts: Iterable[Row], name: str) -> Any:
    """Sum of a column; None: all values are unknown."""
    values = _values(parts, name)
    return sum(values) if values else None


def _highest(parts: Iterable[Row], name: str) -> Any:
    return max(_values(parts, name), default=None)


def _lowest(parts: Iterable[Row], name: str) -> Any:
    return min(_values(parts, name), default=None)


def _mean(parts: Iterable[Row], name: str, weight: str) -> float | None:
    """Mean of the parts' means, by their weights."""
    known = [(part[name], part[weight] or 0) for part in parts if part[name] is not None]
    weights = sum(each for _, each in known)
    return sum(value * each for value, each in known) / weights if weights else None


def _place_value(parts: Sequence[Row]) -> Row:
    newest = max(parts, key=lambda part: part["time"] or "")
    if newest["metric"] == DROPS:
        newest = {**newest, "value": _total(parts, "value")}
        return {**newest, "highest": newest["value"], "alarms": 0}
    return {**newest, "highest": _highest(parts, "highest"), "alarms": _total(parts, "alarms")}


def _hop(parts: Sequence[Row]) -> Row:
    top = max(parts, key=lambda part: part["highest"] or 0)
    return {**top, "events": _total(parts, "events"), "mean": _mean(parts, "mean", "events")}


def _peak(parts: Sequence[Row]) -> Row:
    return {
        **max(parts, key=lambda part: part["time"] or ""),
        "highest": _highest(parts, "highest"),
        "lowest": _lowest(parts, "lowest"),
        "events": _total(parts, "events"),
    }


def flows_of(keys: Iterable[tuple[Any, ...]]) -> list[FlowModel]:
    """Flows by their TUPLE."""
    return [FlowModel(**dict(zip(TUPLE, key, strict=True))) for key in keys]


def key_of(row: Row) -> tuple[Any, ...]:
    """TUPLE of a row."""
    return tuple(row[name] for name in TUPLE)


def add_live(rows: Iterable[Row], found: Mapping[str, Rows]) -> list[Row]:
    """Rows of flows with the packets and latencies of live flows, by member."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for member, each in found.items():
        for part in each.rows:
            groups.setdefault(key_of(part), []).append({**part, "members": [member]})
    return [_live_flow([row, *groups.get(key_of(row), ())]) for row in rows]


def _live_flow(parts: Sequence[Row]) -> Row:
    """A flow of history, first, and its live parts."""
    return {
        **parts[0],
        "packets": _total(parts, "packets"),
        "mean_latency": _mean(parts, "mean_latency", "packets"),
        "highest_latency": _highest(parts, "highest_latency"),
        "members": sorted({name for part in parts for name in part["members"]}),
    }


def _flow(parts: Sequence[Row]) -> Row:
    last = max(parts, key=lambda part: (part["last"] or "", part["member"]))
    worst = max(parts, key=lambda part: part["worst_latency"] or -1)
    return {
        **last,
        **{name: worst[name] for name in ("worst_node_id", "worst_port", "worst_latency")},
        **{name: _total(parts, name) for name in ("packets", "events", "path_changes", "drops")},
        "first": _lowest(parts, "first"),
        "highest_latency": _highest(parts, "highest_latency"),
        "mean_latency": _mean(parts, "mean_latency", "packets"),
        "members": sorted({part["member"] for part in parts}),
    }
