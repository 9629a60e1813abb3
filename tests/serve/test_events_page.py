"""The pages of events in a real browser, over a real server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.kernel]
ROWS = "[...document.querySelectorAll('.events > li')]"
KINDS = f"{ROWS}.map((e) => e.querySelector('.what button').textContent.slice(2))"
PLACES = Path(os.environ["PICTURES"]) if "PICTURES" in os.environ else None


def picture(browser: Any, name: str) -> None:
    """Keep what is seen, for those who look."""
    if PLACES is not None:
        browser.picture(PLACES / f"{name}.png")


def test_from_the_list_to_the_bytes(collector: Any, server: str, browser: Any) -> None:
    """New events appear by themselves; filters are in the address; alike ones are joined; keys walk the list;
    the event's page has its alarm, its neighbours, and the report, whose fields and bytes mark each other.
    """
    base = server.rstrip("/")
    for occupancy in (800, 10, 900, 10, 700):
        collector.report(occupancy=occupancy)
    browser.open(f"{base}/events")
    browser.wait(f"{ROWS}.length === 5")
    assert set(browser.run(KINDS)) == {"raised", "cleared"}
    collector.report(skip=5, occupancy=750)
    browser.wait(f"{KINDS}.includes('gap')")  # pushed, without a reload
    picture(browser, "events")

    browser.click(".events .what button", "raised")
    browser.wait(f"new Set({KINDS}).size === 1")
    assert "kind=raised" in browser.run("location.search")
    browser.see(".event-filters .chip", "kind raised")
    browser.click(".tabs button", "By place")
    browser.see(".events .count", "× 3")
    assert browser.run(f"{ROWS}.length") == 1
    picture(browser, "joined")
    address = browser.run("location.href")
    browser.open(address)  # a view is a link
    browser.see(".events .count", "× 3")

    browser.open(f"{base}/events?kind=raised")
    browser.wait(f"{ROWS}.length === 3")
    browser.press("j", "j", "k")
    assert browser.run(f"{ROWS}.indexOf(document.activeElement)") == 0
    browser.press("Enter")
    browser.see(".alarm-box", "Open now")
    browser.see(".around .here", "raised")
    browser.see(".facts", "leaf-2")
    browser.wait("document.querySelectorAll('.dump .hex > span').length > 100")
    of_queue = "(e) => e.textContent.startsWith('queue occupancy 7')"
    line = f"[...document.querySelectorAll('.field-line')].find({of_queue})"
    browser.click(".button", "Expand all")
    browser.wait(f"{line} && ({line}.focus(), true)")
    marked = browser.wait("[...document.querySelectorAll('.dump .hex .on')].map((e) => e.innerText).join('')")
    assert int(marked, 16) == 700
    picture(browser, "event")
    over = "dispatchEvent(new PointerEvent('pointerover', {bubbles: true}))"
    browser.run(f"document.querySelector('.dump .hex > span').{over}")
    browser.see(".field-line.on", "version")

    browser.open(f"{base}/events?part=alarms")
    browser.see("td", "queue occupancy")
    browser.see(".note", "needs the role operator")
    picture(browser, "alarms")
    assert not [each for each in browser.problems if "session" not in each]


def test_it_fits_a_phone(collector: Any, server: str, browser: Any) -> None:
    """Nothing is wider than a phone of 390 pixels, also without events."""
    browser.size(390, 844, phone=True)
    browser.scheme("dark")
    for page in ("/events?all=1", "/events?part=silences", "/events/0-999999"):
        browser.open(server.rstrip("/") + page)
        browser.wait("document.querySelector('.view')?.innerText.length > 20")
        assert browser.run("document.documentElement.scrollWidth") <= 390, page
        picture(browser, f"phone{page.replace('/', '-').replace('?', '-')}")
