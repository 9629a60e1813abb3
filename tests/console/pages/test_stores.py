"""Direct memory in a real browser, while a translator writes what simulated switches report."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from support.processes.collector_process import Collector
from support.waiting import HANG_SECONDS, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.kernel, pytest.mark.timeout(600)]
MONITOR, COPIES = "int-path-tracing", 2
KEYS = "[aria-label='Keys, one per line']"
HOPSCOPE = (sys.executable, "-m", "hopscope")


@dataclass
class Reported:
    """What `direct report` said."""

    reports: int
    keys: list[str]


@pytest.fixture(scope="module")
def reported(busy: Collector) -> Iterator[Reported]:
    """A translator beside the collector has received all reports."""
    log = busy.data.with_name("translate.log")
    words = [*HOPSCOPE, "translate", "--data", str(busy.data), "--monitor", MONITOR, "--port", "0"]
    with log.open("w") as file:
        translator = subprocess.Popen(words, stdout=file, stderr=file)
    try:
        place = eventually(lambda: re.search(r"udp://(\S+)", log.read_text()), log.read_text)
        assert place is not None
        report = ["direct", "report", "-m", MONITOR, "--connections", "5", "--rate", "1000", "--to", place[1]]
        said = subprocess.run([*HOPSCOPE, *report], capture_output=True, text=True, check=True)
        text = said.stdout + said.stderr
        count = re.search(r"([\d,]+) reports sent", text)
        assert count is not None, text
        yield Reported(int(count[1].replace(",", "")), re.findall(rf"direct query {MONITOR} (\S+)", text))
    finally:
        translator.terminate()
        translator.wait(HANG_SECONDS)


def test_a_store_counts_reports_and_finds_their_paths(
    open_page: Any, busy: Collector, reported: Reported
) -> None:
    """Each report is written once for each copy; a connection that was reported has the path that the command
    line finds in the same store, over the five switches between two pods; another has none.
    """
    page = open_page("/direct")
    writes = f"{COPIES * reported.reports / 1000:.2f}k"
    page.see("[aria-label=Stores] tr", writes)
    (row,) = (row for row in page.rows("Stores") if row[0] == MONITOR)
    assert (row[1], row[4], row[5]) == ("key-write", str(COPIES), writes)
    page.click("[aria-label=Stores] a", MONITOR)
    page.see(".view", "Expected success by age")  # all of the page is there
    page.click(KEYS)
    page.wait(f"document.activeElement.matches({KEYS!r})")
    page.type(f"{reported.keys[0]}\n10.9.9.9,10.9.9.8,tcp,1,2")
    page.click("form button", "Query")
    card = page.see(".answer-card", "found").split("\n")
    assert page.see(".answer-card", "empty").startswith("10.9.9.9")
    command = [*HOPSCOPE, "direct", "query", MONITOR, reported.keys[0], "--data", str(busy.data)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    path = card[card.index("path") + 1].split(" → ")
    assert f"path={','.join(path)} " in said
    assert len(path) == 5
    assert card[card.index("data") + 1] == "".join(f"{int(node):08x}" for node in path)
