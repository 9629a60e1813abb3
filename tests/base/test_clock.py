"""The clock of labels: the machine's, but never back; and how far the machine's was set."""

from __future__ import annotations

import random

import numpy as np

from hopscope.base.clock import CATCH_UP, SETTLE_NS, STEP_NS, ClockSteps, SteadyClock

SECOND = 10**9
HOUR = 3600 * SECOND


class Machine:
    """A machine's two clocks, which the test turns."""

    wall, steady = 1_700_000_000 * SECOND, 5 * SECOND

    def clock(self) -> SteadyClock:
        """Begun now."""
        return SteadyClock(lambda: self.wall, lambda: self.steady)

    def go_on(self, ns: int) -> None:
        """Time passes."""
        self.wall += ns
        self.steady += ns


def test_it_is_the_machines_where_that_goes_on() -> None:
    """Without a step both agree to the ns, however often it is asked; a step forward is followed at once, and
    so is time that only one of the machine's clocks counts, as while it sleeps.
    """
    machine = Machine()
    clock = machine.clock()
    for ns in (0, 1, 7, 15, 16, 17, 1000, SECOND, HOUR):
        machine.go_on(ns)
        assert (clock(), clock.ahead_ns) == (machine.wall, 0)
    machine.wall += HOUR
    assert (clock(), clock.ahead_ns) == (machine.wall, 0)


def test_a_step_back_is_made_good_slowly() -> None:
    """It goes on, a sixteenth slower, and agrees with the machine's after 16 times the step, not before."""
    machine = Machine()
    clock = machine.clock()
    before = clock()
    machine.wall -= HOUR
    assert (clock(), clock.ahead_ns) == (before, HOUR)
    machine.go_on(SECOND)
    assert clock() == before + SECOND - SECOND // CATCH_UP - (SECOND % CATCH_UP > 0)
    machine.go_on(CATCH_UP * HOUR - 2 * SECOND)
    clock()
    assert clock.ahead_ns > 0
    machine.go_on(SECOND)
    assert (clock(), clock.ahead_ns) == (machine.wall, 0)


def test_it_never_goes_back_and_processes_agree() -> None:
    """Whatever steps there are: no time is less than the one before, or less than the machine's; durations
    are short by a sixteenth at most; a clock that is begun after the steps is behind by no more than is still
    to be made good.
    """
    rng = random.Random(6)
    machine = Machine()
    clock = machine.clock()
    times, steady = [clock()], [machine.steady]
    for _ in range(2000):
        machine.go_on(rng.choice([0, 1, 1000, 10**6, SECOND]))
        if rng.random() < 0.05:
            machine.wall += rng.randint(-5 * SECOND, 2 * SECOND)
        times.append(clock())
        steady.append(machine.steady)
        assert times[-1] >= machine.wall
        assert times[-1] - machine.clock()() == clock.ahead_ns
    passed, real = np.diff(times), np.diff(steady)
    assert (passed >= 0).all()
    assert (passed >= real - -(-real // CATCH_UP)).all()


def test_steps_are_found_and_counted_once() -> None:
    """Forward and back, each once it has settled; two within that time are one, and none if they cancel."""
    machine = Machine()
    steps = ClockSteps(lambda: machine.wall, lambda: machine.steady)
    for step in (HOUR, -HOUR, STEP_NS, -STEP_NS, 365 * 24 * HOUR):
        assert steps.take() == 0
        machine.wall += step
        for _ in range(SETTLE_NS // (SECOND // 10)):
            assert steps.take() is None
            machine.go_on(SECOND // 10)
        assert steps.take() == step
    for second, total in ((HOUR, 2 * HOUR), (-HOUR, 0)):
        machine.wall += HOUR
        assert steps.take() is None
        machine.wall += second
        assert steps.take() is None
        machine.go_on(SETTLE_NS)
        assert steps.take() == total


def test_a_clock_that_runs_faster_or_is_late_is_no_step() -> None:
    """As NTP makes it, or if the process stands still, or sleeps with the machine."""
    machine = Machine()
    steps = ClockSteps(lambda: machine.wall, lambda: machine.steady)
    for _ in range(100):
        machine.go_on(HOUR)
        machine.wall += STEP_NS - 1
        assert steps.take() == 0
