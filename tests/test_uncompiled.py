"""Kernels as plain Python read, compute and store what compiled ones do."""

from __future__ import annotations

from typing import Any

import numpy as np

from support import uncompiled

ROW = np.dtype([("flags", "u1"), ("sum", "<i4"), ("key", "<u8"), ("hops", "<u2", 3)])


@uncompiled.kernel
def add(rows: Any, index: Any, value: Any) -> Any:
    row = rows[index]
    row.flags += 255
    row.sum -= 1
    row.hops[1] = 0x1_0002
    row.key = uncompiled._u64(row.key) - uncompiled._u64(value)
    return row.key, row.flags


def values(row: Any) -> list[Any]:
    return [row[name].tolist() for name in ROW.names or ()]


def test_records_are_written_in_place() -> None:
    """Fields have the names that they have, even those of NumPy's methods; values are cut to their fields."""
    rows = np.zeros(2, ROW)
    rows["flags"][1] = 3
    with np.errstate(over="ignore"):
        assert add(rows, 1, 1) == ((1 << 64) - 1, 2)
    assert values(rows[1]) == [2, -1, (1 << 64) - 1, [0, 2, 0]]
    assert not rows[0]["flags"]


def test_small_integers_do_not_wrap_around() -> None:
    """Eight bits times 300 are more than eight bits, as in compiled code."""
    octets = uncompiled.Array(np.array([200, 1], np.uint8))
    assert octets[0] * 300 == 60_000
    octets[1] = 300
    assert octets.raw.tolist() == [200, 44]


def test_intrinsics() -> None:
    """Words at any position, bits from either end, fields set to zero."""
    octets = uncompiled.Array(np.arange(20, dtype=np.uint8))
    assert uncompiled.load64(octets, 3) == int.from_bytes(bytes(range(3, 11)), "little")
    uncompiled.store64(octets, 1, 0x0102030405060708)
    assert octets.raw[1:9].tolist() == [8, 7, 6, 5, 4, 3, 2, 1]
    words = uncompiled.Array(np.array([7, 1, 7, *range(20, 40)], np.uint32))
    assert uncompiled.equal_words(words, 0, 7) == 0b101
    assert (uncompiled.lowest_bit(12), uncompiled.highest_bit(12), uncompiled.lowest_bit(0)) == (2, 3, 64)
    whole = np.zeros(1, np.dtype([("first", "<u2"), ("rest", "u1", (62,))]))
    shuffle = uncompiled.shuffler((3, 2, *[-1] * 62), bytes(range(64)))
    source = uncompiled.Array(np.array([0, 0, 1, 2, 3, 255, 255, 255, 255, *[0] * 60], np.uint8))
    assert shuffle(source, 1, uncompiled.Record(whole[0])) == 0b10
    assert whole.tobytes() == bytes([3, 2, *range(2, 64)])
    row = np.ones(1, ROW)
    uncompiled.clear(uncompiled.Record(row[0]))
    assert values(row[0]) == [0, 0, 0, [0, 0, 0]]
