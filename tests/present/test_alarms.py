"""What is open by events, place by place."""

from __future__ import annotations

import numpy as np

from hopscope.detect.records import EVENT, NO_NODE, NO_PORT, Kind, Metric
from hopscope.history.columns import connect, records_of, register
from hopscope.history.reading.table import fetch
from hopscope.present.alarms import OpenAlarms
from support.alert_events import SECOND, event, flow, joined
from support.event_make import START_NS, random_events

RAISED, CLEARED = Kind.RAISED, Kind.CLEARED


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
