"""Variables that narrow a dashboard to some switches, ports or flows."""

from __future__ import annotations

from dataclasses import dataclass

from .panel import Source
from .queries import CLICK, INFLUX, PROM

_SERIES = '{__name__=~"hopscope_(hop_latency_seconds_count|queue_occupancy|link_utilization|drops_total)"'


@dataclass(frozen=True)
class Variable:
    """A list of values, from which any number may be chosen; a text field if `queries` is empty.

    ClickHouse's plugin takes the first column as the value, and the second one, if any, as the text shown.
    """

    label: str
    queries: dict[Source, str]
    regex: str = ""
    """Regular expression for PromQL's answer, with the groups `text` and `value`."""


VARIABLES = {
    "node": Variable(
        "Switch",
        {
            PROM: f"query_result(max by (node, node_name) ({_SERIES}}}))",
            INFLUX: 'SHOW TAG VALUES FROM /^int_/ WITH KEY = "node"',
            CLICK: "SELECT toString(node_id) AS id, if(name = '', id, name) AS text"
            " FROM (SELECT DISTINCT node_id FROM int_event_minute WHERE node_id != 4294967295) AS"
            " seen LEFT JOIN (SELECT node_id, any(name) AS name FROM int_name FINAL WHERE port ="
            " 65535 GROUP BY node_id) AS names USING node_id ORDER BY text",
        },
        '/node="(?<value>[^"]+)"(?:,node_name="(?<text>[^"]+)")?/',
    ),
    "port": Variable(
        "Port",
        {
            PROM: f'label_values({_SERIES},node=~"$node"}}, port)',
            INFLUX: 'SHOW TAG VALUES FROM /^int_/ WITH KEY = "port_id" WHERE "node" =~ /^$node$/',
            CLICK: "SELECT DISTINCT toString(port) AS id FROM"
            " int_event_minute WHERE port != 65535 AND $__conditionalAll(node_id IN"
            " (${node:singlequote}), $node) ORDER BY toUInt16(id)",
        },
    ),
    "flow": Variable("Flow", {}),
}
