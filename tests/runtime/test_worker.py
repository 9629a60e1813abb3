"""How a worker reads a listener whose dialect is open."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hopscope.capture.sockets import bind_share
from hopscope.capture.udp.listener import UdpListener, UdpSender
from hopscope.detect.merge import Merge
from hopscope.runtime import processes
from hopscope.runtime.pipeline.mode import Collector
from hopscope.runtime.processes.detector import Detector
from hopscope.runtime.processes.worker import (
    EVIDENCE_NS,
    RING_DELAY_NS,
    Receiver,
    Worker,
    dialects_of,
    listener_of,
    run,
)
from hopscope.settings.collector import Settings
from hopscope.settings.listen import ListenSettings
from hopscope.wire.dialect import DIALECTS
from hopscope.wire.encode.encoder import encode_reports, new_hops, new_reports
from hopscope.wire.records import FRAME, FrameBatch, Link, ReportBatch

pytestmark = pytest.mark.kernel


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def receiver(told: list[str]) -> Receiver:
    listen = ListenSettings(dialect="auto", port=7)
    return Receiver(listener_of(listen, 0), dialects_of(listen, Collector(Settings())), told.append)


def reports(count: int) -> FrameBatch:
    """Reports 2.0 with two hops each, as datagrams' payloads in an arena of the listener's."""
    rows, hops = new_reports(count), new_hops(2 * count, 0xE000)
    rows["int_version"], rows["instructions"], rows["hop_count"] = 20, 0xE000, 2
    rows["first_hop"] = np.arange(count) * 2
    rows["flags"] = 4
    hops["node_id"] = np.tile([1, 2], count)
    return encode_reports(ReportBatch(rows, hops), link=Link.UDP_PAYLOAD)


def payloads(found: Iterator[tuple[FrameBatch, object]]) -> tuple[list[bytes], set[object]]:
    """Bytes of all frames, and the dialects that they are read with."""
    frames, dialects = [], set()
    for batch, dialect in found:
        dialects.add(dialect)
        frames += [
            batch.arena[int(one["offset"]) : int(one["offset"]) + int(one["length"])].tobytes()
            for one in batch.frames
        ]
    return frames, dialects


def test_time_does_not_run_ahead_of_a_ring() -> None:
    """A ring shows frames up to 50 ms late: until then, time is that of the newest frame, so postcards that
    are still in a block of it are not late. A socket shows them at once.
    """
    for kind, lag_ns in (("ring", 30_000_000), ("udp", 0)):
        ticks, came = list[int](), reports(2)
        steps: Any = SimpleNamespace(
            tick=lambda now_ns, _, ticks=ticks: ticks.append(now_ns),
            step=lambda *_, **__: None,
            count=lambda *_: None,
            counted=SimpleNamespace(collect=lambda _: None),
        )
        settings = ListenSettings.model_validate({"kind": kind, "interface": "lo" if kind == "ring" else ""})
        listener: Any = SimpleNamespace(settings=settings, receive=lambda came=came: came, counts=dict)
        worker: Any = Worker(steps)
        worker.receivers.append(Receiver(listener, (DIALECTS["spec"],), print))
        worker._tick = lambda _: True
        before = time.time_ns()
        came.frames["time_ns"] = before - 30_000_000
        worker.turn()
        assert before - lag_ns <= ticks[0] <= time.time_ns() - lag_ns, kind
        came.frames["time_ns"] = before - 10**9
        worker.turn()
        assert ticks[1] >= before - (RING_DELAY_NS if kind == "ring" else 0), "nothing came for a second"


def test_enough_reports_decide_at_once(receiver: Receiver, told: list[str]) -> None:
    """64 reports decide; all of them are handed on, with the dialect, which is told once and kept."""
    batch = reports(70)
    sent, _ = payloads(iter([(batch, None)]))
    got, dialects = payloads(receiver.take(batch, 0))
    assert got == sent
    assert dialects == {DIALECTS["spec"]}
    assert receiver.dialect == DIALECTS["spec"]
    assert told[0].startswith("udp://127.0.0.1:7: dialect auto: spec, which reads 64 reports with 128 hops")
    before = len(told)
    assert [dialect for _, dialect in receiver.take(reports(1), 1)] == [DIALECTS["spec"]]
    assert len(told) == before


def test_few_reports_wait_a_second_in_a_copy(receiver: Receiver) -> None:
    """Fewer reports wait for more; the receiver's arena may be used again meanwhile."""
    batch = reports(3)
    batch.arena = batch.arena.copy()
    sent, _ = payloads(iter([(batch, None)]))
    assert list(receiver.take(batch, 10)) == []
    batch.arena[:] = 0
    assert list(receiver.take(None, 10 + EVIDENCE_NS - 1)) == []
    got, dialects = payloads(receiver.take(None, 10 + EVIDENCE_NS))
    assert got == sent
    assert dialects == {DIALECTS["spec"]}


def test_the_end_settles(receiver: Receiver) -> None:
    """What is held when the worker stops is handed on."""
    assert list(receiver.take(reports(3), 0)) == []
    assert sum(len(batch) for batch, _ in receiver.settle()) == 3
    assert list(receiver.settle()) == []


def test_ordinary_traffic_decides_nothing_and_costs_little(told: list[str]) -> None:
    """On a mirror port without telemetry, later packets are asked again, after pauses that grow."""
    listen = ListenSettings(kind="mirror", interface="lo", dialect="auto")
    possible = dialects_of(listen, Collector(Settings()))
    assert all(dialect.packets for dialect in possible)
    receiver = Receiver(listener_of(listen, 0), possible, told.append)
    frames = np.zeros(5, FRAME)
    frames["length"], frames["link"] = 60, Link.ETHERNET
    batch = FrameBatch(np.zeros(60, np.uint8), frames)
    now, asked = 0, []
    while now < 60 * EVIDENCE_NS:
        if not list(receiver.take(batch, now)):
            asked.append(now)
        now += EVIDENCE_NS // 4
    assert receiver.dialect is None
    assert told == []
    assert len(asked) < 30


def test_a_step_of_the_clock_is_handed_on() -> None:
    """With the first tick after it has settled; until then there is none."""
    ticks: list[int] = []
    steps: Any = SimpleNamespace(
        tick=lambda _, step_ns: ticks.append(step_ns), counted=SimpleNamespace(collect=lambda _: None)
    )
    worker: Any = Worker(steps)
    detector: Any = Detector(steps, Merge([]))
    for process in (worker, detector):
        process._tick = lambda _: True
        process._clock = SimpleNamespace(take=iter([0, None, 5, 0]).__next__)
        process._take = lambda: 0
        for _ in range(4):
            process.turn()
        assert ticks == [0, 5, 0]
        ticks.clear()


def test_a_worker_that_is_ended_before_it_has_sockets(tmp_path: Path) -> None:
    """It ends without an error: the program stops while it starts."""
    stop = threading.Event()
    stop.set()
    child = SimpleNamespace(
        settings=Settings(data=tmp_path), index=0, data=tmp_path, regions=tmp_path, stop=stop, started=False,
        listeners=[], released=threading.Event(), bypass=None, sockets=list, shares=[],
        **dict.fromkeys(("report", "notify", "warn"), lambda *_, **__: None),
    )  # fmt: skip
    run(child)  # type: ignore[arg-type]
    assert child.started


def test_a_sink_that_stops_waits_for_what_its_ring_does_not_show_yet() -> None:
    """A frame that came before the stop, in a block that the kernel hands over later, is still forwarded."""
    stopped: list[float] = []
    shown = iter([FrameBatch(np.zeros(64, np.uint8), np.zeros(1, FRAME))])
    forwarded: list[int] = []

    def receive() -> FrameBatch | None:
        return next(shown, None) if time.monotonic() > stopped[0] + RING_DELAY_NS / 2e9 else None

    forward = SimpleNamespace(
        stop=lambda: stopped.append(time.monotonic()), beat=lambda: None, flush=lambda: None
    )
    receiver = SimpleNamespace(
        forward=forward, receive=receive, late=True, detaches=False, dialect=DIALECTS["spec"], source=None,
        heads=False, counts=Counter, settle=list, take=lambda batch, _: [(batch, DIALECTS["spec"])],
        listener=SimpleNamespace(finish=lambda: None),
    )  # fmt: skip
    steps = SimpleNamespace(
        step=lambda frames, *_, **__: forwarded.append(len(frames)), count=lambda *_: None,
        tick=lambda *_: None, counted=SimpleNamespace(collect=lambda _: None),
    )  # fmt: skip
    worker = Worker(steps)  # type: ignore[arg-type]
    worker.receivers.append(receiver)  # type: ignore[arg-type]
    worker.drain()
    assert forwarded == [1]


def test_a_worker_that_stops_under_load_leaves_nothing_that_it_has_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A receive call may take more datagrams than one turn: what it took is processed, also past the time to
    drain, and the rest stays in the socket for the next process.
    """
    monkeypatch.setattr(processes.worker, "DRAIN_SECONDS", 0.0)
    listen = ListenSettings(port=0)
    with bind_share(listen) as handle:
        receiver = Receiver(listener_of(listen, 0, handle.dup()), (DIALECTS["spec"],), print, heads=False)
        receiver.listener.open()
        sender = UdpSender("127.0.0.1", handle.getsockname()[1])
        sent = sender.send(reports(40 * 200))
        sender.close()
        taken: list[int] = []
        steps = SimpleNamespace(
            step=lambda frames, *_, **__: taken.append(len(frames)), count=lambda *_: None,
            tick=lambda *_: None, counted=SimpleNamespace(collect=lambda _: None), close=lambda: None,
        )  # fmt: skip
        worker = Worker(steps)  # type: ignore[arg-type]
        worker.receivers.append(receiver)
        worker.drain()
        worker.close()
        left = UdpListener(listen, sock=handle)
        left.open()
        rest = 0
        while (batch := left.receive()) is not None:
            rest += len(batch)
    assert sum(taken) + rest == sent
    assert len(taken) > 1, "one turn takes all: nothing was proven"
