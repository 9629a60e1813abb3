"""The loop of every process that receives: turns with a pause after little work, and at the end drain and
close.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from ..kernels.kernel_cache import loaded
from ..log import logger
from .stop import Stop

DOZE_SECONDS = 0.02
"""Longest wait for sockets, since the process has other things to check."""
SHORTEST_SECONDS = 0.0005
"""Shortest sleep of `Gather`."""
QUICK_SECONDS = 0.0025
"""Sleep of `Gather` while little arrives. Then the cost of a batch hardly matters, and events should come
soon.
"""
_late = 0


class Process(Protocol):
    """The work that a loop runs."""

    def turn(self) -> int:
        """Process what has arrived, without waiting; returns its amount."""

    def drain(self) -> None:
        """Take everything that sockets still hold; new work may keep arriving meanwhile."""

    def close(self) -> None:
        """Finish the work that was taken, and close."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Sleeps after a turn with little work, so that frames are processed together."""

    seconds: float
    below: int
    """A pause follows turns that found less than this."""

    def __call__(self, found: int) -> None:
        """Sleep, unless enough was found."""
        if found < self.below:
            time.sleep(self.seconds)


@dataclass(slots=True)
class Gather:
    """Sleeps for as long as `amount` recently took to arrive, so that this amount is processed together. If
    less than that arrives within `longest`, it sleeps for a shorter time, down to QUICK_SECONDS while little
    arrives.
    """

    amount: int
    enough: int
    """After a turn that found this much, there is no sleep, since more may already be waiting. If less
    arrives within `longest`, the sleep is shorter."""
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
class BusyPause:
    """Makes a short pause while something is under way, else a longer one."""

    under_way: Callable[[], bool]
    short: Callable[[int], object]
    long: Callable[[int], object]

    def __call__(self, found: int) -> None:
        """Pause."""
        (self.short if self.under_way() else self.long)(found)


@dataclass(slots=True)
class IdleWait:
    """A pause that waits for sockets after a turn without work, so that a process without traffic uses hardly
    any CPU time, and a process with little traffic reacts at once.
    """

    pause: Callable[[int], object]
    files: Callable[[], Iterable[int]]
    """Descriptors of the sockets."""
    longest: float = DOZE_SECONDS
    """Seconds."""
    before: Callable[[], object] | None = None
    """Called before it waits for sockets."""
    _woken: bool = False

    def __call__(self, found: int) -> None:
        """Pause; if there was no work, wait until something arrives, for at most `longest`."""
        if found or self._woken:  # a socket may wake it without giving work, again and again
            self._woken = False
            self.pause(found)
            return
        if self.before is not None:
            self.before()
        sockets = select.poll()
        for file in self.files():
            sockets.register(file, select.POLLIN)
        self._woken = bool(sockets.poll(1000 * self.longest))


class Timer:
    """A timer that is due every `period_ns`, on the clock of its caller."""

    def __init__(self, period_ns: int, due_ns: int = 0) -> None:
        self.period_ns, self.due_ns = period_ns, due_ns

    def __call__(self, now_ns: int) -> bool:
        """Whether it is due; if so, it is due again a period from now."""
        if now_ns < self.due_ns:
            return False
        self.due_ns = now_ns + self.period_ns
        return True


def run(process: Process, stop: Stop, idle: Callable[[int], object]) -> None:
    """Turn until `stop` is set, then drain; close in any case. `idle` is called with the amount that each
    turn found.

    No turn should call a kernel for the first time, since frames would wait while it is compiled or loaded;
    such kernels are counted (`late_kernels`) and logged.
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
    """Number of kernels that turns of this process's loop called for the first time."""
    return _late


def _note_late(earlier: set[str]) -> None:
    """Count and log the kernels that are loaded but not in `earlier`, and add them to it."""
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
