"""Logs: for people on a terminal, JSON lines otherwise; a line that repeats is held back and counted."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import MutableMapping
from contextlib import suppress
from typing import Any, TextIO, cast

import structlog

REPEATS = 5
"""Times that one message is logged in a period."""
PERIOD_SECONDS = 10.0


class _Limit:
    """Processor that drops a message's repetitions and says with the next one how many there were."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        self._count: dict[str, int] = {}

    def __call__(self, logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        key = str(event.get("event"))
        now = time.monotonic()
        if now - self._since.get(key, -PERIOD_SECONDS) >= PERIOD_SECONDS:
            held_back = self._count.get(key, 0) - REPEATS
            self._since[key], self._count[key] = now, 0
            if held_back > 0:
                event["repeated"] = held_back
        self._count[key] += 1
        if self._count[key] > REPEATS:
            raise structlog.DropEvent
        return event


class _Unfailing:
    """A stream whose reader may be gone: what cannot be told must not end the thread that tells it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        with suppress(OSError, ValueError):
            self._stream.write(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._stream.flush()


def configure(stream: TextIO | None = None) -> None:
    """Set up logging of this process, to stderr by default."""
    stream = stream or sys.stderr
    people = stream.isatty()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="%H:%M:%S" if people else "iso", utc=not people),
            _Limit(),
            structlog.dev.ConsoleRenderer(pad_event_to=0) if people else structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(cast("TextIO", _Unfailing(stream))),
        cache_logger_on_first_use=True,
    )


def logger(room: str) -> Any:
    """The logger of a room or process; `configure` has been called."""
    return structlog.get_logger(room=room)
