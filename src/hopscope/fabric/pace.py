"""Plays a simulation in real time, in small bursts."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from ..wire.records import FrameBatch
from .simulation import Simulation

WINDOW = 0.02
"""Simulated seconds per step; not shorter, since most of the time of a short step is spent in calls."""
BURSTS = 8
"""Number of bursts in a window, so that a receiver need not buffer a whole window."""
MAX_LAG_S = 0.5
"""At this lag (s), the clock is set back, since a long rush would only lose reports."""


def play(
    simulation: Simulation,
    send: Callable[[FrameBatch], object],
    seconds: float | None,
    *,
    port: int = 32766,
    stop: Callable[[], bool] = lambda: False,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> float:
    """Run a simulation for `seconds` (None: unlimited), sending reports when they are due, until `stop()`.

    When late, it sends at up to three times the speed. Returns the seconds by which the clock was set back.
    """
    begin = clock() - simulation.now
    first, number, slipped = simulation.now, 0, 0.0
    while not stop():
        number += 1
        until = first + number * WINDOW
        if seconds is not None and until > first + seconds + WINDOW / 2:
            break
        frames = simulation.frames(simulation.step(until), port=port)
        cuts = _cuts(simulation, frames, until)
        for burst in range(BURSTS):
            due = begin + until - WINDOW + (burst + 1) * WINDOW / BURSTS
            late = clock() - due
            if late > MAX_LAG_S:
                begin, slipped = begin + late, slipped + late
            sleep(max(-late, WINDOW / BURSTS / 3))
            if cuts[burst + 1] > cuts[burst]:
                part = frames.frames[cuts[burst] : cuts[burst + 1]]
                send(FrameBatch(frames.arena, part, frames.first_packet + cuts[burst]))
    return slipped


def _cuts(simulation: Simulation, frames: FrameBatch, until: float) -> list[int]:
    """Frame at which each burst of a window begins, and the end: a frame is in the burst of its time."""
    begin = simulation.model.report.epoch_ns + round((until - WINDOW) * 1e9)
    edges = begin + np.arange(1, BURSTS) * round(WINDOW / BURSTS * 1e9)
    return [0, *np.searchsorted(frames.frames["time_ns"], edges).tolist(), len(frames)]
