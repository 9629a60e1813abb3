"""For everybody: axe-core finds nothing serious on any page, and the story can be walked with keys alone."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.kernel, pytest.mark.timeout(600)]

PAGES = {
    "/": ".hops li",
    "/fabric": "canvas",
    "/flows": ".table tbody tr",
    "/ports": "canvas",
    "/events": "a[href^='/events/']",
    "/ask": "textarea",
    "/direct": "h1",
    "/labels": "h1",
    "/sink": "h1",
    "/limits": "form, .table tbody tr",
    "/system": ".table tbody tr",
}
RULES = {
    "light": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]},
    "dark": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]},
}
"""By scheme: a dark page differs from a light one in its colours alone, which are in these rules."""
ROWS = {"exclude": [["tbody tr:nth-child(n+16)"], ["ul li:nth-child(n+31)"], ["ol li:nth-child(n+31)"]]}
"""Of a long table or list, axe looks at the first rows: all are made by the same code."""


@pytest.mark.parametrize("address", PAGES)
def test_axe_finds_nothing_serious(demo: Any, browser: Any, address: str) -> None:
    """Names, roles, contrast and focus, by the rules of WCAG 2.1 A and AA, light and dark."""
    browser.scheme("light")
    browser.open(demo.url.rstrip("/") + address)
    browser.see(PAGES[address])
    browser.run(files("axe_playwright_python").joinpath("axe.min.js").read_text() + "\n;true")
    for scheme, rules in RULES.items():
        browser.scheme(scheme)
        browser.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        options = {"runOnly": rules, "resultTypes": ["violations"], "preload": False}
        words = f"{json.dumps(ROWS)}, {json.dumps(options)}"
        found = browser.run(f"axe.run({words}).then((found) => found.violations)")
        serious = [
            f"{each['id']}: {each['help']}: {[node['html'][:160] for node in each['nodes'][:3]]}"
            for each in found
            if each["impact"] in ("serious", "critical")
        ]
        assert not serious, f"{scheme}: " + "\n".join(serious)
