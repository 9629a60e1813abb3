"""Fixtures of the tests of detection: the plain-Python twin of the kernels, and reports made to measure."""

from __future__ import annotations

from types import ModuleType

import pytest

from oracle import detect
from support.events import detect_make


@pytest.fixture(scope="session")
def make() -> ModuleType:
    """Reports made to measure: `make.batch([...])`, `make.run(detector, reports)`."""
    return detect_make


@pytest.fixture(scope="session")
def reference() -> ModuleType:
    """The plain-Python twin: `reference.Reference(settings)`."""
    return detect
