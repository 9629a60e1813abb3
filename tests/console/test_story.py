"""What the console is for: each fault of the demo is found from the overview in at most three clicks.

The demo says itself what it injected where, and when its own check has found it; the console must lead there.
"""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.kernel, pytest.mark.timeout(600)]


class Clicks:
    """A browser that counts clicks."""

    def __init__(self, browser: Any, url: str) -> None:
        self.browser = browser
        self.count = 0
        browser.open(url)
        browser.see(".hops li")

    def __call__(self, selector: str, text: str = "") -> None:
        self.browser.click(selector, text)
        self.count += 1
        assert self.count <= 3, "more than three clicks"


@pytest.fixture
def clicks(demo: Any, browser: Any) -> Clicks:
    """The overview, open."""
    return Clicks(browser, demo.url)


def port_page(browser: Any, node: str, port: str) -> None:
    """The page of this port is shown, with its values over time."""
    browser.wait(f"decodeURIComponent(location.pathname) === '/ports/{node}/{port}'")
    browser.see("h1", node)
    browser.see("canvas")


def test_a_path_change(demo: Any, clicks: Clicks) -> None:
    """Overview, events of this kind, the flow: its path before and after, one with the failed link."""
    node, _ = demo.found("path-change")
    clicks(".kinds a", "path change")
    clicks(".events .whose a")
    clicks.browser.wait("location.pathname.startsWith('/flows/')")
    clicks.browser.see("section[aria-label='Path over time']", node)


def test_a_lossy_port(demo: Any, clicks: Clicks) -> None:
    """Overview, losses by place: the port."""
    node, port = demo.found("lossy-port")
    name = demo.port_name(node, port)
    clicks("section[aria-label='Losses by place'] a", f"{node} · {name}")
    port_page(clicks.browser, node, name)
