"""The process that takes labels: every datagram is taken or counted, registers follow what the controller
decides.
"""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from hopscope.base.clock import SteadyClock
from hopscope.labels import tracked_state
from hopscope.labels.counters import LABEL_COUNTERS
from hopscope.labels.records import PortCounter
from hopscope.labels.registers import Registers
from hopscope.labels.state import FILE_NAME, LabelReader
from hopscope.labels.tracked_state import TrackedReader
from hopscope.present.labels.ports import Labels
from hopscope.present.labels.tracked import TrackedFlows
from hopscope.runtime.labels.process import LabelProcess
from hopscope.runtime.pipeline.summary import summary_lines
from hopscope.settings.label import LabelSettings
from hopscope.wire.label.batch import encode_blocks
from hopscope.wire.label.records import LABEL, LABEL_FLOW
from support.waiting import HANG_SECONDS

pytestmark = pytest.mark.kernel
MS = 1_000_000
START = 1_700_000_000 * 10**9
PORTS = [(1, 1), (1, 2), (2, 1), (2, 2)]


class Now:
    """A clock that the test turns."""

    ns = START

    def __call__(self) -> int:
        return self.ns


def datagram(ports: list[tuple[int, int]], times: list[int]) -> bytes:
    """A last hop's datagram: a packet for each label."""
    labels = np.zeros(len(ports), LABEL)
    labels["node_id"], labels["egress_port"] = zip(*ports, strict=True)
    labels["time_ns"], labels["packet"] = times, range(len(ports))
    labels["latency_ns"], labels["count"] = 7, 1
    return encode_blocks(labels)


def settings(**more: object) -> LabelSettings:
    """T is 50 ms."""
    return LabelSettings.model_validate({"listen": "127.0.0.1:0", **more})


def drive(process: LabelProcess, count: int) -> None:
    """Turn until so many datagrams are taken."""
    until = time.monotonic() + HANG_SECONDS
    while count > 0 and time.monotonic() < until:
        count -= process.turn()
    assert count <= 0


def test_silent_ports_label_more_often_and_coverage_is_told(tmp_path: Path) -> None:
    """A port that sends but is not heard of: its register rises, its coverage is missing; when it is heard
    again, S falls. A process that is killed leaves registers to the next one, and one that ends sets them
    back.
    """
    now, path = Now(), tmp_path / "registers.region"
    lines: list[str] = []
    adaptive = {"mode": "shift", "max_shift": 3}
    more = {"registers": str(path), "adaptive": adaptive}
    process = LabelProcess(settings(**more), tmp_path, notify=lines.append, clock=now)
    process.open()
    process.turn()
    assert "waits" in lines[0]
    registers = Registers.create(path, PORTS, 50 * MS)
    now.ns += 600 * MS
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.connect(("127.0.0.1", process.port))
        for step in range(100):
            now.ns += 20 * MS
            registers.counters[:3, PortCounter.SENT] += np.uint64(1)
            ports = PORTS[:3] if step < 20 else PORTS[:2]
            sender.send(datagram(ports, [now.ns] * len(ports)))
            drive(process, 1)
        assert registers.shift.tolist() == [0, 0, 3, 0]
        told = LabelReader.attach(tmp_path / FILE_NAME)
        busy = told.coverage(1000)
        busy = busy[busy["active"] > 0]
        share = busy["reported"] / busy["active"]
        assert share[0] == 1
        assert share[-1] == pytest.approx(2 / 3)
        assert told.coverage(1)["raised"].tolist() == [1]
        by_port = {(int(p["node_id"]), int(p["port"])): p for p in told.ports()}
        assert by_port[2, 1]["shift"] == 3
        assert by_port[1, 1]["labels"] == 100
        assert by_port[1, 1]["rate"] == pytest.approx(50, rel=0.1)
        assert by_port[2, 2]["labels"] == 0
        assert (by_port[2, 1]["traffic"], by_port[2, 2]["traffic"]) == (2, 1)

        again = LabelProcess(settings(**more), tmp_path, notify=lines.append, clock=now)
        again.open()
        sender.connect(("127.0.0.1", again.port))
        for _ in range(30):
            now.ns += 20 * MS
            sender.send(datagram(PORTS[:3], [now.ns] * 3))
            drive(again, 1)
            if registers.shift[2] == 1:
                break
        assert registers.shift.tolist() == [0, 0, 1, 0]
    again.close()
    assert registers.shift.tolist() == [0, 0, 0, 0]
    counts = LABEL_COUNTERS.read(tmp_path)
    assert counts["labels_total"] >= 220
    assert counts["label_changes_total"] >= 5
    assert counts["label_unwritten_changes_total"] == 0
    assert [line for line in lines if "4 ports" in line]
    process.close()


def test_registers_above_what_the_controller_may_set_are_brought_down(tmp_path: Path) -> None:
    """Registers of a controller that went further: the table tells what they hold, which is no more than
    `most`.
    """
    path = tmp_path / "registers.region"
    registers = Registers.create(path, PORTS, 50 * MS)
    registers.shift[1:3] = [16, 2]
    more = {"registers": str(path), "adaptive": {"mode": "shift", "max_shift": 3}}
    process = LabelProcess(settings(**more), None, clock=Now())
    process.turn()
    assert registers.shift.tolist() == [0, 3, 2, 0]
    assert process.table._rows["shift"][process.table.rows_of(*zip(*PORTS, strict=True))].tolist() == [
        0,
        3,
        2,
        0,
    ]
    process.close()


def test_a_port_whose_frames_are_all_lost_is_missing_in_coverage(tmp_path: Path) -> None:
    """What a port sends and its link loses is traffic of which nothing is heard."""
    now, path = Now(), tmp_path / "registers.region"
    registers = Registers.create(path, PORTS, 50 * MS)
    process = LabelProcess(settings(registers=str(path)), tmp_path, clock=now)
    for _ in range(40):
        now.ns += 20 * MS
        registers.counters[2, PortCounter.LOST] += np.uint64(1)
        process.turn()
    told = LabelReader.attach(tmp_path / FILE_NAME).coverage(1000)
    assert len(told) > 2
    assert set(told["active"].tolist()) == {1}
    assert not told["reported"].any()
    process.close()


def test_forged_ports_are_left_out_of_turn(tmp_path: Path) -> None:
    """Labels of ports that the registers do not name, before these were there and after: none is controlled,
    and those that come later are counted.
    """
    now, path = Now(), tmp_path / "registers.region"
    more = {"registers": str(path), "adaptive": {"mode": "shift", "max_shift": 3}}
    process = LabelProcess(settings(**more), None, clock=now)
    process.open()
    process.turn()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.connect(("127.0.0.1", process.port))
        sender.send(datagram([(99, 1)], [now.ns]))
        drive(process, 1)
        registers = Registers.create(path, PORTS, 50 * MS)
        now.ns += 600 * MS
        process.turn()
        sender.send(datagram([(99, 1), (98, 1), PORTS[0]], [now.ns] * 3))
        drive(process, 1)
    for _ in range(20):
        now.ns += 60 * MS
        process.turn()
    process.counts.collect(process)
    assert registers.shift.tolist() == [3, 0, 0, 0]
    assert process.counts["label_shortened_ports"] == 1
    assert process.counts["label_unwritten_changes_total"] == 0
    assert process.counts["label_unknown_ports_total"] == 2
    process.close()


def test_hostile_datagrams_are_counted_and_change_nothing() -> None:
    """Random bytes, cut and lengthened datagrams, times at the ends of what 64 bits hold: every datagram is
    taken, empty or refused by a reason, and the labels of good ones in between are all there.
    """
    rng = np.random.default_rng(21)
    process = LabelProcess(settings(), None)
    process.open()
    good = datagram(PORTS, [START] * 4)
    sent = 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.connect(("127.0.0.1", process.port))
        for _ in range(300):
            kind = int(rng.integers(0, 4))
            raw = rng.bytes(int(rng.integers(0, 400))) if kind == 0 else good
            if kind == 1:
                raw = good[: int(rng.integers(0, len(good)))]
            if kind == 2:
                raw = good + rng.bytes(int(rng.integers(1, 60)))
            sender.send(raw)
            drive(process, 1)
            sent += 1
        before = process.table.taken
        sender.send(datagram([(9, 9)] * 3, [2**63 - 1, -(2**63), 0]))
        drive(process, 1)
        sender.send(good)
        drive(process, 1)
    process.counts.collect(process)
    counts = process.counts
    keys = [counter.key for counter in LABEL_COUNTERS.counters]
    refused = sum(counts[key] for key in keys if key.startswith("label_rejected_total"))
    assert counts["label_datagrams_total"] == sent + 2
    assert refused > 100
    assert process.table.taken == before + 7
    assert counts["labelled_packets_total"] >= 4 * 60
    text = "\n".join(summary_lines(dict.fromkeys(_worker_keys(), 0) | {key: counts[key] for key in keys}))
    assert f"labels     {counts['labels_total']:,} of" in text
    process.close()


def test_tracked_flows_have_their_ways(tmp_path: Path) -> None:
    """A tracked packet's datagram becomes its flow's way in the region; one that names a port which the
    registers do not is refused, one of before without a flow is told by its labels alone, and all is counted.
    """
    now = Now()
    registers = tmp_path / "registers.region"
    Registers.create(registers, PORTS, 50 * MS)
    process = LabelProcess(settings(registers=str(registers)), tmp_path, clock=now)
    process.open()
    process.turn()
    labels = np.zeros(6, LABEL)
    labels["packet"], labels["position"], labels["count"] = np.repeat([0, 1, 2], 2), [0, 1] * 3, 2
    labels["node_id"], labels["egress_port"], labels["tracked"] = [1, 2, 1, 99, 1, 2], 1, 1
    labels["time_ns"] = now.ns
    flows = np.zeros(2, LABEL_FLOW)
    flows["packet"], flows["sport"], flows["proto"] = [0, 1], [7, 8], 17
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.connect(("127.0.0.1", process.port))
        sender.send(encode_blocks(labels, flows=flows))
        drive(process, 1)
    process.close()
    (row,) = TrackedReader.attach(tmp_path / tracked_state.FILE_NAME).flows()
    assert (row["sport"], row["hops"], row["path"]["node_id"][:2].tolist()) == (7, 2, [1, 2])
    counts = LABEL_COUNTERS.read(tmp_path)
    told = {name: int(counts[f"label_tracked_{name}"]) for name in (
        "packets_total", "flows", "without_flow_total", "unknown_ports_total", "evicted_total",
    )}  # fmt: skip
    assert list(told.values()) == [1, 1, 1, 1, 0]
    assert counts["labels_total"] == 5
    said = summary_lines(dict.fromkeys(_worker_keys(), 0) | counts)
    assert "tracked   1 packet of 1 flow, 0 path changes" in said


def test_sources_that_are_not_allowed_are_not_heard() -> None:
    """Who is not on the list is counted; an address of the network needs a list."""
    process = LabelProcess(settings(allow=["192.0.2.0/24"]), None)
    process.open()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(datagram(PORTS, [START] * 4), ("127.0.0.1", process.port))
        until = time.monotonic() + HANG_SECONDS
        while not process.counts["label_denied_total"] and time.monotonic() < until:
            process.turn()
            process.counts.collect(process)
    assert process.counts["label_denied_total"] == 1
    assert process.table.used == 0
    process.close()
    with pytest.raises(ValidationError, match="without allow"):
        settings(listen="0.0.0.0:7254")
    for wrong in ("7254", "::1:7254", "[::1:7254", "127.0.0.1:70000", "127.0.0.1:"):
        with pytest.raises(ValidationError, match="expected"):
            settings(listen=wrong)
    assert settings(listen="[::1]:7254").listen == "[::1]:7254"


def _worker_keys() -> list[str]:
    from hopscope.detect.counters import INDEX as WORKER

    return list(WORKER)


def test_ages_are_right_after_the_machines_clock_was_put_back(tmp_path: Path) -> None:
    """An hour back: arrivals go on from the time before, readers learn how far ahead that is, so a port that
    was heard of just now is not an hour from the future; and its silence is noticed as before.
    """
    now = Now()
    shift = [0]
    clock = SteadyClock(lambda: now.ns + shift[0], lambda: now.ns)
    path = tmp_path / "registers.region"
    registers = Registers.create(path, PORTS, 50 * MS)
    more = {"registers": str(path), "adaptive": {"mode": "shift", "max_shift": 3}}
    process = LabelProcess(settings(**more), tmp_path, clock=clock)
    process.open()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.connect(("127.0.0.1", process.port))
        received = []
        for step in range(40):
            if step == 10:
                shift[0] = -3600 * 10**9
            now.ns += 20 * MS
            sender.send(datagram(PORTS[:2], [clock()] * 2))
            drive(process, 1)
            received.append(int(process.table._rows["received_ns"][0]))
        steps = np.diff(received)
        assert (steps > 18 * MS).all()
        assert (steps <= 20 * MS).all()
        assert registers.shift.tolist() == [0, 0, 0, 0]
        reader = LabelReader.attach(tmp_path / FILE_NAME)
        assert reader.now() - time.time_ns() == pytest.approx(3600 * 10**9, abs=10**9)
        for copied in (Labels(tmp_path), TrackedFlows(tmp_path)):
            read_ns, _ = copied.copy()
            assert read_ns == pytest.approx(time.time_ns() + 3600 * 10**9, abs=10 * 10**9)
        for _ in range(10):
            now.ns += 20 * MS
            sender.send(datagram(PORTS[:1], [clock()]))
            drive(process, 1)
        assert registers.shift[0] == 0
        assert registers.shift[1] > 0
    process.close()


def test_a_process_that_has_nothing_to_do_waits(tmp_path: Path) -> None:
    """Without labels it turns when something is due, not 2,000 times a second; a datagram wakes it."""
    process = LabelProcess(settings(), tmp_path)
    process.open()
    turns, stop = [0], threading.Event()
    turn = process.turn

    def counted() -> int:
        turns[0] += 1
        taken = turn()
        if taken or turns[0] > 10_000:
            stop.set()
        return taken

    process.turn = counted  # type: ignore[method-assign]
    port = process.port
    thread = threading.Thread(target=process.run, args=(stop,))
    begin = time.monotonic()
    thread.start()
    time.sleep(0.5)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(datagram(PORTS, [START] * 4), ("127.0.0.1", port))
    thread.join()
    assert process.table.taken == 4
    assert turns[0] < 20 + 150 * (time.monotonic() - begin)
