"""The pictures of README and docs: pages of a running demo while a microburst fills a queue.

`make pictures` writes them into docs/images; otherwise they are only looked at.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.kernel, pytest.mark.timeout(600)]

FOLDER = os.environ.get("PICTURES", "")
QUERY = """SELECT metric, node_id, port, count(*) AS alarms, max(value) AS highest
FROM events
WHERE kind = 'raised'
GROUP BY ALL
ORDER BY alarms DESC"""
PAGES = {
    "overview": ("/", ".hops li", ""),
    "fabric": ("/fabric", "span", "20 switches"),
    "ports": ("/ports", "section[aria-label='Places × time'] small", "places"),
    "flows": ("/flows", ".table tbody tr", ""),
    "events": ("/events", "a[href^='/events/']", ""),
    "ask": ("/ask?q=" + quote(QUERY), ".answer th", "metric"),
    "system": ("/system", ".table tbody tr", ""),
}
"""Address of each page; an element, and its text, that are there once it is drawn."""
KEPT = {
    "overview-light", "overview-dark", "overview-phone-light", "fabric-light", "fabric-dark", "ports-light",
    "flows-light", "events-light", "events-phone-dark", "ask-light", "system-light",
}  # fmt: skip
"""Pictures that docs have."""
HERE = """((e) => e.left >= 0 && e.right <= innerWidth && e.bottom <= innerHeight)
(document.querySelector(".rail [aria-current]").getBoundingClientRect())"""
OUTSIDE = """[...document.querySelectorAll(".with-label")]
.filter((e) => e.lastChild.getBoundingClientRect().right > e.getBoundingClientRect().right + 1).length"""
"""Number of inputs that are wider than their place in a row of controls."""
SIZES = {"": (1440, 900, False), "-phone": (390, 844, True)}
LOW = (1440, 300)
"""A window in which the rail scrolls."""


@pytest.mark.parametrize("name", PAGES)
def test_pages_fit_the_window(demo: Any, browser: Any, tmp_path: Path, name: str) -> None:
    """Light and dark, at a desk and on a phone: no page and no table but answers of Ask is wider than the
    window, and no input than its place. The rail shows where one is after the window was narrowed, and no
    page complains.
    """
    address, drawn, text = PAGES[name]
    if FOLDER:
        demo.found("slow-hop")
    for suffix, (width, height, phone) in SIZES.items():
        browser.size(width, height, phone=phone)
        if not phone:  # the phone has the same page in a narrower window
            browser.open(demo.url.rstrip("/") + address)
        browser.see(drawn, text)
        browser.wait(HERE)
        assert browser.run(OUTSIDE) == 0
        if FOLDER:
            time.sleep(3)  # all panels are filled
        for scheme in ("light", "dark"):
            browser.scheme(scheme)
            browser.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
            wide = browser.run("document.documentElement.scrollWidth")
            assert wide <= width, f"{address} is {wide} pixels wide in a window of {width}"
            assert not phone or not browser.cut(), address
            picture = f"{name}{suffix}-{scheme}"
            browser.picture(
                (Path(FOLDER) if FOLDER and picture in KEPT else tmp_path) / f"console-{picture}.png"
            )
    browser.size(*LOW)
    browser.wait(HERE)
    assert not browser.problems
