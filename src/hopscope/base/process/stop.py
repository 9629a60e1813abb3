"""How a loop learns that it should end, also by a signal."""

from __future__ import annotations

import _thread
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol


class Stop(Protocol):
    """An event of threading or multiprocessing."""

    def is_set(self) -> bool:
        """Whether to stop."""
        ...

    def wait(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds; whether to stop."""
        ...


def at_signals(act: Callable[[], object], *numbers: signal.Signals) -> dict[signal.Signals, Any]:
    """Do this at each of these signals, in a new thread; returns the handlers that were set before.

    A handler itself may interrupt the main thread in `Event.wait`, while that holds the event's lock: `set`
    would then wait for itself.
    """

    def handle(*_: object) -> None:
        with suppress(RuntimeError):  # the interpreter ends
            _thread.start_new_thread(act, ())  # of `threading`, a start takes locks, too

    return {number: signal.signal(number, handle) for number in numbers}
