"""An experiment over time: its telemetry intervals, and the effect of events.

Labels are RECEIVED_LABEL records in order of arrival, `active` is bool [intervals, ports] (see `measures`);
`first` is the first measured interval, and times of events count from its start.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...records import PS
from ..simulation import measures
from ..simulation.counts import TrafficCounts
from .events import Event, changes

SERIES = {
    "coverage": "share of the ports with traffic from which the controller received a label",
    "ports": "switch ports that had traffic",
    "labels": "labels received by the controller",
    "lost": "share of finished packets that were lost",
}
"""Measures of every telemetry interval."""


def series(
    labels: measures.Labels,
    active: measures.Bools,
    first: int,
    telemetry: float,
    counted: Sequence[TrafficCounts],
) -> dict[str, list[float | None]]:
    """SERIES of every measured interval, None without a value.

    `counted`: counts at the start of the first interval, and at the end of each.
    """
    width = round(telemetry * PS)
    arrived = np.bincount(labels["received"] // width, minlength=len(active))[first : len(active)]
    delivered = np.diff([count.delivered for count in counted])
    dropped = np.diff([count.dropped for count in counted])
    found: dict[str, measures.Floats] = {
        "coverage": measures.coverage(labels, active, telemetry)[first:],
        "ports": np.count_nonzero(active[first:], axis=1).astype(np.float64),
        "labels": arrived.astype(np.float64),
        "lost": measures.share(dropped, delivered + dropped),
    }
    return {
        name: [None if np.isnan(value) else float(value) for value in found[name].tolist()] for name in SERIES
    }


def longest_silence(labels: measures.Labels, active: measures.Bools, first: int, telemetry: float) -> float:
    """Longest time for which a port had no newer label, s; NaN if no port had traffic.

    Only telemetry intervals in which the port had traffic count: an idle interval ends a silence, and a new
    one starts after it.
    """
    width = round(telemetry * PS)
    shown = active[first:]
    ever = np.nonzero(shown.any(axis=0))[0]
    if not len(ever):
        return float("nan")
    # A port's time is split where it becomes idle or busy, and at each newer label.
    new = labels[measures.updates(labels)]
    new = new[(new["received"] >= first * width) & (new["received"] < len(active) * width)]
    turn, turning = np.nonzero(shown[1:] != shown[:-1])
    ends = np.repeat([first * width, len(active) * width], len(ever))
    time = np.concatenate([new["received"], (turn + 1 + first) * width, ends]).astype(np.int64)
    port = np.concatenate([new["port"], turning, ever, ever]).astype(np.int64)
    by_port = np.lexsort((time, port))
    time, port = time[by_port], port[by_port]
    same = port[1:] == port[:-1]
    begin, length, whose = time[:-1][same], np.diff(time)[same], port[:-1][same]
    busy = active[np.minimum(begin // width, len(active) - 1), whose]
    return float(length[busy].max(initial=0) / PS)


def around_events(
    labels: measures.Labels, active: measures.Bools, first: int, telemetry: float, events: Sequence[Event]
) -> dict[str, Any]:
    """EVENT_MEASURES of a run with these events, None without a value."""
    share = measures.coverage(labels, active, telemetry)[first:]
    begin = np.arange(len(share)) * telemetry
    slack = telemetry * 1e-6  # an event at the end of an interval is not in it
    starts = [event.at for event in events]
    stops = [event.until for event in events]
    earliest = -np.inf if None in starts else min(time for time in starts if time is not None)
    latest = np.inf if None in stops else max(time for time in stops if time is not None)
    before, after = begin + telemetry <= earliest + slack, begin >= latest - slack
    parts = {"before": before, "during": ~before & ~after, "after": after}
    row: dict[str, Any] = {}
    for name, chosen in parts.items():
        known = share[chosen & ~np.isnan(share)]
        row[f"coverage_{name}"] = float(known.mean()) if len(known) else None
    worst = {"recovery_begin": -1.0, "recovery_end": -1.0}
    for time in changes(events):
        for name, own in (
            ("recovery_begin", [event for event in events if event.at == time]),
            ("recovery_end", [event for event in events if event.until == time]),
        ):
            if own:
                took = recovery(labels, active, first, telemetry, time, max(e.reroute for e in own))
                worst[name] = max(worst[name], took)
    return row | {name: value if 0 <= value < np.inf else None for name, value in worst.items()}


def recovery(
    labels: measures.Labels,
    active: measures.Bools,
    first: int,
    telemetry: float,
    time: float,
    reroute: float,
) -> float:
    """Time from a change at `time` until the controller has a label of every port written after it, s.

    Ports are those with traffic in the first telemetry interval that starts after routing has reacted,
    `reroute` later. Infinity if one has no label before the end, or there is no such interval.
    """
    width = round(telemetry * PS)
    change = first * width + round(time * PS)
    interval = -(-(change + round(reroute * PS)) // width)
    if interval >= len(active):
        return float("inf")
    after = labels[labels["labelled"] >= change]
    first_received = np.full(active.shape[1], np.inf)
    np.minimum.at(first_received, after["port"], after["received"].astype(np.float64))
    return float((first_received[active[interval]].max(initial=change) - change) / PS)
