"""Drawing: figures with units, strips, and nothing from outside that becomes HTML."""

from __future__ import annotations

import re

import numpy as np
import pytest

from hopscope.base.names import Names
from hopscope.detect.counters import COUNTERS
from hopscope.detect.records import EVENT, Kind, Metric
from hopscope.detect.thresholds import Change
from hopscope.present.collector_state import LimitsInForce
from hopscope.present.units import duration, measured, place, si
from hopscope.serve.page.feed import SHOWN, Joined, feed
from hopscope.serve.page.fragments import Fragments
from hopscope.serve.page.snapshot import HotRow, Snapshot
from hopscope.serve.page.strips import CALM, LEVELS, cells
from hopscope.serve.routes.collector_models import CounterValue, Summary
from hopscope.settings.limits import (
    SINK_METRICS,
    LimitSettings,
    MetricLimits,
    SwitchLimits,
    SwitchMetricLimits,
    ThresholdSettings,
)

SCRIPT = "<script>alert(1)</script>"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (7, "7"), (999, "999"), (0.25, "0.25"), (12.5, "12.5"), (999.6, "1.00k"), (12_345, "12.3k"),
     (999_999, "1.00M"), (4.56e9, "4.56G"), (2**64, "1.84e+07T")],
)  # fmt: skip
def test_counts_are_short(value: float, text: str) -> None:
    """At most three digits and a prefix, without a step at the borders."""
    assert si(value) == text


TIMES = [
    (0, "0 ns"),
    (999, "999 ns"),
    (1000, "1.00 µs"),
    (48_210, "48.2 µs"),
    (2.5e6, "2.50 ms"),
    (3e9, "3.00 s"),
]


@pytest.mark.parametrize(("ns", "text"), TIMES)
def test_times_have_units(ns: float, text: str) -> None:
    """The unit that makes the number short."""
    assert duration(ns) == text


def test_large_values_come_as_text() -> None:
    """Events carry 64-bit numbers as text; both forms are drawn."""
    assert measured("1500", "ns") == measured(1500, "ns") == "1.50 µs"
    assert measured(SCRIPT, None) == SCRIPT.replace("<", "&lt;").replace(">", "&gt;")


def levels(values: list[int], top: int, limit: int | None = None) -> list[int]:
    """Level of each cell, read back from the SVG."""
    found = [0] * len(values)
    for level, path in re.findall(r'class="h(\d)" d="([^"]+)"', cells(values, top, limit)):
        for at, width in re.findall(r"M(\d+) 0h(\d+)v1h-\d+z", path):
            found[int(at) : int(at) + int(width)] = [int(level)] * int(width)
    return found


def test_strips_show_what_is_above_the_limit() -> None:
    """Nothing is empty, calm colours end at the limit, hot ones begin above it, the peak is the hottest."""
    assert levels([0, 1, 100, 101, 8500, 0], 8500, 100) == [0, 1, CALM, CALM + 1, LEVELS, 0]
    assert levels([0, 1, 50, 100], 100)[-1] == LEVELS
    assert levels([5] * 120, 5) == [LEVELS] * 120
    assert cells([0] * 120, 0) == ""


def test_a_strip_has_the_limit_of_its_switch() -> None:
    """A queue that is full by the limit of all switches is calm at a switch that has a higher one."""
    limits = LimitSettings(
        general=ThresholdSettings(queue_occupancy=MetricLimits(raise_above=2500)),
        switches=(SwitchLimits(node=7, queue_occupancy=SwitchMetricLimits(raise_above=200_000)),),
    )
    rows = [HotRow(node, 3, 2, [4000, value], value, value, False) for node, value in ((7, 4000), (1, 4001))]
    snapshot = Snapshot.__new__(Snapshot)
    object.__setattr__(snapshot, "strips", {"queues": rows})
    object.__setattr__(snapshot, "limits", LimitsInForce(limits, None, SINK_METRICS))
    html = Fragments(snapshot, Names.load(None)).get("strip:queues")
    assert re.findall(r'class="row (\w*)" data-node="(\d)"', html) == [("", "7"), ("bad", "1")]
    assert "limit of the switch" in html
    object.__setattr__(snapshot, "strips", {"queues": rows[:1]})
    assert "200k <em>limit</em>" in Fragments(snapshot, Names.load(None)).get("strip:queues")


def event(**more: object) -> dict[str, object]:
    """An event as the API shows it."""
    flow = {"id": "0" * 16, "src": "10.0.0.1", "dst": "10.0.0.2", "proto": 6, "sport": 1, "dport": 2}
    return {
        "time": "2026-01-01T00:00:00.123456789Z", "kind": "raised", "metric": "hop_latency", "value": 2000,
        "previous": 1000, "unit": "ns", "flow": flow, "node": {"id": 1, "name": None},
        "port": {"id": 2, "name": None}, "queue": None, "hop": 1, "path": None, "source": None, **more,
    }  # fmt: skip


def test_alike_events_of_a_second_are_one() -> None:
    """A burst of the same is one row with its number; another switch or another second is another row."""
    events = np.zeros(8, EVENT)
    events["kind"], events["metric"], events["node_id"] = Kind.RAISED, Metric.HOP_LATENCY, 1
    events["flow_id"] = 1 + np.arange(8)
    events["time_ns"] = 10**9 + np.arange(8)
    events["node_id"][2] = 9
    events["time_ns"][6:] += 10**9
    joined = Joined()
    joined.add(events[:4], Names())
    joined.add(events[4:4], Names())
    joined.add(events[4:], Names())
    shown = [(event["node"]["id"], event["time"][17:19], count) for event, count in joined.shown()]
    assert shown == [(1, "02", 2), (1, "01", 5), (9, "01", 1)]
    rows = feed(joined.shown(), Names())
    assert rows.count('<div class="event') == 3
    assert "×5" in rows


def test_a_flood_of_events_pushes_out_the_oldest() -> None:
    """The feed keeps the newest rows, and a second's burst is one of them, however many its events are."""
    joined = Joined()
    for second in range(SHOWN + 5):
        events = np.zeros(3000, EVENT)
        events["kind"], events["time_ns"] = Kind.DROP, second * 10**9
        joined.add(events, Names())
    assert [(event["time"][17:19], count) for event, count in joined.shown()][-1] == ("05", 3000)
    assert len(joined.shown()) == SHOWN


def test_names_never_become_html() -> None:
    """Names and kinds from files and events are text."""
    names = Names({1: SCRIPT}, {(1, 2): SCRIPT})
    drawn = feed(((event(kind=SCRIPT), 1), (event(kind="loop", path=[{"id": 1, "name": SCRIPT}]), 1)), names)
    assert "<script" not in drawn + place(names, 1, 2)
    assert "&lt;script" in drawn


def refusals(counts: dict[str, int]) -> str:
    """The page's list of refusals, where these counters (by key) are not 0."""
    counters = [
        CounterValue(
            name=one.metric, label={one.label[0]: one.label[1]} if one.label else None,
            help=one.help, value=str(counts.get(one.key, 0)), per_second=counts.get(one.key, 0) / 2,
        )
        for one in COUNTERS
    ]  # fmt: skip
    snapshot = Snapshot.__new__(Snapshot)
    object.__setattr__(snapshot, "summary", Summary.model_construct(counters=counters))
    object.__setattr__(snapshot, "limits", None)
    return Fragments(snapshot, Names.load(None)).get("rejected")


def test_refusals_are_listed_by_reason_and_place() -> None:
    """What was refused is told by reason and by header, the most first; without any, there is a line."""
    html = refusals({
        "rejected_reports_total.truncated": 3, "rejected_reports_total.bad_hop_size": 9,
        "rejected_headers_total.int_stack": 12,
    })  # fmt: skip
    rows = [re.sub(r"<[^>]+>", " ", row).split() for row in html.split("<tr>")]
    assert [row for row in rows if row] == [
        ["Reject", "reason", "Reports", "/s"],
        ["bad", "hop", "size", "9", "4.50"],
        ["truncated", "3", "1.50"],
        ["Header", "Reports", "/s"],
        ["int", "stack", "12", "6"],
    ]
    assert refusals({}) == '<p class="empty">No report was rejected.</p>'


def test_limits_are_listed_with_who_changed_them() -> None:
    """Of all switches, then what is in force at those with limits of their own; a sink compares fewer."""
    limits = LimitSettings(
        general=ThresholdSettings(hop_latency=MetricLimits(change=1000, raise_above=2000, clear_below=500)),
        switches=(SwitchLimits(node=7, hop_latency=SwitchMetricLimits(raise_above=9000, change="never")),),
    )
    snapshot = Snapshot.__new__(Snapshot)
    for name, value in {
        "limits": LimitsInForce(limits, Change(10**9, SCRIPT), SINK_METRICS),
        "time_ns": 3 * 10**9,
    }.items():
        object.__setattr__(snapshot, name, value)
    html = Fragments(snapshot, Names({7: "leaf-7"}, {})).get("limits")
    rows = html.partition("<p")[0].split("<tr>")[2:]
    cells = [
        re.findall(r"<td[^>]*>(.*?)(?=<t|</t)", row.replace("<em>", "").replace("</em>", "")) for row in rows
    ]
    assert cells == [
        ["flow latency", "50.0 µs", "never", "–"],
        ["hop latency", "1.00 µs", "2.00 µs", "500 ns"],
        ["queue occupancy", "500", "never", "–"],
        ["link utilization", "100", "never", "–"],
        ["hop latency leaf-7", "never", "9.00 µs", "500 ns"],
    ]
    assert html.endswith('<p class="note">Changed 2.00 s ago by &lt;script&gt;alert(1)&lt;/script&gt;.</p>')
