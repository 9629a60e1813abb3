"""A process that runs until Ctrl-C: its progress line and its final counters."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ...base.process.service import Service
from ...base.process.stop import at_signals

if TYPE_CHECKING:
    from ...base.counter import Counter
    from ...runtime.direct.nic import NicProcess
    from ...runtime.direct.translator import TranslatorProcess

PRINT_SECONDS = 1.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def until_stopped() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set."""
    stop = threading.Event()
    before = at_signals(stop.set, signal.SIGINT, signal.SIGTERM)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def interruptible() -> Iterator[None]:
    """Have SIGTERM and SIGHUP act like Ctrl-C; only the first signal raises KeyboardInterrupt."""

    def end(*_: object) -> None:
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)  # a second signal must not interrupt the cleanup
        raise KeyboardInterrupt

    before = {number: signal.signal(number, end) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def progress(count: Callable[[], int], what: str, stop: threading.Event) -> Iterator[None]:
    """Show a count and its rate on one line of a terminal, every second; print nothing elsewhere."""
    if not sys.stderr.isatty():
        yield
        return
    done = threading.Event()

    def report() -> None:
        before, since = count(), time.monotonic()
        while not done.wait(PRINT_SECONDS):
            now, moment = count(), time.monotonic()
            rate = (now - before) / (moment - since)
            print(f"\r{now:,} {what}, {rate:,.0f}/s   ", end="", file=sys.stderr, flush=True)
            before, since = now, moment
            if stop.is_set():
                break

    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        print("\r\033[K", end="", file=sys.stderr, flush=True)


def run_counted(
    process: NicProcess | TranslatorProcess,
    counters: Sequence[Counter],
    shown: str,
    what: str,
    stop: threading.Event,
    notify: Callable[[str], object],
) -> None:
    """Run an open process until `stop` with the progress of the counter `shown`, then print all counters.

    `notify` gets a line for the log.
    """
    for note in process.notes():
        notify(note)
    service = Service()
    service.ready()
    with progress(lambda: process.counted[shown], what, stop):
        process.run(service.watched(stop))
    print_counters(
        {counter.key: process.counted[counter.key] for counter in counters},
        {counter.key: counter.help for counter in counters},
    )


def print_counters(counts: Mapping[str, int], help_of: Mapping[str, str]) -> None:
    """Print nonzero counters with their meaning on stderr."""
    shown = {key: count for key, count in counts.items() if count}
    width = max((len(f"{count:,}") for count in shown.values()), default=1)
    for key, count in shown.items():
        name, _, label = key.partition(".")
        print(f"{count:>{width},}  {name}{f' {label}' if label else ''}: {help_of[key]}", file=sys.stderr)
    if not shown:
        print("nothing received", file=sys.stderr)
