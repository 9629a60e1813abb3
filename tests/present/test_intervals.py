"""Intervals above a limit, by hand; and the buckets of time that values are put into."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopscope.present.series.intervals import above, alarms, joined
from hopscope.present.series.places import Buckets, Place

S = 10**9


def row(time: float, kind: str, value: int, **more: Any) -> dict[str, Any]:
    """An event of queue 2 of port 3 at switch 7."""
    found = {
        "time_ns": int(time * S), "member": "", "kind": kind, "metric": "queue_occupancy", "node_id": 7,
        "port": 3, "ident": 2, "value": value, "previous": 500,
        "reason": "value" if kind == "cleared" else None,
        "switch_ns": None, "flow_id": None,
    }  # fmt: skip
    return {**found, **more}


def spans(found: Any) -> list[Any]:
    """(start, end, peak, reason) of intervals, in seconds."""
    return [
        (
            None if one.start_ns is None else one.start_ns / S,
            None if one.end_ns is None else one.end_ns / S,
            one.peak,
            one.reason,
        )
        for one in found
    ]


def test_an_alarm_lasts_from_raised_to_cleared() -> None:
    """One that was raised before has no start, one that goes on no end; another queue is another one."""
    events = [
        row(1, "cleared", 20),
        row(2, "raised", 600),
        row(2.5, "raised", 800, ident=3),
        row(3, "cleared", 40),
        row(4, "raised", 700),
        row(5, "cleared", 90, ident=3, reason="expired"),
    ]
    assert spans(alarms(events)) == [
        (None, 1, 0, "value"),
        (2, 3, 600, "value"),
        (2.5, 5, 800, "expired"),
        (4, None, 700, None),
    ]


def test_a_queue_without_its_port_is_cleared_at_another_one() -> None:
    """With `detect.queue_key = switch` events of one queue have the port of the hop that caused them."""
    assert spans(alarms([row(1, "raised", 600, port=1), row(2, "cleared", 10, port=2)])) == [
        (1, 2, 600, "value")
    ]


def test_events_without_hysteresis_make_runs() -> None:
    """Events above the limit at most a second apart are one interval; its peak is the highest of them."""
    events = [row(at, "threshold", value) for at, value in ((1, 510), (1.5, 900), (2.4, 600), (4, 505))]
    assert spans(alarms(events)) == [(1, 2.4, 900, None), (4, 4, 505, None)]


def test_durations_are_by_the_clock_of_the_switch_if_both_ends_have_it() -> None:
    """A burst of 40 us may arrive in two reports a second apart."""
    both = alarms([row(1, "raised", 600, switch_ns=70_000), row(2, "cleared", 10, switch_ns=110_000)])[0]
    assert (both.duration_ns, both.clock) == (40_000, "switch")
    one = alarms([row(1, "raised", 600, switch_ns=70_000), row(2, "cleared", 10)])[0]
    assert (one.duration_ns, one.clock) == (S, "collector")
    gone = alarms(
        [row(1, "raised", 600, switch_ns=70_000), row(2, "cleared", 10, switch_ns=9, reason="expired")]
    )[0]
    assert (gone.duration_ns, gone.clock) == (S, "collector")


def test_a_clock_that_started_again_measures_no_duration() -> None:
    """A clock of 32 bits, in ns, starts again every 4.3 s: an alarm of 6 s seems to last 1.7 s by it."""
    wrapped = (1_000_000_000 + 6 * S) % 2**32
    events = [row(1, "raised", 600, switch_ns=1_000_000_000), row(7, "cleared", 8, switch_ns=wrapped)]
    (found,) = alarms(events)
    assert (found.duration_ns, found.clock) == (6 * S, "collector")


def test_a_burst_over_the_wrap_of_a_clock() -> None:
    """A clock of 32 bits wraps in a burst of 40 us; a wider one that goes back has started again."""
    for began, ended, cleared, expected in (
        (2**32 - 10_000, 30_000, 2, (40_000, "switch")),
        (2**32 + 30_000, 10_000, 2, (S, "collector")),
        (3_000_000_000, 10_000, 20, (19 * S, "collector")),
    ):
        events = [row(1, "raised", 600, switch_ns=began), row(cleared, "cleared", 8, switch_ns=ended)]
        (found,) = alarms(events)
        assert (found.duration_ns, found.clock) == expected


def test_runs_above_a_value() -> None:
    """From the first value above it to the next that is not."""
    values = [(1, 100), (2, 400), (3, 450), (4, 100), (5, 301), (6, 300)]
    found = above([row(at, "change", value) for at, value in values], 300)
    assert spans(found) == [(2, 4, 450, None), (5, 6, 301, None)]
    assert [one.limit for one in found] == [300, 300]


def test_hop_latencies_of_several_flows_are_one_interval_of_their_port() -> None:
    """Each flow has an alarm of its own; those that overlap are one, with the highest peak and all flows."""
    hop = {"metric": "hop_latency", "ident": 0}
    events = [
        row(1, "raised", 9, flow_id=1, **hop),
        row(2, "raised", 12, flow_id=2, **hop),
        row(3, "cleared", 1, flow_id=1, **hop),
        row(4, "cleared", 1, flow_id=2, **hop),
        row(6, "raised", 10, flow_id=1, **hop),
        row(7, "cleared", 1, flow_id=1, **hop),
    ]
    found = joined(alarms(events))
    assert spans(found) == [(1, 4, 12, "value"), (6, 7, 10, "value")]
    assert found[0].flow_ids == {1, 2}
    assert found[0].place == Place(7, 3, None)


def test_what_several_members_see_of_a_queue_is_one_interval() -> None:
    """It ends when the last of them cleared it. One that a member never cleared takes in no later one of that
    member, and none of another metric at the place.
    """
    events = [
        row(1, "raised", 600, member="a"),
        row(2, "raised", 900, member="b"),
        row(3, "cleared", 40, member="a"),
        row(4, "raised", 700, member="a"),
        row(5, "cleared", 30, member="b"),
        row(6, "cleared", 20, member="a"),
        row(8, "raised", 650, member="a"),
        row(9, "raised", 660, member="a"),
        row(9.5, "raised", 5, member="b", metric="queue_congestion"),
        row(10, "cleared", 10, member="a"),
    ]
    assert spans(joined(alarms(events))) == [
        (1, 6, 900, "value"),
        (8, None, 650, None),
        (9, 10, 660, "value"),
        (9.5, None, 5, None),
    ]


@given(st.integers(0, 2**60), st.integers(1, 10**17), st.integers(1, 500))
def test_buckets_cover_a_range(since: int, span: int, most: int) -> None:
    """They begin at multiples of their width, and are about as many as asked for; each time is in one."""
    found = Buckets.of(since, since + span, most)
    assert found.start_ns % found.width_ns == 0
    assert found.start_ns <= since < found.start_ns + found.width_ns
    assert found.end_ns >= since + span > found.end_ns - found.width_ns
    assert found.count <= most + 1
    assert found.at(since) == 0
    assert found.at(since + span - 1) == found.count - 1
    assert found.at(found.end_ns) is None
    assert found.at(found.start_ns - 1) is None


@pytest.mark.parametrize(("minutes", "width"), [(15, 10), (60, 30), (1440, 900)])
def test_widths_are_those_of_a_clock(minutes: int, width: int) -> None:
    """120 buckets of a quarter of an hour have 10 s."""
    assert Buckets.of(0, minutes * 60 * S, 120).width_ns == width * S
