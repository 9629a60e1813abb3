"""Calls of kernels by words in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hopscope.base.kernels.call import ARGUMENTS, RESULT, Call
from hopscope.base.kernels.jit import U64, invoke, kernel, linked

pytestmark = pytest.mark.kernel
ROW = np.dtype([("a", "<u2"), ("b", "<u8"), ("c", "u1")])


@linked
def summed(rows: Any, table: Any, number: Any, doubled: Any, out: Any) -> Any:
    """Sums by loops over all items; the last is also written."""
    fields, cells = U64(0), U64(0)
    for i in range(len(rows)):
        fields += U64(rows[i].b) + U64(rows[i].c)
    for i in range(table.shape[0]):
        for j in range(table.shape[1]):
            cells += U64(table[i, j]) * U64(10 * i + j)
    out[0] = number + U64(1)
    return fields, cells * U64(2) if doubled else cells


@kernel
def run(words: Any) -> Any:
    return invoke(words)


def test_a_kernel_gets_what_its_words_say() -> None:
    """Records, an array of two dimensions, numbers and a result in memory pass as by Python, and so do other
    rows whose address and number the caller puts into the words.
    """
    rows = np.zeros(5, ROW)
    rows["b"], rows["c"] = np.arange(5) + 100, 7
    table, out = np.arange(6, dtype=np.uint32).reshape(2, 3), np.zeros(1, np.uint64)
    call = Call(summed, rows, table, np.uint64(41), True, out)
    weights = np.array([[0, 1, 2], [10, 11, 12]])
    assert not run(call.words)
    assert call.words[RESULT : RESULT + 2].tolist() == [510 + 35, 2 * int((table * weights).sum())]
    assert out.tolist() == [42]
    call.words[ARGUMENTS : ARGUMENTS + 2] = rows[3:].ctypes.data, 2
    assert not run(call.words)
    assert call.words[RESULT] == 103 + 104 + 14


def test_items_must_be_adjacent() -> None:
    """Words have no distances between items, so an array with gaps is rejected."""
    rows, table, out = np.zeros(6, ROW)[::2], np.zeros((1, 1), np.uint32), np.zeros(1, np.uint64)
    with pytest.raises(TypeError, match="not adjacent"):
        Call(summed, rows, table, np.uint64(1), True, out)
