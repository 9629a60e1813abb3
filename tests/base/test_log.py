"""Logging never ends who logs."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from types import SimpleNamespace

import httpx
import pytest
import structlog

from hopscope.base.log import REPEATS, configure, logger


@pytest.fixture(autouse=True)
def defaults() -> Iterator[None]:
    """Other tests find logging as it was."""
    handlers = logging.getLogger().handlers.copy()
    yield
    logging.getLogger().handlers = handlers
    structlog.reset_defaults()


def test_a_stream_that_is_gone() -> None:
    """A line is written as long as somebody reads; afterwards it is lost, and nothing else."""
    stream = io.StringIO()
    configure(stream)
    log = logger("here")
    log.warning("first")
    assert '"event": "first"' in stream.getvalue()
    stream.close()
    log.warning("second")


def test_a_line_of_json() -> None:
    """The timestamp comes first, then level, component and event, then what the event is about."""
    stream = io.StringIO()
    configure(stream)
    logger("here").info("restarting", process="worker-0")
    line = json.loads(stream.getvalue())
    assert list(line) == ["timestamp", "level", "component", "event", "process"]
    assert (line["level"], line["component"], line["event"]) == ("info", "here", "restarting")


def test_libraries_are_logged_in_single_lines_at_a_bounded_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of a library is one line without its traceback, and a flood of them is a handful of lines in
    each period, also if each has a time or an address.
    """
    monkeypatch.setattr("hopscope.base.log.time", SimpleNamespace(monotonic=lambda: 1.0))
    stream = io.StringIO()
    configure(stream)
    library = logging.getLogger("asyncio")
    for when in range(1000):
        library.error(f"Exception in callback <TimerHandle when={when / 7} at {id(stream) + when:#x}>")
    assert len(stream.getvalue().splitlines()) == REPEATS
    stream.seek(0)
    stream.truncate()
    for _ in range(1000):
        try:
            raise OSError(24, "Too many open files")
        except OSError:
            library.exception("socket.accept() out of system resource\nsocket: %s", id(stream))
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert len(lines) == REPEATS
    assert lines[0]["component"] == "asyncio"
    assert lines[0]["event"].startswith("socket.accept() out of system resource socket: ")
    assert "OSError: [Errno 24] Too many open files (test_log.py:" in lines[0]["event"]


def test_level_and_format_change_while_it_runs() -> None:
    """A logger that was used before follows: the level drops what is below it, text and JSON take turns."""
    stream = io.StringIO()
    configure(stream)
    log = logger("supervisor")
    lines = []
    for level, form in (("info", "auto"), ("warning", "json"), ("debug", "text"), ("error", "json")):
        configure(stream, level=level, form=form)
        stream.seek(0)
        stream.truncate()
        for name in ("debug", "info", "warning", "error"):
            getattr(log, name)(f"{level} {name}")
        lines.append(stream.getvalue().splitlines())
    configure(stream)
    shown = [
        [json.loads(line)["level"] for line in lines[0]],
        [json.loads(line)["level"] for line in lines[1]],
    ]
    assert shown == [["info", "warning", "error"], ["warning", "error"]]
    assert [line.split()[1:3] for line in lines[2]] == [
        ["[debug", "]"], ["[info", "]"], ["[warning", "]"], ["[error", "]"]
    ]  # fmt: skip
    assert [json.loads(line)["event"] for line in lines[3]] == ["error error"]


def test_no_address_of_a_request_is_logged() -> None:
    """At the level `debug` libraries are logged, but not the address of a webhook, which is a secret."""
    stream = io.StringIO()
    configure(stream, level="debug")
    logging.getLogger("library").info("shown")
    transport = httpx.MockTransport(lambda request: httpx.Response(200))
    with httpx.Client(transport=transport) as client:
        client.post("https://hooks.example/services/T0/B0/s3cr3t")
    configure(stream)
    assert "shown" in stream.getvalue()
    assert "s3cr3t" not in stream.getvalue()


def test_a_message_may_have_one_line_of_a_period(monkeypatch: pytest.MonkeyPatch) -> None:
    """By what it repeats, in place of its text."""
    stream = io.StringIO()
    configure(stream)
    monkeypatch.setattr("hopscope.base.log.time", SimpleNamespace(monotonic=lambda: 1.0))
    for cause in ["disk", "network"] * 10:
        logger("here").error("failed", repeats=cause, at_most=1, cause=cause)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["cause"] for line in lines] == ["disk", "network"]
    assert "at_most" not in lines[0]
