"""One collector for the tests of these pages, on loopback: reading needs no login."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support.processes.collector_process import Collector
from support.processes.console_collector import console_collector
from support.waiting import eventually


@pytest.fixture(scope="package")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    """The collector."""
    with console_collector(tmp_path_factory.mktemp("console")) as one:
        eventually((one.data / "token").exists, "the API did not start")
        yield one


@pytest.fixture
def open_page(busy: Collector, browser: Any) -> Any:
    """Opens a page, and fails at the end if the browser has complained."""

    def visit(path: str) -> Any:
        browser.open(f"{busy.owner['api'].rstrip('/')}{path}")
        return browser

    yield visit
    assert not browser.problems
