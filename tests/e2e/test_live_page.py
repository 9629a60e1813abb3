"""The console of a real collector, in a real browser, while a real microburst happens."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hopscope.fabric.topology import parse_topology
from support.waiting import HANG_SECONDS

pytestmark = [pytest.mark.e2e, pytest.mark.kernel, pytest.mark.timeout(600)]

TOPOLOGY = "leaf-spine:2x2"
NODE, PORT = "leaf-1", 2
LIMIT = 2000
"""Cells of 80 bytes: the burst fills 7,500, the other traffic a few."""
START_SECONDS = 400.0

SHOWN = """(() => {
  const event = [...document.querySelectorAll('.feed li.bad')].map(e => e.innerText)
    .find(text => text.includes('raised') && text.includes('queue occupancy'));
  return event || null;
})()"""
"""The event about the burst, once the overview shows it."""


class Fabric:
    """`hopscope simulate` in real time, and what it says."""

    def __init__(self, *flags: str) -> None:
        command = [sys.executable, "-m", "hopscope", "simulate", "--format", "json", "--hold", *flags]
        self._heard: queue.Queue[dict[str, Any]] = queue.Queue()
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._heard.put(json.loads(line))

    def begin(self) -> None:
        """Let it send."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def wait_for(self, wanted: Callable[[dict[str, Any]], bool], seconds: float) -> None:
        """Wait until it says something."""
        until = time.monotonic() + seconds
        while not wanted(self._heard.get(timeout=max(0.0, until - time.monotonic()))):
            pass

    def heard(self) -> list[dict[str, Any]]:
        """What it has said since."""
        return [self._heard.get() for _ in range(self._heard.qsize())]

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait(HANG_SECONDS)
        self._thread.join(10)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


@pytest.fixture
def fabric() -> Iterator[Callable[..., Fabric]]:
    """Make simulated fabrics, which end with the test."""
    made: list[Fabric] = []

    def make(*flags: str) -> Fabric:
        made.append(Fabric(*flags))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_the_page_shows_a_microburst_while_it_happens(
    collector: Callable[..., Any], fabric: Callable[..., Fabric], browser: Any, tmp_path: Path
) -> None:
    """Switch → UDP → worker → page: the overview shows the queue's alarm before the burst is over."""
    topology = parse_topology(TOPOLOGY)
    names = tmp_path / "names.toml"
    names.write_text(topology.names_toml())
    config = tmp_path / "hopscope.toml"
    config.write_text(
        f"[detect.thresholds.queue_occupancy]\nchange = 250\nraise_above = {LIMIT}\nclear_below = 200\n"
    )
    one = collector("--names", str(names), "--config", str(config))
    one.start()
    burst = f"microburst@1,node={NODE},port={PORT},duration=120"
    source = fabric(
        "--topology", TOPOLOGY, "--to", f"udp://127.0.0.1:{one.port}", "--rate", "4000", "--flows", "40",
        "--load", "0.1", "--fault", burst,
    )  # fmt: skip
    source.wait_for(lambda said: bool(said["kind"] == "ready"), START_SECONDS)
    browser.call("Page.navigate", url=one.owner["api"])
    browser.wait("!!document.querySelector('.empty')", START_SECONDS)
    assert browser.run(SHOWN) is None
    source.begin()
    source.wait_for(lambda said: bool(said["kind"] == "fault" and said["begins"]), HANG_SECONDS)
    shown = browser.wait(SHOWN, HANG_SECONDS)
    assert not [said for said in source.heard() if said["kind"] in ("fault", "end")], "the burst was over"
    place = f"{NODE} · {topology.port_name(topology.port_row(NODE, PORT))}"
    assert place in shown, shown
    assert not [each for each in browser.problems if "session" not in each]
    source.close()
    cleared = "[...document.querySelectorAll('.feed li.good')].some(e => e.innerText.includes('cleared'))"
    browser.wait(cleared, HANG_SECONDS)
    assert one.stop() == 0
