"""Alarms from events: how long they must last, how they end, and how severe they are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hopscope.base.errors import HopscopeError
from hopscope.base.names import Names
from hopscope.detect.records import ClearReason, Kind, Metric
from hopscope.export.alerts import alarms as module
from hopscope.export.alerts.alarms import Alarms
from hopscope.export.alerts.texts import values
from hopscope.export.block import EventFilter
from hopscope.settings.destinations.alerts import AlertSettings
from support.events.alert_events import SECOND, event, flow, joined
from support.events.event_make import START_NS, Events, random_events

RAISED, CLEARED = Kind.RAISED, Kind.CLEARED


def alarms(by_port: bool = True, **settings: Any) -> Alarms:
    given = AlertSettings.model_validate({"kind": "x", **settings})
    return Alarms(given, Names(nodes={7: "leaf-7"}), "m1", by_port)


def sent(found: Alarms, events: Events) -> list[tuple[str, str]]:
    """Kind and id of what is sent of events."""
    return [(alert["kind"], alert["id"]) for alert in found.take(events)]


def at(second: float) -> int:
    return START_NS + round(second * SECOND)


def test_an_alarm_begins_and_ends() -> None:
    """Both are sent as they come, and have the id of the alarm, its severity, and when it began."""
    found = alarms()
    begins, ends = found.take(joined(event(RAISED, 1), event(CLEARED, 61, value=10)))
    assert (begins["kind"], begins["node"], begins["severity"]) == (
        "raised",
        {"id": 7, "name": "leaf-7"},
        "warning",
    )
    assert (begins["since"], begins["lasted_ns"]) == ("2023-11-14T22:13:21.000000000Z", None)
    assert (ends["kind"], ends["value"], ends["lasted_ns"]) == ("cleared", 10, 60 * SECOND)
    assert {(each["alarm"], each["since"]) for each in (begins, ends)} == {
        (f"m1-0-0-{at(1)}", begins["since"])
    }
    assert list(found) == []


def test_alarms_of_another_data_folder_have_other_ids() -> None:
    """Numbers of events begin again there: a receiver that knows an id takes no other alarm for a copy."""
    ids = {alert["alarm"] for second in (1, 2) for alert in alarms().take(joined(event(RAISED, second)))}
    assert len(ids) == 2


def test_a_short_alarm_is_not_sent() -> None:
    """One that ends earlier than `for_seconds` is counted; one that lasts is sent when another event, or the
    clock, says so, with the time at which it began.
    """
    found = alarms(for_seconds=30)
    events = joined(
        event(RAISED, 0, ident=1),
        event(RAISED, 10, ident=2),
        event(CLEARED, 29, ident=1),
        event(Kind.PATH_CHANGE, 41),
        event(CLEARED, 45, ident=2),
        event(RAISED, 50, ident=3),
    )
    assert sent(found, events) == [("raised", "0-1"), ("path_change", "0-3"), ("cleared", "0-4")]
    assert found.suppressed == 1
    assert list(found.advance(0, at(79.9))) == []
    assert [alert["since"] for alert in found.advance(0, at(80))] == ["2023-11-14T22:14:10.000000000Z"]
    assert list(found.advance(0, at(1000))) == []


def test_the_clock_of_another_shard_sends_nothing() -> None:
    """A shard that lags behind has its own time."""
    found = alarms(for_seconds=30)
    assert sent(found, joined(event(RAISED, 0))) == []
    assert sent(found, joined(event(Kind.PATH_CHANGE, 100, shard=1))) == [("path_change", "1-0")]
    assert sent(found, joined(event(CLEARED, 20))) == []


@pytest.mark.parametrize(
    ("metric", "same", "other"),
    [
        (Metric.FLOW_LATENCY, {"node_id": 9}, flow(2)),
        (Metric.HOP_LATENCY, {"port": 9}, {"node_id": 9}),
        (Metric.HOP_LATENCY, {"port": 9}, flow(2)),
        (Metric.QUEUE_OCCUPANCY, flow(2), {"port": 9}),
        (Metric.QUEUE_CONGESTION, flow(2), {"ident": 9}),
        (Metric.LINK_UTILIZATION, {**flow(2), "port": 9}, {"ident": 9}),
        (Metric.BUFFER_OCCUPANCY, {"port": 9}, {"ident": 9}),
        (Metric.LABEL_AGE, flow(2), {"port": 9}),
        (Metric.LABEL_COVERAGE, flow(2), {"metric": Metric.LABEL_AGE}),
    ],
)
def test_the_end_belongs_to_its_beginning(
    metric: Metric, same: dict[str, Any], other: dict[str, Any]
) -> None:
    """By what the metric is of, as a flow, a flow at a switch, a queue; not by what else is in the event."""
    found = alarms()
    begins = {**flow(1), "metric": metric}
    assert sent(found, joined(event(RAISED, 0, **begins))) == [("raised", "0-0")]
    assert sent(found, joined(event(CLEARED, 1, **begins | other))) == []
    assert sent(found, joined(event(CLEARED, 1, **begins | same))) == [("cleared", "0-0")]


def test_a_looping_flow_is_alarmed_until_its_last_hop_at_a_switch_has_ended() -> None:
    """It passes the switch more than once; one that ends leaves the alarm open. An index that a changed path
    has moved ends the one that is left.
    """
    found = alarms()
    hop = {"metric": Metric.HOP_LATENCY, **flow(1)}
    events = joined(*(event(RAISED, second, hop=second, **hop) for second in (0, 2, 2, 4)))
    assert sent(found, events) == [("raised", "0-0")]
    events = joined(*(event(CLEARED, 6 + at, hop=at, **hop) for at in (2, 0, 7)))
    (ends,) = found.take(events)
    assert (ends["kind"], ends["lasted_ns"], list(found)) == ("cleared", 13 * SECOND, [])


def test_a_queue_of_a_switch() -> None:
    """With `detect.queue_key = "switch-queue"` the port of the last report may be another one."""
    found = alarms(by_port=False)
    sent(found, joined(event(RAISED, 0, port=2)))
    assert sent(found, joined(event(CLEARED, 1, port=3))) == [("cleared", "0-0")]


def test_an_alarm_without_an_end_expires() -> None:
    """After `expire_seconds`; raised again, it is not sent again, and lasts that long from then on."""
    found = alarms(expire_seconds=100)
    assert sent(found, joined(event(RAISED, 0), event(RAISED, 60))) == [("raised", "0-0")]
    assert list(found.advance(0, at(159))) == []
    (ends,) = found.advance(0, at(200))
    assert (ends["kind"], ends["reason"], ends["id"], ends["alarm"]) == (
        "cleared",
        "expired",
        "0-0-expired",
        f"m1-0-0-{at(0)}",
    )
    assert (ends["time"], ends["lasted_ns"]) == ("2023-11-14T22:16:00.000000000Z", 160 * SECOND)
    assert sent(found, joined(event(CLEARED, 300))) == []


def test_only_an_end_by_a_value_has_a_limit() -> None:
    """A flow that expires ends its alarm without one: 0 would be read as a limit."""
    limits = {}
    for reason in ClearReason:
        events = joined(event(RAISED, 0), event(CLEARED, 60, reason=reason, previous=7))
        _, ends = alarms().take(events)
        limits[reason] = values(ends, "m1")["limit"]
    assert limits.pop(ClearReason.VALUE) == "7"
    assert set(limits.values()) == {""}


def test_alarms_of_a_silent_switch_end() -> None:
    """After `silent_seconds`, unless it returns; those of others stay."""
    found = alarms(silent_seconds=50)
    sent(found, joined(event(RAISED, 0), event(RAISED, 0, node_id=8), event(Kind.SILENT, 10)))
    assert [alert["node"]["id"] for alert in found.advance(0, at(61))] == [7]
    assert sent(found, joined(event(Kind.RETURNED, 70))) == [("returned", "0-0")]
    sent(found, joined(event(RAISED, 100), event(Kind.SILENT, 110), event(Kind.RETURNED, 120)))
    assert list(found.advance(0, at(10_000))) == []
    assert sorted(alarm.alert["node"]["id"] for alarm in found) == [7, 8]


def test_an_alarm_raised_again_before_a_silence_lives_as_long() -> None:
    """A switch that returns restores the end of its alarm: `expire_seconds` after it was raised last."""
    found = alarms(expire_seconds=100, silent_seconds=50)
    sent(found, joined(event(RAISED, 0), event(RAISED, 90), event(Kind.SILENT, 95)))
    assert sent(found, joined(event(Kind.RETURNED, 99))) == [("returned", "0-0")]
    assert list(found.advance(0, at(189))) == []
    (ends,) = found.advance(0, at(190))
    assert ends["lasted_ns"] == 190 * SECOND


def test_an_alarm_raised_during_the_silence_of_its_switch_is_not_ended_by_it() -> None:
    """The switch reports: the collector was restarted, and knows of no silence that ends."""
    found = alarms(expire_seconds=1000, silent_seconds=50)
    sent(found, joined(event(RAISED, 0), event(Kind.SILENT, 10), event(RAISED, 20), event(Kind.RETURNED, 30)))
    assert list(found.advance(0, at(1019))) == []
    (ends,) = found.advance(0, at(1020))
    assert ends["lasted_ns"] == 1020 * SECOND


@pytest.mark.parametrize("hours", [1, 24])
def test_a_clock_that_is_set_back(hours: int) -> None:
    """An alarm that began before is sent after `for_seconds`, and expires, as if the clock had not been set;
    one that began earlier than the clock is now keeps its times.
    """
    found = alarms(for_seconds=10, expire_seconds=100)
    sent(found, joined(event(RAISED, 0), event(RAISED, 3600 * hours, node_id=8)))
    began = {alarm.alert["node"]["id"]: alarm.since_ns for alarm in found}
    found.set_back(at(5))
    assert {alarm.alert["node"]["id"]: alarm.since_ns for alarm in found} == {8: at(5)} | {
        node: since for node, since in began.items() if node != 8
    }
    assert [alert["node"]["id"] for alert in found.advance(0, at(14))] == []
    assert [alert["node"]["id"] for alert in found.advance(0, at(15))] == [8]
    (ends,) = found.advance(0, at(105))
    assert (ends["kind"], ends["lasted_ns"]) == ("cleared", 100 * SECOND)


def test_kinds_that_are_not_sent_are_followed() -> None:
    """`kinds` says what is sent; the end of an alarm is read all the same, and vice versa."""
    found = alarms(kinds=["cleared"], for_seconds=10)
    events = joined(event(RAISED, 0), event(CLEARED, 20), event(RAISED, 30), event(CLEARED, 31))
    assert sent(found, events) == [("cleared", "0-1")]
    wanted = EventFilter(AlertSettings(kind="x", kinds=("raised",), nodes=(9,)))
    events = joined(event(RAISED, node_id=9), event(RAISED), event(CLEARED), event(Kind.LOOP))
    assert wanted.of(events)["kind"].tolist() == [RAISED, CLEARED]


@pytest.mark.parametrize(
    ("rules", "fields", "severity"),
    [
        ({}, {}, "warning"),
        ({}, {"kind": Kind.PATH_CHANGE}, "info"),
        ({"critical": ["loop"]}, {"kind": Kind.LOOP}, "critical"),
        ({"critical": ["queue_occupancy >= 5000"]}, {"value": 5000}, "critical"),
        ({"critical": ["queue_occupancy>=5000"]}, {"value": 4999}, "warning"),
        ({"critical": ["cleared:queue_occupancy"], "info": ["raised"]}, {}, "info"),
        (
            {"critical": ["raised:label_coverage<=500000"]},
            {"metric": Metric.LABEL_COVERAGE, "value": 4},
            "critical",
        ),
        ({"warning": ["path_change"], "info": ["path_change"]}, {"kind": Kind.PATH_CHANGE}, "warning"),
    ],
)
def test_severity(rules: dict[str, Any], fields: dict[str, Any], severity: str) -> None:
    """The first rule that matches, the most severe first; else by kind."""
    made = event(Kind(fields.pop("kind", RAISED)), **fields)
    (alert,) = alarms(**rules).take(joined(made))
    assert alert["severity"] == severity


def test_less_severe_alerts_are_left_out() -> None:
    """An alarm below the least severity is not sent, neither is its end."""
    found = alarms(least_severity="critical", critical=["queue_occupancy>=5000"])
    events = joined(event(RAISED, 0), event(CLEARED, 1), event(RAISED, 2, value=5000), event(CLEARED, 3))
    assert sent(found, events) == [("raised", "0-2"), ("cleared", "0-3")]


@pytest.mark.parametrize("rule", ["no_metric>=5", "no_kind:queue_occupancy", "raised:loop"])
def test_unknown_rules_are_rejected(rule: str) -> None:
    with pytest.raises(HopscopeError, match="in a rule, expected a kind"):
        alarms(critical=[rule])


def test_open_alarms_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the limit alarms are sent at once, and not kept."""
    monkeypatch.setattr(module, "MAX_ALARMS", 3)
    found = alarms(for_seconds=60)
    events = joined(*(event(RAISED, 0, ident=ident) for ident in range(5)))
    assert sent(found, events) == [("raised", "0-3"), ("raised", "0-4")]
    assert len(list(found)) == 3


def test_a_dump_goes_on() -> None:
    """Through JSON at any event, alerts are the same as without."""
    events = random_events(400, seed=3)
    events["kind"] = [(RAISED, CLEARED, Kind.SILENT, Kind.RETURNED)[each % 4] for each in events["value"]]
    events["metric"], events["reason"] = Metric.QUEUE_OCCUPANCY, ClearReason.VALUE
    events["time_ns"] = at(0) + events["value"] * SECOND
    joined(events)
    settings: dict[str, Any] = {"for_seconds": 3, "expire_seconds": 40, "silent_seconds": 5}
    whole = alarms(**settings)
    expected = list(whole.take(events))
    assert 20 < len(expected) < 380
    found: list[Any] = []
    now = alarms(**settings)
    for begin in range(0, 400, 7):
        found += now.take(events[begin : begin + 7])
        dumped = json.loads(json.dumps(now.dump()))
        now = alarms(**settings)
        now.load(dumped)
    assert found == expected
