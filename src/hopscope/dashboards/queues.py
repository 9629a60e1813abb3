"""Ports and queues: heat maps by place and time, microbursts."""

from dataclasses import replace

from .panel import Dashboard, Panel, Plot, Query
from .queries import (
    AT_PORT,
    IN_PORT,
    LEGEND_PORT,
    LEGEND_QUEUE,
    NAMES,
    NODE,
    PLACE,
    QUEUE,
    SECONDS,
    WHERE_PORT,
    growth,
    over_time,
    points,
    rate,
)

_BURSTS = (
    f"SELECT begun.began AS time, {NODE} AS node, begun.port AS port, begun.queue AS queue, begun.value AS"
    " occupancy, if(begun.next = 'cleared', (toUnixTimestamp64Nano(begun.ended) -"
    f" toUnixTimestamp64Nano(begun.began)) / {SECONDS}, NULL) AS duration FROM (SELECT time AS began,"
    " kind, node_id, port, ident AS queue, value, leadInFrame(time) OVER following AS ended,"
    " leadInFrame(toString(kind)) OVER following AS next FROM int_event WHERE $__timeFilter(time) AND"
    f" metric = 'queue_occupancy' AND kind IN ('raised', 'cleared') AND {IN_PORT} WINDOW following AS"
    " (PARTITION BY collector, node_id, port, ident ORDER BY time, sequence ROWS BETWEEN CURRENT ROW AND"
    f" 1 FOLLOWING)) AS begun {NAMES} WHERE begun.kind = 'raised' ORDER BY time DESC LIMIT 100"
)
_OCCUPANCY = Panel(
    "Queue occupancy, all queues",
    "Highest occupancy of every queue over time, as switches report it.",
    Plot.STATUS_HISTORY,
    prom=Query(
        f"max by (node, node_name, port, queue) (hopscope_queue_occupancy_highest{{{AT_PORT}}})", LEGEND_QUEUE
    ),
    influx=points(
        'max("occupancy_highest")',
        "int_queue",
        "node port_id queue",
        WHERE_PORT,
        "$tag_node port $tag_port_id queue $tag_queue",
    ),
    click=over_time(
        QUEUE, "max(value) AS occupancy", f"metric = 'queue_occupancy' AND {IN_PORT}", named=True
    ),
    width=24,
    height=12,
)
_QUEUES = (
    _OCCUPANCY,
    Panel(
        "Microbursts",
        "Queues that rose above `raise_above` (`detect.thresholds.queue_occupancy`). ClickHouse: with the"
        " time until they were below `clear_below`.",
        Plot.TABLE,
        influx=Query(
            'SELECT "node", "port_id", "queue", "value" AS "occupancy" FROM "int_event"'
            " WHERE $timeFilter AND \"metric\" = 'queue_occupancy' AND \"kind\" = 'raised'"
            f" AND {WHERE_PORT} ORDER BY time DESC LIMIT 100"
        ),
        click=Query(_BURSTS),
        value="occupancy",
    ),
    replace(
        _OCCUPANCY,
        title="Fullest queues",
        about="The ten queues that were highest in this interval.",
        plot=Plot.TIME_SERIES,
        prom=Query(
            "max by (node, node_name, port, queue)"
            f" (hopscope_queue_occupancy_highest{{{AT_PORT}}}) and on (node, port, queue) topk(10,"
            " max by (node, port, queue)"
            f" (max_over_time(hopscope_queue_occupancy_highest{{{AT_PORT}}}[$__range] @ end())))",
            LEGEND_QUEUE,
        ),
        width=12,
        height=8,
    ),
    Panel(
        "Buffer occupancy",
        "Occupancy of shared buffers, as switches report it.",
        Plot.TIME_SERIES,
        prom=Query(
            f"max by (node, node_name, buffer) (hopscope_buffer_occupancy_highest{{{AT_PORT}}})",
            "{{node_name}} ({{node}}) buffer {{buffer}}",
        ),
        influx=points(
            'max("buffer_occupancy_highest")',
            "int_queue",
            "node buffer",
            WHERE_PORT,
            "$tag_node buffer $tag_buffer",
        ),
        click=over_time(
            f"concat({NODE}, ' buffer ', toString(ident))",
            "max(value) AS occupancy",
            f"metric = 'buffer_occupancy' AND {IN_PORT}",
            named=True,
        ),
    ),
)
_PORTS = (
    Panel(
        "Link utilisation, all ports",
        "Utilisation of every egress link over time, as switches report it.",
        Plot.STATUS_HISTORY,
        prom=Query(f"max by (node, node_name, port) (hopscope_link_utilization{{{AT_PORT}}})", LEGEND_PORT),
        influx=points(
            'max("utilization")', "int_port", "node port_id", WHERE_PORT, "$tag_node port $tag_port_id"
        ),
        click=over_time(
            PLACE, "max(value) AS utilization", f"metric = 'link_utilization' AND {IN_PORT}", named=True
        ),
        width=24,
        height=12,
    ),
    Panel(
        "Hop latency by port",
        "Prometheus: 99th percentile of all packets, from distributions; other databases: highest value in"
        " events.",
        Plot.TIME_SERIES,
        prom=Query(
            "histogram_quantile(0.99, sum by (le, node, node_name, port)"
            f" (rate(hopscope_hop_latency_seconds_bucket{{{AT_PORT}}}[$__rate_interval])))",
            LEGEND_PORT,
        ),
        influx=points(
            f'max("value") / {SECONDS}',
            "int_event",
            "node port_id",
            f"\"metric\" = 'hop_latency' AND {WHERE_PORT}",
            "$tag_node port $tag_port_id",
        ),
        click=over_time(
            PLACE, f"max(value) / {SECONDS} AS latency", f"metric = 'hop_latency' AND {IN_PORT}", named=True
        ),
        unit="s",
    ),
    Panel(
        "Drop reports by port",
        "Packets that switches reported as dropped, per second.",
        Plot.TIME_SERIES,
        prom=rate("hopscope_drops_total", "node, node_name, port", AT_PORT, LEGEND_PORT),
        influx=growth("drops_total", "node port_id", "int_port", WHERE_PORT, "$tag_node port $tag_port_id"),
        click=over_time(
            PLACE, "count() / $__interval_s AS drops", f"kind = 'drop' AND {IN_PORT}", named=True
        ),
        unit="cps",
        alarm=0.001,
    ),
)
QUEUES = Dashboard(
    "queues",
    "Ports and queues",
    "Which ports and queues are full, and when.",
    (*_QUEUES, *_PORTS),
    ("node", "port"),
)
