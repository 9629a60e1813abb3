"""Peaks of intervals: the highest values between the events that begin and end an interval."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from operator import itemgetter

from ...detect.records import Kind
from ...history.history_like import HistoryLike
from ...history.reading.filters import Filters
from .intervals import ALARM_KINDS, Interval, event_rows, place_of_row
from .places import Place

MAX_VALUES = 100_000
"""Largest number of events with values that are read: the newest of the time range."""
KINDS = tuple(
    kind.label for kind in Kind if kind not in (Kind.FLOW_RECORD, Kind.LABEL_RECORD, Kind.PATH_CHANGE)
)
"""Kinds of events at a place, with or without a value."""
_VALUES = tuple(kind for kind in KINDS if kind not in ALARM_KINDS)


def span_of(interval: Interval, since_ns: int, until_ns: int) -> tuple[int, int]:
    """First and last time (ns) of the part of an interval that is in a time range."""
    start, end = interval.start_ns, interval.end_ns
    return max(since_ns, start or 0), until_ns if end is None else end


def add_peaks(history: HistoryLike, found: Sequence[Interval], filters: Filters) -> bool:
    """Raise the peaks of alarms to the highest values within the time range of the filters. Returns whether
    some values were not read.
    """
    if not found:
        return False
    start_ns, end_ns = int(filters["start"]), int(filters["end"])  # type: ignore[arg-type]
    spans = [span_of(alarm, start_ns, end_ns) for alarm in found]
    values: dict[tuple[str, Place], list[tuple[int, int, int | None]]] = defaultdict(list)
    nodes = {alarm.place.node for alarm in found}
    chosen: Filters = {
        **filters,
        "start": min(start for start, _ in spans),
        "end": max(end for _, end in spans) + 1,
        "nodes": () if None in nodes else sorted(nodes),  # flow latency belongs to no switch
        "metrics": sorted({alarm.metric for alarm in found}),
        "kinds": _VALUES,
    }
    table = history.events(limit=MAX_VALUES, **chosen)
    for row in event_rows(table):
        values[row["metric"], place_of_row(row)].append((row["time_ns"], row["value"], row["switch_ns"]))
    for mine in values.values():
        mine.sort(key=itemgetter(0))
    for alarm, (start, end) in zip(found, spans, strict=True):
        mine = values[alarm.metric, alarm.place]
        during = mine[
            bisect_left(mine, start, key=itemgetter(0)) : bisect_right(mine, end, key=itemgetter(0))
        ]
        alarm.peak = max(
            [alarm.peak, *(value for time_ns, value, switch_ns in during if alarm.holds(time_ns, switch_ns))]
        )
    return table.truncated
