"""The rules of detection, each by an example that a reader can check."""

from __future__ import annotations

from typing import Any

import pytest

from hopscope.detect.counters import INDEX
from hopscope.detect.detector import Detector
from hopscope.detect.flows.tables import alarms_in
from hopscope.detect.records import NO_NODE, NO_PORT, ClearReason
from hopscope.detect.thresholds import set_limits
from hopscope.settings.detect import DetectSettings
from hopscope.settings.limits import (
    LimitSettings,
    MetricLimits,
    SwitchLimits,
    SwitchMetricLimits,
    ThresholdSettings,
)
from hopscope.wire.records import Flag, Have, Mode

pytestmark = pytest.mark.kernel

SMALL: dict[str, Any] = {"ports": 1024, "sources": 64, "flow_rows": 8, "hop_pool": 4}
NODES_ONLY = int(Have.NODE_ID)


def detector(**limits: Any) -> Detector:
    return Detector(DetectSettings(thresholds=ThresholdSettings(**limits), **SMALL))


def change(one: Detector, *switches: SwitchLimits, **limits: Any) -> None:
    """Limits as another process changes them."""
    general = ThresholdSettings(**limits)
    set_limits(one.control, LimitSettings(general=general, switches=switches), "a test")


def kinds(events: list[Any]) -> list[str]:
    return [event.kind for event in events]


def test_first_report_of_a_flow(make: Any) -> None:
    """A new flow is reported by its path, its hops' values in path order, and its latency."""
    events = make.run(detector(), [make.Report(make.path(7, 8, latency=30, occupancy=5, queue=2, port=9))])
    assert make.brief(events)[1:] == [
        ("new_key", "queue_occupancy", 5),
        ("new_key", "link_utilization", 0),
        ("new_key", "buffer_occupancy", 0),
        ("new_key", "hop_latency", 30),
        ("new_key", "queue_occupancy", 5),
        ("new_key", "link_utilization", 0),
        ("new_key", "buffer_occupancy", 0),
        ("new_key", "hop_latency", 30),
        ("new_key", "flow_latency", 60),
    ]
    assert (events[0].kind, events[0].metric, events[0].path[:3]) == ("new_key", "flow_path", (7, 8, 0))
    assert (events[1].node, events[1].ident, events[1].port, events[1].hop, events[1].hop_count) == (
        7,
        2,
        9,
        0,
        2,
    )
    assert events[1].flow == make.flow_key(0)
    assert events[-1].node == NO_NODE


def test_hysteresis(make: Any) -> None:
    """Raised once above, cleared once below; in between nothing, and each reports its limit."""
    one = detector(hop_latency=MetricLimits(raise_above=100, clear_below=50), flow_latency=MetricLimits())
    values = [10, 100, 101, 300, 101, 50, 99, 49, 10, 200]
    events = []
    for i, value in enumerate(values):
        events += make.run(one, [make.Report([make.Hop(1, value, have=5)], time=i, sequence=i)])
    found = [(e.kind, e.value, e.previous) for e in events if e.kind in ("raised", "cleared")]
    assert found == [("raised", 101, 100), ("cleared", 49, 50), ("raised", 200, 100)]


def test_threshold_without_hysteresis(make: Any) -> None:
    """Every report above the limit is reported, and reports the limit."""
    one = detector(queue_occupancy=MetricLimits(raise_above=10))
    reports = [
        make.Report(make.path(1, occupancy=value), sequence=i) for i, value in enumerate([10, 11, 11, 4, 12])
    ]
    found = [(e.value, e.previous, e.metric) for e in make.run(one, reports) if e.kind == "threshold"]
    assert found == [(value, 10, "queue_occupancy") for value in (11, 11, 12)]


@pytest.mark.parametrize(
    ("after", "found"),
    [
        (MetricLimits(), ["cleared"]),
        (MetricLimits(raise_above=10), ["cleared", "threshold"]),
        (MetricLimits(raise_above=10, clear_below=5), []),
    ],
)
def test_hysteresis_switched_off_while_raised(make: Any, after: MetricLimits, found: list[str]) -> None:
    """The next report clears an alarm whose hysteresis was switched off, also above the limit; says why."""
    one = detector(queue_occupancy=MetricLimits(raise_above=10, clear_below=5))
    assert "raised" in kinds(make.run(one, [make.Report(make.path(1, occupancy=20))]))
    change(one, queue_occupancy=after)
    events = make.run(one, [make.Report(make.path(1, occupancy=20), sequence=1)])
    assert kinds(events) == found
    assert {e.reason for e in events if e.kind == "cleared"} <= {ClearReason.LIMITS}
    assert one.counters[INDEX["alarms.queue_occupancy"]] == (found == [])
    again = make.run(one, [make.Report(make.path(1, occupancy=20), sequence=2)])
    assert kinds(again) == [kind for kind in found if kind == "threshold"]


def test_thresholds_change_while_it_runs(make: Any) -> None:
    """A limit that is changed between two updates is in force in the second."""
    one = detector(hop_latency=MetricLimits(change=100), flow_latency=MetricLimits())
    make.run(one, [make.Report([make.Hop(1, 50, have=5)])])
    assert not make.run(one, [make.Report([make.Hop(1, 60, have=5)], sequence=1)])
    change(one, hop_latency=MetricLimits(change=5), flow_latency=MetricLimits())
    events = make.run(one, [make.Report([make.Hop(1, 60, have=5)], sequence=2)])
    assert [(e.kind, e.value, e.previous) for e in events] == [("change", 60, 50)]


def test_limits_by_switch(make: Any) -> None:
    """A switch inherits the limits that it does not set, follows them, and has its own while it runs."""
    one = Detector(
        DetectSettings(
            thresholds=ThresholdSettings(
                hop_latency=MetricLimits(change=10, raise_above=100), flow_latency=MetricLimits()
            ),
            switches=(SwitchLimits(node=2, hop_latency=SwitchMetricLimits(raise_above=50)),),
            **SMALL,
        )
    )

    def found(sequence: int, latency: int) -> list[Any]:
        report = make.Report(make.path(1, 2, 3, latency=latency, have=5), sequence=sequence)
        return [(e.kind, e.node, e.previous) for e in make.run(one, [report]) if e.kind != "new_key"]

    assert found(0, 55) == [("threshold", 2, 50)]
    assert found(1, 60) == [("threshold", 2, 50)]
    assert found(2, 45) == []
    change(one, hop_latency=MetricLimits(change=0, raise_above=40), flow_latency=MetricLimits())
    assert found(3, 45) == [
        ("change", 1, 55), ("threshold", 1, 40),
        ("change", 2, 55), ("threshold", 2, 40),
        ("change", 3, 55), ("threshold", 3, 40),
    ]  # fmt: skip
    own = SwitchLimits(node=3, hop_latency=SwitchMetricLimits(change="never", raise_above="never"))
    change(one, own, hop_latency=MetricLimits(change=0, raise_above=40), flow_latency=MetricLimits())
    assert found(4, 50) == [
        ("change", 1, 45), ("threshold", 1, 40), ("change", 2, 45), ("threshold", 2, 40)
    ]  # fmt: skip


def test_path_change_keeps_what_stays(make: Any) -> None:
    """A switch that is in the new path too keeps its stored latency; the others restart."""
    one = detector(flow_latency=MetricLimits())
    make.run(one, [make.Report(make.path(1, 2, 3, latency=50, have=5))])
    events = make.run(one, [make.Report(make.path(1, 4, 2, 3, latency=50, have=5), sequence=1)])
    assert make.brief(events)[1:] == [("new_key", "hop_latency", 50)]
    assert (events[0].kind, events[0].path[:5], events[0].hop_count) == ("path_change", (1, 4, 2, 3, 0), 4)
    assert (events[1].node, events[1].hop) == (4, 1)
    assert events[0].previous != events[0].value


def test_a_loop_is_reported_once_per_path(make: Any) -> None:
    """A path with a node twice is a loop, told once, and again when another such path comes."""
    one = detector()
    loop = make.path(1, 2, 3, 2, have=NODES_ONLY)
    events = make.run(one, [make.Report(loop, sequence=i) for i in range(3)])
    assert kinds(events) == ["new_key", "loop"]
    assert (events[1].node, events[1].ident, events[1].path[:4]) == (2, 3, (1, 2, 3, 2))
    assert kinds(make.run(one, [make.Report(make.path(1, 3, have=NODES_ONLY), sequence=3)])) == [
        "path_change"
    ]
    assert kinds(make.run(one, [make.Report(loop, sequence=4)])) == ["path_change", "loop"]


@pytest.mark.parametrize("odd", [{"int_flags": 1}, {"int_flags": 2}, {"flags": 12}])
def test_an_incomplete_path_is_not_a_change(make: Any, odd: dict[str, int]) -> None:
    """Hops exceeded, MTU exceeded, an intermediate report: neither path nor latency changes."""
    one = detector()
    make.run(one, [make.Report(make.path(1, 2, 3, latency=50, have=5))])
    part = make.path(1, 3, latency=50, have=5)
    assert make.run(one, [make.Report(part, sequence=1, **odd)]) == []
    assert not make.run(one, [make.Report(make.path(1, 2, 3, latency=50, have=5), sequence=2)])


def test_first_path_incomplete(make: Any) -> None:
    """A flow first seen incompletely is reported as new, and as new again once its whole path is known."""
    one = detector()
    events = make.run(
        one,
        [
            make.Report(make.path(1, 2, have=NODES_ONLY), int_flags=1),
            make.Report(make.path(1, have=NODES_ONLY), int_flags=1, sequence=1),
            make.Report(make.path(1, 2, 3, have=NODES_ONLY), sequence=2),
        ],
    )
    assert [(e.kind, e.path[:4]) for e in events] == [("new_key", (1, 2, 0, 0)), ("new_key", (1, 2, 3, 0))]


def test_own_metadata_is_the_last_hop(make: Any) -> None:
    """What a sink says of itself is the last hop of the path, unless the stack ends with it already."""
    one = detector()
    own = make.Hop(99, 7, have=int(Have.HOP_LATENCY))
    events = make.run(one, [make.Report(make.path(1, 2, have=5), node=5, own=own)])
    assert events[0].path[:4] == (1, 2, 5, 0)
    assert [(e.node, e.value) for e in events if e.metric == "hop_latency"] == [(1, 10), (2, 10), (5, 7)]
    assert make.run(one, [make.Report(make.path(1, 2, 5, have=5), node=5, own=own, sequence=1)]) == []


def test_joined_path_is_a_stack(make: Any) -> None:
    """A path joined from postcards gives the events of the same path out of an INT-MD stack."""
    stack = [make.Report(make.path(*nodes, latency=9)) for nodes in ((1, 2, 3), (1, 2, 3), (1, 4, 3))]
    cards = [
        make.Report(make.path(*nodes, latency=9), flags=int(Flag.JOINED), int_version=0)
        for nodes in ((1, 2, 3), (1, 2, 3), (1, 4, 3))
    ]
    found = make.run(detector(), cards)
    assert found == make.run(detector(), stack)
    assert ("path_change", "flow_path") in [(event.kind, event.metric) for event in found]


def test_a_joined_path_with_a_gap_is_not_a_change(make: Any) -> None:
    """Where postcards are missing, the path of the flow stays, and there is no flow latency of it."""
    one = detector()
    make.run(one, [make.Report(make.path(1, 2, 3))])
    report = make.Report(make.path(1, 3), flags=int(Flag.JOINED | Flag.INCOMPLETE), int_version=0)
    assert make.run(one, [report]) == []


def test_a_record_after_an_mx_header_is_not_a_path(make: Any) -> None:
    """One node's record in an MX packet updates what is known of that node, and changes no path."""
    one = detector(hop_latency=MetricLimits(change=0))
    make.run(one, [make.Report(make.path(1, 2, 3))])
    batch = make.batch([make.Report(make.path(2, latency=77))])
    batch.reports["int_mode"] = Mode.MX
    found = make.events_of(one.update(batch))
    assert make.brief(found) == [("change", "hop_latency", 77)]


def test_held_postcard_has_only_its_sequence_number(make: Any) -> None:
    """Its hop is reported with the path, but what is missing before it, and its queue's mark, at once."""
    one = detector()
    held = int(Flag.HELD | Flag.CONGESTED)
    reports = [make.Report(own=make.Hop(5), flags=held, sequence=number, time=number) for number in (7, 9)]
    assert kinds(make.run(one, reports)) == ["queue_report", "gap", "queue_report"]
    assert one.counters[INDEX["lost_reports"]] == 1
    assert one.counters[INDEX["values_total"]] == 0


@pytest.mark.parametrize(
    "row", [{"version": 0}, {"flags": int(Flag.JOINED)}, {"flags": int(Flag.INCOMPLETE)}]
)
def test_what_no_report_brought_has_no_sequence(make: Any, row: dict[str, int]) -> None:
    """A packet that carried INT itself, and a joined path, are no source: nothing is lost, none is silent."""
    one = detector()
    make.run(one, [make.Report(make.path(1, 2), sequence=number, **row) for number in (0, 500, 3)])
    assert one.counters[INDEX["lost_reports"]] == 0
    assert not one.tables["sources"]["sources"]["bits"].any()
    assert "silent" not in kinds(make.events_of(one.tick(make.T0 + 30_000_000_000)))


def test_local_report_updates_ports_and_known_flows(make: Any) -> None:
    """A queue or drop report without INT makes no flow and no path, but its switch's values count."""
    one = detector()
    own = make.Hop(2, 500, queue=3, occupancy=80, port=6)
    alone = make.Report([], node=2, own=own, flags=2, int_version=0)
    events = make.run(one, [alone])
    assert make.brief(events) == [
        ("new_key", "queue_occupancy", 80),
        ("new_key", "link_utilization", 0),
        ("new_key", "buffer_occupancy", 0),
        ("queue_report", "queue_occupancy", 80),
    ]
    assert (events[-1].node, events[-1].ident, events[-1].port) == (2, 3, 6)
    make.run(one, [make.Report(make.path(1, 2, latency=50, have=5), sequence=1)])
    change(one, hop_latency=MetricLimits(change=100))
    alone.sequence = 2
    changed = make.run(one, [alone])
    assert ("change", "hop_latency", 500) in make.brief(changed)
    assert not [e for e in changed if e.metric in ("flow_path", "flow_latency")]


def test_drop_report(make: Any) -> None:
    """A drop is reported with its reason, its switch and queue, and its flow."""
    one = detector()
    (event,) = make.run(one, [make.Report([], node=4, flags=1, int_version=0, drop_reason=71, queue_id=2)])
    assert (event.kind, event.value, event.node, event.ident) == ("drop", 71, 4, 2)
    assert event.flow == make.flow_key(0)


@pytest.mark.parametrize(("have", "queues"), [(None, [5, 3]), (Have.HOP_LATENCY, [5, 5])])
def test_drop_word_and_metadata_name_different_queues(make: Any, have: int | None, queues: list[int]) -> None:
    """A drop is in the queue of its word, an occupancy in the one beside it, or in that of the word."""
    one = detector()
    hop = make.Hop(2, 500, queue=3, occupancy=80, port=6, **({} if have is None else {"have": have}))
    report = make.Report([], node=2, own=hop, flags=3, int_version=0, drop_reason=71, queue_id=5)
    drop, queued = make.run(one, [report])[-2:]
    assert [(drop.kind, drop.value), (queued.kind, queued.value)] == [
        ("drop", 71), ("queue_report", 80 if have is None else 0)
    ]  # fmt: skip
    assert [drop.ident, queued.ident] == queues


def test_a_drop_report_makes_no_flow(make: Any) -> None:
    """With a path, too: it counts as a packet of a flow that is known, and is none before."""
    one = detector()
    drop, whole = make.Report(make.path(1), flags=int(Flag.DROPPED)), make.Report(make.path(1, 2))
    packets = []
    for sequence, report in enumerate((drop, whole, drop)):
        report.sequence = sequence
        make.run(one, [report])
        packets.append(int(one.tables["flows"]["flows"]["packets"].sum()))
    assert packets == [0, 1, 2]


def test_nulls_do_not_take_part(make: Any) -> None:
    """A null field changes nothing: neither a value, nor a path, nor a flow's latency."""
    one = detector(hop_latency=MetricLimits(change=0), flow_latency=MetricLimits(change=0))
    whole = make.path(1, 2, latency=50)
    make.run(one, [make.Report(whole)])
    for field in (Have.HOP_LATENCY, Have.QUEUE_OCCUPANCY, Have.BUFFER_OCCUPANCY, Have.NODE_ID):
        lacking = [make.Hop(1, 0xFFFFFFFF, null=int(field)), make.Hop(2, 50)]
        if field != Have.HOP_LATENCY:
            lacking[0].latency = 50
        assert make.run(one, [make.Report(lacking, sequence=1)]) == [], field.name


def test_nameless_hops_are_counted(make: Any) -> None:
    """Hops without a node id make no rows of the port table; their latency still counts by place."""
    one = detector()
    events = make.run(one, [make.Report(make.path(1, 2, have=int(Have.HOP_LATENCY | Have.TX_UTILIZATION)))])
    assert make.brief(events) == [
        ("new_key", "hop_latency", 10),
        ("new_key", "hop_latency", 10),
        ("new_key", "flow_latency", 20),
    ]
    assert one.counters[INDEX["hops_without_node_id_total"]] == 2
    assert not one.tables["ports"]["ports"]["key"].any()


def test_long_path_in_parts(make: Any) -> None:
    """A path of 20 nodes is reported in three events, of hops 0, 8 and 16."""
    events = make.run(detector(), [make.Report(make.path(*range(1, 21), have=NODES_ONLY))])
    assert [(e.hop, e.hop_count) for e in events] == [(0, 20), (8, 20), (16, 20)]
    assert sum((e.path for e in events), ())[:20] == tuple(range(1, 21))


def test_one_report_of_64_hops_fits(make: Any) -> None:
    """The longest path, with everything above every limit, is reported whole from the smallest event
    buffer.
    """
    limits = {name: MetricLimits(change=0, raise_above=0) for name in ThresholdSettings.model_fields}
    settings = DetectSettings(thresholds=ThresholdSettings(**limits), **SMALL)
    reports = [
        make.Report(
            [
                make.Hop(n, i, occupancy=i, congestion=i, utilization=i, buffer_occupancy=i, have=0x3FF)
                for n in range(64)
            ],
            sequence=i,
        )
        for i in range(1, 20)
    ]
    small, large = Detector(settings, event_buffer=2048), Detector(settings, event_buffer=100_000)
    assert make.run(small, reports) == make.run(large, reports)


def test_resumes_where_the_buffer_was_full(make: Any) -> None:
    """However small the event buffer, the events are the same; counters too."""
    limits = {name: MetricLimits(change=0) for name in ThresholdSettings.model_fields}
    settings = DetectSettings(thresholds=ThresholdSettings(**limits), **SMALL)
    reports = [make.Report(make.path(1, 2, 3, latency=i, occupancy=i), i % 5, i, i) for i in range(1000)]
    small, large = Detector(settings, event_buffer=2048), Detector(settings, event_buffer=100_000)
    blocks = [block.copy() for block in small.update(make.batch(reports))]
    assert len(blocks) > 3
    assert make.events_of(blocks) == make.run(large, reports)
    assert (small.counters == large.counters).all()


def test_rejected_reports_change_nothing(make: Any) -> None:
    """A rejected report is neither a flow nor a value; its number counts where its header was read."""
    one = detector()
    assert make.run(one, [make.Report(make.path(1), reason=1, place=3, sequence=0)]) == []
    assert not one.tables["sources"]["sources"]["bits"].any()
    assert make.run(one, [make.Report(make.path(1), reason=1, place=11, sequence=0)]) == []
    assert one.tables["sources"]["sources"]["received"].sum() == 1


def test_full_port_table(make: Any) -> None:
    """More queues than the table holds: the rest is counted, and nothing breaks."""
    one = Detector(DetectSettings(**{**SMALL, "ports": 16}))
    hops = [make.Hop(1, queue=queue, have=int(Have.NODE_ID | Have.QUEUE_OCCUPANCY)) for queue in range(20)]
    make.run(one, [make.Report([hop], flow=i, sequence=i) for i, hop in enumerate(hops)])
    assert (one.tables["ports"]["ports"]["key"] > 1).sum() == 16
    assert one.counters[INDEX["port_table_full_total"]] == 4


def test_event_buffer_too_small() -> None:
    """A buffer in which one report might not fit is rejected."""
    with pytest.raises(ValueError, match="the minimum is 2048"):
        Detector(DetectSettings(**SMALL), event_buffer=100)


ALARM = MetricLimits(change=None, raise_above=100, clear_below=50)
QUEUED = int(Have.NODE_ID | Have.PORTS | Have.QUEUE_OCCUPANCY)


def test_queues_of_two_ports_are_two_queues(make: Any) -> None:
    """Queue 0 of port 1 and queue 0 of port 2 do not disturb each other; both are called queue 0."""
    one = Detector(DetectSettings(**SMALL))
    reports = [
        make.Report([make.Hop(7, port=1 + i % 2, occupancy=(1000, 10)[i % 2], have=QUEUED)], sequence=i)
        for i in range(10)
    ]
    found = [e for e in make.run(one, reports) if e.metric == "queue_occupancy"]
    assert [(e.kind, e.node, e.port, e.ident, e.value) for e in found] == [
        ("new_key", 7, 1, 0, 1000),
        ("new_key", 7, 2, 0, 10),
    ]


def test_queues_of_the_paper_are_by_switch(make: Any) -> None:
    """With `switch-queue` all ports share a queue's value: each difference is a change."""
    one = Detector(DetectSettings(queue_key="switch-queue", **SMALL))
    reports = [
        make.Report([make.Hop(7, port=1 + i % 2, occupancy=(1000, 10)[i % 2], have=QUEUED)], sequence=i)
        for i in range(4)
    ]
    found = [e for e in make.run(one, reports) if e.metric == "queue_occupancy"]
    assert [(e.kind, e.port, e.ident) for e in found] == [
        ("new_key", 1, 0), ("change", 2, 0), ("change", 1, 0), ("change", 2, 0),
    ]  # fmt: skip


def test_a_switch_that_leaves_the_path_clears_its_alarm(make: Any) -> None:
    """The alarm of hop 2 ends with the path over it; that of hop 1, which stays, does not."""
    limits = ThresholdSettings(hop_latency=ALARM)
    one = Detector(DetectSettings(thresholds=limits, **SMALL))
    found = make.run(
        one,
        [
            make.Report(make.path(1, 2, latency=200), sequence=0),
            make.Report(make.path(1, 3, latency=200), time=5, sequence=1),
        ],
    )
    found = [e for e in found if e.metric == "hop_latency" and e.kind in ("raised", "cleared")]
    alarms = [(e.kind, e.node, e.hop, e.hop_count, e.value, e.reason) for e in found]
    assert alarms == [
        ("raised", 1, 0, 2, 200, ClearReason.VALUE),
        ("raised", 2, 1, 2, 200, ClearReason.VALUE),
        ("cleared", 2, 1, 2, 200, ClearReason.PATH_CHANGE),
        ("raised", 3, 1, 2, 200, ClearReason.VALUE),
    ]


def test_an_evicted_flow_clears_its_alarms(make: Any) -> None:
    """A thirteenth flow of a row takes the place of the first, whose alarms end with it."""
    limits = ThresholdSettings(hop_latency=ALARM, flow_latency=ALARM)
    one = Detector(DetectSettings(thresholds=limits, **{**SMALL, "flow_rows": 1}))
    found = make.run(one, [make.Report(make.path(1, latency=200), i, i, i) for i in range(13)])
    cleared = [e for e in found if e.kind == "cleared"]
    assert [(e.metric, e.flow, e.time, e.reason) for e in cleared] == [
        ("flow_latency", make.flow_key(0), 12, ClearReason.EVICTED),
        ("hop_latency", make.flow_key(0), 12, ClearReason.EVICTED),
    ]
    assert len([e for e in found if e.kind == "raised"]) == 26


def test_a_long_path_is_counted_once(make: Any) -> None:
    """A path of 12 hops takes two records and is one event."""
    one = Detector(DetectSettings(**SMALL))
    found = make.run(
        one,
        [
            make.Report(make.path(*range(1, 13)), sequence=0),
            make.Report(make.path(*range(2, 14)), time=1, sequence=1),
        ],
    )
    assert [e.hop for e in found if e.kind == "path_change"] == [0, 8]
    assert one.counters[INDEX["events_total.path_change"]] == 1


def test_drops_and_alarms_are_counted(make: Any) -> None:
    """Drops by egress port, also an unknown one; alarms by metric, and the same number from the tables."""
    one = Detector(
        DetectSettings(thresholds=ThresholdSettings(hop_latency=ALARM, queue_occupancy=ALARM), **SMALL)
    )
    own = make.Hop(7, port=3)
    drops = [make.Report([], own=own, flags=int(Flag.DROPPED), sequence=i, time=i) for i in range(3)]
    drops.append(make.Report([], node=8, flags=int(Flag.DROPPED), sequence=3, time=3))
    make.run(one, drops)
    ports = one.tables["ports"]["ports"]
    counted = ports[ports["drops"] > 0]
    assert sorted(counted[["node_id", "ident", "drops"]].tolist()) == [(7, 3, 3), (8, NO_PORT, 1)]
    path = make.path(*range(1, 11), latency=200, occupancy=300)
    make.run(one, [make.Report(path, 1, 4, 4), make.Report(make.path(1, latency=200, occupancy=20), 2, 5, 5)])
    raised = {"hop_latency": 11, "queue_occupancy": 9}
    assert {k: int(one.counters[INDEX[f"alarms.{k}"]]) for k in raised} == raised
    assert {k: v for k, v in alarms_in(one.tables).items() if v} == raised
