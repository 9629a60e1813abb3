"""The places with the highest values. DuckDB finds them, so that only these are read into Python."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ...detect.places import Place, ascending
from ...detect.records import MEASURED, Kind, Metric

if TYPE_CHECKING:
    from .table import Table

By = Literal["highest", "events"]
"""Order of places: by their highest value, or by their number of events."""
Part = tuple[int, int]
"""A part of the switches: its index, and the number of parts."""
WITH_IDENT = ("queue_occupancy", "queue_congestion", "buffer_occupancy")
"""Metrics whose places have a queue or a buffer."""
_COLUMNS = ("node_id", "port", "ident", "highest", "events")


@dataclass(frozen=True, slots=True)
class PlacePeak:
    """A place with its highest value, and its number of events."""

    place: Place
    highest: int
    """Its highest value, or the sum of its values; for `drop`, the number of drop reports."""
    events: int


@dataclass(frozen=True, slots=True)
class Highest:
    """The first places, and the number of all places."""

    total: int
    rows: list[PlacePeak]
    sum: int
    """For `sums`, the sum over all places; otherwise 0."""

    @classmethod
    def of(cls, tables: Iterable[Table], by: By, limit: int | None) -> Highest:
        """The first places in the rows of several tables, which `_ranked_sql` selected."""
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
        """The first `limit` of these rows, in order."""

        def rank(row: PlacePeak) -> tuple[bool, int, int, tuple[int, ...]]:
            return row.highest == 0, -row.events if by == "events" else 0, -row.highest, ascending(row.place)

        return cls(total, sorted(rows, key=rank)[:limit], whole)


def values_sql(metric: str) -> str:
    """A SELECT of the values of a metric: node_id, port, ident, value, highest, time, sequence. `drop` counts
    as a metric: each drop report has the value 1.
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
    """A WHERE clause that selects these places from `values_sql`; empty if there are none."""
    rows = ", ".join(str(ascending(place)) for place in places)
    return f" WHERE (node_id, coalesce(port, -1), coalesce(ident, -1)) IN ({rows})" if rows else ""


def highest_sql(metric: str, by: By, part: Part, *, with_more: bool) -> str:
    """A SELECT of places by their highest values, or by events; `with_more` includes the rows of GIVEN."""
    values = f"SELECT node_id, port, ident, highest, value FROM ({values_sql(metric)})"
    if with_more:
        values += """ UNION ALL SELECT node_id, nullif(port, -1)::UINTEGER, nullif(ident, -1)::UINTEGER,
            value, NULL FROM GIVEN"""
    highest = "count(*)" if metric == Kind.DROP.label else "max(highest)"
    return _ranked_sql(values, highest, by, part, whole="0")


def sums_sql(metric: str, part: Part) -> str:
    """A SELECT of places by the sum of their hop latencies, or by their number of `drop` reports."""
    ident, condition, highest = "NULL", f"metric = '{metric}' AND kind != 'cleared'", "sum(value)"
    if metric == Kind.DROP.label:
        ident, condition, highest = "ident & 255", f"kind = '{metric}'", "count(*)"
    values = f"""SELECT node_id, port::UINTEGER AS port, ({ident})::UINTEGER AS ident, value FROM EVENTS
        WHERE node_id IS NOT NULL AND {condition}"""
    return _ranked_sql(values, highest, "highest", part, whole="sum(highest) OVER ()")


def _ranked_sql(values: str, highest: str, by: By, part: Part, whole: str) -> str:
    """A SELECT of places in their order; each row has the number of all places, and their sum (`whole`)."""
    condition = "" if part[1] == 1 else f"WHERE node_id % {part[1]} = {part[0]}"
    order = "events DESC, highest DESC" if by == "events" else "highest DESC"
    return f"""SELECT *, count(*) OVER () AS total, {whole} AS sum FROM (
        SELECT node_id, port, ident, {highest} AS highest, count(value) AS events
        FROM ({values}) {condition} GROUP BY node_id, port, ident)
        ORDER BY highest > 0 DESC, {order}, node_id, port NULLS FIRST, ident NULLS FIRST"""
