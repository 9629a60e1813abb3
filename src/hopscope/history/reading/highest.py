"""The places with the highest values: found by DuckDB, so that only those are read into Python."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ...detect.places import Place
from ...detect.records import MEASURED, Kind, Metric

if TYPE_CHECKING:
    from .table import Table

By = Literal["highest", "events"]
"""What places are ordered by."""
Part = tuple[int, int]
"""Of the switches, one part of so many."""
WITH_IDENT = ("queue_occupancy", "queue_congestion", "buffer_occupancy")
"""Metrics whose places have a queue or a buffer."""
_COLUMNS = ("node_id", "port", "ident", "highest", "events")


@dataclass(frozen=True, slots=True)
class PlacePeak:
    """One place."""

    place: Place
    highest: int
    """Its highest value, or the sum of its values; of `drop` the number of drop reports."""
    events: int


@dataclass(frozen=True, slots=True)
class Highest:
    """The first places, and how many there are."""

    total: int
    rows: list[PlacePeak]
    sum: int
    """Of `sums`: the sum over all places."""

    @classmethod
    def of(cls, tables: Iterable[Table], by: By, limit: int | None) -> Highest:
        """The first of the rows of `ranked_sql`, of several tables."""
        total, whole, rows = 0, 0, list[PlacePeak]()
        for table in tables:
            if len(table):
                total, whole = total + int(table["total"][0]), whole + int(table["sum"][0])
            columns = (table[name].tolist() for name in _COLUMNS)
            for node, port, ident, highest, events in zip(*columns, strict=True):
                rows.append(PlacePeak((node, port, ident), int(highest), events))
        return cls.ranked(total, whole, rows, by, limit)

    @classmethod
    def ranked(cls, total: int, whole: int, rows: Iterable[PlacePeak], by: By, limit: int | None) -> Highest:
        """The first of these rows."""

        def rank(row: PlacePeak) -> tuple[bool, int, int, tuple[int, ...]]:
            return row.highest == 0, -row.events if by == "events" else 0, -row.highest, ascending(row.place)

        return cls(total, sorted(rows, key=rank)[:limit], whole)


def ascending(place: Place) -> tuple[int, ...]:
    """What places are ordered by: unknown ports and queues come first."""
    return tuple(-1 if part is None else part for part in place)


def values_sql(metric: str) -> str:
    """A SELECT of the values of a metric: node_id, port, ident, value, highest, time, sequence. `drop` is one
    here: each drop report has the value 1.
    """
    if metric == Kind.DROP.label:
        condition, value, highest = f"kind = '{metric}'", "1", "1"
    else:
        name = Metric[metric.upper()].label
        condition = f"""metric = '{name}' AND kind != 'flow_record'
            AND (reason IS NULL OR reason IN {MEASURED})"""
        value = highest = "value"
        if name.startswith("label_"):
            highest = "CASE WHEN kind = 'label_record' THEN previous ELSE value END"
    port = {"link_utilization": "ident", "buffer_occupancy": "NULL"}.get(metric, "port")
    ident = "ident" if metric in WITH_IDENT else "NULL"
    return f"""SELECT node_id, {port}::UINTEGER AS port, {ident}::UINTEGER AS ident, {value} AS value,
        {highest} AS highest, time, sequence FROM EVENTS WHERE node_id IS NOT NULL AND {condition}"""


def listed_sql(places: Collection[Place]) -> str:
    """A condition on columns of `values_sql`: that they are of one of these places; empty without some."""
    rows = ", ".join(str(ascending(place)) for place in places)
    return f" WHERE (node_id, coalesce(port, -1), coalesce(ident, -1)) IN ({rows})" if rows else ""


def highest_sql(metric: str, by: By, part: Part, *, with_more: bool) -> str:
    """A SELECT of places by their highest values, or by events. `with_more`: also of the rows of GIVEN."""
    values = f"SELECT node_id, port, ident, highest, value FROM ({values_sql(metric)})"
    if with_more:
        values += """ UNION ALL SELECT node_id, nullif(port, -1)::UINTEGER, nullif(ident, -1)::UINTEGER,
            value, NULL FROM GIVEN"""
    highest = "count(*)" if metric == Kind.DROP.label else "max(highest)"
    return _ranked_sql(values, highest, by, part, whole="0")


def sums_sql(metric: str, part: Part) -> str:
    """A SELECT of places by the sum of their hop latencies, or by `drop` reports."""
    ident, condition, highest = "NULL", f"metric = '{metric}' AND kind != 'cleared'", "sum(value)"
    if metric == Kind.DROP.label:
        ident, condition, highest = "ident & 255", f"kind = '{metric}'", "count(*)"
    values = f"""SELECT node_id, port::UINTEGER AS port, ({ident})::UINTEGER AS ident, value FROM EVENTS
        WHERE node_id IS NOT NULL AND {condition}"""
    return _ranked_sql(values, highest, "highest", part, whole="sum(highest) OVER ()")


def _ranked_sql(values: str, highest: str, by: By, part: Part, whole: str) -> str:
    """A SELECT of places in their order, each with the number and the sum of all (`whole`)."""
    some = "" if part[1] == 1 else f"WHERE node_id % {part[1]} = {part[0]}"
    order = "events DESC, highest DESC" if by == "events" else "highest DESC"
    return f"""SELECT *, count(*) OVER () AS total, {whole} AS sum FROM (
        SELECT node_id, port, ident, {highest} AS highest, count(value) AS events
        FROM ({values}) {some} GROUP BY node_id, port, ident)
        ORDER BY highest > 0 DESC, {order}, node_id, port NULLS FIRST, ident NULLS FIRST"""
