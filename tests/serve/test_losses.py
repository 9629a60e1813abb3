"""The page: lost reports and dropped packets with their places, the slowest flow's path, folded panels."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hopscope.base.names import Names
from hopscope.detect.counters import COUNTERS, INDEX
from hopscope.detect.records import EVENT, NO_NODE, NO_PORT, SOURCE, Kind
from hopscope.labels.state import FILE_NAME, LabelRule
from hopscope.labels.table import LabelTable
from hopscope.serve.context import Context
from hopscope.serve.page.fragments import FOLDED, Fragments
from hopscope.serve.page.losses import WINDOW_SECONDS, LossReader, dropped_packets, lost_reports
from hopscope.serve.page.snapshot import Poller
from hopscope.settings.collector import ServeSettings
from hopscope.wire.label.records import LABEL
from support.waiting import eventually

SECOND = 10**9
MS = 1_000_000
NAMES = Names({11: "leaf-1", 13: "<b>leaf-2"}, {(13, 3): "to host-9"})


def drops(*places: tuple[int, int, int]) -> Any:
    """A DROP event at each (node, port, queue), and one of another kind."""
    made = np.zeros(len(places) + 1, EVENT)
    made["kind"][:-1], made["kind"][-1] = Kind.DROP, Kind.RAISED
    for name, values in zip(("node_id", "port", "ident"), zip(*places, strict=True), strict=True):
        made[name][:-1] = values
    return made


def state(sources: Any = None, full: dict[int, int] | None = None) -> Any:
    """The state of workers with these SOURCE rows, and datagrams that each one's kernel dropped."""
    workers = {}
    for worker, dropped in (full or {}).items():
        workers[str(worker)] = np.zeros(len(COUNTERS), np.uint64)
        workers[str(worker)][INDEX["kernel_drops_total"]] = dropped
    rows = np.zeros(0, SOURCE) if sources is None else sources
    return SimpleNamespace(sources=lambda: rows, counters=lambda: SimpleNamespace(processes=workers))


def cells(html: str) -> list[list[str]]:
    """Texts of the cells of a table's rows."""
    rows = html.split("<tbody>")[-1].split("<tr")[1:]
    return [
        [re.sub(r"<[^>]*>", "", cell).strip() for cell in re.split(r"<td[^>]*>", row)[1:]] for row in rows
    ]


def test_dropped_packets_have_a_switch_a_port_and_a_queue() -> None:
    """Counted by place, those of the last minute first; a switch or a port may be unknown."""
    reader = LossReader()
    reader.add(drops((13, 3, 2), (13, 3, 2), (13, 3, 5)), 0)
    assert cells(dropped_packets(reader.losses(state()), NAMES)) == [
        ["&lt;b&gt;leaf-2 · to host-9 q2", "2", "2"], ["&lt;b&gt;leaf-2 · to host-9 q5", "1", "1"],
    ]  # fmt: skip
    later = (WINDOW_SECONDS + 1) * SECOND
    reader.add(drops((11, NO_PORT, 0), (NO_NODE, NO_PORT, 0), (11, NO_PORT, 0)), later)
    assert cells(dropped_packets(reader.losses(state()), NAMES)) == [
        ["leaf-1", "2", "2"], ["unknown switch", "1", "1"], ["&lt;b&gt;leaf-2 · to host-9 q2", "0", "2"],
        ["&lt;b&gt;leaf-2 · to host-9 q5", "0", "1"],
    ]  # fmt: skip


def test_lost_reports_have_a_source_or_a_socket() -> None:
    """Gaps in a source's numbers, with its share; datagrams for which a worker's socket had no room."""
    rows = np.zeros(3, SOURCE)
    rows["source_lo"], rows["node_id"] = 0xFFFF0A000001 + np.arange(3, dtype=np.uint64), [13, NO_NODE, 11]
    rows["received"], rows["lost"], rows["hw_id"] = 90, [10, 0, 30], 1
    losses = LossReader().losses(state(rows, {0: 0, 2: 7, 3: 9}))
    assert cells(lost_reports(losses, NAMES)) == [
        ["leaf-1 10.0.0.3 hw 1", "30", "25.00%"], ["&lt;b&gt;leaf-2 10.0.0.1 hw 1", "10", "10.00%"],
        ["worker-3 its socket was full", "9", "–"], ["worker-2 its socket was full", "7", "–"],
    ]  # fmt: skip
    assert not LossReader().losses(state())


@pytest.mark.kernel
def test_the_path_is_that_of_the_first_flow_of_the_table(collector: Any) -> None:
    """Table and path are of one moment, also while the latencies of flows change."""
    context = Context(ServeSettings(), collector.folder, NAMES, collector.folder)
    poller = Poller(context)
    for latency in (1000, 5000, 20, 700):
        collector.report(latency=latency)
        snapshot = poller.once()
        assert snapshot.slowest is not None
        first = snapshot.slowest.flows[0]
        assert first == snapshot.slow_flows[0]
        assert int(first["latency_latest"]) == int(snapshot.slowest.hops["latency_latest"].sum())
        assert first["latency_latest"] == snapshot.slow_flows["latency_latest"].max()
    context.close()


@pytest.mark.kernel
def test_a_page_shows_what_came_before_it_was_opened(collector: Any) -> None:
    """Without a page nothing is drawn, but the last minutes are kept: strips, line charts and events."""
    context = Context(ServeSettings(), collector.folder, NAMES, collector.folder)
    poller = Poller(context)
    for _ in range(4):
        collector.report(latency=1000)
        poller.follow()
    assert poller.snapshot is None
    snapshot = poller.once()
    assert len(snapshot.points) == 3
    assert snapshot.strips["queues"]
    assert all(np.count_nonzero(row.values) == 5 for row in snapshot.strips["queues"])
    assert snapshot.latest == poller.once().latest
    context.close()


@pytest.mark.kernel
def test_panels_without_data_are_folded_away(collector: Any) -> None:
    """A collector with reports shows what it has, and names the rest."""
    context = Context(ServeSettings(), collector.folder, NAMES, collector.folder)
    fragments = Fragments(Poller(context).once(), NAMES)
    assert fragments.empty_panels() == {"plac"}
    assert fragments.get("folded") == "Without data: Losses by place"
    assert "<i></i>receiving</span>" in fragments.get("status") or "no reports" in fragments.get("status")
    context.close()


def test_a_collector_of_labels_shows_labels(tmp_path: Path) -> None:
    """It is no missing collector: all panels about reports are folded, and silent ports stand in the head."""
    (tmp_path / "regions").mkdir()
    context = Context(ServeSettings(), tmp_path, NAMES, tmp_path)
    poller = Poller(context)
    missing = Fragments(poller.once(), NAMES)
    assert "no collector" in missing.get("status")
    table = LabelTable(
        tmp_path / "regions" / FILE_NAME, LabelRule(100 * MS, 50 * MS, 50 * MS, "off"), ports=4
    )
    waiting = poller.once()
    assert "no labels" in Fragments(waiting, NAMES).get("status")
    now = waiting.time_ns
    for step in range(30):
        labels = np.zeros(1, LABEL)
        labels["node_id"], labels["time_ns"] = 1, now + step * 50 * MS
        table.update(labels, now + step * 50 * MS)
        table.tick(now + step * 50 * MS)
    table.known["silent"] = 1
    eventually(lambda: poller.once().labels, "the page does not see the labels")
    shown = poller.once()
    fragments = Fragments(shown, NAMES)
    assert "receiving labels" in fragments.get("status")
    assert "1 silent port<" in fragments.get("status")
    assert "no collector" not in fragments.get("status")
    assert fragments.empty_panels() == {"figs", *FOLDED}
    assert "takes no reports" in fragments.get("folded")
    idle = replace(shown, labels=None)
    assert "no labels" in Fragments(idle, NAMES).get("status")
    context.close()
