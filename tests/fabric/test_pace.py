"""Real time, with a clock that the test moves."""

from __future__ import annotations

import numpy as np
import pytest

from hopscope.fabric.pace import BURSTS, MAX_LAG_S, WINDOW, play
from hopscope.fabric.simulation import Simulation, SimulationModel
from hopscope.fabric.topology import LeafSpine
from hopscope.fabric.traffic import TrafficModel
from hopscope.wire.records import FrameBatch

pytestmark = pytest.mark.kernel


class Clock:
    """A clock that moves when somebody sleeps, and by `cost` whenever something is sent."""

    def __init__(self, cost: float = 0.0) -> None:
        self.now, self.cost = 100.0, cost
        self.sent: list[tuple[float, int]] = []

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self.now += seconds

    def send(self, batch: FrameBatch) -> None:
        self.sent.append((self.now, len(batch)))
        self.now += self.cost


def simulation() -> Simulation:
    model = SimulationModel(traffic=TrafficModel(flows=50), reports_per_second=20_000)
    return Simulation(LeafSpine(2, 2), model)


def test_it_keeps_time() -> None:
    """Reports are sent when they are due, in bursts of a fraction of a window, all of them."""
    clock, fabric = Clock(), simulation()
    assert play(fabric, clock.send, 0.2, clock=lambda: clock.now, sleep=clock.sleep) == 0
    assert clock.now == pytest.approx(100.2, abs=WINDOW)
    assert sum(count for _, count in clock.sent) == fabric.truth.reports > 1000
    assert max(count for _, count in clock.sent) < 4 * 20_000 * WINDOW / BURSTS
    gaps = np.diff([when for when, _ in clock.sent])
    assert gaps.min() > 0.9 * WINDOW / BURSTS


def test_a_slow_machine() -> None:
    """Where the machine cannot keep up, the clock is set back; nothing is rushed or left out."""
    clock, fabric = Clock(cost=0.01), simulation()
    slipped = play(fabric, clock.send, 0.3, clock=lambda: clock.now, sleep=clock.sleep)
    assert slipped > MAX_LAG_S
    assert fabric.now == pytest.approx(0.3)
    assert sum(count for _, count in clock.sent) == fabric.truth.reports


def test_it_stops() -> None:
    """Without an end it goes on until it is stopped."""
    clock, fabric = Clock(), simulation()
    play(fabric, clock.send, None, stop=lambda: clock.now > 100.1, clock=lambda: clock.now, sleep=clock.sleep)
    assert fabric.now == pytest.approx(0.1, abs=2 * WINDOW)


def test_pacing_changes_nothing() -> None:
    """What is sent is what one long step gives, each report in the burst of its time."""
    clock, fabric, whole = Clock(), simulation(), simulation()
    sent: list[tuple[float, int, bytes]] = []

    def send(batch: FrameBatch) -> None:
        for frame in batch.frames:
            begin = int(frame["offset"])
            octets = batch.arena[begin : begin + int(frame["length"])].tobytes()
            sent.append((clock.now - 100, int(frame["time_ns"]) - fabric.model.report.epoch_ns, octets))

    play(fabric, send, 0.2, clock=lambda: clock.now, sleep=clock.sleep)
    expected = whole.frames(whole.step(0.2))
    assert len(sent) == len(expected) > 1000
    for (when, time_ns, octets), frame in zip(sent, expected.frames, strict=True):
        begin = int(frame["offset"])
        assert octets == expected.arena[begin : begin + int(frame["length"])].tobytes()
        assert 0 <= when - time_ns / 1e9 <= WINDOW / BURSTS + 1e-6
