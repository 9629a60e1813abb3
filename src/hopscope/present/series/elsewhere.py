"""Alarms whose end only another member of a cluster has heard of."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ...detect.records import ClearReason, Kind
from ...history.questions import HistoryLike
from ...history.reading.filters import Filters
from .intervals import Interval, alarms, event_rows, is_measured, place_of_row
from .places import OF_FLOWS, Place

MOST_VALUES = 100_000
"""Events that are read: the newest of the range."""
_KINDS = (Kind.NEW_KEY.label, Kind.CHANGE.label, Kind.CLEARED.label)
"""Kinds of events whose value a report has just had."""


def end_elsewhere(history: HistoryLike, found: Sequence[Interval], filters: Filters) -> bool:
    """End alarms of queues and ports that no report ended with the first value of another member that is not
    above their limit: the sources of the place have moved there. Whether some events were not read.
    """
    waiting: dict[tuple[str, Place], list[Interval]] = defaultdict(list)
    for each in found:
        if each.members != {""} and each.metric not in OF_FLOWS and _unended(each):
            waiting[each.metric, each.place].append(each)
    if not waiting:
        return False
    table = history.events(
        limit=MOST_VALUES,
        start=min(each.start_ns or 0 for parts in waiting.values() for each in parts),
        end=int(filters["end"]),  # type: ignore[arg-type]
        nodes=sorted({place.node for _, place in waiting}),
        metrics=sorted({metric for metric, _ in waiting}),
        kinds=_KINDS,
    )
    for row in reversed(list(event_rows(table))):
        for each in waiting.get((row["metric"], place_of_row(row)), ()):
            later = (each.start_ns or 0) < row["time_ns"] < (each.end_ns or row["time_ns"] + 1)
            lower = is_measured(row) and each.limit is not None and row["value"] <= each.limit
            if later and lower and row["member"] not in each.members and _unended(each):
                each.end_ns, each.reason = row["time_ns"], ClearReason.VALUE.label
                each.switch_end_ns = row["switch_ns"]
    return table.truncated


def ended_elsewhere(history: HistoryLike, filters: Filters) -> set[tuple[str, int, int | None]]:
    """Metric, switch and port of places where alarms are open at members, and all of them have
    ended so.
    """
    kinds: Filters = {**filters, "kinds": (Kind.RAISED.label, Kind.CLEARED.label)}
    table = history.events(limit=MOST_VALUES, **kinds)
    opened = [each for each in alarms(reversed(list(event_rows(table)))) if each.end_ns is None]
    end_elsewhere(history, opened, filters)
    still = {_port(each) for each in opened if each.end_ns is None}
    return set(map(_port, opened)) - still


def _port(interval: Interval) -> tuple[str, int, int | None]:
    return interval.metric, interval.place.node, interval.place.port


def _unended(interval: Interval) -> bool:
    """Whether no report has ended it: it is open, or its alarm was cleared for another reason."""
    return interval.end_ns is None or not is_measured({"reason": interval.reason})
