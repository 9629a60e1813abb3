"""Several workers are one collector: the events and the state are those of a single worker."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from hopscope.detect.counters import DETECTOR, INDEX, attach_counters, counter_files
from hopscope.detect.merge import Merge
from hopscope.detect.records import Kind
from hopscope.detect.thresholds import CONTROL_FILE, CONTROL_VERSION, KIND, create_control
from hopscope.history.files.journal_file import read_journals
from hopscope.memory.private_file import HASH_SECRET
from hopscope.memory.region import Region
from hopscope.present.collector_state import CollectorState
from hopscope.runtime.pipeline.mode import mode_of
from hopscope.runtime.pipeline.shard import Shard
from hopscope.runtime.pipeline.steps import HandOver
from hopscope.runtime.processes import detector as detector_process
from hopscope.runtime.processes.detector import Detector
from hopscope.runtime.supervisor.live_limits import LiveLimits
from hopscope.settings.collector import Settings
from hopscope.wire.dialect import Clock
from hopscope.wire.records import Carried, Flag, Records, ReportBatch
from support.events.detect_make import T0, Hop, Report, batch

pytestmark = pytest.mark.kernel
WORKERS = 4
CLOCK = Clock()
TICK_NS = 100_000_000
LIMIT = {"change": 40, "raise_above": 900, "clear_below": 500}
CHANGE = {"set_limits": {"general": {"queue_occupancy": {"change": 200, "raise_above": 700}}}}


def settings_for(folder: Path, workers: int, timed: bool = True) -> Settings:
    """Small tables, and limits that the stream crosses. Not `timed`: time causes no events."""
    metrics = ("hop_latency", "flow_latency", "queue_occupancy", "link_utilization", "buffer_occupancy")
    clock = {"idle_seconds": 1.5, "push_seconds": 0.7, "silent_seconds": 0.05}
    detect = {
        "flow_rows": 2, "ports": 256, "sources": 64, "hop_pool": 4, "queue_reports": 1024,
        "thresholds": dict.fromkeys(metrics, LIMIT),
        **(clock if timed else {"push_seconds": 0, "silent_seconds": 0}),
    }  # fmt: skip
    return Settings.model_validate(
        {
            "data": folder,
            "listen": [{"port": 0, "workers": workers}],
            "detect": detect,
            "history": {"ring_events": 65_536},
            "distributions": {"enabled": True, "queues": 256},
        }
    )


def stream(timed: bool = True) -> Iterator[tuple[int, int, ReportBatch]]:
    """(time, worker, reports): what four workers receive in 3 s, in this order.

    Sixteen switches report; each one's reports reach one worker.  Flows are reported by any of them, so one
    queue, one flow and one packet's postcards reach several workers. Postcards wait: only if `timed`.
    """
    dice = random.Random(7)
    sequences: Counter[int] = Counter()
    time = packet = 0
    for _ in range(900):
        time += dice.randrange(1, 7_000_000)
        worker = dice.randrange(WORKERS)
        rows, packets = [], []
        for _ in range(dice.randrange(1, 6)):
            source = worker + WORKERS * dice.randrange(4)
            sequences[source] += 1 + (dice.random() < 0.02)
            flow, value = dice.randrange(40), dice.randrange(1000)
            nodes = (
                dice.choice([(1, 2, 3), (1, 4, 1), tuple(range(1, 11))]) if flow < 8 else (1, 2 + flow % 3)
            )
            hops = [
                Hop(node, value, queue=dice.randrange(2), occupancy=dice.randrange(1000), utilization=value,
                    buffer_occupancy=dice.randrange(1000), port=node % 3)
                for node in nodes
            ]  # fmt: skip
            report = Report(hops, flow, time, sequences[source], node=source, source=source)
            packets.append(0)
            if timed and dice.random() < 0.3:
                packet += dice.random() < 0.4
                report.hops, report.own, report.int_version = [], Hop(1 + source % 5, value), 0
                report.flow, packets[-1] = 100 + packet % 3, 1 + packet
            elif dice.random() < 0.05:
                report.flags |= Flag.DROPPED | Flag.CONGESTED
            rows.append(report)
        found = batch(rows)
        found.reports["packet_id"] = packets
        assert (found.reports["carried"] & Carried.FLOW != 0).all()
        yield T0 + time, worker, found


def copy(reports: ReportBatch) -> ReportBatch:
    """A batch of its own: the joining of postcards writes into it."""
    return ReportBatch(reports.reports.copy(), reports.hops)


def prepared(folder: Path, settings: Settings) -> Path:
    """The folder of regions, with limits as the supervisor makes them; all hash tables have one secret."""
    regions = folder / "regions"
    regions.mkdir(parents=True)
    secret = folder / HASH_SECRET
    secret.touch(mode=0o600)
    secret.write_text("0" * 64)
    create_control(regions / CONTROL_FILE, settings.limits)
    return regions


def control_of(regions: Path) -> Region:
    """The limits, as the supervisor holds them."""
    return Region.attach(regions / CONTROL_FILE, KIND, CONTROL_VERSION, writable=True)


def single(folder: Path, timed: bool = True, change_at: int = 0) -> dict[str, Any]:
    """The stream through a single worker; its state before it ends."""
    settings = settings_for(folder, 1, timed)
    regions = prepared(folder, settings)
    control = control_of(regions)
    pipeline = mode_of(settings).pipeline(Shard(settings.history, data=folder, regions=regions))
    due = T0
    for number, (time, _, reports) in enumerate(stream(timed)):
        while due < time:
            pipeline.tick(due)
            due += TICK_NS
        if number == change_at:
            LiveLimits(control, settings).answer(CHANGE, "a test")
        pipeline.take(copy(reports), CLOCK)
    pipeline.tick(due)
    state = state_of(folder)
    pipeline.close()
    return state


class Workers:
    """Four workers and a detector, whose processes are objects here."""

    def __init__(self, folder: Path, timed: bool = True) -> None:
        self.folder, self.settings = folder, settings_for(folder, WORKERS, timed)
        self.regions = prepared(folder, self.settings)
        self.control = control_of(self.regions)
        mode_of(self.settings).make_queues(self.regions)
        self.workers = [self.worker(number) for number in range(WORKERS)]
        self.detector = self.start()

    def worker(self, number: int) -> HandOver:
        """A worker that starts, or starts again."""
        return mode_of(self.settings).hand_over(number, self.regions)

    def start(self) -> Detector:
        """A detector that starts, or starts again on the regions of one that was killed."""
        shard = Shard(self.settings.history, process=DETECTOR, data=self.folder, regions=self.regions)
        mode = mode_of(self.settings)
        return Detector(mode.pipeline(shard), Merge(mode.queues(self.regions)))

    def take(self) -> None:
        """The detector takes what is complete, without a tick."""
        self.detector._take()

    def advance(self, time: int) -> None:
        """All workers have turned since `time`."""
        for worker in self.workers:
            worker.wake()
            worker.advance(time)

    def stop(self, time: int) -> dict[str, Any]:
        """Workers first, then the detector; the state before it ends."""
        for worker in self.workers:
            worker.tick(time)
            worker.close()
        self.take()
        self.detector.tick(time)
        state = state_of(self.folder)
        self.detector.close()
        return state


def several(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    timed: bool = True,
    kill_at: int = -1,
    change_at: int = 0,
) -> dict[str, Any]:
    """The stream through four workers, which are scheduled at random, wait now and then, and are killed once;
    the state before they end.
    """
    workers = Workers(folder, timed)
    due, dice = T0, random.Random(3)
    clock = Mock(return_value=T0)
    monkeypatch.setattr("hopscope.detect.report_queue.time", Mock(time_ns=clock))
    for number, (time, receiver, reports) in enumerate(stream(timed)):
        while due < time:
            clock.return_value = due
            workers.advance(due)
            workers.take()
            workers.detector.tick(due)
            due += TICK_NS
        clock.return_value = time
        if number == change_at:
            workers.advance(time)
            workers.take()
            LiveLimits(workers.control, workers.settings).answer(CHANGE, "a test")
        workers.workers[receiver].wake()
        workers.workers[receiver].take(reports, CLOCK)
        workers.workers[receiver].advance(time)
        if number == kill_at:
            workers.workers = [workers.worker(number) for number in range(WORKERS)]
            workers.detector._pipeline.shard.close()  # the lock of a killed process ends with it
            workers.detector = workers.start()
        if dice.random() < 0.3:
            workers.workers[dice.randrange(WORKERS)].advance(time)
        if dice.random() < 0.3:
            workers.workers[dice.randrange(WORKERS)].wait()
        if dice.random() < 0.3:
            workers.take()
    return workers.stop(due)


def counters_of(regions: Path) -> dict[str, int]:
    """All counters, summed; not those of time, of files, of queues, and of a budget per second."""
    total = sum(attach_counters(path).astype(np.int64) for path in counter_files(regions).values())
    of_workers = "(frame|reports_total|hops_total|packets_|ticks_|busy_|late_|journal_|detector_|evidence_)"
    return {key: int(np.asarray(total)[slot]) for key, slot in INDEX.items() if not re.match(of_workers, key)}


def state_of(folder: Path) -> dict[str, Any]:
    """What the API, the page and `/metrics` read of a collector that runs."""
    state = CollectorState(folder, fresh_seconds=0)
    flows, ports, sources = state.flows(), state.ports(), state.sources()
    hops = {int(flow["flow_id"]): state.hops_of(flow).tobytes() for flow in flows}
    assert min(len(flows), len(ports), len(sources)) > 0
    flows["pool_block"] = 0  # a restart orders the free blocks of the pool again
    distributions = [(e.node, e.port, e.measure, e.counts.tolist()) for e in state.distributions()]
    return {
        "flows": np.sort(flows).tobytes(),
        "ports": np.sort(ports).tobytes(),
        "sources": np.sort(sources).tobytes(),
        "hops": hops,
        "distributions": distributions,
        "counters": counters_of(folder / "regions"),
    }


def assert_same(one: Path, many: Path) -> Records:
    """Events in two data folders are the same, with the same numbers; returns them."""
    events, found = read_journals(one), read_journals(many)
    assert len(events) == len(found)
    for name in events.dtype.names or ():
        assert (events[name] == found[name]).all(), f"events differ in {name}"
    assert found["sequence"].tolist() == list(range(len(found)))
    return events


def test_four_workers_find_what_one_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same events in the same order with the same numbers, the same state and counters; limits that are
    changed in between hold from the same report on.
    """
    assert single(tmp_path / "one", change_at=400) == several(tmp_path / "many", monkeypatch, change_at=400)
    events = assert_same(tmp_path / "one", tmp_path / "many")
    # without detection, hysteresis, …; in a sink, with labels, in a cluster
    others = {Kind.VALUE, Kind.THRESHOLD, Kind.ADAPTED, Kind.LABEL_RECORD, Kind.MOVED, Kind.SOURCE_MOVED}
    kinds = {Kind(kind) for kind in np.unique(events["kind"]).tolist()}
    assert kinds >= set(Kind) - others, "the stream has too little in it"


def test_workers_that_detect_for_themselves_would_not(tmp_path: Path) -> None:
    """The stream shows what the detector is for: alone, workers raise one queue's alarm more than once."""
    single(tmp_path / "one", change_at=-1)
    raised = read_journals(tmp_path / "one")["kind"] == Kind.RAISED
    alone: list[Records] = []
    for worker in range(WORKERS):
        settings = settings_for(tmp_path, 1)
        shard = Shard(settings.history, on_events=lambda events: alone.append(events.copy()))
        pipeline = mode_of(settings).pipeline(shard)
        for _, receiver, reports in stream():
            if receiver == worker:
                pipeline.take(reports, CLOCK)
    assert sum(int((block["kind"] == Kind.RAISED).sum()) for block in alone) > raised.sum()


def test_nothing_is_lost_when_all_processes_are_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers and detector go on where they were: the same events as if nothing had happened."""
    assert single(tmp_path / "one", False) == several(tmp_path / "many", monkeypatch, False, kill_at=500)
    assert_same(tmp_path / "one", tmp_path / "many")


def test_reports_without_room_are_counted(tmp_path: Path) -> None:
    """A detector that hangs loses reports by name: those that the queue has room for wait."""
    workers = Workers(tmp_path / "data")
    reports = batch([Report([Hop(1)], time=1, sequence=k) for k in range(100)])
    for _ in range(15):
        workers.workers[0].take(copy(reports), CLOCK)
    workers.workers[0].tick(T0)
    state = CollectorState(tmp_path / "data", fresh_seconds=0)
    assert state.counters()["detector_lost_reports_total"] == 500
    assert state.counters()["detector_waiting_reports"] == 1000
    assert state.counters()["detector_queue_full"] == 1
    workers.workers[0].tick(T0)
    assert state.counters()["detector_queue_full"] == 0, "nothing was lost since"
    workers.stop(T0)
    assert state.sources()["received"].tolist() == [1000]


@pytest.mark.parametrize("orphaned", [True, False])
def test_a_detector_without_supervisor_waits_for_its_workers(
    orphaned: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed supervisor ends none of them in order: what workers still take from their sockets comes later.
    If it ends them, they have ended, and the detector waits for none that was killed.
    """
    workers = Workers(tmp_path)
    _, _, reports = next(iter(stream()))
    detector = Detector(workers.detector._pipeline, workers.detector._merge, lambda: orphaned)
    turns: list[int] = []

    def pause(found: int) -> None:
        turns.append(found)
        if len(turns) == 2:
            workers.workers[0].take(reports, CLOCK)
        if len(turns) == 3:
            for worker in workers.workers:
                worker.close()

    monkeypatch.setattr(detector_process, "PAUSE", pause)
    detector.drain()
    received = CollectorState(tmp_path, fresh_seconds=0).sources()["received"].sum()
    assert received == (len(reports.reports) if orphaned else 0)
    assert len(turns) <= 4
    detector.close()
