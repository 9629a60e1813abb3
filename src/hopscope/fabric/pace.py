"""Play a simulation in real time, in small bursts."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from ..wire.records import FrameBatch
from .simulation import Simulation

WINDOW = 0.005
"""Simulated seconds per step."""
BURSTS = 4
"""Bursts per window, so that no receiver's buffer has to hold a whole window."""
MAX_LAG_S = 0.5
"""At this lag (s) the clock is set back, since a long rush would only lose reports."""


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

    When late it sends at up to three times the speed. Returns the seconds by which the clock was set back.
    """
    begin = clock() - simulation.now
    first, number, slipped = simulation.now, 0, 0.0
    while not stop():
        number += 1
        until = first + number * WINDOW
        if seconds is not None and until > first + seconds + WINDOW / 2:
            break
        frames = simulation.frames(simulation.step(until), port=port)
        cuts = np.linspace(0, len(frames), BURSTS + 1).astype(int)
        for burst in range(BURSTS):
            due = begin + until - WINDOW + (burst + 1) * WINDOW / BURSTS
            late = clock() - due
            if late > MAX_LAG_S:
                begin, slipped = begin + late, slipped + late
            sleep(max(-late, WINDOW / BURSTS / 3))
            if cuts[burst + 1] > cuts[burst]:
                part = frames.frames[cuts[burst] : cuts[burst + 1]]
                send(FrameBatch(frames.arena, part, frames.first_packet + int(cuts[burst])))
    return slipped
