"""Values of one place over time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...detect.places import places_of
from ...history.history_like import HistoryLike
from ...history.reading.filters import Filters, Flow
from ...history.reading.highest import WITH_IDENT
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
from .places import DROP, OF_FLOWS, Buckets, Place, place_rows, times_ns
from .samples import Samples

MAX_ALARMS = 10_000
"""Largest number of events of alarms that are read for one series."""
MAX_SHOWN = 200
"""Largest number of alarms in one series: those with the highest peaks."""
_EARLIER = (64, MAX_ALARMS)
"""How many events before the range are searched for the stored value, and for an alarm that continues into
it. The second number is used if the newest events of the switch or port are all about other places.
"""
Values = list[int | None]


@dataclass(slots=True)
class Series:
    """Values by bucket; None if none is known."""

    buckets: Buckets
    lowest: Values
    highest: Values
    latest: Values
    events: list[int]
    """Number of events by bucket."""
    before: int | None = None
    """Value of the last event before the first bucket, which is the stored value at its start."""
    alarms: list[Interval] = field(default_factory=list)
    alarm_count: int = 0
    """Number of all alarms; `alarms` has only those with the highest peaks."""
    truncated: bool = False
    """Whether there were more events of alarms, or of values during them, than are read."""
    sampled_ns: int | None = None
    """Time of the first sample of the live state that is included; None: none is."""


@dataclass(frozen=True, slots=True)
class SeriesQuery:
    """The metric and the place or flow whose values are requested."""

    metric: str
    node: int | None = None
    port: int | None = None
    ident: int | None = None
    flow_id: int | None = None

    def filters(self, since_ns: int, until_ns: int) -> Filters:
        """These conditions as filters for history."""
        found: Filters = {"start": since_ns, "end": until_ns}
        if self.node is not None:
            found["nodes"] = (self.node,)
        if self.port is not None and self.metric != "link_utilization":
            found["ports"] = (self.port,)
        if self.flow_id is not None:
            found["flow"] = Flow(flow_id=self.flow_id)
        return found

    def takes(self, place: Place) -> bool:
        """Whether values of a place are requested."""
        pairs = ((self.node, place.node), (self.port, place.port), (self.ident, place.ident))
        return all(asked is None or asked == given for asked, given in pairs)


def series(history: HistoryLike, asked: SeriesQuery, buckets: Buckets, samples: Samples | None) -> Series:
    """Values of a port, queue, buffer or flow; without `samples`, only from events."""
    count = buckets.count
    found = Series(buckets, [None] * count, [None] * count, [None] * count, [0] * count)
    filters = asked.filters(buckets.start_ns, buckets.end_ns)
    if asked.metric == "flow_latency":
        _add_flow(found, history, filters)
    else:
        table = history.peaks(asked.metric, bucket_ns=buckets.width_ns, limit=None, **filters)
        columns = (table[name].tolist() for name in ("latest", "lowest", "highest", "events"))
        places = place_rows(table)
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
    highest = sorted(found.alarms, key=lambda alarm: -alarm.peak)[:MAX_SHOWN]
    found.alarms = sorted(highest, key=lambda alarm: alarm.start_ns or 0)
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
    table = history.events(limit=MAX_ALARMS, order="oldest", **filters)
    for row in event_rows(table):
        at = found.buckets.at(row["time_ns"])
        if at is not None and row["kind"] != "flow_record" and is_measured(row):
            _put(found, at, row["value"], row["value"], row["value"], 1)
    found.truncated = table.truncated


def _add_alarms(found: Series, history: HistoryLike, asked: SeriesQuery, filters: Filters) -> None:
    filters = {**filters, "metrics": (asked.metric,), "kinds": ALARM_KINDS}
    table = history.events(limit=MAX_ALARMS, order="oldest", **filters)
    found.truncated = found.truncated or table.truncated
    found.alarms = [alarm for alarm in alarms(event_rows(table)) if asked.takes(alarm.place)]
    if asked.metric in OF_FLOWS and asked.flow_id is None:  # each flow has a stored value and an alarm
        found.alarms = joined(found.alarms)
        return
    earlier: Filters = {**filters, "start": None, "end": found.buckets.start_ns}
    if asked.ident is not None or asked.metric not in WITH_IDENT:
        found.before = _stored_before(history, asked, earlier)
    before = alarms(reversed(_newest_before(history, asked, earlier)))
    unended = [alarm for alarm in before if alarm.end_ns is None]
    if unended:
        begun = unended[-1]
        ended = next((alarm for alarm in found.alarms if alarm.start_ns is None), None)
        if ended is not None:
            begun.end_ns, begun.switch_end_ns, begun.reason = ended.end_ns, ended.switch_end_ns, ended.reason
            found.alarms.remove(ended)
        found.alarms.insert(0, begun)
    found.alarms = joined(found.alarms)  # several members may have alarms of the same place


def _stored_before(history: HistoryLike, asked: SeriesQuery, earlier: Filters) -> int | None:
    rows = _newest_before(history, asked, {**earlier, "kinds": STORING_KINDS})
    return rows[0]["value"] if rows else None


def _newest_before(history: HistoryLike, asked: SeriesQuery, earlier: Filters) -> list[dict[str, Any]]:
    """The newest events of the requested place before the range, the newest first."""
    rows: list[dict[str, Any]] = []
    for limit in _EARLIER:
        table = history.events(limit=limit, **earlier)
        rows = [row for row in event_rows(table) if asked.takes(place_of_row(row))]
        if rows or not table.truncated:
            break
    return rows


def _add_samples(found: Series, asked: SeriesQuery, samples: Samples) -> None:
    for at, sample in samples.over(asked.metric, found.buckets):
        mine = sample.of_node(asked.node or 0)
        places = map(Place._make, places_of(mine.keys))
        values = [
            value for place, value in zip(places, mine.values.tolist(), strict=True) if asked.takes(place)
        ]
        if values:
            _put(found, at, values[-1], min(values), max(values), 0)
            found.sampled_ns = found.sampled_ns or sample.time_ns
