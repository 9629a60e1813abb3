"""Fixtures that every room's tests share."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"
STRICT = os.environ.get("HOPSCOPE_REQUIRE_TOOLS") == "1"
"""Set where everything is installed: a skip for a missing tool is then a failure."""


def need(condition: object, what: str) -> None:
    """Skip where a tool is missing, or fail where nothing may be missing."""
    if not condition:
        if STRICT:
            pytest.fail(f"{what} is missing, and HOPSCOPE_REQUIRE_TOOLS=1")
        pytest.skip(f"{what} is missing")


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder of the captures that this project did not make."""
    if not (SHARED / "captures").is_dir():
        pytest.skip("../shared/captures is missing")
    return SHARED / "captures"


@pytest.fixture(scope="session")
def tshark() -> str:
    """Path of tshark."""
    path = shutil.which("tshark")
    need(path, "tshark")
    assert path
    return path
