"""The programs are good for the kernel's verifier, also if another clang has compiled them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hopscope.bpf.build import compile_programs
from hopscope.bpf.libbpf import BpfObject
from support.packets.xdp_make import built


def test_the_kernel_takes_what_clang_19_compiles(tool: Callable[..., str], tmp_path: Path) -> None:
    """All load. That version writes the same checks of lengths in ways that the verifier cannot follow; all
    other tests use the system's.
    """
    built(tool)
    for path in compile_programs(tmp_path, tool("clang-19")):
        program = BpfObject(path)
        program.load()
        program.close()
