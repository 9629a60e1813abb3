"""What replaces parts of Numba makes the same code from kernels."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from numba import typeof  # noqa: TID251  # compared with it
from numba.core import compiler, ir  # noqa: TID251

from hopscope.base.kernels import frontend, jit
from hopscope.base.kernels.compiler import KernelDispatcher
from hopscope.base.kernels.jit import U64, kernel

pytestmark = pytest.mark.kernel
run_frontend: Any = compiler.run_frontend

ROW = np.dtype([("key", np.uint64), ("count", np.uint32), ("seen", np.uint8, 4)])


@kernel
def halves(x: Any) -> Any:
    """Two numbers of one."""
    return x >> U64(32), x & U64(0xFFFFFFFF)


def count(rows: Any, keys: Any, wrap: Any) -> Any:
    """Loops, branches, variables of several values, tuples, records and a kernel below."""
    found, last = U64(0), U64(0)
    for i in range(U64(keys.shape[0])):
        high, low = halves(keys[i])
        at: Any = (high ^ low) % U64(rows.shape[0])
        while rows[at].key != keys[i] and rows[at].key != U64(0):
            at += U64(1)
            if at == U64(rows.shape[0]):
                if not wrap:
                    return found, last
                at = U64(0)
        row = rows[at]
        row.key = keys[i]
        row.count += 1
        row.seen[i & U64(3)] = 1
        found, last = (found + U64(1), at) if row.count == 1 else (found, last)
    return found, last


def lowered() -> str:
    """The code that LLVM gets, without the numbers by which Numba tells functions apart."""
    dispatcher = KernelDispatcher(count, jit._OPTIONS, True)
    dispatcher._folder = None  # of no cache
    arguments = np.zeros(4, ROW), np.zeros(4, np.uint64), True
    inner = dispatcher.inner_version(tuple(map(typeof, arguments)))
    return re.sub(r"B\d+v\d+|v\d+", "", str(inner.library._final_module))


def test_the_code_is_that_of_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its own functions, it makes the same from a kernel."""
    fast = lowered()
    assert "getelementptr" in fast
    frontend._operations.clear()
    for owner, name, function in frontend.replaced:
        monkeypatch.setattr(owner, name, function)
    assert lowered() == fast


def test_variables_of_statements() -> None:
    """As Numba finds them, in its order."""
    statements = [each for block in run_frontend(count).blocks.values() for each in block.body]
    expressions = [each.value for each in statements if isinstance(getattr(each, "value", None), ir.Expr)]
    assert len(expressions) > 30
    for node, values in [(each, vars(each)) for each in statements] + [
        (each, each._kws) for each in expressions
    ]:
        assert node.list_vars() == ir.Inst._rec_list_vars(node, values)


def test_flags_are_compared_with_their_defaults() -> None:
    """A flag that is set to its default is as one that is not set."""
    flags: Any = compiler.Flags()
    others: Any = compiler.Flags()
    assert flags == others
    others.enable_ssa = True
    assert flags == others
    assert hash(flags) == hash(others)
    flags.forceinline = others.forceinline = True
    assert flags == others
    others.enable_ssa = False
    assert flags != others
    assert flags != "flags"
