"""The programs are good for the kernel's verifier, whichever clang has compiled them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hopscope.bpf.build import compile_programs
from hopscope.bpf.libbpf import BpfObject
from support.xdp_make import built


@pytest.mark.parametrize("clang", ["clang", "clang-19"])
def test_the_kernel_takes_what_it_compiles(clang: str, tool: Callable[..., str], tmp_path: Path) -> None:
    """Each loads. Other versions write the same checks of lengths in ways that the verifier cannot follow."""
    built(tool)
    for path in compile_programs(tmp_path, tool(clang)):
        program = BpfObject(path)
        program.load()
        program.close()
