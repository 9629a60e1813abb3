"""Acknowledging alarms and silencing events, by the API and in alerts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import httpx
import pytest

from hopscope.base.names import Names
from hopscope.detect.records import Kind
from hopscope.export.alerts.destination import AlertDestination
from hopscope.export.alerts.outbox import Message
from hopscope.export.block import EventBlock
from hopscope.export.destination import Context
from hopscope.operators.audit import Audit, Author
from hopscope.operators.database import Database
from hopscope.operators.silences import LONGEST_NS, Matcher, Silence, Silences, first_match
from hopscope.settings.destinations.alerts import AlertSettings
from support.events.alert_events import SECOND, event, flow, joined
from support.events.event_make import START_NS

pytestmark = pytest.mark.kernel
KEY = "queue_occupancy/13/3/2"


def run(api: Any, folder: Path, use: Callable[[httpx.AsyncClient], Coroutine[Any, Any, None]]) -> None:
    """One conversation with the API."""

    async def talk() -> None:
        async with api(folder) as client:
            await use(client)

    asyncio.run(talk())


def test_an_acknowledgement_is_valid_until_the_alarm_ends(api: Any, collector: Any) -> None:
    """Only an open alarm is acknowledged; the same alarm raised again is nobody's; the audit has who did."""
    collector.report(occupancy=800)

    async def use(client: httpx.AsyncClient) -> None:
        async def whose() -> Any:
            (one,) = (await client.get("/api/v0/alarms")).json()["items"]
            return one["acknowledged"] and one["acknowledged"]["note"]

        post = "/api/v0/acknowledgements"
        assert await whose() is None
        assert (await client.post(post, json={"key": "queue_occupancy/9/9/9"})).status_code == 404
        assert (await client.post(post, json={"key": KEY, "note": "cable"})).status_code == 200
        assert await whose() == "cable"
        collector.report(occupancy=10)
        collector.report(occupancy=900)
        assert await whose() is None
        await client.post(post, json={"key": KEY, "note": "again"})
        assert await whose() == "again"
        assert (await client.delete(f"{post}?key={KEY}")).json() == {"items": []}
        assert (await client.delete(f"{post}?key={KEY}")).status_code == 404
        assert await whose() is None

    run(api, collector.folder, use)
    entries = Audit(Database(collector.folder)).page()
    assert [(each.kind, each.subject) for each in entries] == [
        ("alarms.unacknowledge", KEY), ("alarms.acknowledge", KEY), ("alarms.acknowledge", KEY),
    ]  # fmt: skip


def test_a_silence_marks_events_and_hides_alarms(api: Any, collector: Any) -> None:
    """Of one switch: its events have the number of the silence, alarms are counted and left out on demand;
    all is heard again when it ends.
    """
    collector.report(occupancy=800)

    async def use(client: httpx.AsyncClient) -> None:
        made = await client.post("/api/v0/silences", json={"node": "leaf-2", "until": "2h", "note": "works"})
        assert made.status_code == 200, made.text
        number = made.json()["id"]
        assert (made.json()["node"], made.json()["note"]) == ({"id": 13, "name": "leaf-2"}, "works")
        shown = (await client.get("/api/v0/alarms")).json()
        assert (shown["total"], shown["silenced"], shown["items"][0]["silence"]) == (1, 1, number)
        hidden = (await client.get("/api/v0/alarms?silenced=hide")).json()
        assert (hidden["total"], hidden["silenced"], hidden["items"]) == (0, 1, [])
        events = (await client.get("/api/v0/events?limit=1000")).json()["items"]
        silent = {each["node"]["id"] for each in events if each.get("silence") == number}
        heard = {each["node"]["id"] for each in events if each["node"] and "silence" not in each}
        assert silent == {13}
        assert 13 not in heard
        assert [each["id"] for each in (await client.get("/api/v0/silences")).json()["items"]] == [number]
        assert (await client.delete(f"/api/v0/silences/{number}")).json() == {"items": []}
        assert (await client.delete(f"/api/v0/silences/{number}")).status_code == 404
        assert (await client.get("/api/v0/alarms?silenced=hide")).json()["total"] == 1

    run(api, collector.folder, use)


def test_silences_are_bounded(api: Any, collector: Any) -> None:
    """One of everything, one without an end, of more than 30 days, in the past, or of unknown kinds and
    networks is refused in one line.
    """

    async def use(client: httpx.AsyncClient) -> None:
        for wrong in (
            {"until": "2h"},
            {"node": "leaf-2"},
            {"node": "leaf-2", "until": "31d"},
            {"node": "leaf-2", "until": "2020-01-01T00:00:00Z"},
            {"node": "nowhere", "until": "2h"},
            {"kind": "rise", "until": "2h"},
            {"metric": "speed", "until": "2h"},
            {"prefix": "10.0.0.0/40", "until": "2h"},
            {"port": 1 << 30, "until": "2h"},
            {"kind": "raised", "until": "2h", "for": "ever"},
        ):
            answer = await client.post("/api/v0/silences", json=wrong)
            assert (answer.status_code, "\n" in answer.json()["error"]) == (400, False), wrong

    run(api, collector.folder, use)


@pytest.mark.parametrize(
    ("matcher", "expected"),
    [
        (Matcher(kind="raised"), [True, True, False, False]),
        (Matcher(kind="cleared"), [False, True, False, False]),
        (Matcher(metric="queue_occupancy"), [True, True, False, False]),
        (Matcher(node=7), [True, True, True, False]),
        (Matcher(node=7, port=2), [True, True, False, False]),
        (Matcher(prefix="10.0.0.0/8"), [True, False, True, True]),
        (Matcher(prefix="2001:db8::/32"), [False] * 4),
        (Matcher(kind="silent", node=7, prefix="10.0.0.1"), [False, False, True, False]),
    ],
)
def test_what_a_matcher_matches(matcher: Matcher, expected: list[bool]) -> None:
    """By hand: a queue's alarm with a flow, its end, a silent source at switch 7, a path of another flow."""
    from hopscope.present.events import event_object

    events = joined(
        event(Kind.RAISED, **flow(3)),
        event(Kind.CLEARED),
        event(Kind.SILENT),
        event(Kind.PATH_CHANGE, **flow(4)),
    )
    silence = Silence(1, matcher, 2**62, "", "x", 0)
    found = [first_match([silence], event_object(row, Names())) is not None for row in events]
    assert found == expected


class Told(AlertDestination):
    """Keeps what it delivers."""

    def deliver(self, message: Message) -> None:
        """Keep it."""
        told.extend(alert["node"]["id"] for alert in message.alerts)


told: list[int] = []


def test_alerts_under_a_silence_are_held_back_and_counted(tmp_path: Path) -> None:
    """A silence that is made while the exporter runs is followed without a restart; so is its end."""
    told.clear()
    counts: dict[str, int] = {}
    clock = [0.0]
    context = Context(
        "hook",
        "m1",
        Names(),
        lambda name, more: counts.update({name: counts.get(name, 0) + more}),
        data=tmp_path,
    )
    one = Told(AlertSettings.model_validate({"kind": "x", "kinds": ("raised", "drop")}), context)
    assert one._silences is not None
    one._silences._clock = lambda: clock[0]
    silences = Silences(database := Database(tmp_path), Audit(database))

    def send(second: float) -> list[int]:
        events = joined(
            event(Kind.RAISED, second, node_id=7, ident=int(second)), event(Kind.DROP, second, node_id=8)
        )
        events["sequence"] += round(10 * second)
        one.send(EventBlock("m1", 0, 0, int(events["sequence"][-1]), events))
        one.tick([], ending=True)
        clock[0] += 10.0
        found = list(told)
        told.clear()
        return found

    assert send(1) == [7, 8]
    made = silences.add(Matcher(node=7), time.time_ns() + LONGEST_NS - 10**9, "works", Author("ann"))
    assert send(2) == [8]
    assert counts["silenced_total"] == 1
    silences.remove(made.id, Author("ann"))
    assert sorted(send(3)) == [7, 7, 8]  # the one that was held back is still open
    database.close()
    (tmp_path / "console.sqlite").write_bytes(b"no database" * 100)
    assert send(4) == [7, 8]
    assert "console.sqlite" in one._silences.problem


def test_an_alarm_that_was_sent_is_ended_under_a_silence(tmp_path: Path) -> None:
    """One silence lies between beginning and end of an alarm: the end is sent. Another alarm begins under it
    and ends after it: neither is sent, after a restart, either.
    """
    told.clear()
    silences = Silences(database := Database(tmp_path), Audit(database))
    settings = AlertSettings.model_validate({"kind": "x", "kinds": ("raised", "cleared")})

    def take(kind: Kind, second: int, node: int) -> list[int]:
        context = Context("hook", "m1", Names(), lambda *_: None, state=tmp_path / "state", data=tmp_path)
        one = Told(settings, context)  # again each time, as after a restart
        events = event(kind, second, node_id=node)
        events["sequence"] = 10 * second
        one.send(EventBlock("m1", 0, 0, int(events["sequence"][-1]), events))
        one.tick([], ending=True)
        found = list(told)
        told.clear()
        return found

    assert take(Kind.RAISED, 1, 7) == [7]
    made = silences.add(Matcher(metric="queue_occupancy"), time.time_ns() + 10**12, "", Author("ann"))
    assert take(Kind.RAISED, 2, 8) == []
    assert take(Kind.CLEARED, 3, 7) == [7]
    silences.remove(made.id, Author("ann"))
    assert take(Kind.CLEARED, 4, 8) == []
    assert take(Kind.RAISED, 5, 8) == [8]
    database.close()


def test_an_alarm_that_outlasts_its_silence_is_sent_then(tmp_path: Path) -> None:
    """A silence defers the alert of an alarm: what is open when it ends is sent, and so is its end."""
    told.clear()
    silences = Silences(database := Database(tmp_path), Audit(database))
    settings = AlertSettings.model_validate({"kind": "x", "kinds": ("raised", "cleared")})
    made = silences.add(Matcher(metric="queue_occupancy"), time.time_ns() + 10**12, "", Author("ann"))

    def take(*kinds: Kind) -> list[int]:
        context = Context("hook", "m1", Names(), lambda *_: None, state=tmp_path / "state", data=tmp_path)
        one = Told(settings, context)  # again each time, as after a restart
        for kind in kinds:
            events = event(kind, 1 + (kind == Kind.CLEARED), node_id=8)
            events["sequence"] = 10 * int(kind)
            one.send(EventBlock("m1", 0, 0, int(events["sequence"][-1]), events))
        one.tick([], ending=True)
        found = list(told)
        told.clear()
        return found

    assert take(Kind.RAISED) == []
    assert take() == []
    silences.remove(made.id, Author("ann"))
    assert take() == [8]
    assert take() == []
    assert take(Kind.CLEARED) == [8]
    database.close()


def test_what_has_no_end_is_not_sent_after_its_silence(tmp_path: Path) -> None:
    """A changed path, a loop and a drop under a silence are suppressed for good; the open alarm is sent."""
    told.clear()
    silences = Silences(database := Database(tmp_path), Audit(database))
    settings = AlertSettings.model_validate({"kind": "x", "kinds": ("raised", "path_change", "loop", "drop")})
    made = silences.add(Matcher(prefix="10.0.0.0/8"), time.time_ns() + 10**12, "", Author("ann"))
    one = Told(settings, Context("hook", "m1", Names(), lambda *_: None, data=tmp_path))
    kinds = (Kind.PATH_CHANGE, Kind.LOOP, Kind.DROP, Kind.RAISED)
    events = joined(*(event(kind, node_id=number, **flow(1)) for number, kind in enumerate(kinds)))
    one.send(EventBlock("m1", 0, 0, 3, events))
    one.tick([], ending=True)
    assert told == []
    silences.remove(made.id, Author("ann"))
    assert one._silences is not None
    one._silences._due = 0.0
    one.tick([], ending=True)
    assert told == [3]
    database.close()


def test_a_silence_holds_for_alerts_that_are_late(tmp_path: Path) -> None:
    """The destination was away while the silence came and went: of its events nothing is sent but the alarm
    that outlasted it, and all that was before and after it is, as if the destination had been there.
    """
    told.clear()
    silences = Silences(database := Database(tmp_path), Audit(database))
    made = silences.add(Matcher(metric="queue_occupancy"), time.time_ns() + 10**12, "", Author("ann"))
    with database.transaction() as connection:
        connection.execute("UPDATE silences SET time_ns = ?", (START_NS + 10 * SECOND,))
    silences.remove(made.id, Author("ann"))
    with database.transaction() as connection:
        connection.execute("UPDATE silences SET until_ns = ?", (START_NS + 20 * SECOND,))
    database.close()
    settings = AlertSettings.model_validate({"kind": "x", "kinds": ("raised", "cleared"), "for_seconds": 1})
    one = Told(settings, Context("hook", "m1", Names(), lambda *_: None, data=tmp_path))
    events = joined(
        event(Kind.RAISED, 7, node_id=1),  # sent before the silence
        event(Kind.RAISED, 9.5, node_id=2),  # has lasted long enough during the silence, and ends in it
        event(Kind.RAISED, 12, node_id=3),  # outlasts it
        event(Kind.CLEARED, 14, node_id=1),
        event(Kind.CLEARED, 15, node_id=2),
        event(Kind.RAISED, 18, node_id=4),
        event(Kind.CLEARED, 19.9, node_id=4),
        event(Kind.CLEARED, 25, node_id=9),
        event(Kind.CLEARED, 30, node_id=3),
        event(Kind.RAISED, 40, node_id=5),
        event(Kind.CLEARED, 45, node_id=9),
    )
    for number in range(len(events)):
        one.send(EventBlock("m1", 0, number, number, events[number : number + 1]))
        one.tick([], ending=True)
    assert told == [1, 1, 3, 3, 5]


@pytest.mark.parametrize("kind", ["raised", "cleared"])
def test_a_destination_of_one_end_of_alarms_is_silenced(tmp_path: Path, kind: str) -> None:
    """It gets no beginning of an alarm that ended during the silence, and no end of one that did."""
    told.clear()
    silences = Silences(database := Database(tmp_path), Audit(database))
    made = silences.add(Matcher(node=7), time.time_ns() + 10**12, "", Author("ann"))
    settings = AlertSettings.model_validate({"kind": "x", "kinds": (kind,)})
    one = Told(settings, Context("hook", "m1", Names(), lambda *_: None, data=tmp_path))
    events = joined(event(Kind.RAISED, 1), event(Kind.CLEARED, 2))
    one.send(EventBlock("m1", 0, 0, 1, events))
    one.tick([0], ending=True)
    silences.remove(made.id, Author("ann"))
    database.close()
    assert one._silences is not None
    one._silences._due = 0.0
    one.tick([0], ending=True)
    assert told == []


def test_ended_silences_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest are kept for late alerts; they take no place of new ones and are not shown."""
    monkeypatch.setattr("hopscope.operators.silences.MAX_SILENCES", 3)
    silences = Silences(database := Database(tmp_path), Audit(database))
    for number in range(10):
        made = silences.add(Matcher(node=number), time.time_ns() + 10**12, "", Author("ann"))
        assert silences.all() == [made]
        assert silences.remove(made.id, Author("ann"))
        assert not silences.remove(made.id, Author("ann"))
    assert silences.all() == []
    kept = database.rows("SELECT node FROM silences ORDER BY id", ())
    assert [node for (node,) in kept] == [6, 7, 8, 9]
    with database.transaction() as connection:
        connection.execute("UPDATE silences SET until_ns = until_ns - ?", (LONGEST_NS,))
    silences.add(Matcher(node=1), time.time_ns() + 10**12, "", Author("ann"))
    assert len(database.rows("SELECT node FROM silences", ())) == 1
    database.close()
