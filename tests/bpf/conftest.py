"""The XDP program, loaded once for the tests of a module."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from hopscope.bpf.program import XdpProgram
from support.packets.xdp_make import Filtering, built, clear, loaded


@pytest.fixture(scope="module")
def program(tool: Callable[..., str]) -> Iterator[XdpProgram]:
    """The program."""
    built(tool)
    made = loaded()
    yield made
    made.close()


@pytest.fixture
def filtering(program: XdpProgram) -> Filtering:
    """A detector after the filter of the program, which has seen nothing yet."""
    clear(program)
    return Filtering(program)
