"""The fabric at a glance: what is wrong now, and where."""

from .panel import Dashboard, Panel, Plot, Query
from .queries import (
    AT_NODE,
    DST,
    FLOW,
    IN_NODE,
    LEGEND_NODE,
    NAMES,
    NODE,
    PLACE,
    SECONDS,
    SRC,
    WHERE_NODE,
    counted_events,
    events,
    growth,
    newest,
    over_time,
    points,
    rate,
    total,
    value,
)

_COUNTED = (
    Panel(
        "Open alarms",
        "Values that rose above their limit and are still above it. From events (ClickHouse): those that"
        " were raised in this interval.",
        Plot.STAT,
        prom=Query("sum(hopscope_alarms)"),
        influx=newest("alarms", "collector worker metric"),
        click=Query(
            "SELECT countIf(newest = 'raised') AS alarms FROM (SELECT metric IN ('flow_latency',"
            " 'hop_latency') AS of_flow, argMax(kind, (time, sequence)) AS newest FROM int_event"
            " WHERE $__timeFilter(time) AND kind IN ('raised', 'cleared') GROUP BY metric,"
            " of_flow, node_id, ident, if(of_flow, flow_id, port))"
        ),
        width=4,
        height=4,
        alarm=1,
    ),
    Panel(
        "Flows",
        "Live flows. From events (ClickHouse): flows with events in this interval.",
        Plot.STAT,
        prom=Query("sum(hopscope_flows)"),
        influx=newest("flows", "collector"),
        click=events("uniq(flow_id) AS flows", "flow_id != 0"),
        width=4,
        height=4,
    ),
    Panel(
        "Drop reports",
        "Packets that switches reported as dropped in this interval.",
        Plot.STAT,
        prom=counted_events("drop"),
        influx=value('count("sequence")', "int_event", "\"kind\" = 'drop'"),
        click=events("count() AS drops", "kind = 'drop'"),
        width=4,
        height=4,
        alarm=1,
    ),
    Panel(
        "Path changes",
        "Flows that took another path than before, in this interval.",
        Plot.STAT,
        prom=counted_events("path_change"),
        influx=value('count("sequence")', "int_event", "\"kind\" = 'path_change'"),
        click=events("count() AS changes", "kind = 'path_change'"),
        width=4,
        height=4,
    ),
    Panel(
        "Silent sources",
        "Switches that have stopped sending reports.",
        Plot.STAT,
        prom=Query('sum(hopscope_source_silent or hopscope_other_sources{what="silent"})'),
        influx=newest("source_silent", "collector source node_id hw_id"),
        click=Query(
            "SELECT countIf(newest = 'silent') AS sources FROM (SELECT argMax(kind,"
            " (time, sequence)) AS newest FROM int_event WHERE $__timeFilter(time)"
            " AND kind IN ('silent', 'returned') GROUP BY src, node_id, ident)"
        ),
        width=4,
        height=4,
        alarm=1,
    ),
    Panel(
        "Lost reports",
        "Reports missing by sequence number, in this interval.",
        Plot.STAT,
        prom=Query("sum(delta(hopscope_lost_reports[$__range]))"),
        influx=value('sum("value")', "int_event", "\"kind\" = 'gap'"),
        click=events("sum(value) AS reports", "kind = 'gap'"),
        width=4,
        height=4,
        alarm=1,
    ),
)
_PLACES = (
    Panel(
        "Worst queues",
        "Highest occupancy of a queue in this interval, as its switch reports it.",
        Plot.TABLE,
        prom=Query(
            "topk(10, max by (node, node_name, port, queue)"
            f" (max_over_time(hopscope_queue_occupancy_highest{{{AT_NODE}}}[$__range])))"
        ),
        influx=value(
            'max("occupancy_highest") AS "occupancy"', "int_queue", WHERE_NODE, '"node", "port_id", "queue"'
        ),
        click=events(
            f"{NODE} AS node, port, ident AS queue, max(value) AS occupancy",
            f"metric = 'queue_occupancy' AND {IN_NODE}",
            then="GROUP BY node, port, queue ORDER BY occupancy DESC LIMIT 10",
            named=True,
        ),
        value="occupancy",
    ),
    Panel(
        "Slowest hops",
        "99th percentile of the hop latency by port. Prometheus: of all packets, from distributions;"
        " other databases: of the values in events.",
        Plot.TABLE,
        prom=Query(
            "topk(10, histogram_quantile(0.99, sum by (le, node, node_name, port)"
            f" (increase(hopscope_hop_latency_seconds_bucket{{{AT_NODE}}}[$__range]))) > 0)"
        ),
        influx=value(
            f'percentile("value", 99) / {SECONDS} AS "latency"',
            "int_event",
            f"\"metric\" = 'hop_latency' AND {WHERE_NODE}",
            '"node", "port_id"',
        ),
        click=events(
            f"{NODE} AS node, port, quantileTDigest(0.99)(value) / {SECONDS} AS latency",
            f"metric = 'hop_latency' AND {IN_NODE}",
            then="GROUP BY node, port ORDER BY latency DESC LIMIT 10",
            named=True,
        ),
        unit="s",
        value="latency",
    ),
    Panel(
        "Flow latency",
        "Percentiles of the live flows' mean latencies. ClickHouse: of the values in events.",
        Plot.TIME_SERIES,
        prom=Query("max by (percentile) (hopscope_flow_latency_seconds)", "p{{percentile}}"),
        influx=points('max("flow_latency_seconds")', "hopscope", "percentile", legend="p$tag_percentile"),
        click=over_time(
            "",
            f"quantile(0.5)(value) / {SECONDS} AS p50, quantile(0.9)(value) / {SECONDS} AS p90,"
            f" quantile(0.99)(value) / {SECONDS} AS p99, max(value) / {SECONDS} AS p100",
            "metric = 'flow_latency'",
        ),
        unit="s",
    ),
    Panel(
        "Hop latency by switch",
        "Prometheus: 99th percentile of all packets, from distributions; InfluxDB: mean of all packets;"
        " ClickHouse: 99th percentile of the values in events, by minute.",
        Plot.TIME_SERIES,
        prom=Query(
            "histogram_quantile(0.99, sum by (le, node, node_name)"
            f" (rate(hopscope_hop_latency_seconds_bucket{{{AT_NODE}}}[$__rate_interval])))",
            LEGEND_NODE,
        ),
        influx=Query(
            'SELECT non_negative_difference(sum("total")) /'
            ' non_negative_difference(sum("packets")) FROM (SELECT last("latency_seconds_sum") AS'
            ' "total", last("latency_seconds_count") AS "packets" FROM "int_hop" WHERE'
            f' $timeFilter AND {WHERE_NODE} GROUP BY time($__interval), "node", "port_id", "queue"'
            ' fill(none)) WHERE $timeFilter GROUP BY time($__interval), "node" fill(none)',
            "$tag_node",
        ),
        click=Query(
            f"SELECT minute AS t, {NODE} AS label,"
            f" quantilesTDigestMerge(0.5, 0.9, 0.99)(quantiles)[3] / {SECONDS} AS latency"
            f" FROM int_event_minute {NAMES} WHERE $__timeFilter(minute)"
            f" AND metric = 'hop_latency' AND {IN_NODE} GROUP BY t, label ORDER BY t"
        ),
        unit="s",
    ),
)
_TIMES = (
    Panel(
        "Alarms",
        "Open alarms by metric; ClickHouse: by metric and port, of those raised in this interval.",
        Plot.STATE_TIMELINE,
        prom=Query("sum by (metric) (hopscope_alarms)", "{{metric}}"),
        influx=total("alarms", "metric", "$tag_metric"),
        click=events(
            f"time AS t, concat(metric, ' ', {PLACE}) AS label, greatest(0, sum(if(kind ="
            " 'raised', 1, -1)) OVER (PARTITION BY metric, node_id, port ORDER BY time,"
            " sequence)) AS open",
            f"kind IN ('raised', 'cleared') AND {IN_NODE}",
            then="ORDER BY t LIMIT 10000",
            named=True,
        ),
        alarm=1,
    ),
    Panel(
        "Events",
        "Events per second by kind.",
        Plot.TIME_SERIES,
        prom=rate("hopscope_events_total", "kind", legend="{{kind}}"),
        influx=growth("events_total", "kind", where="\"kind\" != ''", legend="$tag_kind"),
        click=Query(
            "SELECT minute AS t, toString(kind) AS label, countMerge(events) / 60 AS events FROM"
            " int_event_minute WHERE $__timeFilter(minute) GROUP BY t, label ORDER BY t"
        ),
        unit="cps",
        stacked=True,
    ),
    Panel(
        "Newest alarms",
        "What was raised and cleared last. A click on a flow leads to its path.",
        Plot.TABLE,
        influx=Query(
            'SELECT "kind", "metric", "node", "port", "queue", "value", "previous" AS "limit",'
            ' "reason", "flow" FROM "int_event" WHERE $timeFilter AND "kind" =~'
            f" /^(raised|cleared)$/ AND {WHERE_NODE} ORDER BY time DESC LIMIT 100"
        ),
        click=events(
            f"time, kind, metric, {NODE} AS node, port, value, previous AS limit, reason,"
            f" if(flow_id = 0, '', {FLOW}) AS flow, {SRC} AS source, {DST} AS destination",
            f"kind IN ('raised', 'cleared') AND {IN_NODE}",
            then="ORDER BY time DESC LIMIT 100",
            named=True,
        ),
        width=24,
        value="value",
    ),
)
FABRIC = Dashboard(
    "fabric",
    "Fabric overview",
    "What is wrong in the fabric, and where.",
    (*_COUNTED, *_PLACES, *_TIMES),
    ("node",),
)
