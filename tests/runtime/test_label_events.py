"""Labels in history: what a process that takes labels writes is what a query finds, by hand-made labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopscope.detect.records import ClearReason, Kind, Metric
from hopscope.history.query import History
from hopscope.labels.counters import LABEL_COUNTERS
from hopscope.labels.state import LabelRule
from hopscope.labels.table import IDLE_NS, LabelTable
from hopscope.labels.tracked import TrackedTable
from hopscope.present.feed import Feed
from hopscope.runtime.labels.events import SHARD, LabelEvents
from hopscope.runtime.labels.process import LabelProcess
from hopscope.settings.history import HistorySettings
from hopscope.settings.label import LabelSettings
from hopscope.wire.label.records import LABEL, LABEL_FLOW
from hopscope.wire.records import Records

MS = 1_000_000
SECOND = 1000 * MS
START = 1_700_000_000 * SECOND
RULE = LabelRule(100 * MS, 50 * MS, 50 * MS, "off")
Row = tuple[Any, ...]


def labels_of(ports: list[tuple[int, int, int, int]], now: int) -> Records:
    """Labels of (node, port, latency, occupancy), each of a packet of its own."""
    made = np.zeros(len(ports), LABEL)
    for name, values in zip(
        ("node_id", "egress_port", "latency_ns", "occupancy"), zip(*ports, strict=True), strict=True
    ):
        made[name] = values
    made["time_ns"], made["packet"] = now, range(len(ports))
    return made


class Labelled:
    """A table and its events in a data folder; time passes by `wait`."""

    def __init__(self, folder: Path, ports: int = 8, **more: object) -> None:
        self.folder = folder
        self.now = START
        for part in ("journal", "segments", "regions"):
            (folder / part).mkdir(exist_ok=True)
        settings = LabelSettings.model_validate({"silent_seconds": 2.0, **more})
        self.table = LabelTable(None, RULE, ports=ports)
        history = HistorySettings(fsync_seconds=0)
        self.tracked = TrackedTable(None, START)
        self.events = LabelEvents(
            settings, self.table, self.tracked, history, folder, folder / "regions", lambda _: None, START
        )

    def wait(self, seconds: float, *ports: tuple[int, int, int, int]) -> None:
        """Labels of these ports every 50 ms."""
        for _ in range(round(seconds * 20)):
            self.now += 50 * MS
            if ports:
                self.table.update(labels_of(list(ports), self.now), self.now)
            self.table.tick(self.now)
            self.events.tick(self.now, 0)

    def track(self, *nodes: int, tick: bool = True) -> None:
        """A packet of a tracked flow through these switches, and a tick."""
        self.now += 50 * MS
        labels = np.zeros(len(nodes), LABEL)
        labels["node_id"], labels["position"], labels["tracked"] = nodes, range(len(nodes)), 1
        labels["egress_port"], labels["time_ns"] = 1, self.now
        flow = np.zeros(1, LABEL_FLOW)
        flow["src_lo"], flow["dst_lo"], flow["proto"] = 0xFFFF0A000002, 0xFFFF0A000102, 17
        flow["sport"], flow["dport"] = 4321, 53
        self.tracked.update(labels, flow, self.now)
        if tick:
            self.events.tick(self.now, 0)

    def stored(self, *names: str, **filters: Any) -> list[Row]:
        """Columns of the events in history, oldest first, after the end."""
        self.events.close()
        with History(self.folder) as history:
            return [
                tuple(row[name] for name in names) for row in history.events(order="oldest", **filters).rows()
            ]


def test_every_period_has_a_record_of_every_port(tmp_path: Path) -> None:
    """Means and highest values of a port's labels in ten seconds, and coverage; the rest when it ends."""
    labelled = Labelled(tmp_path)
    labelled.wait(10, (1, 1, 100, 5), (1, 2, 300, 7))
    labelled.wait(10, (1, 1, 200, 5))
    labelled.wait(5, (1, 1, 400, 6))
    rows = labelled.stored("node_id", "port", "metric", "value", "previous", "ident", kinds=["label_record"])
    latencies = [row for row in rows if row[2] == "label_latency"]
    assert [row[:2] for row in latencies] == [(1, 1), (1, 2), (1, 1), (1, 1)]
    (first, second, third, last) = latencies
    assert (second[3], second[4], third[3:5], last[3:5]) == (300, 300, (200, 200), (400, 400))
    assert sum(row[5] for row in (first, third, last)) == 500
    occupancies = [row[3:5] for row in rows if row[2] == "label_occupancy"]
    assert occupancies == [(5, 5), (7, 7), (5, 5), (6, 6)]
    coverage = [row for row in rows if row[2] == "label_coverage"]
    assert [row[:2] for row in coverage] == [(None, None)] * 3
    assert coverage[0][3:5] == (1_000_000, 1_000_000)
    assert coverage[1][4] == 500_000
    assert 95 <= coverage[1][5] <= 101


def test_a_silent_port_raises_an_alarm_once(tmp_path: Path) -> None:
    """After the limit, with the time without a label; cleared by its next label."""
    labelled = Labelled(tmp_path, period_seconds=0)
    labelled.wait(3, (1, 1, 1, 1), (1, 2, 1, 1))
    labelled.wait(6, (1, 1, 1, 1))
    assert labelled.events.silent_ports == 1
    labelled.wait(1, (1, 1, 1, 1), (1, 2, 1, 1))
    assert labelled.events.silent_ports == 0
    raised, cleared = labelled.stored("kind", "metric", "node_id", "port", "value", "previous", "reason")
    assert raised[:4] == ("raised", "label_age", 1, 2)
    assert 2 * SECOND < raised[4] <= 2.1 * SECOND
    assert raised[5:] == (2 * SECOND, None)
    assert cleared[:4] == ("cleared", "label_age", 1, 2)
    assert (cleared[4] < SECOND, cleared[6]) == (True, "value")


def test_a_silent_port_that_is_evicted_is_cleared(tmp_path: Path) -> None:
    """Its row is needed for another port: the alarm ends, and says so."""
    labelled = Labelled(tmp_path, ports=1, period_seconds=0)
    labelled.wait(1, (1, 1, 1, 1))
    labelled.wait(IDLE_NS / SECOND + 1)
    labelled.wait(1, (9, 9, 1, 1))
    rows = labelled.stored("kind", "node_id", "port", "reason")
    assert rows == [("raised", 1, 1, None), ("cleared", 1, 1, "evicted")]
    assert labelled.events.silent_ports == 0


def test_a_path_change_before_the_first_tick_has_a_time(tmp_path: Path) -> None:
    """Labels that waited in the socket during a restart: the event has the time of the start."""
    labelled = Labelled(tmp_path, period_seconds=0)
    labelled.track(1, 2, 3, tick=False)
    labelled.track(1, 4, 3, tick=False)
    ((kind, time),) = labelled.stored("kind", "time")
    assert (kind, int(np.datetime64(time.rstrip("Z")).astype(np.int64))) == ("path_change", START)


def test_a_tracked_flow_that_takes_another_path_is_an_event(tmp_path: Path) -> None:
    """With the flow and its new path, in one event however long; the first path is none, nor is a part."""
    labelled = Labelled(tmp_path, period_seconds=0)
    for nodes in ((1, 2, 3), (1, 2, 3), (1, 3), (1, 4, 3), range(1, 11), (1, 4, 3)):
        labelled.track(*nodes)
    assert labelled.events.counts["path_change"] == 3
    labelled.events.close()
    with History(tmp_path) as history:
        found = history.events(order="oldest", kinds=["path_change"]).rows()
    assert [row["path"] for row in found] == [[1, 4, 3], list(range(1, 11)), [1, 4, 3]]
    first, second, third = found
    assert (first["src"], first["dst"], first["sport"], first["dport"]) == ("10.0.0.2", "10.0.1.2", 4321, 53)
    assert (second["previous"], third["previous"]) == (first["value"], second["value"])
    assert third["value"] == first["value"]
    assert len({row["flow_id"] for row in found}) == 1


def test_low_coverage_raises_an_alarm(tmp_path: Path) -> None:
    """A period whose mean is below the limit, and the first one that is not."""
    labelled = Labelled(tmp_path, period_seconds=1, coverage_limit=0.9, silent_seconds=0)
    labelled.wait(5, (1, 1, 1, 1), (1, 2, 1, 1))
    labelled.wait(5, (1, 1, 1, 1))
    low = [labelled.events.is_low]
    labelled.wait(5, (1, 1, 1, 1), (1, 2, 1, 1))
    low.append(labelled.events.is_low)
    assert low == [True, False]
    rows = labelled.stored("kind", "metric", "value", "previous", "node_id", kinds=["raised", "cleared"])
    assert [row[0] for row in rows] == ["raised", "cleared"]
    assert all(row[1::2] == ("label_coverage", 900_000) for row in rows)
    assert rows[0][2] < 900_000 <= rows[1][2]


def test_alarms_end_with_the_process(tmp_path: Path) -> None:
    """What is raised when the collector stops is cleared; a process that goes on raises what still holds."""
    labelled = Labelled(tmp_path, period_seconds=1, coverage_limit=0.9)
    labelled.wait(2, (1, 1, 1, 1), (1, 2, 1, 1))
    labelled.wait(4, (1, 1, 1, 1))
    assert (labelled.events.silent_ports, labelled.events.is_low) == (1, True)
    ends = labelled.stored("metric", "node_id", "port", "previous", "reason", kinds=["cleared"])
    assert ends == [
        ("label_age", 1, 2, 2 * SECOND, "stopped"),
        ("label_coverage", None, None, 900_000, "stopped"),
    ]
    assert (labelled.events.silent_ports, labelled.events.is_low) == (0, False)
    labelled.table.resume(labelled.now)
    labelled.table.silence.tick(labelled.table.used, labelled.now, 2 * SECOND)
    assert labelled.events.silent_ports == 1


def test_events_are_live_and_survive_a_kill(tmp_path: Path) -> None:
    """The live feed has them; a process that was killed leaves its numbers to the next one."""
    first = Labelled(tmp_path, period_seconds=0)
    first.wait(1, (1, 1, 1, 1))
    first.wait(4)
    feed = Feed(tmp_path / "regions")
    assert feed.poll() == 1
    events, lost = feed.read({})
    assert (lost, events["kind"].tolist(), events["shard"].tolist()) == (0, [Kind.RAISED], [SHARD])
    first.events.writer.close()  # the lock of the journal; nothing else is written
    again = Labelled(tmp_path, period_seconds=0)
    again.wait(1, (1, 1, 1, 1))
    again.wait(4)
    assert feed.poll() == 1
    assert [row[0] for row in again.stored("sequence", kinds=["raised"])] == [0, 1]


@pytest.mark.kernel
def test_the_process_writes_and_counts_them(tmp_path: Path) -> None:
    """Turns of the process write its events; counters and records say the same."""
    for part in ("journal", "segments", "regions"):
        (tmp_path / part).mkdir()
    clock = [START]
    process = LabelProcess(
        LabelSettings(silent_seconds=1.0), tmp_path / "regions", data=tmp_path, clock=lambda: clock[0]
    )
    process.controller.receive(labels_of([(1, 1, 70, 80)], START), START)
    for _ in range(60):
        clock[0] += 200 * MS
        process.turn()
    assert process.events.silent_ports == 1
    process.close()
    counts = LABEL_COUNTERS.read(tmp_path / "regions")
    assert counts["label_silent_ports"] == 0
    assert counts["label_events_total.raised"] == 1
    assert counts["label_lost_events_total"] == counts["label_waiting_events"] == 0
    with History(tmp_path) as history:
        found = history.events(order="oldest")
        kinds = found["kind"].tolist()
    assert kinds.count("label_record") == counts["label_events_total.label_record"] >= 2
    assert kinds.count("raised") == 1


def test_names_are_known() -> None:
    """The codes that records hold do not change."""
    assert (Kind.LABEL_RECORD, Metric.LABEL_LATENCY, Metric.LABEL_COVERAGE) == (17, 8, 11)
    assert int(ClearReason.EVICTED) == 2
