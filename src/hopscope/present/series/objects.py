"""Places, alarms and bursts as JSON objects: those of the API and of `hopscope query`."""

from __future__ import annotations

from typing import Any

from ...base.names import Names
from ..events import node_object, port_object, when, wide
from .bursts import Burst
from .intervals import Interval
from .places import Place, unit_of


def place_object(names: Names, place: Place) -> dict[str, Any]:
    """The place of values."""
    node, port = node_object(names, place.node), port_object(names, place.node, place.port)
    return {"node": node, "port": port, "queue": place.ident}


def alarm_object(interval: Interval) -> dict[str, Any]:
    """An alarm, without its place."""
    return {
        "start": when(interval.start_ns),
        "end": when(interval.end_ns),
        "peak": wide(interval.peak),
        "limit": wide(interval.limit),
        "reason": interval.reason,
    }


def burst_object(names: Names, burst: Burst) -> dict[str, Any]:
    """A burst with its contributors."""
    interval = burst.interval
    return {
        "metric": interval.metric,
        "unit": unit_of(interval.metric),
        **place_object(names, interval.place),
        **alarm_object(interval),
        "duration_ns": wide(interval.duration_ns),
        "clock": interval.clock,
        "flows": burst.flows,
        "contributors": [
            {
                "flow": each.flow,
                "events": each.events,
                "highest_latency_ns": wide(each.highest_latency_ns),
            }
            for each in burst.contributors
        ],
    }
