"""Logging: human-readable on a terminal, JSON lines otherwise; repeated messages are suppressed.

Level and format can be changed while a process runs, because all loggers share one list of processors.
"""

from __future__ import annotations

import logging
import re
import sys
import time
from collections.abc import MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO, cast

if "rich" in sys.modules:
    import structlog
else:
    sys.modules["rich"] = None  # type: ignore[assignment]  # structlog, which prints no traceback here,
    import structlog  # would import it to print them: 0.1 s

    del sys.modules["rich"]

from .errors import described

REPEATS = 5
"""How often the same message is logged within PERIOD_SECONDS."""
PERIOD_SECONDS = 10.0
LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("auto", "text", "json")
_NUMBER = re.compile(r"0x[0-9a-f]+|\d+")
MAX_LIBRARY_TEXT = 1000
"""Longest message from a library, in characters."""


class _AtLeast:
    """A processor that drops messages below a level."""

    def __init__(self, level: str) -> None:
        self._dropped = set(LEVELS[: LEVELS.index(level)])

    def __call__(self, logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        if method in self._dropped:
            raise structlog.DropEvent
        return event


class _Limit:
    """A processor that drops repetitions of a message; the next message that is logged states their number.
    `repeats`: a key that identifies repetitions instead of the message; `at_most`: how many are logged within
    a period instead of REPEATS.
    """

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        self._count: dict[str, int] = {}

    def __call__(self, logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        key, most = str(event.pop("repeats", event.get("event"))), int(event.pop("at_most", REPEATS))
        now = time.monotonic()
        if now - self._since.get(key, -PERIOD_SECONDS) >= PERIOD_SECONDS:
            suppressed = self._count.get(key, 0) - most
            self._since[key], self._count[key] = now, 0
            if suppressed > 0:
                event["repeated"] = suppressed
        self._count[key] += 1
        if self._count[key] > most:
            raise structlog.DropEvent
        return event


class _Library(logging.Handler):
    """Logs messages of libraries, in one line each. Without it, Python would print them with tracebacks and
    without a limit.
    """

    def emit(self, record: logging.LogRecord) -> None:
        text = " ".join(record.getMessage().split())
        if record.exc_info and (error := record.exc_info[1]):
            text += f": {with_place(error)}"
        level = logging.getLevelName(record.levelno).lower()
        log = getattr(logger(record.name), level, logger(record.name).warning)
        log(text[:MAX_LIBRARY_TEXT], repeats=_NUMBER.sub("0", str(record.msg)))  # asyncio's have times


def with_place(error: BaseException) -> str:
    """The message of an error, and where it was raised, if that is known."""
    place = raised_at(error)
    return f"{described(error)} ({place})" if place else described(error)


def raised_at(error: BaseException) -> str:
    """File and line that raised an error; empty if unknown."""
    at = error.__traceback__
    if at is None:
        return ""
    while at.tb_next is not None:
        at = at.tb_next
    return f"{Path(at.tb_frame.f_code.co_filename).name}:{at.tb_lineno}"


class _SafeStream:
    """A stream that ignores errors: if its reader has ended, the thread that logs must not end too."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        with suppress(OSError, ValueError):
            self._stream.write(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._stream.flush()


def _ordered(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Put the keys that every line has first, beginning with the timestamp."""
    return {key: event.pop(key) for key in ("timestamp", "level", "component", "event")} | dict(event)


_LIBRARIES = _Library()
_PROCESSORS: list[Any] = []


def configure(stream: TextIO | None = None, *, level: str = "info", form: str = "auto") -> None:
    """Set up logging for this process, to stderr by default. It may be called again to change level and
    format.

    The level `debug` also shows messages of libraries. The format is `text`, `json`, or `auto` (text on a
    terminal).
    """
    stream = stream or sys.stderr
    root = logging.getLogger()
    if _LIBRARIES not in root.handlers:
        root.addHandler(_LIBRARIES)
    root.setLevel(logging.INFO if level == "debug" else logging.WARNING)
    # httpx logs addresses, and that of a webhook is a secret
    logging.getLogger("httpx").setLevel(logging.WARNING)
    text = stream.isatty() if form == "auto" else form == "text"
    _PROCESSORS[:] = [
        _AtLeast(level),
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="%H:%M:%S" if text else "iso", utc=not text),
        _Limit(),
        _ordered,
        structlog.dev.ConsoleRenderer(pad_event_to=0, colors=stream.isatty())
        if text
        else structlog.processors.JSONRenderer(),
    ]
    structlog.configure(
        processors=_PROCESSORS,
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        logger_factory=structlog.PrintLoggerFactory(cast("TextIO", _SafeStream(stream))),
        cache_logger_on_first_use=True,
    )


def logger(component: str) -> Any:
    """The logger of a component; `configure` must have been called."""
    return structlog.get_logger(component=component)
