"""One time limit over all that has to be done for an answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")
_late: list[threading.Thread] = []
"""Threads whose call had not come back in time."""


class Deadline:
    """`seconds` from `begin` on; it may begin again, for another question."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._until = 0.0
        self.begin()

    def begin(self) -> None:
        """Its time starts now."""
        self._until = time.monotonic() + self.seconds

    def left(self, share: float = 1.0) -> float:
        """Seconds of it that are left, or that share of them; not below 0."""
        return max(0.0, share * (self._until - time.monotonic()))


def started(work: Callable[[], T], seconds: float) -> Future[T]:
    """`work`, begun in a thread of its own and awaited for `seconds`; what is not done then goes on there,
    since nothing ends a call of a library that waits.
    """
    found: Future[T] = Future()

    def run() -> None:
        try:
            found.set_result(work())
        except BaseException as error:
            found.set_exception(error)

    thread = threading.Thread(target=run, name="awaited", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        _late[:] = [*(each for each in _late if each.is_alive()), thread]
    return found


def any_late() -> bool:
    """Whether a call of `started` has not come back yet: Python must not end by itself then, since libraries
    abort the process that they wait in.
    """
    return any(thread.is_alive() for thread in _late)
