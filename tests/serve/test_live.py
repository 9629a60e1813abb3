"""A real server: the live feed over HTTP, and the page in a browser while a microburst happens."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest

from hopscope.labels.state import FILE_NAME, LabelRule
from hopscope.labels.table import LabelTable
from hopscope.wire.encode.encoder import new_hops, new_reports
from hopscope.wire.label.records import LABEL
from hopscope.wire.records import ReportBatch

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


def test_the_page_shows_a_microburst_while_it_happens(server: str, collector: Any, browser: Any) -> None:
    """A queue that fills for a moment is the hottest row and an event, without a reload; names are text."""
    browser.call("Page.navigate", url=server)
    browser.wait("!!document.querySelector('.strip .row') && !!document.querySelector('[data-flow]')")
    assert browser.run("document.querySelector('.strip .row').dataset.peak") == "7"
    collector.report(occupancy=8500)
    collector.report(occupancy=3)  # it is over before the next snapshot
    browser.wait("document.querySelector('.strip .row').dataset.peak === '8500'")
    assert "<b>leaf-2 · to host-9 q2" in browser.run("document.querySelector('.strip .row .name').innerText")
    assert browser.run("!!document.querySelector('.strip .row path.h8')")
    feed = browser.wait("[...document.querySelectorAll('.event.bad')].map(e => e.innerText).join()")
    assert "queue occupancy 8.50k > 500" in feed
    assert not browser.problems


def test_a_click_on_a_flow_shows_its_path(server: str, collector: Any, browser: Any) -> None:
    """The path is drawn hop by hop with names and latencies, and follows the slowest flow when released."""
    browser.call("Page.navigate", url=server)
    browser.wait("document.querySelectorAll('tr[data-flow]').length === 3")
    browser.run("document.querySelectorAll('tr[data-flow]')[2].querySelector('td').click()")
    browser.wait("document.querySelector('.path').innerText.includes('of the chosen flow')")
    hops = browser.wait("[...document.querySelectorAll('.hop')].map(h => h.innerText.replaceAll('\\n', ' '))")
    assert [hop.split()[0] for hop in hops] == ["leaf-1", "spine-1", "<b>leaf-2"]
    assert all("1.00 µs" in hop for hop in hops)
    browser.run("document.querySelector('.path button').click()")
    browser.wait("document.querySelector('.path').innerText.includes('of the slowest flow')")
    assert not browser.problems


def test_histograms_of_a_switch_and_measure(server: str, collector: Any, browser: Any) -> None:
    """The chosen switch's values of the chosen measure are drawn, with quantiles; names are text."""
    counts = collector.pipeline.distributions
    reports, hops = new_reports(300), new_hops(900, 0xF100)
    reports["int_version"], reports["hop_count"], reports["first_hop"] = 20, 3, np.arange(0, 900, 3)
    reports["time_ns"] = time.time_ns()
    hops["node_id"], hops["egress_port"] = np.tile([11, 12, 13], 300), 3
    hops["hop_latency"] = np.geomspace(100, 90_000, 900)
    hops["queue_occupancy"] = np.tile([0, 40, 40], 300)
    ended = threading.Event()

    def count() -> None:
        while not ended.wait(0.2):  # all the time: the page shows the last minute
            counts.update(ReportBatch(reports, hops))

    counting = threading.Thread(target=count)
    counting.start()
    try:
        browser.call("Page.navigate", url=server)
        browser.wait("document.querySelectorAll('.dist rect').length > 40")
        assert browser.run("document.querySelectorAll('.dist .hist path').length") == 4
        figures = "document.querySelector('.dist table')?.innerText"
        assert "p99.9" in browser.run(figures)
        browser.run(
            "[...document.querySelectorAll('.dist .tab')].find(t => t.innerText === 'Queues').click()"
        )
        browser.wait(f"{figures}?.includes('40 – 40')")
        assert "<b>leaf-2" in browser.run("document.querySelector('.dist select').innerText")
        choose = "s.value = 11; s.dispatchEvent(new Event('change', {bubbles: true}))"
        browser.run(f"(s => {{ {choose} }})(document.querySelector('.dist select'))")
        browser.wait(f"{figures}?.includes('Mean') && !{figures}.includes('40 – 40')")
    finally:
        ended.set()
        counting.join()
    assert not browser.problems


@pytest.mark.parametrize("server", ["correct horse battery"], indirect=True)
def test_a_browser_signs_in_with_the_token(server: str, browser: Any) -> None:
    """The form takes the token, and the page lives behind it, its WebSocket too."""
    browser.call("Page.navigate", url=server)
    browser.wait("!!document.querySelector('input[type=password]')")
    browser.run("document.querySelector('input').value = 'correct horse battery'")
    browser.run("document.querySelector('form').submit()")
    browser.wait("!!document.querySelector('.figure')")
    clock = browser.wait("document.querySelector('.clock').innerText")
    browser.wait(f"document.querySelector('.clock').innerText !== {clock!r}")


def test_labels_are_shown_once_they_come(server: str, collector: Any, browser: Any) -> None:
    """Without labels there is no panel; with them the ports stand by switch and name, coloured by age, with
    what is known of each in a tooltip, and coverage is drawn.
    """
    browser.call("Page.navigate", url=server)
    browser.wait("!!document.querySelector('.strip .row')")
    panel = "!!document.querySelector('.labels:not(.hidden)')"
    assert not browser.run(panel)
    about = LabelRule(10**8, 5 * 10**7, 5 * 10**7, "shift")
    table = LabelTable(collector.folder / "regions" / FILE_NAME, about, ports=64)
    ended = threading.Event()

    def hear() -> None:
        while not ended.wait(0.02):
            labels = np.zeros(2, LABEL)
            labels["node_id"], labels["egress_port"] = (13, 11), (3, 1)
            labels["time_ns"], labels["latency_ns"] = time.time_ns(), 4100
            table.update(labels, time.time_ns())
            table.set_shift(table.rows_of([13], [3]), np.array([2], np.uint8))
            table.tick(time.time_ns())

    hearing = threading.Thread(target=hear)
    hearing.start()
    try:
        browser.wait(f"{panel} && document.querySelectorAll('.ages [data-tip]').length === 2")
        shown = browser.run("document.querySelector('.ages').innerText")
        assert "<b>leaf-2" in shown
        tip = "[...document.querySelectorAll('.ages [data-tip]')].map(i => i.dataset.tip).join()"
        browser.wait(f"{tip}.includes('S 2: every 12.5 ms') && {tip}.includes('latency 4.10 µs')")
        assert "port 3 (to host-9)" in browser.run(tip)
        browser.wait(
            "document.querySelector('.labels header').innerText.includes('100.00 % of active ports')"
        )
        browser.wait("!!document.querySelector('.labels .chart canvas, .labels .chart svg')")
    finally:
        ended.set()
        hearing.join()
    assert not browser.problems
