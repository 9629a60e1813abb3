"""What is open by events, place by place."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from hopscope.detect.records import EVENT, NO_NODE, NO_PORT, SOURCE, Kind, Metric
from hopscope.history.columns import connect, records_of, register
from hopscope.history.reading.table import Table, fetch
from hopscope.present import alarms
from hopscope.present.alarms import OpenAlarms
from hopscope.present.collector_state import CollectorState
from hopscope.present.feed import Feed
from hopscope.wire.records import Records
from support.events.alert_events import SECOND, event, flow, joined, numbered
from support.events.event_make import START_NS, Events, random_events

RAISED, CLEARED = Kind.RAISED, Kind.CLEARED


class OneSource(CollectorState):
    """A collector whose only source, 10.0.0.1 of node 7, may be silent."""

    silent = 0

    def workers(self) -> list[int]:
        """One."""
        return [0]

    def sources(self) -> Records:
        """The source."""
        rows = np.zeros(1, SOURCE)
        rows["source_lo"], rows["node_id"], rows["silent"] = 0xFFFF_0A00_0001, 7, self.silent
        return rows


class RecordedPast:
    """A history of these events, which notes from when on it was asked."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self.asked: list[int] = []

    def history(self) -> RecordedPast:
        """Itself."""
        return self

    def events(self, *, kinds: list[str], metrics: list[str], start: int, limit: int) -> Table:
        """Those of these kinds and metrics, the newest first."""
        self.asked.append(start)
        with connect(1 << 28, 1) as connection:
            table = fetch(
                connection, f"{register(connection, 'made', self._events)} ORDER BY sequence DESC", limit
            )
        kept = np.isin(table["kind"].tolist(), kinds)
        if metrics:
            kept &= np.isin(table["metric"].tolist(), metrics)
        kept &= table["time"].astype(np.int64) >= start
        return Table({name: column[kept] for name, column in table.columns.items()})


def test_flows_at_one_port_are_one_place() -> None:
    """Hop latency of two flows: open since the first began, until the last ends; its peak is of both."""
    hop = {"metric": Metric.HOP_LATENCY}
    found = OpenAlarms()
    found.take(joined(event(RAISED, 1, **hop, **flow(1)), event(RAISED, 2, value=9000, **hop, **flow(2))))
    (place,) = found.places.values()
    assert (place.key, place.since_ns, place.peak) == ("hop_latency/7/2", START_NS + SECOND, 9000)
    assert sorted(place.alarms.values()) == [1, 2]
    found.take(
        joined(event(CLEARED, 3, **hop, **flow(1)), event(Kind.CHANGE, 4, value=9500, **hop, **flow(2)))
    )
    assert (place.peak, list(place.alarms.values())) == (9500, [2])
    found.take(joined(event(CLEARED, 5, **hop, **flow(2))))
    assert found.places == {}


def test_a_looping_flow_has_an_alarm_for_each_time_that_it_passes_a_switch() -> None:
    """One that ends leaves the other open; an index that a changed path has moved ends the one left."""
    hop = {"metric": Metric.HOP_LATENCY, **flow(1)}
    found = OpenAlarms()
    found.take(joined(event(RAISED, 1, **hop, hop=0), event(RAISED, 2, **hop, hop=2, port=3)))
    assert set(found.places) == {"hop_latency/7/2", "hop_latency/7/3"}
    found.take(joined(event(CLEARED, 3, **hop, hop=0)))
    assert set(found.places) == {"hop_latency/7/3"}
    found.take(joined(event(CLEARED, 4, **hop, hop=5)))
    assert found.places == {}


def test_shards_queues_and_ports_are_told_apart() -> None:
    """Alarms of two workers at one queue are one place; another queue is another, a port if keyed so."""
    events = joined(
        event(RAISED, 1), event(RAISED, 2, shard=1), event(RAISED, 3, ident=2), event(RAISED, 4, port=5)
    )
    found = OpenAlarms()
    found.take(events)
    assert {key: len(place.alarms) for key, place in found.places.items()} == {
        "queue_occupancy/7/-/1": 2,
        "queue_occupancy/7/-/2": 1,
    }
    found = OpenAlarms(queue_by_port=True)
    found.take(events)
    assert set(found.places) == {"queue_occupancy/7/2/1", "queue_occupancy/7/2/2", "queue_occupancy/7/5/1"}


def test_a_lost_end_keeps_the_first_beginning() -> None:
    """Raised twice: open since the first; values of other queues and metrics are not its peak."""
    found = OpenAlarms()
    found.take(
        joined(
            event(RAISED, 1),
            event(RAISED, 9, value=2600),
            event(Kind.CHANGE, 10, value=8000, ident=4),
            event(Kind.CHANGE, 11, value=7000, metric=Metric.LINK_UTILIZATION),
            event(Kind.CHANGE, 12, value=6000, node_id=8),
        )
    )
    (place,) = found.places.values()
    assert (place.since_ns, place.peak) == (START_NS + SECOND, 3000)
    found.take(joined(event(CLEARED, 20)))
    assert found.places == {}


def test_the_peak_of_low_coverage_is_the_lowest() -> None:
    """Its values are those of the periods: the newest one is how it is now."""
    coverage = {"metric": Metric.LABEL_COVERAGE, "node_id": NO_NODE, "port": NO_PORT, "ident": 0}
    found = OpenAlarms()
    values = ((RAISED, 700_000), (Kind.LABEL_RECORD, 400_000), (Kind.LABEL_RECORD, 600_000))
    for second, (kind, value) in enumerate(values):
        found.take(event(kind, second, value=value, **coverage))
    (place,) = found.places.values()
    assert (place.peak, place.now) == (400_000, 600_000)


def test_a_silent_source_has_its_address_as_place() -> None:
    """It is open until it returns."""
    found = OpenAlarms()
    found.take(joined(event(Kind.SILENT, 1)))
    assert list(found.places) == ["silent/10.0.0.1/7/0"]
    found.take(joined(event(Kind.RETURNED, 2)))
    assert found.places == {}


def test_alarms_that_nobody_ends_leave_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources that fell silent and lost their rows to others, as many as are followed: the live state has
    none of them, and the next source that falls silent is shown.
    """
    monkeypatch.setattr(alarms, "MAX_OPEN", 20)
    gone = joined(*(event(Kind.SILENT, number / 100, src_lo=number) for number in range(1, 21)))
    state, feed = OneSource(tmp_path), Feed(tmp_path)
    feed._keep_block(0, gone)
    reader = alarms.AlarmReader(state, feed, cast(Any, RecordedPast(gone[:0])))
    assert reader.read() == []
    feed._keep_block(0, numbered(event(Kind.SILENT, 1), first=len(gone)))
    state.silent = 1
    assert [each.key for each in reader.read()] == ["silent/10.0.0.1/7/0"]


def test_an_alarm_that_the_live_state_lacks_for_a_moment_is_back(tmp_path: Path) -> None:
    """While a worker is restarted, the tables of all cannot be read: a source that is silent was and is."""
    state, feed = OneSource(tmp_path), Feed(tmp_path)
    feed._keep_block(0, numbered(event(Kind.SILENT, 1)))
    reader = alarms.AlarmReader(state, feed, cast(Any, RecordedPast(np.zeros(0, EVENT))))
    found = []
    for state.silent in (1, 0, 1):
        found.append([(each.key, each.since_ns) for each in reader.read()])
    silent = [("silent/10.0.0.1/7/0", START_NS + SECOND)]
    assert found == [silent, [], silent]


def test_what_the_feed_lost_is_read_of_history_alone(tmp_path: Path) -> None:
    """A reader that is far behind: it asks history for what it missed, from its last event on, and knows an
    alarm that began and one that ended in between. Of events that both have, each counts once.
    """
    hop = {"metric": Metric.HOP_LATENCY}
    every = joined(
        event(RAISED, 1), event(RAISED, 3, **hop, **flow(1)), event(CLEARED, 4),
        event(RAISED, 5, ident=2), event(RAISED, 6, ident=3), event(Kind.CHANGE, 7, value=9, ident=3),
    )  # fmt: skip
    feed, past = Feed(tmp_path), RecordedPast(every)
    feed._keep_block(0, every[:1])
    reader = alarms.AlarmReader(CollectorState(tmp_path), feed, cast(Any, past))
    assert {each.key for each in reader.read()} == {"queue_occupancy/7/-/1"}
    past.asked.clear()
    feed._blocks.clear()
    feed._keep_block(0, every[4:])
    assert {each.key: each.since_ns for each in reader.read()} == {
        "hop_latency/7/2": START_NS + 3 * SECOND,
        "queue_occupancy/7/-/2": START_NS + 5 * SECOND,
        "queue_occupancy/7/-/3": START_NS + 6 * SECOND,
    }
    assert min(past.asked) == START_NS  # a second before the last event that it had


def test_a_clock_that_is_set_back_hides_nothing_that_the_feed_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events of after it have earlier times than those that the reader had before it."""
    monkeypatch.setattr("time.time_ns", lambda: START_NS + 12 * SECOND)
    every = joined(event(RAISED, 3600), event(RAISED, 12, ident=2), event(RAISED, 12, ident=3))
    feed = Feed(tmp_path)
    feed._keep_block(0, every[:1])
    reader = alarms.AlarmReader(CollectorState(tmp_path), feed, cast(Any, RecordedPast(every)))
    assert len(reader.read()) == 1
    feed._blocks.clear()
    feed._keep_block(0, every[2:])
    assert {each.key[-1] for each in reader.read()} == {"1", "2", "3"}


def test_columns_of_history_are_the_records_again() -> None:
    """All fields but paths survive the way through the columns of history, as all readers see them."""
    events = random_events(500)
    events["sequence"] = np.arange(500)
    absent = events["ip_version"] == 0
    for name in ("flow_id", "sport", "dport", "proto"):
        events[name][absent] = 0
    events["reason"][events["kind"] != CLEARED] = 0
    events["reserved"] = 0
    with connect(1 << 28, 1) as connection:
        table = fetch(connection, f"{register(connection, 'made', events)} ORDER BY sequence", None)
        found = records_of(table.columns)
    for name in EVENT.names or ():
        if name != "path":
            np.testing.assert_array_equal(found[name], events[name], name)
