"""SELECTs for a map of the network at a past moment: values of places, steps of paths, and activity over
time.

Each reads EVENTS, see `event_queries`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...detect.records import Kind, Metric
from ..columns import PORT, quoted
from ..errors import HistoryError

VALUE_KINDS = tuple(
    kind.label
    for kind in (
        *(Kind.NEW_KEY, Kind.CHANGE, Kind.THRESHOLD, Kind.RAISED, Kind.CLEARED, Kind.PUSH, Kind.VALUE),
        *(Kind.QUEUE_REPORT, Kind.DROP),
    )
)
"""Events that state a value of a place, or a drop at it."""
STEP_KINDS = tuple(kind.label for kind in (Kind.NEW_KEY, Kind.PUSH, Kind.FLOW_RECORD))
"""Events that are stored for all hops of a path at the same time."""
NOTABLE_KINDS = tuple(
    kind.label
    for kind in (
        *(Kind.THRESHOLD, Kind.RAISED, Kind.PATH_CHANGE, Kind.LOOP, Kind.DROP, Kind.QUEUE_REPORT),
        *(Kind.SILENT, Kind.GAP),
    )
)
"""Events that a timeline counts, because something may be wrong."""
DROPS = "drops"
"""Stands for a metric: the number of drops."""
_PLACE_METRICS = (Metric.HOP_LATENCY, Metric.QUEUE_OCCUPANCY, Metric.LINK_UTILIZATION, Metric.LABEL_AGE)


def _listed(labels: tuple[str, ...]) -> str:
    return f"({', '.join(map(quoted, labels))})"


def moment_sql(highest_from_ns: int) -> str:
    """By metric, node and port: the last value, the highest value since a moment, and the number of open
    alarms.

    Each queue, and each flow's hop, has its own last value: the result has the highest of a port's queues,
    and the newest of a port's flows. Drops are counted from that moment on. Reports that arrived together
    have the same time; `sequence` orders them.
    """
    metrics = _listed(tuple(metric.label for metric in _PLACE_METRICS))
    recent = f"time >= make_timestamp_ns({int(highest_from_ns)})"
    return f"""SELECT metric, node_id, port,
        CASE metric WHEN '{DROPS}' THEN sum(recent) WHEN 'hop_latency' THEN arg_max(latest, newest)
            ELSE max(latest) END::UBIGINT AS value,
        CASE metric WHEN '{DROPS}' THEN sum(recent) ELSE max(peak) END::UBIGINT AS highest,
        count(*) FILTER (alarm = 'raised') AS alarms, max(time) AS time
        FROM (
            SELECT CASE kind WHEN 'drop' THEN '{DROPS}' ELSE metric END AS metric, node_id, {PORT} AS port,
                CASE metric WHEN 'queue_occupancy' THEN ident WHEN 'hop_latency' THEN flow_id END AS part,
                arg_max(value, (time, sequence)) AS latest, max(value) FILTER ({recent}) AS peak,
                count(*) FILTER ({recent}) AS recent, max(time) AS time, max((time, sequence)) AS newest,
                arg_max(kind, (time, sequence)) FILTER (kind IN ('raised', 'cleared')) AS alarm
            FROM EVENTS WHERE node_id IS NOT NULL AND {PORT} IS NOT NULL
                AND (kind = 'drop' OR metric IN {metrics})
            GROUP BY ALL)
        GROUP BY metric, node_id, port ORDER BY metric, node_id, port"""


def steps_sql(shard: Sequence[str], flow: Sequence[str]) -> str:
    """By node, port and next node: number of flows, and how many of them begin or end at the node. `shard`
    and `flow`: the columns that identify a shard, and a flow.
    """
    window = f"PARTITION BY {', '.join(shard)}, flow_id, time, kind ORDER BY hop"
    flows = f"count(DISTINCT ({', '.join(flow)}))"
    return f"""SELECT node_id, port, CASE WHEN following = hop::INT + 1 THEN next END AS next_node_id,
        {flows} AS flows,
        {flows} FILTER (hop = 0 OR hop::INT + 1 = hop_count) AS ends, max(time) AS time
        FROM (SELECT *, lead(node_id) OVER w AS next, lead(hop) OVER w AS following
            FROM EVENTS WHERE metric = 'hop_latency' AND flow_id IS NOT NULL AND node_id IS NOT NULL
            WINDOW w AS ({window}))
        WHERE port IS NOT NULL
        GROUP BY ALL ORDER BY ALL"""


def activity_sql(bucket_seconds: float, metric: str, origin_ns: int) -> str:
    """By time, in buckets counted from `origin_ns`: number of notable events, of drops, path changes and
    alarms, and the highest value of a metric (or the number of `drops`) with its place.
    """
    ns = int(bucket_seconds * 1e9)
    if ns <= 0:
        raise HistoryError("a bucket must be longer than 0 s")
    if metric != DROPS and metric.upper() not in Metric.__members__:
        raise HistoryError(f"unknown metric {metric!r}")
    of_metric = f"metric = {quoted(metric)} AND kind NOT IN ('flow_record', 'cleared')"
    value = f"max(value) FILTER ({of_metric})"
    if metric == DROPS:
        of_metric, value = "kind = 'drop'", "count(*) FILTER (kind = 'drop')"
    since = f"epoch_ns(time) - {origin_ns}"
    return f"""SELECT * EXCLUDE worst, worst.node_id AS worst_node_id, worst.port AS worst_port FROM (
        SELECT make_timestamp_ns(({since}) // {ns} * {ns} + {origin_ns}) AS bucket,
        count(*) FILTER (kind IN {_listed(NOTABLE_KINDS)}) AS events,
        count(*) FILTER (kind = 'drop') AS drops, count(*) FILTER (kind = 'path_change') AS path_changes,
        count(*) FILTER (kind IN ('raised', 'threshold')) AS alarms, {value} AS highest,
        arg_max({{'node_id': node_id, 'port': {PORT}}}, value) FILTER ({of_metric}) AS worst
        FROM EVENTS GROUP BY bucket) ORDER BY bucket"""
