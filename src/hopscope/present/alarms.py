"""The open alarms, by place: when each began, and its highest value.

Alarms are followed by their events: first those in history, then those of the live feed. The live state has
the last word: if it no longer has an alarm, the event that ended the alarm was lost, for example in a crash;
if it has an alarm that no event began, the alarm began before the events that were read.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from ..detect.alarms import ENDS, alarm_key, alarmed_hop, place_key
from ..detect.flows.reading.state import queues_by_port
from ..detect.records import Kind, Metric
from ..wire.records import Records
from .alarm_state import FlowsAt, LiveAlarms, Place, flows_at, place_of
from .collector_state import CollectorState
from .feed import Cursor, Feed
from .history import SharedHistory

if TYPE_CHECKING:
    import numpy.typing as npt

    from ..history.history_like import HistoryLike

BACK_NS = 31 * 86_400 * 10**9
"""How far back history is read for the beginnings of alarms."""
MAX_EVENTS = 50_000
"""Largest number of events that are read from history; the newest are taken."""
MAX_OPEN = 20_000
"""Largest number of alarms that are followed. When further alarms began is not known."""
_BLOCK = 1 << 16
_FLOW_SECONDS = 1.0
_SHARE = 10
"""The flows at places are kept for a second, or longer: for this multiple of the time that it took to find
them. History is not queried again for events that the feed lost until this multiple of the last query's time
has passed.
"""
_MANY = 1000
_LOOK_SHARE = 3
"""With _MANY open alarms or more, they are kept for this multiple of the time that it took to check them."""
_LATE_NS = 10**9
"""An event may be this much older than an event that arrived before it."""
_UNSURE_NS = 5 * 10**9
"""The live state may lag behind events by this much."""
_FOLLOWED = (*ENDS.values(), *ENDS)
_VALUED = (Kind.RAISED, Kind.CHANGE, Kind.PUSH, Kind.VALUE, Kind.THRESHOLD, Kind.LABEL_RECORD)
"""Kinds of events whose value is a value of the metric."""
_READ = (
    *("kind", "metric", "value", "time_ns", "shard", "node_id", "port", "ident", "hop", "flow_id"),
    *("src_hi", "src_lo", "dst_hi", "dst_lo", "sport", "dport", "proto"),
)
"""Fields of EVENT from which alarms are followed."""
_ENDING, _BEGINNING, _WITH_VALUE = (frozenset(map(int, kinds)) for kinds in (ENDS, ENDS.values(), _VALUED))
_COVERAGE = int(Metric.LABEL_COVERAGE)


@dataclass(slots=True)
class OpenAlarm:
    """The open alarms of one metric at one place, as one."""

    key: str
    """The key of the place, see `detect.alarms.place_key`."""
    event: np.void
    """The EVENT that began it; made from the live state if `since_ns` is None."""
    since_ns: int | None
    """When it began; None: before the events that were read."""
    peak: int
    """The highest value since then, in events and the live state; for `label_coverage`, the lowest."""
    now: int | None = None
    """The newest value in the live state (for `label_coverage`, in events), or None."""
    alarms: dict[tuple[str, int], int] = field(default_factory=dict)
    """Flow id of each alarm, by `alarm_key` and `alarmed_hop`: hop latency has alarms for each flow."""

    def see(self, value: int) -> None:
        """Note a value of the metric."""
        worst = min if self.event["metric"] == _COVERAGE else max
        self.peak = worst(self.peak, value)


class OpenAlarms:
    """Follows alarms by their EVENT records, which must come in the order of time."""

    def __init__(self, queue_by_port: bool = False) -> None:
        self._by_port = queue_by_port
        self.places: dict[str, OpenAlarm] = {}
        self.ended: dict[str, int] = {}
        """When alarms ended (ns since the epoch), by place; only the latest are kept."""
        self._places_of: dict[str, dict[int, str]] = {}
        """Place of each open alarm, by `alarm_key` and `alarmed_hop`."""

    def take(self, events: Records) -> None:
        """Take new events. Each event may be given only once."""
        rows = events[self._of_interest(events)]
        columns = [rows[name].tolist() for name in _READ]  # NumPy takes long for a field of a record
        for event, *values in zip(rows, *columns, strict=True):
            row = dict(zip(_READ, values, strict=True))
            kind = row["kind"]
            if kind in _ENDING:
                self._end(row)
            elif kind in _BEGINNING and len(self._places_of) < MAX_OPEN:
                self._begin(row, event)
            if kind not in _WITH_VALUE:
                continue
            place = self.places.get(place_key(row, self._by_port))
            if place is not None:
                place.see(row["value"])
                if row["metric"] == _COVERAGE:
                    place.now = row["value"]

    def forget(self, keys: Iterable[str]) -> None:
        """Drop the alarms of these places, which the live state lacks, but only if room is needed: the live
        state may lack them only for a moment, for example while a worker is restarted.
        """
        if len(self._places_of) <= MAX_OPEN // 2:
            return
        for key in keys:
            for alarm, hop in self.places.pop(key).alarms:
                places = self._places_of[alarm]
                del places[hop]
                if not places:
                    del self._places_of[alarm]

    def _of_interest(self, events: Records) -> npt.NDArray[np.bool_]:
        """bool [events]: beginnings and ends of alarms, and values of metrics with an open alarm at this
        switch.
        """
        found = np.isin(events["kind"], _FOLLOWED)
        if self.places or found.any():
            open_rows = [place.event for place in self.places.values()]
            nodes = [*(int(row["node_id"]) for row in open_rows), *events["node_id"][found].tolist()]
            metrics = {*(int(row["metric"]) for row in open_rows), *events["metric"][found].tolist()}
            valued = np.isin(events["kind"], _VALUED) & np.isin(events["metric"], list(metrics))
            found |= valued & np.isin(events["node_id"], nodes)
        return np.asarray(found)

    def _begin(self, row: Mapping[str, int], event: np.void) -> None:
        alarm, key = alarm_key(row, self._by_port), place_key(row, self._by_port)
        hop = alarmed_hop(row)
        places = self._places_of.setdefault(alarm, {})
        if hop in places:
            return  # the event of its end was lost: as far as is known, it has been open since then
        places[hop] = key
        place = self.places.get(key)
        if place is None:
            place = self.places[key] = OpenAlarm(key, event.copy(), row["time_ns"], row["value"])
        place.alarms[alarm, hop] = row["flow_id"]

    def _end(self, row: Mapping[str, int]) -> None:
        alarm, hop = alarm_key(row, self._by_port), alarmed_hop(row)
        places = self._places_of.get(alarm)
        if places is None:
            return
        if hop not in places:
            hop = next(reversed(places))
        key = places.pop(hop)
        if not places:
            del self._places_of[alarm]
        place = self.places[key]
        del place.alarms[alarm, hop]
        if not place.alarms:
            del self.places[key]
            if len(self.ended) >= MAX_OPEN:
                self.ended.clear()
            self.ended[key] = row["time_ns"]


class AlarmReader:
    """The open alarms of a collector; safe to use from several threads."""

    def __init__(self, state: CollectorState, feed: Feed, past: SharedHistory) -> None:
        self._state, self._feed, self._past = state, feed, past
        self._lock = threading.Lock()
        self._followed: OpenAlarms | None = None
        self._by_port = False
        self._cursor: Cursor = {}
        self._newest_ns = 0
        self._taken = 0.0
        self._gap_due = self._look_due = 0.0
        self._found: list[OpenAlarm] = []
        self._flows: tuple[float, tuple[Place, ...], dict[Place, FlowsAt]] = (0.0, (), {})

    def read(self) -> list[OpenAlarm]:
        """Open alarms, the newest first. Raises HistoryError."""
        with self._lock:
            if time.monotonic() < self._look_due:
                return self._found
            self._feed.poll()
            by_port = queues_by_port(self._state.ports())
            if self._followed is None or by_port != self._by_port:
                self._by_port, self._followed = by_port, self._begun(by_port)
            else:
                self._catch_up(self._followed)
            begin = time.monotonic()
            found = self._confirmed(self._followed)
            self._found = sorted(found, key=lambda alarm: (-(alarm.since_ns or 0), alarm.key))
            done = time.monotonic()
            self._look_due = done + _LOOK_SHARE * (done - begin) if len(found) >= _MANY else 0.0
            return self._found

    def flows(self, alarms: Sequence[OpenAlarm]) -> dict[Place, FlowsAt]:
        """Live flows through the places of these alarms, by `place_of`; empty if there are too many flows."""
        places = tuple(sorted({place for alarm in alarms if (place := place_of(alarm.event))}, key=str))
        with self._lock:
            due, known, found = self._flows
            begin = time.monotonic()
            if begin >= due or known != places:
                found = flows_at(self._state, places)
                took = time.monotonic() - begin
                self._flows = begin + max(_FLOW_SECONDS, _SHARE * took), places, found
        return found

    def _catch_up(self, followed: OpenAlarms) -> None:
        """Take the new events of the feed; those that the feed lost are read from history. If that took long
        the last time, nothing is taken until the next query of history is due.
        """
        while True:
            cursor = dict(self._cursor)
            events, lost = self._feed.read(cursor, _BLOCK)
            if lost:
                begin = time.monotonic()
                if begin < self._gap_due:
                    return
                events = self._with_lost(followed, events, cursor)
                done = time.monotonic()
                self._gap_due = done + _SHARE * (done - begin)
            self._take(followed, events)
            self._cursor = cursor
            if len(events) < _BLOCK:
                return

    def _with_lost(self, followed: OpenAlarms, events: Records, until: Cursor) -> Records:
        """The events, which the feed had up to the cursor `until`, and the ones before them that it had lost,
        from history.
        """
        away_ns = round((time.monotonic() - self._taken) * 1e9)  # the clock may have been set back meanwhile
        since_ns = min(self._newest_ns, time.time_ns() - away_ns)
        past = self._of_history(since_ns - _LATE_NS, followed)
        between = np.zeros(len(past), bool)
        for shard, end in until.items():
            ours = events["sequence"][events["shard"] == shard]
            from_here = past["sequence"] >= self._cursor.get(shard, 0)
            between |= (
                (past["shard"] == shard)
                & from_here
                & (past["sequence"] < end)
                & ~np.isin(past["sequence"], ours)
            )
        both = np.concatenate([past[between], events])
        return both[np.argsort(both["time_ns"], kind="stable")]

    def _take(self, followed: OpenAlarms, events: Records) -> None:
        followed.take(events)
        self._newest_ns = max(self._newest_ns, int(events["time_ns"].max(initial=0)))
        self._taken = time.monotonic()

    def _begun(self, by_port: bool) -> OpenAlarms:
        """A new OpenAlarms with the events of history and the feed."""
        followed = OpenAlarms(by_port)
        cursor: Cursor = {}
        kept, _ = self._feed.read(cursor, 1 << 30)
        first = {int(s): int(kept["sequence"][kept["shard"] == s].min()) for s in np.unique(kept["shard"])}
        self._take(followed, _before(self._of_history(time.time_ns() - BACK_NS, followed), first))
        self._take(followed, kept)
        self._cursor = cursor
        return followed

    def _of_history(self, since_ns: int, followed: OpenAlarms) -> Records:
        """Events of history since then, by time: beginnings and ends of alarms, and values of all metrics
        with an open alarm.
        """
        history = self._past.history()
        ends = _events(history, _FOLLOWED, (), since_ns)
        begun = OpenAlarms(self._by_port)
        begun.take(ends[ends["metric"] != Metric.NONE])
        every = (*followed.places.values(), *begun.places.values())
        limited = [place for place in every if place.event["metric"] != Metric.NONE]
        if not limited:
            return ends
        metrics = {Metric(int(place.event["metric"])) for place in limited}
        begin = max(since_ns, min(place.since_ns or 0 for place in limited))
        both = np.concatenate([ends, _events(history, _VALUED[1:], metrics, begin)])
        return both[np.argsort(both["time_ns"], kind="stable")]

    def _confirmed(self, followed: OpenAlarms) -> list[OpenAlarm]:
        """Copies of the alarms that the live state confirms, with its values, and of those in the live state
        that no event began, unless an event has just ended them. Without a live state: of all alarms.
        """
        if not self._state.workers() and not len(self._state.labels.ports()):
            return [replace(place) for place in followed.places.values()]
        live = LiveAlarms(self._state, self._by_port)
        sure_ns, found, ended = time.time_ns() - _UNSURE_NS, [], []
        for place in followed.places.values():
            seen, since_ns = live.look(place.event, place.alarms.values()), place.since_ns or 0
            if seen.value is not None and seen.at_ns >= since_ns:  # else it is from before the alarm
                place.now = seen.value
                place.see(seen.value)
            if place.since_ns is not None and seen.since_ns >= place.since_ns:
                place.see(seen.highest)
            if seen.alarmed is not False or since_ns > sure_ns:
                found.append(replace(place))
            else:
                ended.append(place.key)
        followed.forget(ended)
        known = {place.key for place in found}
        for event, highest in live.alarmed():
            key = place_key(event, self._by_port)
            if key not in known and followed.ended.get(key, 0) <= sure_ns:
                found.append(OpenAlarm(key, event, None, highest, int(event["value"])))
        return found


def open_in_history(history: HistoryLike, queue_by_port: bool) -> Records:
    """The newest RAISED of each alarm that history has not ended. Raises HistoryError."""
    events = _events(history, (Kind.RAISED, Kind.CLEARED), (), time.time_ns() - BACK_NS)
    followed, begun = OpenAlarms(queue_by_port), {}
    followed.take(events)
    for at in np.flatnonzero(events["kind"] == Kind.RAISED).tolist():
        begun[alarm_key(events[at], queue_by_port), alarmed_hop(events[at])] = at
    every = (alarm for place in followed.places.values() for alarm in place.alarms)
    return events[sorted(begun[alarm] for alarm in every)]


def _events(history: HistoryLike, kinds: Iterable[Kind], metrics: Iterable[Metric], since_ns: int) -> Records:
    """Events since then, by time."""
    from ..history.columns import records_of  # imports DuckDB, which is not needed earlier

    table = history.events(
        kinds=[kind.label for kind in kinds],
        metrics=[metric.label for metric in metrics],
        start=since_ns,
        limit=MAX_EVENTS,
    )
    return records_of(table.columns)[::-1]


def _before(events: Records, first: dict[int, int]) -> Records:
    """The events that come before the `first` sequence of their shard."""
    kept = np.ones(len(events), bool)
    for shard, sequence in first.items():
        kept &= (events["shard"] != shard) | (events["sequence"] < sequence)
    return events[kept]
