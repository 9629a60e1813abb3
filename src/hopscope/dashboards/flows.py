"""The dashboard of flows: their latency, their paths, and where they wait."""

from .panel import Dashboard, Panel, Plot, Query
from .queries import (
    AT_NODE,
    DST,
    FLOW,
    IN_NODE,
    LEGEND_NODE,
    NODE,
    OF_FLOW,
    SECONDS,
    SRC,
    WHERE_NODE,
    events,
    growth,
    over_time,
    points,
    rate,
    total,
    value,
)

_KNOWN = (
    "WITH (SELECT (groupArray(node_id), groupArray(name)) FROM (SELECT node_id, name FROM int_name FINAL"
    " WHERE port = 65535)) AS known"
)
_PATH = (
    "arrayStringConcat(arrayMap(n -> if(has(known.1, n), known.2[indexOf(known.1, n)], toString(n)),"
    " path), ' → ')"
)
_WHERE_FLOW = '"flow" =~ /(?i)$flow/'
_FLOW_COLUMNS = '"flow", "src", "dst", "sport", "dport", "proto"'

_LATENCY = (
    Panel(
        "End-to-end latency",
        "Number of packets by latency. Prometheus: all packets, from distributions; other databases: a sample"
        " of the values in events, 100 at each point in time.",
        Plot.HEATMAP,
        prom=Query(
            "sum by (le) (increase(hopscope_end_to_end_latency_seconds_bucket[$__rate_interval]))", "{{le}}"
        ),
        influx=points(
            f'sample("value", 100) / {SECONDS}',
            "int_event",
            where=f"\"metric\" = 'flow_latency' AND {_WHERE_FLOW}",
            legend="latency",
        ),
        click=Query(
            f"SELECT t, arrayJoin(sampled) / {SECONDS} AS latency FROM (SELECT"
            " $__timeInterval(time) AS t, groupArraySample(100)(value) AS sampled FROM int_event"
            f" WHERE $__timeFilter(time) AND metric = 'flow_latency' AND {OF_FLOW} GROUP BY t)"
            " ORDER BY t"
        ),
        unit="s",
    ),
    Panel(
        "Percentiles of the end-to-end latency",
        "Prometheus: of all packets, from distributions; other databases: of the values in events.",
        Plot.TIME_SERIES,
        prom=[
            Query(
                f"histogram_quantile({share}, sum by (le)"
                " (rate(hopscope_end_to_end_latency_seconds_bucket[$__rate_interval])))",
                legend,
            )
            for share, legend in ((0.5, "p50"), (0.9, "p90"), (0.99, "p99"))
        ],
        influx=[
            points(
                f'percentile("value", {percent}) / {SECONDS}',
                "int_event",
                where=f"\"metric\" = 'flow_latency' AND {_WHERE_FLOW}",
                legend=f"p{percent}",
            )
            for percent in (50, 90, 99)
        ],
        click=over_time(
            "",
            f"quantile(0.5)(value) / {SECONDS} AS p50, quantile(0.9)(value) / {SECONDS} AS p90,"
            f" quantile(0.99)(value) / {SECONDS} AS p99",
            f"metric = 'flow_latency' AND {OF_FLOW}",
        ),
        unit="s",
    ),
    Panel(
        "Slowest flows",
        "Prometheus: top flows (`serve.top_flows`), by mean latency; other databases: by the highest latency"
        " in events.",
        Plot.TABLE,
        prom=Query(
            "topk(20, max by (flow, src, dst, sport, dport, proto) (hopscope_top_flow_latency_seconds))"
        ),
        influx=Query(
            f'SELECT "value" / {SECONDS} AS "latency", {_FLOW_COLUMNS} FROM (SELECT top("value",'
            f' 20) AS "value", {_FLOW_COLUMNS} FROM "int_event" WHERE $timeFilter AND "metric" ='
            f" 'flow_latency' AND {_WHERE_FLOW})"
        ),
        click=events(
            f"{FLOW} AS flow, any({SRC}) AS source, any({DST}) AS destination, any(sport) AS"
            f" sport, any(dport) AS dport, any(proto) AS proto, max(value) / {SECONDS} AS latency",
            f"metric = 'flow_latency' AND {OF_FLOW}",
            then="GROUP BY flow ORDER BY latency DESC LIMIT 20",
        ),
        unit="s",
        value="latency",
    ),
    Panel(
        "Where packets wait",
        "Latency that each switch adds to all packets, in seconds per second: look at a switch that adds more"
        " than the others. ClickHouse: mean hop latency in events.",
        Plot.TIME_SERIES,
        prom=rate("hopscope_hop_latency_seconds_sum", "node, node_name", AT_NODE, LEGEND_NODE),
        influx=growth("latency_seconds_sum", "node", "int_hop", WHERE_NODE, "$tag_node"),
        click=over_time(
            NODE,
            f"avg(value) / {SECONDS} AS latency",
            f"metric = 'hop_latency' AND {IN_NODE} AND {OF_FLOW}",
            named=True,
        ),
        unit="s",
        stacked=True,
    ),
)
_PATHS = (
    Panel(
        "Hops of a flow",
        "Latency of the flow chosen above by hop; without one, of all flows.",
        Plot.TABLE,
        influx=value(
            f'mean("value") / {SECONDS} AS "latency", max("value") / {SECONDS} AS "highest",'
            ' count("value") AS "values"',
            "int_event",
            f"\"metric\" = 'hop_latency' AND {_WHERE_FLOW} AND {WHERE_NODE}",
            '"node"',
        ),
        click=events(
            f"hop, {NODE} AS node, avg(value) / {SECONDS} AS latency, max(value) / {SECONDS} AS"
            " highest, count() AS values",
            f"metric = 'hop_latency' AND {OF_FLOW} AND {IN_NODE}",
            then="GROUP BY hop, node ORDER BY hop, latency DESC",
            named=True,
        ),
        unit="s",
        value="latency",
    ),
    Panel(
        "Path changes",
        "Flows that took another path than before, per second.",
        Plot.TIME_SERIES,
        prom=rate("hopscope_events_total", "kind", 'kind=~"path_change|loop"', "{{kind}}"),
        influx=growth("events_total", "kind", where='"kind" =~ /^(path_change|loop)$/', legend="$tag_kind"),
        click=over_time(
            "toString(kind)", "count() / $__interval_s AS events", "kind IN ('path_change', 'loop')"
        ),
        unit="cps",
    ),
    Panel(
        "Paths",
        "New and changed paths, and loops.",
        Plot.TABLE,
        influx=Query(
            f'SELECT "kind", {_FLOW_COLUMNS}, "path" FROM "int_event" WHERE $timeFilter AND "kind"'
            f" =~ /^(new_key|path_change|loop)$/ AND \"path\" != '' AND {_WHERE_FLOW} ORDER BY time"
            " DESC LIMIT 100"
        ),
        click=Query(
            f"{_KNOWN} SELECT time, kind, {FLOW} AS flow, {SRC} AS source, {DST} AS destination,"
            f" sport, dport, proto, {_PATH} AS nodes FROM int_event WHERE $__timeFilter(time) AND"
            f" kind IN ('new_key', 'path_change', 'loop') AND notEmpty(path) AND {OF_FLOW} ORDER"
            " BY time DESC LIMIT 100"
        ),
        width=24,
    ),
    Panel(
        "Finished flows",
        "Flows that have left the table: packets, and how long they lasted.",
        Plot.TABLE,
        influx=Query(
            f'SELECT {_FLOW_COLUMNS}, "value" AS "packets" FROM "int_event" WHERE $timeFilter AND'
            f" \"kind\" = 'flow_record' AND \"metric\" = 'flow_path' AND {_WHERE_FLOW} ORDER BY time"
            " DESC LIMIT 100"
        ),
        click=events(
            f"time AS ended, {FLOW} AS flow, {SRC} AS source, {DST} AS destination, sport, dport,"
            " proto, value AS packets, (toUnixTimestamp64Nano(time) - toInt64(previous)) /"
            f" {SECONDS} AS seconds",
            f"kind = 'flow_record' AND metric = 'flow_path' AND {OF_FLOW}",
            then="ORDER BY time DESC LIMIT 100",
        ),
        value="packets",
    ),
    Panel(
        "Flows",
        "Live flows. ClickHouse: flows with events.",
        Plot.TIME_SERIES,
        prom=Query("sum(hopscope_flows)", "flows"),
        influx=total("flows", legend="flows"),
        click=over_time("", "uniq(flow_id) AS flows", "flow_id != 0"),
    ),
)
FLOWS = Dashboard(
    "flows",
    "Flows and paths",
    "How slow flows are, along which path, and where they wait.",
    (*_LATENCY, *_PATHS),
    ("node", "flow"),
)
