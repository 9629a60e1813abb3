"""How a loop learns that it should stop, also by a signal."""

from __future__ import annotations

import _thread
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol


class Stop(Protocol):
    """An event of `threading` or `multiprocessing`, whose setting ends a loop."""

    def is_set(self) -> bool:
        """Whether to stop."""
        ...

    def wait(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds; returns whether to stop."""
        ...


def at_signals(act: Callable[[], object], *numbers: signal.Signals) -> dict[signal.Signals, Any]:
    """Call `act` at each of these signals, in a new thread; returns the previous handlers.

    A signal handler may interrupt the main thread in `Event.wait`, while it holds the lock of the event;
    calling `set` in the handler would then wait forever.
    """

    def handle(*_: object) -> None:
        with suppress(RuntimeError):  # the interpreter is ending
            _thread.start_new_thread(act, ())  # starting a thread of `threading` takes locks, too

    return {number: signal.signal(number, handle) for number in numbers}
