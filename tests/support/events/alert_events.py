"""Events of alarms, made up: a second is a second after START_NS."""

from __future__ import annotations

from typing import Any

import numpy as np

from hopscope.detect.records import EVENT, NO_NODE, NO_PORT, Kind, Metric

from .event_make import START_NS, Events

SECOND = 10**9


def event(kind: Kind, second: float = 0.0, *, shard: int = 0, **fields: Any) -> Events:
    """EVENT [1] of a queue at node 7, port 2, or as the fields say."""
    made = np.zeros(1, EVENT)
    made["kind"], made["shard"], made["time_ns"] = kind, shard, START_NS + round(second * SECOND)
    made["metric"], made["node_id"], made["port"], made["ident"] = Metric.QUEUE_OCCUPANCY, 7, 2, 1
    made["value"], made["previous"] = 3000, 2500
    if kind in (Kind.SILENT, Kind.RETURNED):
        made["metric"], made["port"], made["ident"], made["src_lo"] = 0, NO_PORT, 0, 0xFFFF_0A00_0001
        made["previous"] = 5 * SECOND
    if kind in (Kind.PATH_CHANGE, Kind.LOOP):
        made["metric"], made["node_id"], made["port"], made["ident"] = Metric.FLOW_PATH, NO_NODE, NO_PORT, 0
        made["hop_count"], made["path"][0, :2] = 2, (7, 8)
    for name, value in fields.items():
        made[name] = value
    return made


def flow(number: int) -> dict[str, Any]:
    """Fields of a flow over IPv4."""
    return {
        "flow_id": number,
        "ip_version": 4,
        "src_lo": 0xFFFF_0A00_0000 + number,
        "dst_lo": 0xFFFF_0A00_00FF,
        "sport": 4000 + number,
        "dport": 80,
        "proto": 6,
    }


def numbered(events: Events, first: int = 0) -> Events:
    """Give the events of one shard their sequence."""
    events["sequence"] = np.arange(first, first + len(events))
    return events


def joined(*events: Events) -> Events:
    """Several in a row, numbered."""
    return numbered(np.concatenate(events))
