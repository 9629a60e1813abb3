"""Webhooks: what is posted, and what happens when one is away, slow, or the process is killed."""

from __future__ import annotations

import errno
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopscope.base.clock import ClockSteps
from hopscope.base.names import Names
from hopscope.base.version import VERSION
from hopscope.detect.records import Kind
from hopscope.export import delivery
from hopscope.export.alerts import destination as module
from hopscope.export.alerts.outbox import Message
from hopscope.export.block import EventBlock
from hopscope.export.destination import DeliveryError
from support.events.alert_events import SECOND, event, flow, joined, numbered
from support.events.event_make import START_NS
from support.servers.http_receiver import Receiver, receiving
from support.waiting import eventually

from .conftest import Rig

Make = Callable[..., Rig]
RAISED, CLEARED = Kind.RAISED, Kind.CLEARED


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as server:
        yield server


def listed(receiver: Receiver) -> list[tuple[str, str]]:
    """Kind and id of every alert that was accepted."""
    return [(post["kind"], each["id"]) for post in receiver.posts for each in post["events"]]


def test_the_clock_is_set_back(receiver: Receiver, rig: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a day, while an alarm and its message wait: both wait as long as without it."""
    destination = rig("webhook", url=receiver.url, for_seconds=10, group_seconds=5).make()
    now = [START_NS]
    monkeypatch.setattr(time, "time_ns", lambda: now[0])

    def posted(second: float) -> int:
        now[0] = START_NS + round(second * SECOND)
        destination.tick([0], ending=False)
        return len(receiver.posts)

    destination.connect()
    destination.send(EventBlock("m1", 0, 0, 0, numbered(event(RAISED, 0))))
    day = -86_400
    assert [posted(second) for second in (5, day, day + 9, day + 12, day + 15, day + 17)] == [0] * 5 + [1]
    destination.close()


def test_the_clock_is_set_forward(receiver: Receiver, rig: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a day, while an alarm waits: it waits as long as without it, also if an event of the new time comes
    before the next look at the clock, and expires as late.
    """
    destination = rig("webhook", url=receiver.url, for_seconds=10, expire_seconds=100).make()
    day, running = 86_400, [0.0]
    ahead = [0]
    monkeypatch.setattr(time, "time_ns", lambda: START_NS + round((ahead[0] + running[0]) * SECOND))
    destination._clock = ClockSteps(lambda: time.time_ns(), lambda: round(running[0] * SECOND))

    def posted(second: float) -> list[str]:
        running[0] = second
        destination.tick([0], ending=False)
        return [post["kind"] for post in receiver.posts]

    destination.connect()
    destination.send(EventBlock("m1", 0, 0, 0, numbered(event(RAISED, 0))))
    assert posted(5) == []
    ahead[0] = day
    destination.send(EventBlock("m2", 0, 1, 1, numbered(event(Kind.LOOP, day + 5), first=1)))
    assert posted(9) == ["loop"]
    assert posted(13) == ["loop", "raised"]
    assert posted(90) == ["loop", "raised"]
    assert posted(110) == ["loop", "raised", "cleared"]
    destination.close()


@pytest.mark.parametrize("restart", [False, True])
def test_events_of_before_the_clock_was_set_back_are_read_after_it(
    restart: bool, receiver: Receiver, rig: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An alarm that began in the last moment before, or while the exports did not run, waits no longer than
    others, also if the exports are started again.
    """
    made = rig("webhook", url=receiver.url, for_seconds=10, group_seconds=0)
    destination = made.make()
    now = [START_NS]
    monkeypatch.setattr(time, "time_ns", lambda: now[0])
    destination.connect()
    destination.tick([0], ending=False)
    now[0] -= 3600 * SECOND
    destination.tick([0], ending=False)
    destination.send(EventBlock("m1", 0, 0, 0, numbered(event(RAISED, 0))))
    if restart:
        destination.close()
        destination = made.make()
        destination.connect()
    destination.tick([0], ending=False)
    now[0] += 12 * SECOND
    destination.tick([0], ending=False)
    assert len(receiver.posts) == 1
    destination.close()


def test_a_post(receiver: Receiver, rig: Make) -> None:
    """The events are objects of the API, with what makes them alerts; kinds are posts of their own."""
    names = Names(nodes={7: "leaf-7"}, ports={(7, 2): "to host"})
    one = rig("webhook", names, url=receiver.url, token="abc", page="https://h.example/?node=$node&q=$queue")
    one.write(joined(event(RAISED, 0, **flow(3)), event(CLEARED, 2, value=10), event(Kind.PUSH, 3)))
    one.start()
    one.stop()
    begins, ends = receiver.posts
    assert {key: value for key, value in begins.items() if key != "events"} == {
        "id": f"m1-0-0-{START_NS}-raised",
        "kind": "raised",
        "severity": "warning",
        "group": {},
        "title": "[warning] raised: queue_occupancy 3000 above 2500 at leaf-7 port to host queue 1, "
        "flow 10.0.0.3:4003 → 10.0.0.255:80 tcp",
        "count": 1,
        "unlisted": 0,
        "collector": "m1",
        "sent_by": f"hopscope {VERSION}",
    }
    (alert,) = begins["events"]
    assert (alert["id"], alert["alarm"], alert["node"]["name"]) == ("0-0", f"m1-0-0-{START_NS}", "leaf-7")
    assert alert["page"] == "https://h.example/?node=leaf-7&q=1"
    (alert,) = ends["events"]
    assert (ends["kind"], alert["value"], alert["alarm"], alert["lasted_ns"]) == (
        "cleared",
        10,
        f"m1-0-0-{START_NS}",
        2 * SECOND,
    )
    path, header = receiver.requests[0]
    assert (path, header["authorization"]) == ("/hooks/sesame", "Bearer abc")
    assert header["idempotency-key"] == begins["id"]
    assert [one.count(name) for name in ("sent", "events", "failed")] == [2, 2, 0]


def test_one_that_is_away_gets_every_alarm_later(receiver: Receiver, rig: Make) -> None:
    """Its process ends and starts again meanwhile; alarms that began and ended are there in full, and what
    was shorter than `for_seconds` by its own times is not.
    """
    receiver.away = True
    one = rig("webhook", url=receiver.url, for_seconds=30)
    one.write(joined(event(RAISED, 0, ident=1), event(CLEARED, 40, ident=1)))
    one.start()
    eventually(lambda: one.count("retried") > 1)
    assert one.problem == "status 503"
    for hour in range(1, 4):
        at = 3600 * hour
        one.write(joined(event(RAISED, at, ident=hour), event(CLEARED, at + 1800, ident=hour)))
        one.write(joined(event(RAISED, at + 1900, ident=9), event(CLEARED, at + 1929, ident=9)))
        one.stop()
        one.start()
    receiver.away = False
    eventually(lambda: one.count("events") == 8)
    one.stop()
    assert {kind: {each for k, each in listed(receiver) if k == kind} for kind in ("raised", "cleared")} == {
        "raised": {"0-0", "0-2", "0-6", "0-10"},
        "cleared": {"0-1", "0-3", "0-7", "0-11"},
    }
    assert len(listed(receiver)) == 8
    assert (one.count("suppressed"), one.problem) == (3, "")


def test_one_that_takes_every_other_message_is_not_left_alone_for_long(
    receiver: Receiver, rig: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each failure follows a success: pauses stay short, and every message that was taken is counted."""
    pauses: list[float] = []
    monkeypatch.setattr(delivery.DeliveryThread, "_wait", lambda self, seconds: pauses.append(seconds))
    receiver.statuses = [204, 503] * 8
    one = rig("webhook", url=receiver.url, group_by=["node"], expire_seconds=0)
    one.write(joined(*(event(RAISED, 0, node_id=node) for node in range(12))))
    one.start()
    eventually(lambda: one.count("events") == 12)
    one.stop()
    assert (one.count("sent"), one.count("retried")) == (12, 8)
    assert max(pauses) <= 1.5 * delivery.MIN_PAUSE


def test_the_state_survives_a_kill(receiver: Receiver, rig: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed at any step, a new process sends every alert, and at most the message under way twice, with the
    same id; open alarms go on.
    """
    one = rig("webhook", url=receiver.url, listed=500, per_minute=1000, for_seconds=1)
    kinds = [RAISED, CLEARED]
    events = [event(kinds[n % 2], 2 * n, ident=n // 4) for n in range(40)]
    blocks = [
        EventBlock("m1", 0, n, n + 3, numbered(np.concatenate(events[n : n + 4]), n)) for n in range(0, 40, 4)
    ]
    steps = 0

    class KilledError(BaseException):
        pass

    def until(limit: int) -> Callable[..., Any]:
        """`_replace` that ends the process at a step, before or after it."""
        real = module._replace

        def replace(path: Path, text: str) -> None:
            nonlocal steps
            steps += 1
            if steps == limit:
                raise KilledError
            real(path, text)
            if steps == limit + 1:
                raise KilledError

        return replace

    limit, sent = 1, 0
    with monkeypatch.context() as patched:
        while sent < len(blocks):
            patched.setattr(module, "_replace", until(limit))
            steps, limit = 0, limit % 7 + 1
            destination = one.make()
            destination.connect()
            try:
                while sent < len(blocks):
                    destination.send(blocks[sent])
                    sent += 1
                    destination.tick({0}, False)
            except KilledError:
                destination.close()
            finally:
                patched.undo()
    destination = one.make()
    destination.connect()
    destination.tick({0}, True)
    destination.close()
    by_id = {post["id"]: post for post in receiver.posts}
    assert all(by_id[post["id"]] == post for post in receiver.posts)
    found = [each["id"] for post in by_id.values() for each in post["events"]]
    assert sorted(found, key=lambda each: int(each[2:])) == [f"0-{n}" for n in range(40)]
    assert len(receiver.posts) > len(by_id)


def test_what_a_full_disk_refuses_is_not_taken(
    receiver: Receiver, rig: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`send` is done when the state is in its file, not when it was tried before; no message leaves earlier.
    What was delivered while the disk was full is not sent again, and is counted.
    """
    full = False
    real = module._replace

    def replace(path: Path, text: str) -> None:
        if full:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(path, text)

    def refused(step: Callable[[], object]) -> int:
        with pytest.raises(DeliveryError, match="No space left") as found:
            step()
        return found.value.delivered

    monkeypatch.setattr(module, "_replace", replace)
    one = rig("webhook", url=receiver.url, expire_seconds=0)
    block = EventBlock("m1", 0, 0, 0, numbered(event(RAISED), 0))
    first = one.make()
    full = True
    for _ in range(2):
        refused(lambda: first.send(block))
        refused(lambda: first.tick({0}, False))
    assert receiver.posts == []
    full = False
    first.send(block)
    second = one.make()  # the first one was killed
    second.connect()
    deliver = second.deliver

    def fills_up(message: Message) -> None:
        nonlocal full
        deliver(message)
        full = True

    monkeypatch.setattr(second, "deliver", fills_up)
    assert refused(lambda: second.tick({0}, False)) == 1
    refused(lambda: second.tick({0}, False))
    full = False
    assert second.tick({0}, False) == 0
    assert len(receiver.posts) == one.count("events") == 1
    assert json.loads((one.folder / "export" / "pager.state").read_text())["outbox"]["under_way"] is None


def test_a_damaged_state_is_replaced(receiver: Receiver, rig: Make) -> None:
    """Alerts go on without it."""
    one = rig("webhook", url=receiver.url)
    state = one.folder / "export" / "pager.state"
    state.parent.mkdir()
    for text in ("", "{", '{"version": 9}', '{"version": 1}', "[]"):
        state.write_text(text)
        one.write(event(Kind.LOOP))
        one.start()
        one.stop()
    assert len(listed(receiver)) == 5
    assert json.loads(state.read_text())["alarms"] == {}
    assert state.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("status", "given_up"), [(400, 1), (413, 1), (301, 0), (401, 0), (404, 0), (429, 0), (500, 0)]
)
def test_answers(receiver: Receiver, rig: Make, status: int, given_up: int) -> None:
    """What the settings or the server may mend is tried again; what will never be accepted is counted. No
    redirect is followed.
    """
    receiver.statuses = [status] * 3
    one = rig("webhook", url=receiver.url)
    one.start()
    for kind in (Kind.LOOP, Kind.PATH_CHANGE, Kind.LOOP):
        one.write(event(kind))
    eventually(lambda: one.count("events") + one.count("failed") == 3)
    one.stop()
    assert (one.count("failed"), one.count("events")) == (3 * given_up, 3 - 3 * given_up)
    assert {path for path, _ in receiver.requests} == {"/hooks/sesame"}


def test_a_defect_costs_one_message(receiver: Receiver, rig: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unexpected exception is counted, and later messages are sent."""
    one = rig("webhook", url=receiver.url)
    destination = one.make()
    monkeypatch.setattr(destination, "deliver", lambda message: {}["x"])
    destination.send(EventBlock("m1", 0, 0, 0, event(Kind.LOOP)))
    with pytest.raises(DeliveryError, match="KeyError") as error:
        destination.tick((), False)
    assert (error.value.again, one.count("failed")) == (False, 1)
    monkeypatch.undo()
    destination.connect()
    destination.send(EventBlock("m1", 0, 1, 1, numbered(event(Kind.LOOP), 1)))
    assert destination.tick((), False) == 1


def test_the_address_is_in_no_message(rig: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be a key: neither a failure, nor a wrong address, shows it."""
    one = rig("webhook", url="env:HOOK")
    for url in ("http://127.0.0.1:9/sesame?key=sesame", "http://sesame:99999/", "nothing sesame"):
        monkeypatch.setenv("HOOK", url)
        destination = one.make()
        assert destination.settings.place == "env:HOOK"
        with pytest.raises(DeliveryError) as error:
            destination.connect()
        assert str(error.value)
        assert "sesame" not in str(error.value)
