"""Loads the programs of a switch, and makes a network of routers that run them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from hopscope.switch.program import SwitchProgram
from hopscope.testbed.namespaces import NamespaceError, run
from support.network.namespaces import clear_abandoned
from support.network.switch_programs import LO, settings
from support.network.switch_routers import PREFIX, Routers
from support.packets.xdp_make import built


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


@pytest.fixture
def pins(tool: Callable[..., str], tmp_path: Path) -> Iterator[Path]:
    """A BPF file system."""
    built(tool)
    try:
        run("mount", "-t", "bpf", "bpf", str(tmp_path))
    except NamespaceError as error:
        pytest.skip(f"no BPF file system here: {error}")
    yield tmp_path
    run("umount", str(tmp_path))


@pytest.fixture
def made(tool: Callable[..., str], tmp_path: Path) -> Iterator[Callable[..., Routers]]:
    """Makes the namespaces, which go at the end; where they are not allowed the test is skipped."""
    for name in ("ip", "ethtool", "ping"):
        tool(name)
    built(tool)
    clear_abandoned(PREFIX)
    with ExitStack() as stack:

        def make(**more: bool) -> Routers:
            try:
                return Routers(tmp_path, stack, **more)
            except (OSError, NamespaceError) as error:
                if os.environ.get("HOPSCOPE_REQUIRE_TOOLS") == "1":
                    raise
                pytest.skip(f"no network namespaces with veth pairs here: {error}")

        yield make


@pytest.fixture
def routers(made: Callable[..., Routers]) -> Routers:
    """Without a sink."""
    return made()
