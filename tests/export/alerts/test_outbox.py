"""Messages from alerts: groups, what they list, and their rate."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from hopscope.base.names import Names
from hopscope.detect.records import Kind
from hopscope.export.alerts import destination
from hopscope.export.alerts import outbox as module
from hopscope.export.alerts.alarms import Alarms
from hopscope.export.alerts.outbox import Message, Outbox
from hopscope.export.alerts.syslog import Syslog
from hopscope.export.block import EventBlock
from hopscope.export.destination import Context
from hopscope.settings.destinations.alerts import AlertSettings, Grouping, SyslogSettings
from support.events.alert_events import SECOND, event, flow, joined, numbered
from support.events.event_make import START_NS, Events


def alerts(*events: Events) -> list[dict[str, Any]]:
    found = Alarms(AlertSettings(kind="x", critical=("queue_occupancy>=9000",)), Names(), "m1", True)
    return list(found.take(joined(*events)))


def put(outbox: Outbox, *events: Events, now_ns: int = 0) -> None:
    for alert in alerts(*events):
        outbox.add(alert, now_ns)


def all_of(outbox: Outbox, now_ns: int = 0) -> list[Message]:
    found = []
    while message := outbox.next(now_ns, ending=False):
        found.append(message)
        outbox.done()
    return found


def raised(count: int, **fields: Any) -> list[Events]:
    return [event(Kind.RAISED, 0, ident=ident, **fields) for ident in range(count)]


def test_alerts_of_one_kind_are_one_message() -> None:
    """It has the highest severity, lists the first alerts, and counts the others."""
    outbox = Outbox(Grouping((), 5.0, 3, 30))
    put(outbox, *raised(5), event(Kind.PATH_CHANGE), event(Kind.RAISED, ident=9, value=9000))
    assert all_of(outbox, 5 * SECOND - 1) == []
    first, second = all_of(outbox, 5 * SECOND)
    assert (first.kind, first.count, first.more, first.severity) == ("raised", 6, 3, "critical")
    assert [alert["id"] for alert in first.alerts] == ["0-0", "0-1", "0-2"]
    assert (first.id, second.kind, second.more) == (f"m1-0-0-{START_NS}-raised", "path_change", 0)
    assert outbox.unlisted == 3


def test_a_clock_that_is_set_back_delays_no_message() -> None:
    """One that waits longer than any is sent at once."""
    outbox = Outbox(Grouping((), 5.0, 3, 30))
    put(outbox, *raised(1), now_ns=START_NS)
    assert all_of(outbox, START_NS + 5 * SECOND - 1) == []
    assert len(all_of(outbox, START_NS - 3600 * SECOND)) == 1


@pytest.mark.parametrize(
    ("by", "groups"),
    [
        (("node",), [{"node": "7"}, {"node": "8"}]),
        (("port",), [{"port": "7 2"}, {"port": "7 3"}, {"port": "8 2"}]),
        (("flow",), [{"flow": "-"}, {"flow": "0000000000000005"}]),
        (("metric", "node"), [{"metric": "queue_occupancy", "node": each} for each in "78"]),
    ],
)
def test_groups(by: tuple[str, ...], groups: list[dict[str, str]]) -> None:
    """Alerts of one message have one node, port, flow or metric."""
    outbox = Outbox(Grouping(by, 0.0, 10, 30))
    places: list[dict[str, Any]] = [{}, {"port": 3}, {"node_id": 8}, {"ident": 4, **flow(5)}]
    put(outbox, *(event(Kind.RAISED, **place) for place in places))
    found = all_of(outbox)
    assert [message.group for message in found] == groups
    assert sum(message.count for message in found) == 4


def test_a_message_above_the_rate_takes_up_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kind has its rate; what waits is not lost, and is sent when there is room again."""
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    outbox = Outbox(Grouping((), 0.0, 50, 2))
    found = []
    for number in range(5):
        put(outbox, event(Kind.RAISED, ident=number))
        found += all_of(outbox)
    put(outbox, event(Kind.LOOP))
    found += all_of(outbox)
    assert [(message.kind, message.count) for message in found] == [("raised", 1), ("raised", 1), ("loop", 1)]
    now = 29.0
    assert all_of(outbox) == []
    now = 31.0
    assert [(message.kind, message.count) for message in all_of(outbox)] == [("raised", 3)]


def test_without_groups_the_order_stays() -> None:
    """All kinds in one message; when it is full, another one follows."""
    outbox = Outbox(Grouping(None, 0.0, 4, None))
    events = [event(Kind.RAISED), event(Kind.CLEARED), event(Kind.LOOP)] * 4
    put(outbox, *events)
    found = all_of(outbox)
    assert [len(message.alerts) for message in found] == [4, 4, 4]
    assert [alert["id"] for message in found for alert in message.alerts] == [f"0-{n}" for n in range(12)]
    assert outbox.unlisted == 0


def test_full_messages_go_before_events_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without groups their number depends on the events: however many there are, none is left."""
    monkeypatch.setattr(destination, "MOST", 2)
    sent = list[int]()
    settings = SyslogSettings(kind="syslog")
    one = Syslog(settings, Context("logs", "m1", Names(), lambda *_: None))
    one.deliver = lambda message: sent.append(message.count)  # type: ignore[method-assign]
    count = settings.grouping.listed
    paths = np.concatenate([event(Kind.PATH_CHANGE, flow_id=1)] * count)
    for first in range(4):
        block = numbered(paths.copy(), first * count)
        one.send(EventBlock("m1", 0, first * count, first * count + count - 1, block))
    assert one.tick((), ending=False) == 4
    assert sent == [count] * 4
    assert not one.outbox.is_full


def test_a_message_under_way_does_not_change() -> None:
    """Until it is done it is the next one, also from a dump; later alerts are another message."""
    outbox = Outbox(Grouping((), 0.0, 10, 30))
    put(outbox, *raised(2))
    message = outbox.next(0, ending=False)
    put(outbox, *raised(3))
    again = Outbox(Grouping((), 0.0, 10, 30))
    again.load(json.loads(json.dumps(outbox.dump())))
    assert again.next(0, ending=False) == message
    again.done()
    assert [each.count for each in all_of(again)] == [3]


def test_the_end_waits_for_no_group() -> None:
    """When the process ends, messages go before they are due."""
    outbox = Outbox(Grouping((), 1000.0, 10, 30))
    put(outbox, *raised(2))
    assert outbox.next(0, ending=False) is None
    assert outbox.next(0, ending=True) is not None


def test_groups_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Further groups meet in one of their kind."""
    monkeypatch.setattr(module, "MAX_MESSAGES", 3)
    outbox = Outbox(Grouping(("node",), 0.0, 10, 30))
    put(outbox, *(event(Kind.RAISED, node_id=node) for node in range(1, 8)))
    found = [(message.group["node"], message.count) for message in all_of(outbox)]
    assert found == [("1", 1), ("2", 1), ("3", 1), ("others", 4)]
