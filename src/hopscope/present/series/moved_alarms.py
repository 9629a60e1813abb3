"""Alarms of which only another member of a cluster knows the end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ...detect.records import ClearReason, Kind
from ...history.history_like import HistoryLike
from ...history.reading.filters import Filters
from .intervals import Interval, alarms, event_rows, is_measured, place_of_row
from .places import OF_FLOWS, Place

MAX_VALUES = 100_000
"""Largest number of events that are read: the newest of the time range."""
_KINDS = (Kind.NEW_KEY.label, Kind.CHANGE.label, Kind.CLEARED.label)
"""Kinds of events whose value comes from a report at the time of the event."""


def end_moved_alarms(history: HistoryLike, found: Sequence[Interval], filters: Filters) -> bool:
    """End alarms of queues and ports that no report ended: each ends with the first value from another member
    that is not above its limit, since the sources of the place have moved to that member. Returns whether
    some events were not read.
    """
    waiting: dict[tuple[str, Place], list[Interval]] = defaultdict(list)
    for alarm in found:
        if alarm.members != {""} and alarm.metric not in OF_FLOWS and _unended(alarm):
            waiting[alarm.metric, alarm.place].append(alarm)
    if not waiting:
        return False
    table = history.events(
        limit=MAX_VALUES,
        start=min(alarm.start_ns or 0 for parts in waiting.values() for alarm in parts),
        end=int(filters["end"]),  # type: ignore[arg-type]
        nodes=sorted({place.node for _, place in waiting}),
        metrics=sorted({metric for metric, _ in waiting}),
        kinds=_KINDS,
    )
    for row in reversed(list(event_rows(table))):
        for alarm in waiting.get((row["metric"], place_of_row(row)), ()):
            later = (alarm.start_ns or 0) < row["time_ns"] < (alarm.end_ns or row["time_ns"] + 1)
            lower = is_measured(row) and alarm.limit is not None and row["value"] <= alarm.limit
            if later and lower and row["member"] not in alarm.members and _unended(alarm):
                alarm.end_ns, alarm.reason = row["time_ns"], ClearReason.VALUE.label
                alarm.switch_end_ns = row["switch_ns"]
    return table.truncated


def places_of_moved_alarms(history: HistoryLike, filters: Filters) -> set[tuple[str, int, int | None]]:
    """Metric, switch and port of places where members have open alarms, all of which have ended according to
    another member.
    """
    kinds: Filters = {**filters, "kinds": (Kind.RAISED.label, Kind.CLEARED.label)}
    table = history.events(limit=MAX_VALUES, **kinds)
    opened = [alarm for alarm in alarms(reversed(list(event_rows(table)))) if alarm.end_ns is None]
    end_moved_alarms(history, opened, filters)
    still = {_port(alarm) for alarm in opened if alarm.end_ns is None}
    return set(map(_port, opened)) - still


def _port(interval: Interval) -> tuple[str, int, int | None]:
    return interval.metric, interval.place.node, interval.place.port


def _unended(interval: Interval) -> bool:
    """Whether no report has ended an interval: it is open, or its alarm was cleared for another reason."""
    return interval.end_ns is None or not is_measured({"reason": interval.reason})
