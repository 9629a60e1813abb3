"""Documentation of the SQL views of history: type, unit and meaning of each column, and example queries.

`docs/reference/sql.md` and `GET /api/v0/sql/schema` show it. The types are the ones that create the views.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from . import columns
from .files import period_files


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a SQL view."""

    name: str
    type: str
    """Its DuckDB type."""
    unit: str
    """Empty: no unit, or the unit that the source uses."""
    meaning: str


@dataclass(frozen=True, slots=True)
class View:
    """A SQL view."""

    name: str
    meaning: str
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Example:
    """An example of a query."""

    title: str
    sql: str


_EVENTS: Mapping[str, tuple[str, str]] = {
    "time": ("UTC", "when the collector received the report"),
    "kind": ("", "such as `raised`, `drop`, `path_change`"),
    "metric": ("", "such as `hop_latency`; NULL if this kind of event has no metric"),
    "node_id": ("", "switch; NULL: unknown"),
    "port": ("", "egress port of the hop that caused it; NULL: unknown, or above 65534 (see `ident`)"),
    "ident": (
        "",
        "queue, buffer or port, by metric; queue of a drop; hw id of `silent`, `returned` and `gap`",
    ),
    "value": ("by metric", "the value of the metric (latencies in ns), or a count, depending on the kind"),
    "previous": ("by metric", "the stored value or the limit with which `value` was compared"),
    "reason": ("", "why an alarm was cleared; NULL for other kinds"),
    "switch_ns": ("ns", "time at the switch, by its own clock; NULL: the report has none"),
    "flow_id": ("", "hash of the 5-tuple; NULL: no flow"),
    "src": ("", "source address; that of the reporting source for `silent`, `returned` and `gap`"),
    "dst": ("", "destination address"),
    "sport": ("", "source port; NULL: no flow"),
    "dport": ("", "destination port; NULL: no flow"),
    "proto": ("", "IP protocol number; NULL: no flow"),
    "path": ("", "node ids in path order, at most 8, from position `hop`; NULL: no path"),
    "hop": ("", "position in the path, 0 first"),
    "hop_count": ("hops", "length of the path"),
    "src_hi": ("", "high half of the source address; IPv4 as ::ffff:a.b.c.d"),
    "src_lo": ("", "low half of the source address"),
    "dst_hi": ("", "high half of the destination address"),
    "dst_lo": ("", "low half of the destination address"),
    "ip_version": ("", "4 or 6; 0: no flow"),
    "shard": ("", "number of the worker; with `sequence` it identifies the event"),
    "sequence": ("", "number in the shard; missing numbers are those of lost events"),
}
"""Unit and meaning of the columns of `columns.COLUMNS`."""
_DISTRIBUTIONS: Mapping[str, tuple[str, str]] = {
    "since": ("UTC", "beginning of the period"),
    "until": ("UTC", "end of the period"),
    "measure": ("", "such as `hop_latency`, `end_to_end`"),
    "node_id": ("", "switch; NULL: unknown, or end to end"),
    "port": ("", "egress port; NULL: unknown, or end to end"),
    "queue_id": ("", "queue; also 0 for packets that do not carry it; NULL: end to end"),
    "count": ("values", "values in the period"),
    "sum": ("by measure", "their sum"),
    "highest": (
        "by measure",
        "no value is higher; may come from an earlier period; end-to-end latency stops at 4294967294",
    ),
    "lower": ("by measure", "lower bound of each bin that has values"),
    "upper": ("by measure", "upper bound of each bin that has values, inclusive"),
    "counts": ("values", "number of values in each of these bins"),
    "shard": ("", "number of the worker"),
    "number": ("", "number of the period in the shard"),
    "generation": ("", "identifies the region; each region counts from 0"),
}
"""Unit and meaning of the columns of `period_files.COLUMNS`."""


def _described(
    types: Iterable[tuple[str, str]], meanings: Mapping[str, tuple[str, str]]
) -> tuple[Column, ...]:
    return tuple(Column(name, kind, *meanings[name]) for name, kind in types)


VIEWS = (
    View(
        "events",
        "Every event, including the newest, in one row each; only a path of more than eight nodes "
        "has a row for every eight nodes. `hop = 0 OR metric IS DISTINCT FROM 'flow_path'` selects "
        "each event once.",
        _described(columns.COLUMNS, _EVENTS),
    ),
    View(
        "distributions",
        "Values of all packets by place and period, counted in bins (`distributions.enabled`).",
        _described(period_files.COLUMNS, _DISTRIBUTIONS),
    ),
)
CLUSTER_COLUMNS = (
    Column("member", "VARCHAR", "", "member that has the event; the first column"),
    Column("incarnation", "VARCHAR", "", "of the member's data folder; the last column, with a lake only"),
)
"""Additional columns of the view `events` in queries of all members."""
EXAMPLES = (
    Example(
        "Events per minute, by kind",
        "SELECT time_bucket(INTERVAL 1 MINUTE, time) AS minute, kind, count(*) AS events\n"
        "FROM events\n"
        "WHERE time > now() - INTERVAL 1 HOUR\n"
        "  AND (hop = 0 OR metric IS DISTINCT FROM 'flow_path')\n"
        "GROUP BY ALL\n"
        "ORDER BY minute",
    ),
    Example(
        "Ports with the most alarms",
        "SELECT node_id, port, metric, count(*) AS alarms\n"
        "FROM events\n"
        "WHERE kind = 'raised' AND port IS NOT NULL\n"
        "GROUP BY ALL\n"
        "ORDER BY alarms DESC\n"
        "LIMIT 20",
    ),
    Example(
        "Flows that changed their path",
        "SELECT src, dst, proto, sport, dport, count(*) AS changes, max(time) AS last_change\n"
        "FROM events\n"
        "WHERE kind = 'path_change' AND hop = 0\n"
        "GROUP BY ALL\n"
        "ORDER BY changes DESC\n"
        "LIMIT 20",
    ),
    Example(
        "Drops by switch, port and reason",
        "SELECT node_id, port, value AS reason, count(*) AS drops\n"
        "FROM events\n"
        "WHERE kind = 'drop'\n"
        "GROUP BY ALL\n"
        "ORDER BY drops DESC",
    ),
    Example(
        "Events that history lacks, by shard",
        "SELECT shard, max(sequence) - min(sequence) + 1 - count(*) AS missing\n"
        "FROM events\n"
        "GROUP BY shard\n"
        "ORDER BY shard",
    ),
    Example(
        "Latency of all packets, by switch",
        "SELECT node_id, sum(count) AS packets,\n"
        "  sum(sum) / sum(count) AS mean_ns, max(highest) AS highest_ns\n"
        "FROM distributions\n"
        "WHERE measure = 'hop_latency'\n"
        "GROUP BY node_id\n"
        "ORDER BY mean_ns DESC",
    ),
)
