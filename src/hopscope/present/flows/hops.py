"""Latency of a flow by hop, now or at a past moment: stored values, and how far the true values may differ.

A value becomes an event when it differs from the stored value by more than T (`change` of its metric), so
between two events it was within T of the stored value. T is the one in force now, since history has no
earlier ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from ...base.names import Names
from ...detect.records import NO_PORT, NO_VALUE, Kind, Metric
from ...history.history_like import HistoryLike
from ...history.reading.filters import Flow
from ...settings.limits import LimitSettings
from ...wire.records import Records
from ..collector_state import LimitsInForce
from ..events import node_object, port_object, when, wide
from ..series.intervals import is_measured
from ..text import ns_of

MAX_VALUES = 5000
"""Largest number of events with values in one answer; the newest are taken."""
GAUGE_SECONDS = 600
"""How far before a past moment the newest values of queues and links are searched."""
_STORES = frozenset(kind.label for kind in (Kind.NEW_KEY, Kind.CHANGE, Kind.PUSH, Kind.VALUE))
"""Kinds of events whose value becomes the stored value."""
_LATENCIES = (Metric.HOP_LATENCY.label, Metric.FLOW_LATENCY.label)
_GAUGES = (Metric.QUEUE_OCCUPANCY.label, Metric.LINK_UTILIZATION.label)

Key: TypeAlias = tuple[str, int | None]
"""Metric, and the switch of a hop (None for the whole flow)."""


@dataclass(slots=True)
class Track:
    """Values of one metric of a flow, from its events."""

    points: list[tuple[int, int]] = field(default_factory=list)
    """(Time ns, value) of each event that stored one, oldest first."""
    lowest: int | None = None
    highest: int | None = None
    port: int | None = None
    """Egress port of the newest event."""
    hop: int | None = None

    def add(self, time_ns: int, value: int, stores: bool) -> None:
        """Add an event, which must be newer than all before."""
        if stores:
            self.points.append((time_ns, value))
        self.lowest = value if self.lowest is None else min(self.lowest, value)
        self.highest = value if self.highest is None else max(self.highest, value)


@dataclass(frozen=True, slots=True)
class FlowValues:
    """A flow's latencies in a time range, from history."""

    tracks: dict[Key, Track]
    flow: dict[str, Any] | None
    """A row of history that has the flow's 5-tuple."""
    last_ns: int | None
    """Time of the newest of these events; for a flow that has left, the time of its last report."""
    truncated: bool


def flow_values(history: HistoryLike, flow_id: int, start_ns: int | None, end_ns: int | None) -> FlowValues:
    """Latencies of a flow and its hops up to `end_ns`, exclusive. Raises HistoryError."""
    table = history.events(
        limit=MAX_VALUES, metrics=_LATENCIES, flow=Flow(flow_id=flow_id), start=start_ns, end=end_ns
    )
    rows = table.rows()
    tracks: dict[Key, Track] = {}
    for row in reversed(rows):
        if row["kind"] == Kind.FLOW_RECORD.label:
            continue  # its value is a mean
        track = tracks.setdefault((row["metric"], row["node_id"]), Track())
        track.add(ns_of(row["time"]), row["value"], row["kind"] in _STORES)
        track.port, track.hop = row["port"], row["hop"]
    last = next((row for row in rows if not _is_swept(row)), None)
    if last is None or last["kind"] != Kind.FLOW_RECORD.label:
        last = rows[0] if rows else None
    last_ns = None if last is None else ns_of(last["time"])
    return FlowValues(tracks, last, last_ns, table.truncated)


def _is_swept(row: dict[str, Any]) -> bool:
    """Whether an event was not caused by a report, and so may be later than the last report."""
    return row["kind"] == Kind.PUSH.label or not is_measured(row)


def gauges_at(
    history: HistoryLike, nodes: Sequence[int], at_ns: int
) -> dict[tuple[str, int, int], tuple[int, int]]:
    """The values of queues and links that were stored last before a moment: (value, time ns) by (metric,
    switch, port).

    If a port has several queues, the one that changed last is taken. Raises HistoryError.
    """
    if not nodes:
        return {}
    table = history.events(
        limit=MAX_VALUES, metrics=_GAUGES, nodes=nodes,
        start=at_ns - GAUGE_SECONDS * 10**9, end=at_ns + 1,
    )  # fmt: skip
    found: dict[tuple[str, int, int], tuple[int, int]] = {}
    for row in table.rows():
        if row["kind"] in _STORES and row["node_id"] is not None and row["port"] is not None:
            found.setdefault((row["metric"], row["node_id"], row["port"]), (row["value"], ns_of(row["time"])))
    return found


def change_limit(limits: LimitSettings, metric: str, node_id: int | None) -> int | None:
    """T of a metric at a switch; None if changes never become events."""
    for switch in limits.switches if metric != Metric.FLOW_LATENCY.label else ():
        if switch.node == node_id:
            own = getattr(switch, metric).change
            if own is not None:
                return None if own == "never" else int(own)
    return getattr(limits.general, metric).change


def known(value: int) -> int | None:
    """The value as an integer, or None for NO_VALUE, which marks an unavailable value."""
    return None if int(value) == NO_VALUE else int(value)


def live_object(
    row: np.void, hops: Records, values: FlowValues, force: LimitsInForce | None, names: Names, at_ns: int
) -> dict[str, Any]:
    """Hops of a live flow as JSON, from a FLOW record and its HOP_STATE [hops]."""
    latency = _Value(
        values, (Metric.FLOW_LATENCY.label, None), force, at_ns,
        latest=int(row["latency_latest"]) if row["state"] & 2 else None,
        stored=int(row["latency_stored"]), total=int(row["latency_sum"]), samples=int(row["latency_samples"]),
    )  # fmt: skip
    items = []
    for index, hop in enumerate(hops):
        node, port = int(hop["node_id"]), int(hop["egress_port"])
        value = _Value(
            values, (Metric.HOP_LATENCY.label, node), force, at_ns,
            latest=int(hop["latency_latest"]) if hop["state"] & 1 else None,
            stored=int(hop["latency_stored"]), total=int(hop["latency_sum"]), samples=int(hop["samples"]),
        )  # fmt: skip
        gauges = {
            metric: _gauge(known(hop[name]), None, metric, node, force)
            for metric, name in zip(_GAUGES, ("queue_latest", "utilization_latest"), strict=True)
        }
        items.append(_hop_object(index, node, None if port == NO_PORT else port, value, gauges, names))
    return {"latency": latency.as_json(), "hops": items}


def past_object(
    path: Sequence[int], values: FlowValues, gauges: dict[tuple[str, int, int], tuple[int, int]],
    force: LimitsInForce | None, names: Names, at_ns: int,
) -> dict[str, Any]:  # fmt: skip
    """Hops of a path at a past moment as JSON, from stored values only."""
    items = []
    for index, node in enumerate(path):
        track = values.tracks.get((Metric.HOP_LATENCY.label, node))
        port = None if track is None else track.port
        found = {}
        for metric in _GAUGES:
            value, time_ns = gauges.get((metric, node, -1 if port is None else port), (None, None))
            found[metric] = _gauge(value, time_ns, metric, node, force)
        latency = _Value(values, (Metric.HOP_LATENCY.label, node), force, at_ns)
        items.append(_hop_object(index, node, port, latency, found, names))
    total = _Value(values, (Metric.FLOW_LATENCY.label, None), force, at_ns)
    return {"latency": total.as_json(), "hops": items}


def series_objects(values: FlowValues, force: LimitsInForce | None, names: Names) -> list[dict[str, Any]]:
    """Stored values over time as JSON: first those of the flow, then those of its hops by index."""

    def place(item: tuple[Key, Track]) -> tuple[bool, int, int]:
        (metric, node), track = item
        return metric != Metric.FLOW_LATENCY.label, track.hop or 0, node or 0

    return [
        {
            "metric": metric,
            "node": None if node is None else node_object(names, node),
            "port": port_object(names, node, track.port),
            "hop": None if node is None else track.hop,
            "change_limit": _limit(force, metric, node),
            "points": [{"time": when(time_ns), "value": wide(value)} for time_ns, value in track.points],
        }
        for (metric, node), track in sorted(values.tracks.items(), key=place)
    ]


class _Value:
    """A value of a flow or hop, with its stored value and the range that events show."""

    def __init__(
        self, values: FlowValues, key: Key, force: LimitsInForce | None, at_ns: int, *,
        latest: int | None = None, stored: int | None = None, total: int = 0, samples: int = 0,
    ) -> None:  # fmt: skip
        """`stored`: from the flow table, in which 0 may mean that no value is stored yet (a sink stores the
        first value above T); 0 or None: take it from the newest event.
        """
        track = values.tracks.get(key, Track())
        last = track.points[-1] if track.points else None
        if not stored or latest is None:
            stored = None if last is None else last[1]
        known = [value for value in (latest, stored) if value is not None]
        self._fields = {
            "latest_ns": latest,
            "stored_ns": stored,
            "stored_at": when(last[0]) if last is not None and last[1] == stored else None,
            "age_ns": wide(max(0, at_ns - last[0])) if last is not None and last[1] == stored else None,
            "change_limit_ns": _limit(force, *key),
            "lowest_ns": min((*known, *_of(track.lowest)), default=None),
            "highest_ns": max((*known, *_of(track.highest)), default=None),
            "mean_ns": total / samples if samples else None,
            "samples": samples,
        }

    def as_json(self) -> dict[str, Any]:
        """The value as JSON."""
        return {
            name: wide(value) if isinstance(value, int) else value for name, value in self._fields.items()
        }


def _of(value: int | None) -> Iterable[int]:
    return () if value is None else (value,)


def _limit(force: LimitsInForce | None, metric: str, node: int | None) -> int | None:
    if force is None or metric not in force.metrics:
        return None
    return change_limit(force.limits, metric, node)


def _gauge(
    value: int | None, time_ns: int | None, metric: str, node: int, force: LimitsInForce | None
) -> dict[str, Any]:
    return {
        "value": value,
        "stored_at": when(time_ns),
        "change_limit": _limit(force, metric, node),
    }


def _hop_object(
    index: int, node: int, port: int | None, value: _Value, gauges: dict[str, Any], names: Names
) -> dict[str, Any]:
    return {
        "hop": index,
        "node": node_object(names, node),
        "port": port_object(names, node, port),
        **value.as_json(),
        **gauges,
    }
