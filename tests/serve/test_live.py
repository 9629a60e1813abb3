"""A real server: the live feed over HTTP, and the console in a browser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

pytestmark = [pytest.mark.kernel, pytest.mark.e2e]


def frames(lines: Iterator[str]) -> Iterator[dict[str, str]]:
    """Frames of an event stream, each as its fields."""
    frame: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(": ")
            frame[name] = value
        elif frame:
            yield frame
            frame = {}


def test_the_live_feed_goes_on_where_a_client_was(server: str, collector: Any) -> None:
    """Events come as they happen, filtered; one who comes back gets what it missed, once."""
    url = f"{server}api/v0/events/live?kind=raised,cleared"
    with httpx.Client(timeout=300, trust_env=False) as client:
        with client.stream("GET", url) as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            said = frames(stream.iter_lines())
            assert next(said)["event"] == "hello"
            collector.report(occupancy=900)
            raised = next(said)
            told = json.loads(raised["data"])
            assert (told["kind"], told["node"]["id"], told["value"], told["previous"]) == (
                "raised",
                13,
                900,
                500,
            )
        collector.report(occupancy=1)  # while nobody listens
        collector.report(occupancy=901)
        with client.stream("GET", url, headers={"last-event-id": raised["id"]}) as stream:
            said = frames(stream.iter_lines())
            assert next(said)["event"] == "hello"
            back = [json.loads(next(said)["data"]) for _ in range(2)]
            assert [(event["kind"], event["value"]) for event in back] == [("cleared", 1), ("raised", 901)]


def test_a_client_that_was_away_too_long_is_told_what_it_lost(collector: Any, request: Any) -> None:
    """What the ring no longer has is counted: lost and given together are what happened."""
    for value in (1, 901) * 300:
        collector.report(occupancy=value)
    server = request.getfixturevalue("server")
    with httpx.Client(timeout=300, trust_env=False) as client:
        happened = client.get(f"{server}api/v0/summary").json()["events"]
        assert happened > 1024
        with client.stream("GET", f"{server}api/v0/events/live", headers={"last-event-id": "0-0"}) as stream:
            said = frames(stream.iter_lines())
            assert next(said)["event"] == "hello"
            lost = json.loads(next(said)["data"])["lost"]
            first = json.loads(next(said)["data"])["id"]
    assert first == f"0-{lost}"
    assert lost == happened - 1024


def test_the_overview_shows_a_microburst_while_it_happens(server: str, collector: Any, browser: Any) -> None:
    """A queue that fills for a moment is an event and an alarm, without a reload; names are text."""
    browser.open(server)
    browser.see(".figure", "Live flows")
    collector.report(occupancy=8500)
    shown = browser.see(".feed li.bad", "queue occupancy")
    assert "queue occupancy 8.50k > 500 at <b>leaf-2 · to host-9 q2" in shown
    alarm = browser.see("section[aria-label='Open alarms'] tr.bad", "queue occupancy")
    assert "<b>leaf-2 · to host-9 q2" in alarm
    assert "8.50k" in alarm
    collector.report(occupancy=3)
    browser.see(".feed li.good", "queue occupancy")
    browser.wait("!document.querySelector(\"section[aria-label='Open alarms'] tr.bad\")")
    assert not browser.problems


def test_a_flow_leads_to_its_path(server: str, collector: Any, browser: Any) -> None:
    """Hop by hop with names and latencies."""
    browser.open(server)
    browser.click("section[aria-label='Slowest flows'] tbody a")
    browser.wait("location.pathname.startsWith('/flows/')")
    shown = browser.see("section[aria-label='Latency by hop'] tbody")
    assert [name for name in ("leaf-1", "spine-1", "<b>leaf-2") if name in shown] == [
        "leaf-1",
        "spine-1",
        "<b>leaf-2",
    ]
    assert shown.count("1.00 µs") >= 3
    assert not browser.problems


@pytest.mark.parametrize("server", ["correct horse battery"], indirect=True)
def test_a_browser_signs_in_with_the_token(server: str, browser: Any) -> None:
    """The form takes the token, and the console lives behind it, its WebSocket too."""
    browser.open(server + "ports")
    browser.wait("document.activeElement.name === 'token'")
    browser.type("correct horse battery")
    browser.press("Enter")
    browser.wait("location.pathname === '/ports'")
    browser.see(".chip", "Live")
