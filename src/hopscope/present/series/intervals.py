"""Intervals in which values were above their limit: alarms, and runs of values above a number.

An interval lasts from the event that raised it to the one that cleared it. Its duration is measured by the
switch's clock if both events carry its time, else by the collector's clock, which is less exact because
reports arrive later and in batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from ...detect.records import MEASURED, Kind
from ...history.reading.highest import WITH_IDENT
from .places import OF_FLOWS, Place, times_ns

if TYPE_CHECKING:
    from ...history.reading.table import Table

ALARM_KINDS = (Kind.RAISED.label, Kind.CLEARED.label, Kind.THRESHOLD.label)
STORING_KINDS = (Kind.NEW_KEY.label, Kind.CHANGE.label, Kind.PUSH.label)
"""Kinds of events whose value becomes the stored value."""
GAP_NS = 10**9
"""Events of values above a limit without hysteresis belong to one interval if they are no further apart."""
_AGREE_NS = 2 * 10**9
"""Reports are delayed by less than this, so durations by both clocks differ by less."""
_TURN_NS = 1 << 32
"""Period after which 32-bit times wrap."""


@dataclass(slots=True)
class Interval:
    """One interval at one place."""

    metric: str
    place: Place
    start_ns: int | None
    """None: before the time range."""
    end_ns: int | None = None
    """None: it has not ended."""
    switch_start_ns: int | None = None
    switch_end_ns: int | None = None
    peak: int = 0
    """Highest value of its events."""
    limit: int | None = None
    """The value that had to be exceeded."""
    reason: str | None = None
    """Why the alarm was cleared."""
    flow_ids: set[int] = field(default_factory=set)
    """Flows whose reports raised it."""
    members: set[str] = field(default_factory=set)
    """Members of the cluster that found it; {""} without a cluster."""

    @property
    def clock(self) -> Literal["switch", "collector"]:
        """The clock by which `duration_ns` is measured."""
        return "collector" if self._switch_ns is None else "switch"

    @property
    def duration_ns(self) -> int | None:
        """Its duration; None if it has no start or no end yet."""
        if self.start_ns is None or self.end_ns is None:
            return None
        return self.end_ns - self.start_ns if self._switch_ns is None else self._switch_ns

    @property
    def _switch_ns(self) -> int | None:
        """Duration by the switch's clock; None if a time is missing, or the duration disagrees with the
        collector's. It disagrees if the switch's clock was set or restarted, or has 32 bits (it wraps every
        4.3 s) and wrapped more than once.
        """
        if self.start_ns is None or self.end_ns is None:
            return None
        if self.switch_start_ns is None or self.switch_end_ns is None:
            return None
        ours, its = self.end_ns - self.start_ns, self.switch_end_ns - self.switch_start_ns
        if max(self.switch_start_ns, self.switch_end_ns) < _TURN_NS:
            its %= _TURN_NS
        return its if its >= 0 and abs(its - ours) < _AGREE_NS else None

    def holds(self, time_ns: int, switch_ns: int | None) -> bool:
        """Whether an event is in the interval: reports of one batch have the same time, so at its first and
        last time the switch's clock decides, if `duration_ns` is measured by it.
        """
        if (self.start_ns or 0) < time_ns and (self.end_ns is None or time_ns < self.end_ns):
            return True
        if time_ns < (self.start_ns or 0) or (self.end_ns is not None and time_ns > self.end_ns):
            return False
        lasted, start = self._switch_ns, self.switch_start_ns
        if lasted is None or start is None or switch_ns is None:
            return True
        since = (switch_ns - start) % _TURN_NS if max(switch_ns, start) < _TURN_NS else switch_ns - start
        return 0 <= since <= lasted

    def overlaps(self, since_ns: int, until_ns: int) -> bool:
        """Whether a part of the interval is in a time range."""
        return (self.start_ns or 0) < until_ns and (self.end_ns is None or self.end_ns >= since_ns)


_COLUMNS = (
    "kind",
    "metric",
    "node_id",
    "port",
    "ident",
    "value",
    "previous",
    "reason",
    "switch_ns",
    "flow_id",
)


def event_rows(table: Table) -> Iterator[dict[str, Any]]:
    """Rows of events with `time_ns`, `member`, and the columns from which intervals are made."""
    members = table["member"].tolist() if "member" in table.columns else [""] * len(table)
    columns = [times_ns(table["time"]), members, *(table[name].tolist() for name in _COLUMNS)]
    for row in zip(*columns, strict=True):
        yield dict(zip(("time_ns", "member", *_COLUMNS), row, strict=True))


def place_of_row(row: Mapping[str, Any]) -> Place:
    """The place of an event."""
    metric, port = row["metric"], row["port"]
    if metric == "link_utilization":
        port = row["ident"]
    elif metric == "buffer_occupancy":
        port = None
    return Place(row["node_id"], port, row["ident"] if metric in WITH_IDENT else None)


def alarms(rows: Iterable[Mapping[str, Any]]) -> list[Interval]:
    """Alarms, from events in the order of time: from raised to cleared, or runs of
    events without hysteresis.
    """
    found: list[Interval] = []
    opened: dict[Any, Interval] = {}
    runs: dict[Any, Interval] = {}
    for row in rows:
        if row["kind"] == Kind.THRESHOLD.label:
            run = runs.get(event_key(row))
            if run is None or row["time_ns"] - (run.end_ns or 0) > GAP_NS:
                run = runs[event_key(row)] = _begun(row, row["previous"])
                found.append(run)
            _see(run, row)
            run.end_ns, run.switch_end_ns = row["time_ns"], row["switch_ns"]
        elif row["kind"] == Kind.RAISED.label:
            interval = opened[event_key(row)] = _begun(row, row["previous"])
            found.append(interval)
        elif row["kind"] == Kind.CLEARED.label:
            known = _taken(opened, row)
            if known is None:
                known = Interval(row["metric"], place_of_row(row), None, members={row["member"]})
                found.append(known)
            _end(known, row)
    return found


def above(rows: Iterable[Mapping[str, Any]], value: int) -> list[Interval]:
    """Runs of stored values above `value`, from events in the order of time; each ends with the first event
    that is not above.
    """
    found: list[Interval] = []
    opened: dict[Any, Interval] = {}
    for row in rows:
        measured = is_measured(row)
        interval = opened.get(event_key(row))
        if measured and row["value"] > value:
            if interval is None:
                interval = opened[event_key(row)] = _begun(row, value)
                found.append(interval)
            _see(interval, row)
        elif interval is not None:
            _end(opened.pop(event_key(row)), row)
    return found


def joined(intervals: Iterable[Interval]) -> list[Interval]:
    """Join overlapping intervals of one place: for hop latencies, each flow has its own interval; for all
    metrics, each member that receives reports about the place has one.
    """
    found: list[Interval] = []
    last: dict[tuple[str, Place], Interval] = {}
    for after in sorted(intervals, key=lambda interval: interval.start_ns or 0):
        before = last.get((after.metric, after.place))
        if before is None or not _same(before, after) or not _touches(before, after):
            found.append(after)
            last[after.metric, after.place] = after
            continue
        before.peak = max(before.peak, after.peak)
        before.flow_ids |= after.flow_ids
        before.members |= after.members
        if after.end_ns is None or (before.end_ns is not None and after.end_ns > before.end_ns):
            before.end_ns, before.reason = after.end_ns, after.reason
            before.switch_end_ns = after.switch_end_ns
    return found


def _same(before: Interval, after: Interval) -> bool:
    """Whether two overlapping intervals of one place are to be joined: they are from different flows or
    members.
    """
    return after.metric in OF_FLOWS or len(before.members | after.members) > 1


def _touches(before: Interval, after: Interval) -> bool:
    return before.end_ns is None or (after.start_ns or 0) <= before.end_ns


def event_key(row: Mapping[str, Any]) -> Any:
    """The key of an event's stored value and alarm: its place, or a flow at the place."""
    flow = row["flow_id"] if row["metric"] in OF_FLOWS else None
    return row["member"], row["metric"], place_of_row(row), flow


def _begun(row: Mapping[str, Any], limit: int) -> Interval:
    flows: set[int] = set() if row["flow_id"] is None else {row["flow_id"]}
    return Interval(
        row["metric"],
        place_of_row(row),
        row["time_ns"],
        switch_start_ns=row["switch_ns"],
        peak=row["value"],
        limit=limit,
        flow_ids=flows,
        members={row["member"]},
    )


def _see(interval: Interval, row: Mapping[str, Any]) -> None:
    interval.peak = max(interval.peak, row["value"])
    if row["flow_id"] is not None:
        interval.flow_ids.add(row["flow_id"])


def is_measured(row: Mapping[str, Any]) -> bool:
    """Whether an event's value comes from a report. If not, its alarm was cleared for another reason."""
    return row["reason"] in (None, *MEASURED)


def _end(interval: Interval, row: Mapping[str, Any]) -> None:
    interval.end_ns, interval.reason = row["time_ns"], row["reason"]
    interval.switch_end_ns = row["switch_ns"] if is_measured(row) else None


def _taken(opened: dict[Any, Interval], row: Mapping[str, Any]) -> Interval | None:
    """Remove and return the alarm that an event clears, or None. The alarm of a queue may be cleared by an
    event that states another port, or none.
    """
    key = event_key(row)
    if key in opened:
        return opened.pop(key)
    member, metric, place, _ = key
    if metric not in WITH_IDENT:
        return None
    for other in opened:
        same = other[0] == member and other[1] == metric
        if same and (other[2].node, other[2].ident) == (place.node, place.ident):
            return opened.pop(other)
    return None
