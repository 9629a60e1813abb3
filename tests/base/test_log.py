"""Logging never ends who logs."""

from __future__ import annotations

import io
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
    """A line is told as long as there is somebody to tell; afterwards it is lost, and nothing else."""
    stream = io.StringIO()
    configure(stream)
    log = logger("here")
    log.warning("first")
    assert '"event": "first"' in stream.getvalue()
    stream.close()
    log.warning("second")
