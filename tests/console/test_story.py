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


BURSTS = "section[aria-label='Bursts']"


def test_a_microburst(demo: Any, clicks: Clicks) -> None:
    """Overview, ports, the burst: the port at that time, with the alarm."""
    node, port = demo.found("microburst")
    name = demo.port_name(node, port)
    clicks(".rail a", "Ports")
    clicks(f"{BURSTS} a", f"{node} · {name}")
    port_page(clicks.browser, node, name)


def test_a_slow_hop(demo: Any, clicks: Clicks) -> None:
    """Overview, ports by hop latency, the time above the limit: the port."""
    node, port = demo.found("slow-hop")
    name = demo.port_name(node, port)
    clicks(".rail a", "Ports")
    clicks(".tabs button", "Hop latency")
    clicks(f"{BURSTS} a", f"{node} · {name}")
    port_page(clicks.browser, node, name)


def test_the_keyboard_is_enough(demo: Any, browser: Any) -> None:
    """The story of the microburst without a mouse: keys for the page, Tab to a burst, Enter."""
    node, port = demo.found("microburst")
    name = demo.port_name(node, port)
    browser.open(demo.url)
    browser.see(".hops li")
    browser.press("g", "p")
    browser.wait("location.pathname === '/ports'")
    browser.see(f"{BURSTS} a", f"{node} · {name}")
    there = f'document.activeElement.matches("{BURSTS} td a")'
    for _ in range(100):
        browser.press("Tab")
        if browser.run(there):
            break
    else:
        pytest.fail("Tab does not lead to a burst")
    browser.press("Enter")
    port_page(browser, node, name)
    browser.press("?")
    browser.see("dialog", "Overview")
    browser.press("Escape")
    browser.wait("!document.querySelector('dialog')")
