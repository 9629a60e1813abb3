"""The dashboard of loss and of the collectors' health: which reports do not arrive, and why."""

from .panel import Dashboard, Panel, Plot, Query
from .queries import DST, FLOW, PLACE, SECONDS, SRC, events, growth, over_time, points, rate, value

_UNREAD = {
    "kernel_drops_total": "socket buffer full",
    "denied_frames_total": "not on the allow list",
    "rate_limited_frames_total": "rate limit",
    "oversized_frames_total": "too long",
    "detector_lost_reports_total": "detector's queue full",
}
"""Counters of reports that were received and not read."""
_BUSY = ("capture", "decode", "handover", "detect", "journal")

_REPORTS = (
    Panel(
        "Reports",
        "Reports per second by worker. ClickHouse: events per second by collector and shard.",
        Plot.TIME_SERIES,
        prom=rate("hopscope_reports_total", "instance, worker", legend="{{instance}} worker {{worker}}"),
        influx=growth("reports_total", "collector worker", legend="$tag_collector worker $tag_worker"),
        click=over_time(
            "concat(collector, ' shard ', toString(shard))", "count() / $__interval_s AS events", "1"
        ),
        unit="cps",
    ),
    Panel(
        "Lost reports by source",
        "Reports missing by sequence number since the start, less those that came late. ClickHouse: found"
        " missing per second.",
        Plot.TIME_SERIES,
        prom=Query("sum by (source, node) (hopscope_source_lost_reports)", "{{source}} (switch {{node}})"),
        influx=points(
            'max("source_lost_reports")', "hopscope", "source node_id", legend="$tag_source ($tag_node_id)"
        ),
        click=over_time(
            f"concat({SRC}, ' (', toString(node_id), ')')",
            "sum(value) / $__interval_s AS reports",
            "kind = 'gap'",
        ),
    ),
    Panel(
        "Rejected reports",
        "Reports that could not be read, per second, by reason.",
        Plot.TIME_SERIES,
        prom=rate("hopscope_rejected_reports_total", "reason", legend="{{reason}}"),
        influx=growth("rejected_reports_total", "reason", where="\"reason\" != ''", legend="$tag_reason"),
        unit="cps",
        alarm=0.001,
    ),
    Panel(
        "Unread reports",
        "Datagrams that were received and not read, per second, by reason.",
        Plot.TIME_SERIES,
        prom=[
            rate(f"hopscope_{name}", "instance", legend=f"{{{{instance}}}} {why}")
            for name, why in _UNREAD.items()
        ],
        influx=[growth(name, "collector", legend=f"$tag_collector {why}") for name, why in _UNREAD.items()],
        unit="cps",
        alarm=0.001,
    ),
    Panel(
        "Silent sources",
        "1 while a source of reports is silent.",
        Plot.STATE_TIMELINE,
        prom=Query("max by (source, node) (hopscope_source_silent)", "{{source}} (switch {{node}})"),
        influx=points(
            'max("source_silent")', "hopscope", "source node_id", legend="$tag_source ($tag_node_id)"
        ),
        click=events(
            f"time AS t, concat({SRC}, ' (', toString(node_id), ')') AS label, toUInt8(kind ="
            " 'silent') AS silent",
            "kind IN ('silent', 'returned')",
            then="ORDER BY t LIMIT 10000",
        ),
        alarm=1,
    ),
    Panel(
        "Drop reports by place",
        "Packets that switches reported as dropped, and the reasons.",
        Plot.TABLE,
        prom=Query("sort_desc(sum by (node, node_name, port, port_name) (hopscope_drops_total))"),
        influx=value('count("sequence") AS "drops"', "int_event", "\"kind\" = 'drop'", '"node", "port_id"'),
        click=events(
            f"{PLACE} AS place, value AS reason, count() AS drops",
            "kind = 'drop'",
            then="GROUP BY place, reason ORDER BY drops DESC LIMIT 100",
            named=True,
        ),
        value="drops",
    ),
    Panel(
        "Dropped packets",
        "The newest drop reports with their flows.",
        Plot.TABLE,
        influx=Query(
            'SELECT "node", "port", "flow", "src", "dst", "sport", "dport", "value" AS "reason"'
            ' FROM "int_event" WHERE $timeFilter AND "kind" = \'drop\' ORDER BY time DESC LIMIT 100'
        ),
        click=events(
            f"time, {PLACE} AS place, {FLOW} AS flow, {SRC} AS source, {DST} AS destination,"
            " sport, dport, value AS reason",
            "kind = 'drop'",
            then="ORDER BY time DESC LIMIT 100",
            named=True,
        ),
        value="reason",
    ),
)
_COLLECTORS = (
    Panel(
        "Events to destinations",
        "Events that destinations have taken, per second.",
        Plot.TIME_SERIES,
        prom=rate("hopscope_export_events_total", "destination", legend="{{destination}}"),
        influx=growth("export_events_total", "destination", legend="$tag_destination"),
        unit="cps",
    ),
    Panel(
        "Destinations that take their data",
        "0 while a destination does not take its data; history keeps the data that wait for it.",
        Plot.STATE_TIMELINE,
        prom=Query("min by (destination) (hopscope_export_up)", "{{destination}}"),
        influx=points('min("export_up")', "hopscope", "destination", legend="$tag_destination"),
    ),
    Panel(
        "Lost on the way to destinations",
        "Events, and samples of metrics, that did not reach a destination, per second, by reason.",
        Plot.TIME_SERIES,
        prom=rate("hopscope_export_lost_total", "destination, reason", legend="{{destination}}: {{reason}}"),
        influx=growth("export_lost_total", "destination reason", legend="$tag_destination: $tag_reason"),
        unit="cps",
        alarm=0.001,
    ),
    Panel(
        "Newest event",
        "Age of the newest event that this database has of a collector.",
        Plot.STAT,
        click=events(
            "collector AS label, (toUnixTimestamp64Nano(now64(9)) -"
            f" max(toUnixTimestamp64Nano(time))) / {SECONDS} AS age",
            "1",
            then="GROUP BY label",
        ),
        unit="s",
    ),
    Panel(
        "From the switch to the collector",
        "Time from an event, by the switch's clock, to its receipt; it includes the difference"
        " between the clocks of switch and collector.",
        Plot.TIME_SERIES,
        click=over_time(
            "",
            f"quantile(0.5)(toUnixTimestamp64Nano(time) - toInt64(switch_ns)) / {SECONDS} AS p50,"
            f" quantile(0.99)(toUnixTimestamp64Nano(time) - toInt64(switch_ns)) / {SECONDS} AS p99",
            "switch_ns != 0",
        ),
        unit="s",
    ),
    Panel(
        "Events not yet on disk",
        "Events that wait in memory since the disk does not take them.",
        Plot.TIME_SERIES,
        prom=Query("sum by (instance) (hopscope_journal_waiting_events)", "{{instance}}"),
        influx=points(
            'max("journal_waiting_events")',
            "hopscope",
            "collector worker",
            legend="$tag_collector worker $tag_worker",
        ),
        alarm=1,
    ),
    Panel(
        "Processors",
        "Share of one processor by process.",
        Plot.TIME_SERIES,
        prom=rate(
            "hopscope_process_cpu_seconds_total", "instance, process", legend="{{instance}} {{process}}"
        ),
        influx=growth("process_cpu_seconds_total", "collector process", legend="$tag_collector $tag_process"),
        unit="percentunit",
    ),
    Panel(
        "Memory",
        "Resident memory by process; shared memory counts in each process that uses it.",
        Plot.TIME_SERIES,
        prom=Query(
            "sum by (instance, process) (hopscope_process_resident_memory_bytes)", "{{instance}} {{process}}"
        ),
        influx=points(
            'max("process_resident_memory_bytes")',
            "hopscope",
            "collector process",
            legend="$tag_collector $tag_process",
        ),
        unit="bytes",
    ),
    Panel(
        "Processes",
        "1 while a process runs.",
        Plot.STATE_TIMELINE,
        prom=Query("min by (instance, process) (hopscope_process_up)", "{{instance}} {{process}}"),
        influx=points(
            'min("process_up")', "hopscope", "collector process", legend="$tag_collector $tag_process"
        ),
    ),
    Panel(
        "What workers do",
        "Share of the time by step of a worker.",
        Plot.TIME_SERIES,
        prom=[
            rate(f"hopscope_busy_{step}_seconds_total", "instance", legend=f"{{{{instance}}}} {step}")
            for step in _BUSY
        ],
        influx=[
            growth(f"busy_{step}_seconds_total", "collector", legend=f"$tag_collector {step}")
            for step in _BUSY
        ],
        unit="percentunit",
        stacked=True,
    ),
)
HEALTH = Dashboard(
    "health",
    "Loss and collector health",
    "What does not arrive, and why; how the collectors are.",
    (*_REPORTS, *_COLLECTORS),
)
