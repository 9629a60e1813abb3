"""Fixtures that every room's tests share."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("hopscope", deadline=None)  # no test is decided by timing
settings.load_profile("hopscope")

SHARED = Path(__file__).resolve().parents[2] / "shared"
STRICT = os.environ.get("HOPSCOPE_REQUIRE_TOOLS") == "1"
"""Set where everything is installed: a skip for a missing tool is then a failure."""


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder of the captures that this project did not make."""
    if not (SHARED / "captures").is_dir():
        pytest.skip("../shared/captures is missing")
    return SHARED / "captures"


@pytest.fixture(scope="session")
def tool() -> Callable[..., str]:
    """Find the first of some programs on the PATH; skip where there is none, or fail where nothing may be missing."""

    def find(*names: str) -> str:
        for name in names:
            if path := shutil.which(name):
                return path
        if STRICT:
            pytest.fail(f"{names[0]} is missing, and HOPSCOPE_REQUIRE_TOOLS=1")
        pytest.skip(f"{names[0]} is missing")

    return find
