"""Keys and filters of `hopscope top`."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from hopscope.base.names import Names
from hopscope.cli.top.keys import Keys
from hopscope.cli.top.screen import Screen, parse_filter
from hopscope.cli.top.view import TopView, make_table
from hopscope.detect.counters import COUNTERS, COUNTERS_KIND, COUNTERS_VERSION, INDEX
from hopscope.detect.records import Kind
from hopscope.labels.state import FILE_NAME, LabelRule
from hopscope.labels.table import LabelTable
from hopscope.memory.region import Region
from hopscope.present.select import FLOW_ORDER, EventFilter, FlowFilter
from hopscope.present.text import UnreadableError
from hopscope.wire.label.records import LABEL
from support.waiting import HANG_SECONDS

NAMES = Names({7: "leaf-1"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", EventFilter()),
        ("raised leaf-1", EventFilter(kinds=(Kind.RAISED,), nodes=(7,))),
        ("raised cleared 12", EventFilter(kinds=(Kind.RAISED, Kind.CLEARED), nodes=(12,))),
        ("10.0.0.0/8", EventFilter(flow=FlowFilter(prefixes=("10.0.0.0/8",)))),
        ("10.0.0.1", EventFilter(flow=FlowFilter(prefixes=("10.0.0.1",)))),
        ("dport=53 fd00::/8", EventFilter(flow=FlowFilter(dport=53, prefixes=("fd00::/8",)))),
    ],
)
def test_a_filter_is_words(text: str, expected: EventFilter) -> None:
    """Kinds, nodes by name or number, networks and parts of a flow."""
    assert parse_filter(text, NAMES) == expected


def test_a_filter_that_cannot_be_read() -> None:
    """It is named, and the one before stays."""
    with pytest.raises(UnreadableError):
        parse_filter("leaf-9", NAMES)
    screen = Screen(EventFilter(nodes=(7,)), NAMES)
    screen.press("/leaf-9\n")
    assert screen.filter == EventFilter(nodes=(7,))
    assert "leaf-9" in screen.line()


def test_keys() -> None:
    """Each key does what the last line says; typing a filter is no command, and Escape leaves it."""
    screen = Screen(EventFilter(), NAMES)
    paused = []
    for _ in range(2):
        screen.press("p")
        paused.append((screen.paused, screen.line().startswith("[paused]")))
    assert paused == [(True, True), (False, False)]
    for order in [*list(FLOW_ORDER)[1:], "latency"]:
        screen.press("s")
        assert screen.order == order
    screen.press("a")
    assert screen.all_events
    screen.press("/lq")
    assert screen.line().startswith("filter: lq_")
    screen.press("\x7f")
    screen.press("eaf-1\n")
    assert screen.filter == EventFilter(nodes=(7,))
    screen.press("/p\x1b"[:2])
    screen.press("\x1b")
    assert (screen.typed, screen.paused) == (None, False)
    screen.press("\x1b[A")  # an arrow: Escape, which takes the filter away, and nothing else
    assert screen.filter == EventFilter()
    assert not screen.ended
    screen.press("q")
    assert screen.ended


def test_keys_come_without_enter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A key is read as soon as it is pressed, and the terminal is as before at the end."""
    import termios

    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "r") as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        before = termios.tcgetattr(theirs)
        with Keys() as keys:
            threading.Timer(0.05, lambda: os.write(ours, b"q")).start()
            assert keys.wait(300) == "q"
            assert keys.wait(0) == ""
        assert termios.tcgetattr(theirs) == before
    os.close(ours)
    with (tmp_path / "file").open("w+") as file:
        monkeypatch.setattr(sys, "stdin", file)
        with Keys() as keys:
            assert keys.wait(0) == ""


def test_labels_have_rows_and_a_table(tmp_path: Path) -> None:
    """A collector of labels alone shows coverage and ports, the silent first, and nothing of reports."""
    start = time.time_ns() - 2 * 10**9
    (tmp_path / "regions").mkdir()
    rule = LabelRule(100_000_000, 50_000_000, 50_000_000, "off")
    table = LabelTable(tmp_path / "regions" / FILE_NAME, rule, ports=16)
    for _ in range(20):
        labels = np.zeros(2, LABEL)
        labels["node_id"], labels["egress_port"], labels["position"] = 7, (1, 2), (0, 1)
        labels["time_ns"], labels["latency_ns"], labels["occupancy"] = start, (900, 3_000_000), 1500
        start += 100_000_000
        table.update(labels, start)
        table.tick(start)
    table.region["rows"]["silent"][table.rows_of([7], [1])] = 1
    view = TopView(tmp_path, NAMES, Screen(EventFilter(), NAMES))
    assert view.running
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(view.draw(rows=5))
    lines = [" ".join(line.split()) for line in console.export_text().splitlines()]
    assert "ports that label 2" in lines
    assert "silent ports 1" in lines
    assert any(line.startswith("coverage, 10 s 100.00%") for line in lines)
    at = next(number for number, line in enumerate(lines) if line.startswith("ports that label latency"))
    assert [line.split()[:3] for line in lines[at + 1 : at + 3]] == [
        ["leaf-1", "900", "ns"],
        ["leaf-1", "3.00", "ms"],
    ]
    assert not any("flows" in line or "reports" in line for line in lines)


def test_reports_that_other_members_received(tmp_path: Path) -> None:
    """They have a row of their own, with rate and total, only if there are some."""
    (tmp_path / "regions").mkdir()
    path = tmp_path / "regions" / "worker-0.counters"
    arrays = {"counters": (np.uint64, len(COUNTERS))}
    counters = Region.create(path, COUNTERS_KIND, COUNTERS_VERSION, arrays)["counters"]
    shown = []
    for moved in (0, 1_234):
        counters[INDEX["moved_reports_total"]] = moved
        console = Console(width=120, record=True, file=io.StringIO())
        console.print(TopView(tmp_path, NAMES, Screen(EventFilter(), NAMES)).draw(rows=5))
        shown.append([" ".join(line.split()) for line in console.export_text().splitlines()])
    assert [[line for line in lines if "moved" in line] for lines in shown] == [
        [],
        ["moved: received by other members 0 1,234"],
    ]


def test_both_ends_of_a_flow_at_80_columns() -> None:
    """A table of flows shows where a flow goes, and where its path begins."""
    table = make_table("slowest flows", "latency", "mean", "reports", "path")
    path = "leaf-1 → spine-1 → leaf-0"
    table.add_row("10.0.0.2:37645 → 10.0.1.3:80 tcp", "44.9 µs", "10.3 µs", "12,345", path)
    console = Console(width=80, file=io.StringIO(), legacy_windows=False)
    console.print(table)
    line = console.file.getvalue().splitlines()[1]  # type: ignore[attr-defined]
    assert "10.0.0.2:37645 → 10.0.1.3:80" in line
    assert "leaf-1 → " in line


def test_a_terminal_that_cannot_be_drawn_on(tmp_path: Path) -> None:
    """With TERM=dumb there is one frame, as with --once, or the reason why there is none."""
    master, slave = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "hopscope", "top", "--data", str(tmp_path)],
        stdin=subprocess.DEVNULL,
        stdout=slave,
        stderr=subprocess.PIPE,
        env={**os.environ, "TERM": "dumb"},
        timeout=HANG_SECONDS,
    )
    os.close(master)
    os.close(slave)
    assert done.returncode == 2
    start = "`hopscope collect` starts one, --data names another folder"
    assert done.stderr.decode() == f"hopscope: no collector is running on {tmp_path}: {start}\n"
