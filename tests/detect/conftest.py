"""Fixtures of the tests of detection: the plain-Python twin of the kernels, and reports made to measure."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


def _load(name: str) -> ModuleType:
    """A helper beside this file; pytest's importlib mode puts no folder of tests on the path."""
    full = f"hopscope_tests_detect_{name}"
    if full not in sys.modules:
        spec = importlib.util.spec_from_file_location(full, Path(__file__).with_name(f"{name}.py"))
        assert spec is not None
        assert spec.loader is not None
        sys.modules[full] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[full]


@pytest.fixture(scope="session")
def make() -> ModuleType:
    """Reports made to measure: `make.batch([...])`, `make.run(detector, reports)`."""
    return _load("make")


@pytest.fixture(scope="session")
def reference() -> ModuleType:
    """The plain-Python twin: `reference.Reference(settings)`."""
    return _load("reference")
