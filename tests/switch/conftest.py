"""Loads the programs of a switch."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from hopscope.switch.program import SwitchProgram
from support.switch_programs import LO, settings
from support.xdp_make import built


@pytest.fixture
def load(tool: Callable[..., str]) -> Iterator[Callable[..., SwitchProgram]]:
    """Loads the programs with settings; packets of the loopback interface may have 1500 bytes."""
    built(tool)
    loaded: list[SwitchProgram] = []

    def make(mtu: int = 1500, **more: object) -> SwitchProgram:
        program = SwitchProgram(settings(**more))
        loaded.append(program)
        program.allow(LO, mtu)
        return program

    yield make
    for program in loaded:
        program.close()
