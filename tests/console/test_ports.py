"""Ports, one port and limits in a real browser, over a running demo."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.kernel, pytest.mark.timeout(600)]
KEPT = """window.kept = []; const make = URL.createObjectURL;
URL.createObjectURL = (blob) => { window.kept.push(blob); return make.call(URL, blob); }"""


def where(browser: Any) -> tuple[str, dict[str, list[str]]]:
    """Path and parameters of the address."""
    parts = urlsplit(browser.run("location.href"))
    return parts.path, parse_qs(parts.query)


def test_a_microburst_is_found_in_three_clicks(demo: Any, browser: Any) -> None:
    """Ports, the burst, its flow: the place is that of the fault, the time is in the address."""
    node, port = demo.found("microburst")
    browser.open(demo.url)
    browser.click(".rail a", "Ports")
    browser.see("[aria-label='Bursts'] tbody tr", node)
    browser.click(f"[aria-label='Bursts'] tbody tr[data-href*='/ports/{node}/'] td.n")
    browser.see("h1", node)
    path, query = where(browser)
    assert path.startswith(f"/ports/{node}/")
    assert query["from"] < query["to"]
    browser.wait("document.querySelector('.series-title small').textContent.includes('peak')")
    browser.wait(
        "[...document.querySelectorAll('.series-title small')].some((e) => /alarm/.test(e.textContent))"
    )
    browser.see(".view-head", f"port {port}" if f"/{port}" in path else "")
    browser.click("[aria-label='Bursts here'] .contributors a")
    browser.wait("location.pathname.startsWith('/flows/')")
    assert not [each for each in browser.problems if "404" not in each]


def test_the_map_is_walked_by_keys(demo: Any, browser: Any) -> None:
    """The address says which metric; arrows show a cell's value, Enter opens its port; Back returns."""
    browser.open(demo.url + "ports?metric=link_utilization")
    browser.see("[aria-pressed='true']", "Link")
    browser.wait(
        "/of|places/.test(document.querySelector('[aria-label=\"Places × time\"] small').textContent)"
    )
    browser.run("document.querySelector('.chart canvas').focus()")
    browser.press("ArrowDown", "ArrowLeft")
    browser.see(".chart .tip", "to ")
    browser.press("Enter")
    browser.wait("location.pathname.startsWith('/ports/')")
    browser.run("history.back()")
    browser.wait("location.pathname === '/ports'")
    browser.press("]")
    browser.wait("location.search.includes('buffer_occupancy')")


def test_a_chart_is_downloaded(demo: Any, browser: Any) -> None:
    """CSV has a row for each place, PNG is one."""
    browser.open(demo.url + "ports?metric=hop_latency")
    browser.wait(
        "document.querySelector('[aria-label=\"Places × time\"] small').textContent.includes('places')"
    )
    browser.run(KEPT)
    browser.click("[aria-label='Download ports as CSV']")
    text = browser.wait("window.kept.length && window.kept[0].text()")
    lines = text.strip().split("\r\n")
    assert lines[0].startswith("place,20")
    assert len(lines) == 21
    browser.click("[aria-label='Download ports as PNG']")
    browser.wait(
        "window.kept.length > 1 && window.kept[1].type === 'image/png' && window.kept[1].size > 2000"
    )


def test_limits_show_what_they_would_have_made(demo: Any, browser: Any) -> None:
    """A proposal is in the address; the answer names events and places; nothing is changed by looking."""
    before = browser_limits(browser, demo)
    browser.run("document.querySelector('input[name=change]').focus()")
    browser.type("100000")
    browser.press("Tab")
    browser.wait("location.search.includes('change=100000')")
    browser.see(".verdict", "With the proposed limits")
    browser.see("[aria-label='Preview'] table", "Proposed")
    browser.open(demo.url + "limits?metric=queue_occupancy&raise_above=1&clear_below=5")
    browser.see("[aria-label='Preview']", "clear_below")
    browser.open(demo.url + "limits?metric=queue_occupancy&change=abc")
    browser.see("form .message", "expected a whole number")
    assert browser_limits(browser, demo) == before


def browser_limits(browser: Any, demo: Any) -> str:
    """The table of limits."""
    browser.open(demo.url + "limits?metric=queue_occupancy")
    return str(browser.see("[aria-label='Limits in force'] table", "hop latency"))


@pytest.mark.parametrize("page", ["ports", "ports/edge-0-0/1", "limits?change=20"])
def test_a_phone_shows_all_of_it(demo: Any, browser: Any, page: str) -> None:
    """No page and no table is wider than a phone."""
    browser.size(390, 844, phone=True)
    browser.open(demo.url + page)
    browser.see(".panel h2")
    browser.wait("document.querySelectorAll('.panel canvas, .panel td').length > 0")
    assert browser.run("document.documentElement.scrollWidth") <= 390
    assert not browser.cut()


def test_a_name_that_is_another_port_s_number(demo: Any, browser: Any) -> None:
    """Links have names: port 8, with the name 5, is not port 5. A number leads to a port without a name."""
    browser.open(demo.url)
    ports = "[{ id: 5, name: '8' }, { id: 8, name: '5' }, { id: 9, name: null }]"
    found = browser.run(
        "import('/console/any/views/port.js')"
        f".then((m) => ['5', '8', '9', '7'].map((text) => m.portOf({ports}, text)?.id ?? null))"
    )
    assert found == [8, 5, 9, None]


HEAT = """import("/console/any/charts/heat.js").then(async ({ heatChart }) => {
  const [texts, clicked] = [[], []];
  const write = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = (text) => texts.push(text);
  const box = document.body.appendChild(document.createElement("div"));
  box.style = "position: fixed; left: 0; top: 0; z-index: 9999; width: WIDTHpx";
  const onRow = (row, time) => clicked.push([row.key, time && Math.round(time / 1000)]);
  const chart = heatChart({ label: "test", onRow });
  box.append(chart.element);
  const label = (key) => `a-switch-${key} · to another-switch-${key} q7`;
  const rows = ["a", "b"].map((key) => ({ key, label: label(key), values: [1, 2] }));
  chart.set({ rows, from: 0, to: 60_000 });
  for (let at = 0; at < 5; at++) await new Promise(requestAnimationFrame);
  const canvas = chart.element.querySelector("canvas");
  const [high, wide] = [canvas.clientHeight - 18, canvas.clientWidth];
  for (const [x, y] of PLACES) for (const kind of ["pointerdown", "pointerup"])
    canvas.dispatchEvent(new PointerEvent(kind, { clientX: x * wide, clientY: y * high, button: 0 }));
  box.remove();
  CanvasRenderingContext2D.prototype.fillText = write;
  return { texts: texts.filter((text) => text.includes("switch")), clicked };
})"""


@pytest.mark.parametrize(
    ("width", "places"), [(340, [[0.5, 0.6], [0.5, 0.9]]), (900, [[0.1, 0.9], [0.55, 0.9]])]
)
def test_a_map_of_places_names_them_on_a_phone(
    demo: Any, browser: Any, width: int, places: list[list[float]]
) -> None:
    """Their names are whole, above the cells if there is no room beside these. A click on a name has no time,
    one on a cell has its own.
    """
    browser.open(demo.url)
    found = browser.run(HEAT.replace("WIDTH", str(width)).replace("PLACES", str(places)))
    named, at_a_cell = found["clicked"]
    assert named == ["b", None]
    assert at_a_cell[0] == "b"
    assert 20 < at_a_cell[1] < 40
    if width < 560:
        assert set(found["texts"]) == {f"a-switch-{key} · to another-switch-{key} q7" for key in "ab"}
