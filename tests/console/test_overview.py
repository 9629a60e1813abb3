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
