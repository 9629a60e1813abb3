"""Parts that several queries share."""

from __future__ import annotations

from .panel import Query, Source

PROM, INFLUX, CLICK = Source.PROMETHEUS, Source.INFLUXDB, Source.CLICKHOUSE

AT_NODE = 'node=~"$node"'
AT_PORT = f'{AT_NODE},port=~"$port"'
"""Selectors of PromQL for the chosen places."""
WHERE_NODE = '"node" =~ /^$node$/'
WHERE_PORT = f'{WHERE_NODE} AND "port_id" =~ /^$port$/'
"""Conditions of InfluxQL."""
IN_NODE = "$__conditionalAll(node_id IN (${node:singlequote}), $node)"
IN_PORT = f"{IN_NODE} AND $__conditionalAll(toString(port) IN (${{port:singlequote}}), $port)"
"""Conditions of ClickHouse."""
NODE = "if(names.name = '', toString(node_id), names.name)"
"""Name of a switch in ClickHouse, or its number if it has none, in a SELECT that has NAMES."""
NAMES = (
    "LEFT JOIN (SELECT node_id, any(name) AS name FROM int_name FINAL WHERE port = 65535 GROUP BY"
    " node_id) AS names USING node_id"
)
FLOW = "leftPad(lower(hex(flow_id)), 16, '0')"
"""A flow's id in ClickHouse as everywhere else: 16 hexadecimal digits."""
OF_FLOW = f"positionCaseInsensitive({FLOW}, '$flow') > 0"
SRC = "replaceOne(toString(src), '::ffff:', '')"
DST = "replaceOne(toString(dst), '::ffff:', '')"
PLACE = f"concat({NODE}, ' port ', toString(port))"
QUEUE = f"concat({NODE}, ' port ', toString(port), ' queue ', toString(ident))"
SECONDS = 1_000_000_000
"""Events have latencies in ns."""

LEGEND_NODE = "{{node_name}} ({{node}})"
LEGEND_PORT = f"{LEGEND_NODE} port {{{{port}}}}"
LEGEND_QUEUE = f"{LEGEND_PORT} queue {{{{queue}}}}"
"""Legends of series in PromQL."""


def rate(metric: str, by: str, selector: str = "", legend: str = "") -> Query:
    """Increase of a counter per second, in PromQL, by labels."""
    return Query(f"sum by ({by}) (rate({metric}{{{selector}}}[$__rate_interval]))", legend)


def counted_events(kind: str) -> Query:
    """Events of a kind over the whole interval, in PromQL."""
    return Query(f'sum(increase(hopscope_events_total{{kind="{kind}"}}[$__range]))')


def points(select: str, measurement: str, by: str = "", where: str = "", legend: str = "") -> Query:
    """A series for each combination of tags, in InfluxQL."""
    condition = f" AND {where}" if where else ""
    tags = "".join(f', "{tag}"' for tag in by.split())
    return Query(
        f'SELECT {select} FROM "{measurement}" WHERE $timeFilter{condition} GROUP BY'
        f" time($__interval){tags} fill(none)",
        legend,
    )


def growth(counter: str, by: str, measurement: str = "hopscope", where: str = "", legend: str = "") -> Query:
    """Increase of a counter per second, in InfluxQL, by tags."""
    return _summed(f'non_negative_derivative(last("{counter}"), 1s)', measurement, by, where, legend)


def total(field: str, by: str = "", legend: str = "") -> Query:
    """Sum of a gauge over all collectors and workers, in InfluxQL, by tags."""
    return _summed(f'last("{field}")', "hopscope", by, "", legend)


def _summed(select: str, measurement: str, by: str, where: str, legend: str) -> Query:
    condition = f" AND {where}" if where else ""
    tags = "".join(f', "{tag}"' for tag in by.split())
    return Query(
        f'SELECT sum("each") FROM (SELECT {select} AS "each" FROM "{measurement}" WHERE'
        f" $timeFilter{condition} GROUP BY time($__interval), * fill(none)) WHERE $timeFilter GROUP BY"
        f" time($__interval){tags} fill(none)",
        legend,
    )


def value(select: str, measurement: str, where: str = "", by: str = "") -> Query:
    """One value of the whole interval for each combination of tags, in InfluxQL."""
    condition = f" AND {where}" if where else ""
    group = f" GROUP BY {by}" if by else ""
    return Query(f'SELECT {select} FROM "{measurement}" WHERE $timeFilter{condition}{group}')


def newest(field: str, by: str) -> Query:
    """Sum of the newest values of a gauge, in InfluxQL."""
    tags = ", ".join(f'"{tag}"' for tag in by.split())
    return Query(
        f'SELECT sum("newest") FROM (SELECT last("{field}") AS "newest" FROM "hopscope" WHERE $timeFilter'
        f" GROUP BY {tags})"
    )


def events(columns: str, where: str, *, then: str = "", named: bool = False) -> Query:
    """Rows of `int_event` in ClickHouse; `named`: with names of switches."""
    join = f" {NAMES}" if named else ""
    return Query(
        f"SELECT {columns} FROM int_event{join} WHERE $__timeFilter(time) AND {where} {then}".strip()
    )


def over_time(label: str, columns: str, where: str, *, named: bool = False) -> Query:
    """A series for each label, in ClickHouse."""
    shown, group = (f"{label} AS label, ", ", label") if label else ("", "")
    return events(
        f"$__timeInterval(time) AS t, {shown}{columns}",
        where,
        then=f"GROUP BY t{group} ORDER BY t",
        named=named,
    )
