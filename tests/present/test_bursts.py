"""Bursts of a history, and whose traffic they were."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopscope.detect.records import EVENT, ClearReason, Kind, Metric
from hopscope.history.query import History
from hopscope.history.reading.table import Table
from hopscope.history.writing.journal import JournalWriter
from hopscope.present.series.bursts import Search, bursts


def test_flows_of_a_burst_leave_by_its_port(tmp_path: Path) -> None:
    """Packets of all ports change the buffer of a switch: those of port 1 are not in a burst of port 2."""
    events = np.zeros(5, EVENT)
    events["kind"] = [Kind.RAISED, Kind.CHANGE, Kind.CHANGE, Kind.CHANGE, Kind.CLEARED]
    queue, buffer, latency = Metric.QUEUE_OCCUPANCY, Metric.BUFFER_OCCUPANCY, Metric.HOP_LATENCY
    events["metric"] = [queue, buffer, buffer, latency, queue]
    events["port"], events["flow_id"], events["node_id"], events["ident"] = (
        [2, 1, 2, 2, 2],
        [3, 4, 5, 6, 3],
        7,
        0,
    )
    events["value"], events["time_ns"], events["reason"][4] = (
        [900, 50, 60, 70, 8],
        range(10, 15),
        ClearReason.VALUE,
    )
    events["ip_version"], events["sport"] = 4, events["flow_id"]
    with JournalWriter(tmp_path, 0) as writer, History(tmp_path) as history:
        writer.append(events)
        total, (burst,), truncated = bursts(history, Search(0, 100, metric="queue_occupancy"))
    assert (total, burst.flows, burst.interval.peak, truncated) == (1, 3, 900, False)
    assert {each.flow["id"] for each in burst.contributors} == {f"{flow:016x}" for flow in (3, 5, 6)}


def test_the_highest_burst_is_first_whatever_else_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An old burst rose far above the value that raised its alarm. Its place in the order and its peak do not
    depend on how many events are read for flows; where these are not read, their number is not known.
    """
    monkeypatch.setattr("hopscope.present.series.bursts.MAX_OF_FLOWS", 4)
    events = np.zeros(6, EVENT)
    events["kind"] = [Kind.RAISED, Kind.CHANGE, Kind.CLEARED] * 2
    events["metric"], events["node_id"], events["port"] = Metric.QUEUE_OCCUPANCY, 7, 2
    events["value"], events["time_ns"] = [600, 9000, 8, 700, 800, 9], range(10, 16)
    events["reason"][[2, 5]] = ClearReason.VALUE
    events["flow_id"], events["ip_version"] = [3, 4, 3, 5, 5, 5], 4
    with JournalWriter(tmp_path, 0) as writer, History(tmp_path) as history:
        writer.append(events)
        _, found, truncated = bursts(history, Search(0, 100, metric="queue_occupancy", sort="peak"))
    assert [(each.interval.peak, each.flows) for each in found] == [(9000, None), (800, 1)]
    assert truncated


@pytest.mark.parametrize("wrap", [0, (1 << 32) - 1_015])
def test_bursts_of_one_batch_have_peaks_of_their_own(wrap: int, tmp_path: Path) -> None:
    """Two bursts whose events have one receive time: the switch's clock, also one of 32 bits that wraps, says
    which values and flows belong to which; a value without its time may belong to both.
    """
    events = np.zeros(8, EVENT)
    events["kind"] = [Kind.RAISED, Kind.CHANGE, Kind.CLEARED, Kind.CHANGE] * 2
    events["metric"], events["node_id"], events["port"] = Metric.QUEUE_OCCUPANCY, 7, 2
    events["value"], events["time_ns"] = [600, 9000, 8, 50, 700, 800, 9, 650], 10
    events["switch_ns"] = (np.arange(8, dtype=np.uint64) * 10 + 1_000 + wrap) & 0xFFFFFFFF
    events["switch_ns"][7] = 0
    events["reason"][[2, 6]] = ClearReason.VALUE
    events["flow_id"], events["ip_version"] = [3, 4, 3, 5, 6, 7, 6, 8], 4
    events["sport"] = events["flow_id"]
    with JournalWriter(tmp_path, 0) as writer, History(tmp_path) as history:
        writer.append(events)
        _, found, _ = bursts(history, Search(0, 100, metric="queue_occupancy"))
    shown = sorted(
        (each.interval.peak, each.interval.duration_ns, {one.flow["id"][-1] for one in each.contributors})
        for each in found
    )
    assert shown == [(800, 20, {"6", "7", "8"}), (9000, 20, {"3", "4", "8"})]


class Members:
    """History of a cluster, of given events."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._rows = rows

    def events(self, limit: int, start: int, end: int, kinds: Any, **_: Any) -> Table:
        """The newest first."""
        rows = [row for row in self._rows if start <= row["time"] < end and row["kind"] in kinds]
        rows.sort(key=lambda row: -row["time"])
        columns = {name: np.array([row[name] for row in rows], object) for name in ROW}
        columns["time"] = columns["time"].astype(np.int64).astype("M8[ns]")
        return Table(columns, False)


ROW = {
    "time": 0, "member": "a", "kind": "", "metric": "queue_occupancy", "node_id": 7, "port": 2, "ident": 3,
    "value": 0, "previous": 500, "reason": None, "switch_ns": None, "flow_id": None,
    "src": None, "dst": None, "proto": None, "sport": None, "dport": None,
}  # fmt: skip


@pytest.mark.parametrize("expired", [False, True])
def test_an_alarm_whose_sources_moved_takes_in_no_later_burst(expired: bool) -> None:
    """It ends with the first value of another member that is not above its limit: a new queue there, or the
    end of a burst that began above it. It is so while the alarm is open, and when it has expired.
    """
    rows = [
        {"time": 10, "kind": "raised", "value": 900},
        {"time": 20, "kind": "new_key", "value": 30, "member": "b"},
        {"time": 25, "kind": "change", "value": 40, "member": "b"},
        *({"time": t, "kind": "raised", "value": 600, "member": "b"} for t in (30, 50)),
        *({"time": t, "kind": "cleared", "reason": "value", "member": "b"} for t in (40, 60)),
        {"time": 10, "kind": "raised", "value": 900, "port": 3},
        {"time": 20, "kind": "new_key", "value": 700, "port": 3, "member": "b"},
        {"time": 20, "kind": "raised", "value": 700, "port": 3, "member": "b"},
        {"time": 30, "kind": "cleared", "port": 3, "reason": "value", "member": "b"},
        {"time": 40, "kind": "raised", "value": 800, "port": 3, "member": "b"},
        {"time": 10, "kind": "raised", "value": 900, "port": 4},  # nobody has heard of it since
    ]
    if expired:
        rows += [{"time": 90, "kind": "cleared", "reason": "expired", "port": port} for port in (2, 3)]
    history: Any = Members([ROW | row for row in rows])
    _, found, _ = bursts(history, Search(0, 100, metric="queue_occupancy"))
    spans = sorted(
        (each.interval.place.port, each.interval.start_ns, each.interval.end_ns or 0) for each in found
    )
    assert spans == [(2, 10, 20), (2, 30, 40), (2, 50, 60), (3, 10, 30), (3, 40, 0), (4, 10, 0)]


def test_alarms_from_before_the_range(tmp_path: Path) -> None:
    """One that is open for all of it, and one that ends within it, began when they were raised.
    One that ended earlier, and one of another metric, are not in it.
    """
    events = np.zeros(7, EVENT)
    events["metric"], events["node_id"], events["port"] = Metric.QUEUE_OCCUPANCY, 7, 2
    raised, cleared = Kind.RAISED, Kind.CLEARED
    events["kind"] = [raised, raised, raised, raised, cleared, cleared, raised]
    events["ident"] = [1, 2, 3, 4, 3, 2, 5]
    events["metric"][3] = Metric.QUEUE_CONGESTION
    events["value"], events["time_ns"] = 900, [10, 11, 12, 13, 14, 60, 70]
    events["reason"][[4, 5]] = ClearReason.VALUE
    with JournalWriter(tmp_path, 0) as writer, History(tmp_path) as history:
        writer.append(events)
        search = Search(50, 100, metric="queue_occupancy")
        total, found, truncated = bursts(history, search)
        _, long, _ = bursts(history, Search(50, 100, metric="queue_occupancy", shortest_ns=40, longest_ns=49))
    spans = {each.interval.place.ident: (each.interval.start_ns, each.interval.end_ns) for each in found}
    assert spans == {1: (10, None), 2: (11, 60), 5: (70, None)}
    assert (total, truncated) == (3, False)
    assert [each.interval.place.ident for each in long] == [2]
