"""Signals that set an event."""

from __future__ import annotations

import os
import signal
import threading

from hopscope.base.process.stop import at_signals
from support.waiting import eventually


def test_a_signal_that_comes_while_the_event_is_locked_sets_it() -> None:
    """`wait` holds the event's lock for a moment: a signal then does not wait for it, and is not lost."""
    stop = threading.Event()
    before = at_signals(stop.set, signal.SIGUSR1)
    try:
        with stop._cond:  # type: ignore[attr-defined]
            os.kill(os.getpid(), signal.SIGUSR1)
            assert not stop.is_set()
        eventually(stop.is_set)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
