"""The loop of every process that receives: turns, a pause after little work, then drain and close."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from .stop import Stop


class Process(Protocol):
    """What a loop runs."""

    def turn(self) -> int:
        """Process what has arrived, without waiting; returns its amount."""

    def drain(self) -> None:
        """Take what the sockets still hold; new work may keep coming."""

    def close(self) -> None:
        """Finish what was taken, and close."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Sleeps after a turn with little work, so that frames are processed together."""

    seconds: float
    below: int
    """Turns that found less than this are followed by a pause."""

    def __call__(self, found: int) -> None:
        """Sleep, unless enough was found."""
        if found < self.below:
            time.sleep(self.seconds)


class Timer:
    """A timer that is due every `period_ns`, on the clock of its caller."""

    def __init__(self, period_ns: int, due_ns: int = 0) -> None:
        self.period_ns, self.due_ns = period_ns, due_ns

    def __call__(self, now_ns: int) -> bool:
        """Whether it is due; then it is due again a period from now."""
        if now_ns < self.due_ns:
            return False
        self.due_ns = now_ns + self.period_ns
        return True


def run(process: Process, stop: Stop, idle: Callable[[int], object]) -> None:
    """Turn until `stop` is set, then drain; close in any case. `idle` gets what each turn found."""
    try:
        while not stop.is_set():
            idle(process.turn())
        process.drain()
    finally:
        process.close()


def drain(turn: Callable[[], int], seconds: float) -> None:
    """Turn until nothing is found, for at most `seconds`."""
    until = time.monotonic() + seconds
    while turn() and time.monotonic() < until:
        pass
