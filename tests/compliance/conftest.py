"""What the tests of formats share."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.packets.tshark import Tshark


@pytest.fixture(scope="module")
def tshark(tool: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Tshark:
    """tshark with our dissector."""
    return Tshark(tool("tshark"), tmp_path_factory.mktemp("tshark"))
