"""Tests of the P4 programs share what the compiler made."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.network.bmv2 import available, clear_abandoned


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for compiled programs; skips where compiler, switch or root are missing."""
    available()
    clear_abandoned()
    return tmp_path_factory.mktemp("p4")
