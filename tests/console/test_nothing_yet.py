"""Pages of a collector that has received nothing, in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.processes.collector_process import Collector

pytestmark = [pytest.mark.e2e, pytest.mark.kernel, pytest.mark.timeout(600)]


def test_the_way_to_a_first_report_is_named(tmp_path: Path, browser: Any) -> None:
    """Pages that wait for reports name the command that sends some, with this collector's own address."""
    one = Collector(tmp_path / "data", "--listen", "udp://0.0.0.0:0?allow=127.0.0.0/8", "--http-port", "0")
    one.start()
    try:
        for page in ("", "fabric", "flows", "system/sources"):
            browser.open(f"{one.owner['api']}{page}")
            browser.see(".empty pre", f"hopscope simulate --to udp://127.0.0.1:{one.port}")
        assert not browser.problems
    finally:
        one.stop()
