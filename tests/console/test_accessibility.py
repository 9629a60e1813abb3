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
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"], "resultTypes": ["violations"]}


@pytest.mark.parametrize("address", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(demo: Any, browser: Any, address: str, scheme: str) -> None:
    """Names, roles, contrast and focus, by the rules of WCAG 2.1 A and AA."""
    browser.scheme(scheme)
    browser.open(demo.url.rstrip("/") + address)
    browser.see(PAGES[address])
    browser.run(files("axe_playwright_python").joinpath("axe.min.js").read_text() + "\n;true")
    found = browser.run(f"axe.run(document, {json.dumps(RULES)}).then((found) => found.violations)")
    serious = [
        f"{each['id']}: {each['help']}: {[node['html'][:160] for node in each['nodes'][:3]]}"
        for each in found
        if each["impact"] in ("serious", "critical")
    ]
    assert not serious, "\n".join(serious)
