"""The fabric map in a real browser, over a running demo of a fat tree with 20 switches."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.kernel, pytest.mark.timeout(600)]

MAP = "((b) => [b.left, b.right, b.bottom])(document.querySelector('canvas.map').getBoundingClientRect())"
TIP = "document.querySelector('.fabric-map .tip:not([hidden])')?.innerText"
POD = """((s) => { s.value = "pod-1"; s.dispatchEvent(new Event("change")); })
  (document.querySelector(".crumbs select"))"""
SLIDE = """((i) => { i.value = 119; i.dispatchEvent(new Event("input")); })
  (document.querySelector(".timeline input"))"""


def test_a_port_is_reached_from_the_map(demo: Any, browser: Any) -> None:
    """All switches are there; a click on one shows its ports; a click on a port leads to the port's page."""
    browser.open(f"{demo.url}fabric")
    browser.see(".map-legend", "20 switches")
    left, right, bottom = browser.run(MAP)
    x, y = left + 60, bottom - 44  # the lowest row of the map
    while x < right and "edge-" not in str(browser.run(TIP)):
        x += 7
        browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    name = browser.run("document.querySelector('.fabric-map .tip b').innerText")
    assert name.startswith("edge-")
    browser.click_at(x, y)
    browser.see(".side h2", name)
    assert "selected=" in browser.run("location.search")
    browser.see(".side td", "hosts")
    browser.click(".side tbody td a")
    browser.wait(f"location.pathname.startsWith('/ports/{name}/')")
    browser.run("history.back()")
    browser.see(".side h2", name)
    assert not [each for each in browser.problems if "/console/" in each and "views/port" not in each]


def test_links_within_a_row_stay_on_the_map(demo: Any, browser: Any) -> None:
    """Between two switches of the top row a link bends down, since the map ends above; others bend up."""
    browser.open(f"{demo.url}fabric")
    places = [{"x": x, "y": y, "w": 92, "h": 28} for y in (34, 500) for x in (400, 760)]
    links = {"from": [0, 2], "to": [1, 3]}
    given = f"{json.dumps(links)}, [{{}}, {{}}, {{}}, {{}}], {json.dumps(places)}"
    drawn = browser.run(
        f"import('/console/any/views/fabric/links.js').then((m) => [...m.curves({given}).whole])"
    )
    (*top,), (*low,) = ([drawn[at + i] for i in (1, 3, 5, 7)] for at in (0, 8))
    assert min(top) == 48
    assert max(low) == 486
    assert min(low) > 300


def test_the_map_is_walked_by_keys(demo: Any, browser: Any) -> None:
    """Arrows move from switch to switch and say its values, Enter opens one, Escape closes it."""
    browser.open(f"{demo.url}fabric?metric=link_utilization")
    browser.see(".map-legend", "Utilisation")
    browser.run("document.querySelector('canvas.map').focus()")
    browser.press("ArrowRight", "ArrowUp")
    said = browser.wait("document.querySelector('.fabric-map ~ .sr').textContent")
    assert "Utilisation" in said
    browser.press("Enter")
    browser.wait("document.querySelector('.side:not([hidden]) h2').innerText")
    browser.press("Escape")
    browser.wait("document.querySelector('.side').hidden")
    browser.press("+", "+")
    browser.wait("location.search.includes('zoom=2.25')")


def test_pods_open_and_a_past_moment_is_a_link(demo: Any, browser: Any) -> None:
    """Pods, one of them, and the moment of the slider are in the address; Live returns to now."""
    browser.open(f"{demo.url}fabric?level=pod")
    browser.see(".map-legend", "20 switches")
    browser.run(POD)
    browser.wait("location.search.includes('pod=pod-1')")
    browser.see(".crumbs [aria-current]", "pod-1")
    browser.run(SLIDE)
    browser.wait("location.search.includes('at=')")
    browser.wait("!document.querySelector('.map-legend').innerText.includes('live')")
    browser.open(f"{demo.url}fabric?at=2020-01-01T00:00:00Z")
    browser.see(".map-legend", "no values")
    browser.click(".timeline button", "Live")
    browser.wait("!location.search.includes('at=')")
    browser.see(".map-legend", "live")
    browser.run("document.querySelector('details.panel').open = true")
    browser.see("details .table td", "agg-1-")


def test_the_legend_says_why_ports_are_hot(demo: Any, browser: Any) -> None:
    """An alarm stays until the value is below the lower limit: its port is not said to be above the limit."""
    browser.open(demo.url)
    cases = [
        ((2, 2, 1000, "hop_latency"), "▲ 2 ports above the limit"),
        ((1, 0, 1000, "hop_latency"), "▲ 1 port in alarm, not above the limit now"),
        ((3, 1, 1000, "hop_latency"), "▲ 3 ports hot: 1 above the limit, 2 in alarm"),
        ((2, 0, None, "label_age"), "▲ 2 ports in alarm"),
        ((1, 1, None, "drops"), "▲ 1 port with drops"),
    ]
    given = json.dumps(
        [dict(zip(("hot", "above", "limit", "metric"), case, strict=True)) for case, _ in cases]
    )
    module = "import('/console/any/views/fabric/metrics.js')"
    assert browser.run(f"{module}.then((m) => {given}.map(m.hotText))") == [text for _, text in cases]


def test_long_names_are_cut(demo: Any, browser: Any) -> None:
    """A name without room shows the number at its end, else its beginning, unless even that has no room."""
    browser.open(demo.url)
    cases = [("core-1", 60), ("aggregation-17", 60), ("rack a/left", 60), ("rack a/left", 30), ("x", 6)]
    context = "{ measureText: (text) => ({ width: 7 * text.length }) }"
    module = "import('/console/any/views/fabric/drawing.js')"
    named = f"{json.dumps(cases)}.map(([name, room]) => m.nameFor({context}, name, room))"
    shown = browser.run(f"{module}.then((m) => {named})")
    assert shown == ["core-1", "17", "rack a/…", "", ""]
