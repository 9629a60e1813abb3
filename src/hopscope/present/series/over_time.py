"""Values of one place over time, and of the places with the highest peaks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from ...history.questions import HistoryLike
from ...history.reading.filters import Filters, Flow
from .intervals import (
    ALARM_KINDS,
    STORING_KINDS,
    Interval,
    alarms,
    event_rows,
    is_measured,
    joined,
    place_of_row,
)
from .peaks import add_peaks
from .places import DROP, OF_FLOWS, WITH_IDENT, Buckets, Place, place_rows, times_ns
from .samples import Sample, Samples, key_of, place_of

MOST_ALARMS = 10_000
"""Events of alarms that one series reads."""
MOST_SHOWN = 200
"""Alarms of one series: those with the highest peaks."""
_EARLIER = (64, MOST_ALARMS)
"""Events before the range that are searched for the stored value, and for an alarm that goes on: more if the
newest of the switch, or of its port, are of other places.
"""
Sort = Literal["peak", "events", "place"]
Values = list[int | None]


@dataclass(slots=True)
class Series:
    """Values by bucket; None: none is known."""

    buckets: Buckets
    lowest: Values
    highest: Values
    latest: Values
    events: list[int]
    """Events by bucket."""
    before: int | None = None
    """Value of the last event before the first bucket: what was stored then."""
    alarms: list[Interval] = field(default_factory=list)
    alarm_count: int = 0
    """How many alarms there were; `alarms` has the highest."""
    truncated: bool = False
    """There were more events of alarms, or of values during them, than are read."""
    sampled_ns: int | None = None
    """Since when samples of live state are in it, too; None: they are not."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Whose values."""

    metric: str
    node: int | None = None
    port: int | None = None
    ident: int | None = None
    flow_id: int | None = None

    def filters(self, since_ns: int, until_ns: int) -> Filters:
        """For history."""
        found: Filters = {"start": since_ns, "end": until_ns}
        if self.node is not None:
            found["nodes"] = (self.node,)
        if self.port is not None and self.metric != "link_utilization":
            found["ports"] = (self.port,)
        if self.flow_id is not None:
            found["flow"] = Flow(flow_id=self.flow_id)
        return found

    def takes(self, place: Place) -> bool:
        """Whether values of a place are asked for."""
        pairs = ((self.node, place.node), (self.port, place.port), (self.ident, place.ident))
        return all(asked is None or asked == given for asked, given in pairs)


def series(history: HistoryLike, asked: Asked, buckets: Buckets, samples: Samples | None) -> Series:
    """Values of a port, a queue or a buffer, or of a flow. Without `samples` of events alone."""
    count = buckets.count
    found = Series(buckets, [None] * count, [None] * count, [None] * count, [0] * count)
    filters = asked.filters(buckets.start_ns, buckets.end_ns)
    if asked.metric == "flow_latency":
        _add_flow(found, history, filters)
    else:
        table = history.peaks(asked.metric, bucket_ns=buckets.width_ns, limit=None, **filters)
        columns = (table[name].tolist() for name in ("latest", "lowest", "highest", "events"))
        places = place_rows(table[name] for name in ("node_id", "port", "ident"))
        rows = zip(places, times_ns(table["bucket"]), times_ns(table["time"]), *columns, strict=True)
        for _, bucket, *values in sorted(
            (time, bucket, latest, lowest, highest, events)
            for place, bucket, time, latest, lowest, highest, events in rows
            if asked.takes(place)
        ):
            at = buckets.at(bucket)
            if at is not None:
                latest, lowest, highest, events = values
                _put(found, at, latest, lowest, highest, events)
    if asked.metric == DROP:
        found.lowest = found.highest = found.latest = list(found.events)
        return found
    _add_alarms(found, history, asked, filters)
    found.truncated |= add_peaks(history, found.alarms, filters)
    found.alarm_count = len(found.alarms)
    highest = sorted(found.alarms, key=lambda each: -each.peak)[:MOST_SHOWN]
    found.alarms = sorted(highest, key=lambda each: each.start_ns or 0)
    if samples is not None and asked.flow_id is None and asked.node is not None:
        _add_samples(found, asked, samples)
    return found


def _put(found: Series, at: int, latest: int, lowest: int, highest: int, events: int) -> None:
    low, high = found.lowest[at], found.highest[at]
    found.lowest[at] = lowest if low is None else min(low, lowest)
    found.highest[at] = highest if high is None else max(high, highest)
    found.latest[at] = latest
    found.events[at] += events


def _add_flow(found: Series, history: HistoryLike, filters: Filters) -> None:
    filters = {**filters, "metrics": ("flow_latency",)}
    table = history.events(limit=MOST_ALARMS, order="oldest", **filters)
    for row in event_rows(table):
        at = found.buckets.at(row["time_ns"])
        if at is not None and row["kind"] != "flow_record" and is_measured(row):
            _put(found, at, row["value"], row["value"], row["value"], 1)
    found.truncated = table.truncated


def _add_alarms(found: Series, history: HistoryLike, asked: Asked, filters: Filters) -> None:
    filters = {**filters, "metrics": (asked.metric,), "kinds": ALARM_KINDS}
    table = history.events(limit=MOST_ALARMS, order="oldest", **filters)
    found.truncated = found.truncated or table.truncated
    found.alarms = [each for each in alarms(event_rows(table)) if asked.takes(each.place)]
    if asked.metric in OF_FLOWS and asked.flow_id is None:  # each flow has a stored value and an alarm
        found.alarms = joined(found.alarms)
        return
    earlier: Filters = {**filters, "start": None, "end": found.buckets.start_ns}
    if asked.ident is not None or asked.metric not in WITH_IDENT:
        found.before = _stored_before(history, asked, earlier)
    before = alarms(reversed(_newest_before(history, asked, earlier)))
    unended = [each for each in before if each.end_ns is None]
    if unended:
        begun = unended[-1]
        ended = next((each for each in found.alarms if each.start_ns is None), None)
        if ended is not None:
            begun.end_ns, begun.switch_end_ns, begun.reason = ended.end_ns, ended.switch_end_ns, ended.reason
            found.alarms.remove(ended)
        found.alarms.insert(0, begun)
    found.alarms = joined(found.alarms)  # of one place, by several members


def _stored_before(history: HistoryLike, asked: Asked, earlier: Filters) -> int | None:
    rows = _newest_before(history, asked, {**earlier, "kinds": STORING_KINDS})
    return rows[0]["value"] if rows else None


def _newest_before(history: HistoryLike, asked: Asked, earlier: Filters) -> list[dict[str, Any]]:
    """Events of the place that is asked for, the newest first."""
    rows: list[dict[str, Any]] = []
    for limit in _EARLIER:
        table = history.events(limit=limit, **earlier)
        rows = [row for row in event_rows(table) if asked.takes(place_of_row(row))]
        if rows or not table.truncated:
            break
    return rows


def _add_samples(found: Series, asked: Asked, samples: Samples) -> None:
    for at, sample in samples.over(asked.metric, found.buckets):
        values = [
            value
            for key, value in zip(sample.keys.tolist(), sample.values.tolist(), strict=True)
            if key >> 32 == asked.node and asked.takes(place_of(key))
        ]
        if values:
            _put(found, at, values[-1], min(values), max(values), 0)
            found.sampled_ns = found.sampled_ns or sample.time_ns


@dataclass(slots=True)
class HeatRow:
    """One place of a heat map."""

    place: Place
    peak: int
    events: int
    values: Values
    """Highest value by bucket; of `drop` the number of drop reports."""


def heatmap(
    history: HistoryLike,
    metric: str,
    buckets: Buckets,
    rows: int,
    sort: Sort,
    samples: Samples | None,
    nodes: Sequence[int] = (),
) -> tuple[int, list[HeatRow], int | None]:
    """Places with values in the range, how many there are, and since when samples are in it.

    Of all places those with the highest peaks are taken, or those with the most events (`sort` "events").
    """
    window: Filters = {"start": buckets.start_ns, "end": buckets.end_ns, "nodes": nodes}
    table = history.peaks(metric, limit=None, **window)
    places = place_rows(table[name] for name in ("node_id", "port", "ident"))
    events = dict(zip(places, table["events"].tolist(), strict=True))
    peaks = events.copy() if metric == DROP else dict(zip(places, table["highest"].tolist(), strict=True))
    live = [] if samples is None else samples.over(metric, buckets)
    for key, value in _sampled_peaks(live):
        place = place_of(key)
        if not nodes or place.node in nodes:
            peaks[place] = max(peaks.get(place, 0), value)

    def rank(place: Place) -> tuple[int, ...]:
        first = (events.get(place, 0), peaks[place]) if sort == "events" else (peaks[place],)
        return (*(-value for value in first), *_order(place))

    chosen = sorted((place for place in peaks if peaks[place] > 0), key=rank)[:rows]
    if sort == "place":
        chosen.sort(key=_order)
    found = {
        place: HeatRow(place, peaks[place], events.get(place, 0), [None] * buckets.count) for place in chosen
    }
    if found:
        _fill(found, history, metric, buckets)
    keys = np.array(sorted(key_of(place) for place in found), np.uint64)
    for at, sample in live:
        for index, value in zip(*sample.of(keys), strict=True):
            _raise(found[place_of(int(keys[index]))], at, int(value))
    return len(peaks), list(found.values()), live[0][1].time_ns if live else None


def _fill(found: dict[Place, HeatRow], history: HistoryLike, metric: str, buckets: Buckets) -> None:
    window: Filters = {
        "start": buckets.start_ns,
        "end": buckets.end_ns,
        "nodes": sorted({place.node for place in found}),
    }
    if metric != "link_utilization" and all(place.port is not None for place in found):
        window["ports"] = sorted({place.port for place in found if place.port is not None})
    table = history.peaks(metric, bucket_ns=buckets.width_ns, limit=None, **window)
    places = place_rows(table[name] for name in ("node_id", "port", "ident"))
    values = table["events" if metric == DROP else "highest"].tolist()
    for place, bucket, value in zip(places, times_ns(table["bucket"]), values, strict=True):
        at = buckets.at(bucket)
        if place in found and at is not None:
            _raise(found[place], at, value)


def _raise(row: HeatRow, at: int, value: int) -> None:
    before = row.values[at]
    row.values[at] = value if before is None else max(before, value)


def _sampled_peaks(live: list[tuple[int, Sample]]) -> list[tuple[int, int]]:
    if not live:
        return []
    keys = np.concatenate([sample.keys for _, sample in live])
    values = np.concatenate([sample.values for _, sample in live])
    unique, place = np.unique(keys, return_inverse=True)
    highest = np.zeros(len(unique), np.uint32)
    np.maximum.at(highest, place.reshape(-1), values)
    return list(zip(unique.tolist(), highest.tolist(), strict=True))


def _order(place: Place) -> tuple[int, int, int]:
    return place.node, -1 if place.port is None else place.port, -1 if place.ident is None else place.ident
