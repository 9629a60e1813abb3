"""The loop of every process that receives: turns, a pause after little work, then drain and close."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from ..kernel_cache import loaded
from ..log import logger
from .stop import Stop

DOZE_SECONDS = 0.02
"""Longest such wait: the process has other things to look at."""
SHORTEST_SECONDS = 0.0005
"""Shortest sleep of a process that gathers."""
QUICK_SECONDS = 0.0025
"""Sleep of a process that gathers, while little arrives: what a batch costs hardly matters then, and events
come sooner."""
_late = 0


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


@dataclass(slots=True)
class Gather:
    """Sleeps as long as `amount` took to arrive of late, so that so much is processed together; if even
    `longest` is too short for that, less and less long: QUICK_SECONDS while little arrives.
    """

    amount: int
    enough: int
    """After a turn that found so much there is no sleep: more may wait already. If `longest` brings less, the
    sleep is shorter."""
    longest: float
    """Seconds."""
    _seconds: float = SHORTEST_SECONDS
    _found: int = 0

    def __call__(self, found: int) -> None:
        """Sleep, unless enough was found."""
        self._found += found
        if found >= self.enough:
            return
        rate = self._found / self._seconds
        if rate * self.longest < self.amount:
            quick = min(QUICK_SECONDS, self.longest)
            self._seconds = quick + (self.longest - quick) * min(1.0, rate * self.longest / self.enough)
        else:
            self._seconds = max(self.amount / rate, SHORTEST_SECONDS)
        self._found = 0
        time.sleep(self._seconds)


@dataclass(frozen=True, slots=True)
class Hurry:
    """A short pause while something is under way, else a longer one."""

    under_way: Callable[[], bool]
    short: Callable[[int], object]
    long: Callable[[int], object]

    def __call__(self, found: int) -> None:
        """Pause."""
        (self.short if self.under_way() else self.long)(found)


@dataclass(slots=True)
class Doze:
    """A pause that waits for sockets after a turn without work: a process without traffic takes hardly any
    time, and one with little traffic takes what comes at once.
    """

    pause: Callable[[int], object]
    files: Callable[[], Iterable[int]]
    """Descriptors of the sockets."""
    longest: float = DOZE_SECONDS
    """Seconds."""
    _woken: bool = False

    def __call__(self, found: int) -> None:
        """Pause; without work wait until something arrives, for `longest` at most."""
        if found or self._woken:  # what wakes without giving work would turn it at once
            self._woken = False
            self.pause(found)
            return
        sockets = select.poll()
        for file in self.files():
            sockets.register(file, select.POLLIN)
        self._woken = bool(sockets.poll(1000 * self.longest))


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
    """Turn until `stop` is set, then drain; close in any case. `idle` gets what each turn found.

    No turn should call a kernel for the first time, since frames wait while it is compiled or loaded: such
    kernels are counted (`late_kernels`) and logged.
    """
    global _late
    known, _late = len(loaded), 0
    earlier = set(loaded)
    try:
        while not stop.is_set():
            found = process.turn()
            if len(loaded) != known:
                known = len(loaded)
                _note_late(earlier)
            idle(found)
        process.drain()
        _note_late(earlier)
    finally:
        process.close()


def late_kernels() -> int:
    """Kernels that turns of this process's loop called for the first time."""
    return _late


def _note_late(earlier: set[str]) -> None:
    """Count and log the kernels that were loaded since `earlier`, which is brought up to date."""
    global _late
    new = sorted(name for name in loaded - earlier if name.endswith(".entry"))
    earlier |= loaded
    _late += len(new)
    for name in new:
        kernel = ".".join(name.split("/")[-3::2]).rpartition("-")[0]
        logger("loop").warning("frames waited for a kernel that was not warmed up", kernel=kernel)


def drain(turn: Callable[[], int], seconds: float, least: float = 0.0) -> None:
    """Turn until nothing is found, for at least `least` and at most `seconds`."""
    begun = time.monotonic()
    while (found := turn()) or time.monotonic() < begun + least:
        if time.monotonic() >= begun + seconds:
            break
        if not found:
            time.sleep(0.001)
