"""Fixtures of the sink's tests: the plain-Python twin of its kernels."""

from __future__ import annotations

from types import ModuleType

import pytest

from oracle import sink


@pytest.fixture(scope="session")
def sink_reference() -> ModuleType:
    """The plain-Python twin: `sink_reference.Reference(settings)`."""
    return sink
