"""The overview in a real browser, over a running demo."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.kernel, pytest.mark.timeout(600)]


def test_it_shows_a_running_collector(demo: Any, browser: Any) -> None:
    """Figures, charts, tables and the path of a flow; nothing fails, and nothing comes from elsewhere."""
    browser.open(demo.url)
    browser.see(".figure", "Live flows")
    browser.wait("document.querySelectorAll('.hops li').length > 1")
    browser.wait("document.querySelectorAll('.table tbody tr').length > 10")
    loaded = browser.run("performance.getEntriesByType('resource').map((e) => e.name)")
    assert all(name.startswith(demo.url) for name in loaded)
    assert not [each for each in browser.problems if "session" not in each]


def test_charts_of_views_that_were_left_are_gone(demo: Any, browser: Any) -> None:
    """Ten times to and fro: after a collection of garbage, only canvases of the last views are in memory."""

    def canvases() -> int:
        prototype = browser.call("Runtime.evaluate", expression="HTMLCanvasElement.prototype")
        given = {"prototypeObjectId": prototype["result"]["objectId"]}
        found = browser.call("Runtime.queryObjects", **given)["objects"]["objectId"]
        count = browser.call(
            "Runtime.callFunctionOn",
            objectId=found,
            functionDeclaration="function () { return this.length; }",
            returnByValue=True,
        )
        browser.call("Runtime.releaseObject", objectId=found)
        return int(count["result"]["value"])

    browser.open(demo.url)
    for _ in range(10):
        browser.wait("document.querySelectorAll('.view canvas').length > 2")
        browser.click(".rail a", "Direct")
        browser.wait("!document.querySelector('.view canvas')")
        browser.click(".rail a", "Overview")
    browser.wait("document.querySelectorAll('.view canvas').length > 2")
    shown = browser.run("document.querySelectorAll('canvas').length")
    assert canvases() < 6 * shown  # kept by each view: 11 times as many


def test_only_a_collector_without_distributions_is_told_how_to_count(demo: Any, browser: Any) -> None:
    """Where they are counted and no packet came, there is nothing to set."""
    browser.open(demo.url)
    found = browser.run(
        "import('/console/any/views/overview/tables.js')"
        ".then((m) => ['recent', 'all', 'flows', 'none'].map((source) => {"
        " const panel = m.contributorPanel();"
        " panel.update({ contributors: [], contributors_source: source, contributors_note: '' });"
        " return panel.element.textContent.includes('enabled = true'); }))"
    )
    assert found == [False, False, True, True]
