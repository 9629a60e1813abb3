"""`hopscope demo`: how faults are judged from events, and the whole of it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from itertools import pairwise, takewhile
from pathlib import Path

import numpy as np
import pytest

from hopscope.base.errors import HopscopeError
from hopscope.base.names import Names
from hopscope.cli.demo import folder, processes
from hopscope.cli.demo.judge import Judge
from hopscope.cli.demo.schedule import as_option, schedule
from hopscope.detect.records import EVENT, NO_PORT, Kind, Metric
from hopscope.fabric.faults import FaultKind, make_fault, parse_fault
from hopscope.fabric.topology import FatTree, LeafSpine, Topology
from hopscope.wire.records import Records
from support.waiting import HANG_SECONDS

TREE = FatTree(4)
SECOND = 1_000_000_000


def event(time_s: float, kind: Kind, metric: Metric = Metric.NONE, **fields: int) -> Records:
    row = np.zeros(1, EVENT)
    row["time_ns"], row["kind"], row["metric"] = round(time_s * SECOND), kind, metric
    for name, value in fields.items():
        row[name] = value
    return row


def path(time_s: float, kind: Kind, flow: int, nodes: list[str]) -> Records:
    row = event(time_s, kind, Metric.FLOW_PATH, flow_id=flow, hop_count=len(nodes))
    ids = {switch.name: switch.node_id for switch in TREE.switches}
    row["path"][0, : len(nodes)] = [ids[name] for name in nodes]
    return row


@pytest.mark.parametrize(
    ("kind", "sign", "metric"),
    [
        (FaultKind.MICROBURST, Kind.RAISED, Metric.QUEUE_OCCUPANCY),
        (FaultKind.SLOW_HOP, Kind.RAISED, Metric.HOP_LATENCY),
        (FaultKind.LOSSY_PORT, Kind.DROP, Metric.NONE),
    ],
)
def test_a_fault_is_found_where_its_events_are(kind: FaultKind, sign: Kind, metric: Metric) -> None:
    """The port that most events name is where it was found; the first of them says when."""
    judge = Judge(TREE)
    fault = make_fault(TREE, kind, 1.0, "agg-1-0", 2, 1.0)
    verdict = judge.begin(fault, 10 * SECOND)
    judge.take(event(9.9, sign, metric, node_id=11, port=2))
    assert verdict.events == 0
    judge.take(
        np.concatenate(
            [event(10.2, sign, metric, node_id=1, port=1), event(10.3, sign, metric, node_id=11, port=2)]
        )
    )
    assert judge.verdicts[0].place is None, "two ports are level"
    judge.take(event(10.4, sign, metric, node_id=11, port=2))
    assert verdict.found
    assert verdict.after_seconds == pytest.approx(0.3)
    judge.take(event(12.5, sign, metric, node_id=1, port=1))
    assert verdict.events == 3, "what comes long after its end is not its own"


def test_other_events_do_not_count() -> None:
    """Cleared alarms and alarms of other metrics say nothing of a microburst."""
    judge = Judge(TREE)
    verdict = judge.begin(make_fault(TREE, "microburst", 1.0, 1, 1), 0)
    for kind, metric in (
        (Kind.CLEARED, Metric.QUEUE_OCCUPANCY),
        (Kind.RAISED, Metric.HOP_LATENCY),
        (Kind.DROP, Metric.NONE),
    ):
        judge.take(event(0.1, kind, metric, node_id=1, port=1))
    assert verdict.events == 0
    judge.take(event(0.2, Kind.RAISED, Metric.QUEUE_OCCUPANCY, node_id=1, port=NO_PORT, ident=1))
    assert verdict.found, "without a port the queue's id says where"


def test_a_wrong_port_is_not_found() -> None:
    """Most events at another port: the fault is missed."""
    judge = Judge(TREE)
    verdict = judge.begin(make_fault(TREE, "lossy-port", 1.0, 1, 1), 0)
    judge.take(event(0.1, Kind.DROP, node_id=1, port=2))
    assert verdict.place == (1, 2)
    assert not verdict.found


def test_a_path_change_is_where_all_moved_flows_were() -> None:
    """The link that all flows left is the one that failed, in whichever direction they used it."""
    judge = Judge(TREE)
    judge.take(path(0.1, Kind.NEW_KEY, 1, ["edge-0-0", "agg-0-0", "core-0", "agg-1-0", "edge-1-0"]))
    judge.take(path(0.1, Kind.NEW_KEY, 2, ["edge-2-0", "agg-2-0", "core-0", "agg-0-0", "edge-0-1"]))
    fault = make_fault(TREE, "path-change", 1.0, "agg-0-0", 3)
    verdict = judge.begin(fault, SECOND)
    judge.take(path(1.1, Kind.PATH_CHANGE, 1, ["edge-0-0", "agg-0-0", "core-1", "agg-1-0", "edge-1-0"]))
    assert verdict.place is None
    judge.take(path(1.2, Kind.PATH_CHANGE, 2, ["edge-2-0", "agg-2-0", "core-1", "agg-0-0", "edge-0-1"]))
    assert verdict.found
    assert verdict.votes[9, 3] == verdict.events == 2
    judge.end(fault, round(1.5 * SECOND))
    judge.take(path(1.6, Kind.PATH_CHANGE, 2, ["edge-2-0", "agg-2-0", "core-0", "agg-0-0", "edge-0-1"]))
    assert verdict.events == 2, "flows that return are another change"


def test_events_before_the_word() -> None:
    """Events that arrive before the news that the fault has begun count all the same."""
    judge = Judge(TREE)
    judge.take(event(5.01, Kind.DROP, node_id=1, port=1))
    assert judge.begin(make_fault(TREE, "lossy-port", 1.0, 1, 1), 5 * SECOND).found


@pytest.mark.parametrize("topology", [TREE, FatTree(6), LeafSpine(4, 2)], ids=lambda t: t.name)
@pytest.mark.parametrize("seconds", [12.0, 30.0, None])
def test_schedule(topology: Topology, seconds: float | None) -> None:
    """All four faults, on different links, one after the other, with room to be found, in time."""
    for seed in range(20):
        faults = schedule(topology, seconds, seed)
        first = faults[:4]
        assert {fault.kind for fault in first} == set(FaultKind)
        assert len({fault.port for fault in first}) == 4
        for before, after in pairwise(faults):
            assert before.end < after.start
        assert first[-1].end < (seconds or 60.0) - 1
        assert [parse_fault(topology, as_option(fault)) for fault in first] == first


def test_two_leaves_are_too_few() -> None:
    """A flow between two leaves leaves two links at once: no demo begins that would miss its path change."""
    with pytest.raises(HopscopeError, match="found leaf-spine:2x2x4, expected three leaves or more"):
        schedule(LeafSpine(2, 2), 12.0, 1)


def demo(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "hopscope", "demo", "--http-port", "18200", *arguments]


@pytest.mark.e2e
def test_the_demo_finds_its_faults() -> None:
    """Twelve seconds of a mixed network: nothing lost, nothing damaged, each of the four faults found where
    it was; samples and flow records of the edge beside INT.
    """
    done = subprocess.run(
        demo("--mixed", "--duration", "12", "--rate", "8000", "--format", "json"),
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    told = json.loads(done.stdout)
    assert told["sent"] == told["received"] > 50_000
    assert told["lost"] == told["damaged"] == 0
    assert {fault["kind"] for fault in told["faults"]} == set(FaultKind)
    for fault in told["faults"]:
        assert fault["found"]
        assert 0 <= fault["after_ms"] < 2000
    assert told["samples"]["flow"] == 2 * told["flow_records"] >= 2 * 20 * 20
    assert told["samples"]["counter"] == told["samples"]["flow"] / 20
    assert told["events"]["raised"] > 0
    assert told["values"] > 10 * told["stored"] > 0
    assert "console  http://127.0.0.1:182" in done.stderr


@pytest.mark.e2e
def test_ctrl_c_ends_it_with_a_summary(tmp_path: Path) -> None:
    """Interrupted, it says what there was, leaves no process behind, and keeps the data if asked to."""
    process = subprocess.Popen(
        demo("--rate", "2000", "--data", str(tmp_path / "data")),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    until_traffic = [*takewhile(lambda line: not re.match(r" *[1-9]\d*\.\d s", line), process.stderr)]
    assert any(line.startswith("console") for line in until_traffic)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == 0, err
    assert out.startswith("sent ")
    assert "lost       0" in out
    assert any((tmp_path / "data" / "journal").iterdir()) or any((tmp_path / "data" / "segments").iterdir())
    assert len(Names.load(None, tmp_path / "data").nodes) > 3
    left = subprocess.run(["pgrep", "-f", str(tmp_path)], capture_output=True, text=True, check=False)
    assert left.stdout == ""


@pytest.mark.e2e
def test_too_short() -> None:
    """A demo that is too short for its faults is refused."""
    done = subprocess.run(
        demo("--duration", "5"), capture_output=True, text=True, timeout=HANG_SECONDS, check=False
    )
    assert done.returncode == 2
    assert "expected 12 s or more" in done.stderr


def test_a_start_that_gets_on_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """New log lines and processor time are progress; a program with neither has stalled."""
    log = tmp_path / "log"
    log.write_text('{"timestamp": "now", "level": "info", "event": "compiling", "kernel": "walk"}\n')
    assert processes.last_line(log) == "compiling (kernel walk)"
    nobody = 2**22 + 1  # above the largest pid
    assert processes.session_ticks(nobody) == 0
    assert processes.session_ticks(os.getsid(0)) > 0
    progress = processes.Progress(nobody, log)
    assert not progress.stalled()
    monkeypatch.setattr(processes, "STALL_SECONDS", -1.0)
    assert progress.stalled()
    log.write_text("plain words\n")
    monkeypatch.setattr(processes, "STALL_SECONDS", 60.0)
    assert not progress.stalled()
    assert processes.last_line(log) == "plain words"


def test_folders_of_killed_demos_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next demo deletes old folders that no demo locks; a running demo's and a new one stay."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with folder.temporary_folder() as used:
        killed, new = tmp_path / f"{folder.PREFIX}killed", tmp_path / f"{folder.PREFIX}new"
        (killed / "data").mkdir(parents=True)
        new.mkdir()
        for old in (used, killed):
            os.utime(old, (0, 0))
        with folder.temporary_folder() as own:
            assert {used, new, own} == set(tmp_path.iterdir())
    assert set(tmp_path.iterdir()) == {new}
