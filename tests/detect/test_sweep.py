"""Periodic work: every live key is pushed once a period, idle ones leave, in slices."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from hopscope.detect.counters import INDEX
from hopscope.detect.detector import Detector
from hopscope.detect.records import NO_NODE, ClearReason
from hopscope.detect.sweep import Sweep
from hopscope.settings.detect import DetectSettings
from hopscope.settings.limits import MetricLimits, ThresholdSettings
from hopscope.wire.records import Have

pytestmark = pytest.mark.kernel

SMALL: dict[str, Any] = {"ports": 256, "sources": 16, "flow_rows": 16, "hop_pool": 4, "silent_seconds": 0}
SECOND = 1_000_000_000


def run(make: Any, detector: Detector, seconds: int, flows: int, live: int) -> list[Any]:
    """Events of the ticks of some seconds, ten a second; `live` of the flows go on sending."""
    events = []
    for step in range(seconds * 10):
        time = step * SECOND // 10
        senders = flows if step == 0 else live
        reports = [make.Report(make.path(1, 2, latency=step), i, time, sequence=step) for i in range(senders)]
        list(detector.update(make.batch(reports)))
        events += make.events_of(detector.tick(make.T0 + time))
    return events


def test_push_once_a_period(make: Any) -> None:
    """In 40 s of a 10 s period each value of each live key is pushed 3 or 4 times, spread over the period."""
    detector = Detector(DetectSettings(push_seconds=10, idle_seconds=1000, **SMALL))
    pushes = [e for e in run(make, detector, 40, 20, 20) if e.kind == "push"]
    count = Counter((e.metric, e.flow, e.node, e.ident) for e in pushes)
    assert len(count) == 20 * 4 + 2 * 3
    assert set(count.values()) <= {3, 4}
    assert len({e.time for e in pushes}) > 8


def test_push_renews_what_is_stored(make: Any) -> None:
    """After a push, change is measured from the pushed value; `previous` is what had been stored."""
    detector = Detector(DetectSettings(push_seconds=1, idle_seconds=1000, **SMALL))
    make.run(detector, [make.Report(make.path(1, latency=0))])
    make.run(detector, [make.Report(make.path(1, latency=15_000), time=1, sequence=1)])
    events = [e for i in range(20) for e in make.events_of(detector.tick(make.T0 + i * SECOND // 10))]
    hop = [e for e in events if e.metric == "hop_latency"]
    assert [(e.kind, e.value, e.previous, e.node) for e in hop] == [("push", 15_000, 0, 1)]
    later = make.run(detector, [make.Report(make.path(1, latency=30_000), time=2, sequence=2)])
    assert later == []


def test_push_renews_what_queues_ports_and_buffers_are_compared_with(make: Any) -> None:
    """A value that is within T of the stored one is pushed; one that is within T of the stored one, but not
    of the pushed one, is an event then, and the other way round.
    """
    every = MetricLimits(change=10)
    names = ("queue_occupancy", "link_utilization", "buffer_occupancy")
    limits = ThresholdSettings(**dict.fromkeys(names, every))
    detector = Detector(DetectSettings(thresholds=limits, push_seconds=1, idle_seconds=1000, **SMALL))

    def report(value: int, sequence: int) -> list[Any]:
        hop = make.Hop(1, 0, occupancy=value, utilization=value, buffer_occupancy=value)
        return make.run(detector, [make.Report([hop], time=sequence, sequence=sequence)])

    for sequence, value in enumerate((100, 101, 109)):
        report(value, sequence)
    events = [e for i in range(20) for e in make.events_of(detector.tick(make.T0 + i * SECOND // 10))]
    pushed = {e.metric: (e.value, e.previous) for e in events if e.kind == "push"}
    assert {name: pushed[name] for name in names} == dict.fromkeys(names, (109, 100))
    assert report(118, 3) == []
    assert {(e.metric, e.kind, e.previous) for e in report(98, 4)} == {(n, "change", 109) for n in names}


def test_idle_flow_leaves_a_record(make: Any) -> None:
    """A flow without reports for the idle time leaves with its packets, times and means; the others stay."""
    detector = Detector(DetectSettings(push_seconds=0, idle_seconds=5, **SMALL))
    events = run(make, detector, 10, 3, 1)
    records = [e for e in events if e.kind == "flow_record"]
    assert Counter(e.metric for e in records) == {"flow_path": 2, "flow_latency": 2, "hop_latency": 4}
    assert {e.flow for e in records} == {make.flow_key(1), make.flow_key(2)}
    assert [(e.value, e.previous, e.time, e.path[:3]) for e in records if e.metric == "flow_path"] == [
        (1, make.T0, 0, (1, 2, 0))
    ] * 2
    assert detector.counters[INDEX["flow_expiries_total"]] == 2
    assert (detector.tables["flows"]["rows"]["tag"] != 0).sum() == 1


def test_idle_ports_leave_and_their_chains_hold(make: Any) -> None:
    """Rows of the port table that expire do not hide those that were placed after them."""
    detector = Detector(DetectSettings(push_seconds=0, idle_seconds=5, **SMALL))
    for second in range(9):
        nodes = range(200) if second == 0 else range(0, 200, 7)
        reports = [
            make.Report([make.Hop(node, occupancy=1, have=9)], flow=None, time=second * SECOND)
            for node in nodes
        ]
        new = [e for e in make.run(detector, reports) if e.kind == "new_key"]
        assert len(new) == (200 if second == 0 else 0)
        list(detector.tick(make.T0 + second * SECOND))
    assert (detector.tables["ports"]["ports"]["key"] > 1).sum() == len(range(0, 200, 7))
    again = make.run(
        detector,
        [make.Report([make.Hop(n, occupancy=1, have=9)], flow=None, time=9 * SECOND) for n in range(200)],
    )
    assert len([e for e in again if e.kind == "new_key"]) == 200 - len(range(0, 200, 7))


def test_a_reused_row_knows_nothing_of_the_queue_before(make: Any) -> None:
    """The first congestion of a queue is an event, also in the row of a queue that expired and had that
    value.
    """
    small: dict[str, Any] = SMALL | {"ports": 16}
    detector = Detector(DetectSettings(push_seconds=0, idle_seconds=5, **small))
    congested = int(Have.NODE_ID | Have.QUEUE_OCCUPANCY | Have.QUEUE_CONGESTION)
    uncongested = int(Have.NODE_ID | Have.QUEUE_OCCUPANCY)
    first = make.path(*range(1, 8), congestion=5, have=congested)
    make.run(detector, [make.Report(first)])
    for step in range(200):
        list(detector.tick(make.T0 + 6 * SECOND + step * SECOND // 10))
    assert (detector.tables["ports"]["ports"]["key"] > 1).sum() == 0
    events = []
    for sequence, have in enumerate([uncongested, uncongested, congested]):
        for node in range(101, 115):
            hops = make.path(node, congestion=5, have=have)
            events += make.run(
                detector, [make.Report(hops, node, 30 * SECOND, sequence=14 * sequence + node)]
            )
    found = Counter(e.node for e in events if (e.kind, e.metric) == ("new_key", "queue_congestion"))
    assert found == dict.fromkeys(range(101, 115), 1)


def test_pool_blocks_come_back(make: Any) -> None:
    """Flows with long paths that leave give their blocks of the hop pool to others."""
    detector = Detector(DetectSettings(push_seconds=0, idle_seconds=5, **SMALL))
    for era in range(3):
        time = era * 100 * SECOND
        reports = [make.Report(make.path(*range(1, 13)), era * 10 + i, time) for i in range(4)]
        make.run(detector, reports)
        list(detector.tick(make.T0 + time))
        list(detector.tick(make.T0 + time + 50 * SECOND))
    assert detector.counters[INDEX["hop_pool_full_total"]] == 0
    assert detector.tables["flows"]["pool"][0] == 4


def test_means_of_more_samples_than_fit(make: Any) -> None:
    """A hop's mean stays when its number of samples, of 32 bits, comes near its end."""
    detector = Detector(DetectSettings(push_seconds=8, **SMALL))
    make.run(detector, [make.Report(make.path(*range(1, 11), latency=10))])
    hops, flow = detector.tables["flows"]["hops"], detector.tables["flows"]["flows"]
    many = (1 << 32) - 100
    flow["packets"][flow["packets"] == 1] = many
    hops["latency_sum"][hops["samples"] == 1] = 10 * many
    hops["samples"][hops["samples"] == 1] = many
    list(detector.tick(make.T0))
    list(detector.tick(make.T0 + SECOND))
    make.run(detector, [make.Report(make.path(*range(1, 11), latency=10), time=SECOND)] * 200)
    events = make.events_of(detector.end(make.T0 + SECOND))
    assert [e.value for e in events if e.metric == "hop_latency"] == [10] * 10


def test_no_push_without_detection(make: Any) -> None:
    """With detection off every value is stored already."""
    detector = Detector(DetectSettings(enabled=False, push_seconds=1, idle_seconds=1000, **SMALL))
    assert run(make, detector, 4, 2, 2) == []


def test_clock_put_back(make: Any) -> None:
    """Put back by an hour: live keys are still pushed, idle ones leave in time, silence is reported."""
    settings: dict[str, Any] = SMALL | {"silent_seconds": 5}
    detector = Detector(DetectSettings(push_seconds=10, idle_seconds=60, **settings))
    run(make, detector, 3, 2, 2)
    events = []
    for second in range(-3600, -3500):
        if second < -3570:
            report = make.Report(make.path(1, 2), 0, second * SECOND, sequence=3630 + second)
            events += make.run(detector, [report])
        for tenth in range(0, 10, 5):
            events += make.events_of(detector.tick(make.T0 + second * SECOND + tenth * SECOND // 10))
    pushed = [e.time // SECOND for e in events if e.kind == "push" and e.metric == "flow_path"]
    assert len(pushed) in (2, 3)
    assert max(pushed) < -3560
    left = {e.flow: e.time // SECOND for e in events if e.kind == "flow_record"}
    assert left[make.flow_key(0)] == -3571
    assert left[make.flow_key(1)] < -3590, "a flow that ended before has no time yet to come"
    assert [e.time // SECOND for e in events if e.kind == "silent"] == [-3566]


def test_slices_cover_every_row_once() -> None:
    """Over a sweep period every row is due once, whatever the pace of the ticks or the pause before."""
    sweep = Sweep(DetectSettings(push_seconds=8, idle_seconds=100), 64, 1000)
    rows: Counter[int] = Counter()
    for step in range(0, 101, 7):
        for begin, end in sweep.advance(step * SECOND // 100)[0]:
            rows.update(range(begin, end))
    assert sum(rows.values()) == 64 * 98 // 100
    assert set(rows.values()) == {1}
    for slices in sweep.advance(10**6 * SECOND)[:2]:
        assert sum(end - begin for begin, end in slices) in (64, 1000)
    assert sweep.advance(5) == ([(sweep.advance(5)[0][0][0],) * 2], [(sweep.advance(5)[1][0][0],) * 2], True)


def test_what_expires_clears_its_alarms(make: Any) -> None:
    """A queue, a flow and its hop expire with their alarms raised: each is cleared once, for that reason."""
    limit = MetricLimits(change=None, raise_above=100, clear_below=50)
    limits = ThresholdSettings(flow_latency=limit, hop_latency=limit, queue_occupancy=limit)
    detector = Detector(DetectSettings(push_seconds=0, idle_seconds=5, thresholds=limits, **SMALL))
    found = make.run(detector, [make.Report(make.path(3, latency=200, occupancy=300))])
    assert {e.metric for e in found if e.kind == "raised"} == {
        "flow_latency", "hop_latency", "queue_occupancy",
    }  # fmt: skip
    later = [e for i in range(80) for e in make.events_of(detector.tick(make.T0 + i * SECOND // 10))]
    cleared = {e.metric: (e.value, e.node, e.reason) for e in later if e.kind == "cleared"}
    assert cleared == {
        "flow_latency": (200, NO_NODE, ClearReason.EXPIRED),
        "hop_latency": (200, 3, ClearReason.EXPIRED),
        "queue_occupancy": (300, 3, ClearReason.EXPIRED),
    }
    assert detector.counters[INDEX["events_total.cleared"]] == 3
