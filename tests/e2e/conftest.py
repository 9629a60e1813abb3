"""Collectors as processes, and something that sends them reports."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from support.processes.collector_process import Collector, Load
from support.waiting import HANG_SECONDS


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[Callable[..., Collector]]:
    """Make collectors below the test's folder; what is left of them is killed at the end."""
    made: list[Collector] = []

    def make(*flags: str, data: Path | None = None, **more: Any) -> Collector:
        small = (
            "--set",
            "detect.flow_rows=64",
            "--set",
            "detect.ports=1024",
            "--set",
            "history.ring_events=16384",
        )
        page = () if "--no-serve" in flags or "--http-port" in flags else ("--http-port", "0")
        listen = () if "--listen" in flags else ("--listen", "udp://127.0.0.1:0")
        one = Collector(data or tmp_path / "data", *listen, *page, *small, *flags, **more)
        made.append(one)
        return one

    yield make
    for one in made:
        if one.process is None:
            continue
        with suppress(ProcessLookupError):
            os.killpg(one.process.pid, signal.SIGKILL)
        one.process.wait(HANG_SECONDS)
        with suppress(FileNotFoundError):
            shutil.rmtree(one.owner["regions"], ignore_errors=True)


@pytest.fixture
def load() -> Iterator[Callable[..., Load]]:
    """Make senders of reports."""
    made: list[Load] = []

    def make(rate: int = 1000) -> Load:
        made.append(Load(rate))
        return made[-1]

    yield make
    for one in made:
        one.close()
