"""Fixtures of the sink's tests: the plain-Python twin of its kernels."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def sink_reference() -> ModuleType:
    """The plain-Python twin: `sink_reference.Reference(settings)`."""
    full = "hopscope_tests_detect_sink_reference"
    if full not in sys.modules:
        spec = importlib.util.spec_from_file_location(full, Path(__file__).with_name("reference.py"))
        assert spec is not None
        assert spec.loader is not None
        sys.modules[full] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[full]
