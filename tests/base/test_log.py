"""Logging never ends who logs."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator

import pytest
import structlog

from hopscope.base.log import configure, logger


@pytest.fixture(autouse=True)
def defaults() -> Iterator[None]:
    """Other tests find logging as it was."""
    yield
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
