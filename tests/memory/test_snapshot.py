"""Snapshots: rows are whole while another process writes them, and a killed writer's row is left out."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from hopscope.memory.region import Region
from hopscope.memory.snapshot import consistent, joined, rows_at, rows_where, snapshot_rows
from support.waiting import HANG_SECONDS

ARRAYS = {
    "version": (np.uint32, 2000),
    "rows": (np.dtype([("a", "<u8", (12,))]), 2000),
    "stop": (np.uint8, 1),
}


def test_rows_left_odd_are_discarded() -> None:
    """An odd version means a writer died there: the row is not returned, the others are, in order."""
    versions = np.array([0, 2, 3, 4], np.uint32)
    assert snapshot_rows(np.array([10, 11, 12, 13]), versions).tolist() == [10, 11, 13]
    assert snapshot_rows(np.zeros(0), np.zeros(0, np.uint32)).tolist() == []


def test_row_changed_while_copied_is_copied_again() -> None:
    """A row whose version moves during the copy is read again, until it is whole."""
    versions, rows = np.zeros(3, np.uint32), np.arange(3)
    calls: list[list[int]] = []

    def read(at: np.ndarray) -> tuple[np.ndarray, ...]:
        copy = rows[at]
        calls.append(at.tolist())
        if len(calls) == 1:
            versions[1] += 2
            rows[1] = 99
        return (copy,)

    numbers, (copy,) = consistent(versions, read, np.arange(3))
    assert (numbers.tolist(), copy.tolist(), calls) == ([0, 1, 2], [0, 99, 2], [[0, 1, 2], [1]])


def test_records_are_picked_and_joined_as_numpy_does() -> None:
    """Records that are copied as words or bytes are those that NumPy copies field by field."""
    rows = np.zeros(50, [("number", "<u8"), ("place", "<u2"), ("parts", "u1", (6,))])
    rows["number"], rows["place"], rows["parts"] = np.arange(50), 7, np.arange(300).reshape(50, 6)
    mask = np.arange(50) % 3 == 1
    assert rows_where(rows, mask).tobytes() == rows[mask].tobytes()
    assert rows_at(rows, np.array([7, 3, 7])).tobytes() == rows[[7, 3, 7]].tobytes()
    parts = [rows[:20], rows[45:], rows[:0]]
    assert joined(parts).tobytes() == np.concatenate(parts).tobytes()
    blocks = [rows[:20].reshape(10, 2), rows[20:24].reshape(2, 2)]
    assert joined(blocks).tobytes() == np.concatenate(blocks).tobytes()
    assert joined([np.arange(3), np.arange(2)]).tolist() == [0, 1, 2, 0, 1]


HAMMER = """
import sys
from hopscope.memory.region import Region, barrier

region = Region.attach(sys.argv[1], "test", 1, writable=True)
versions, rows, value = region["version"], region["rows"]["a"], 0
while not region["stop"][0]:
    for i in range(0, 2000, 7):
        value += 1
        versions[i] += 1
        barrier()
        rows[i] = value
        barrier()
        versions[i] += 1
"""


@pytest.mark.e2e
def test_consistent_while_hammered(tmp_path: Path) -> None:
    """No snapshot has a row with values of two writes in it, however fast they come, and none starves."""
    region = Region.create(tmp_path / "r", "test", 1, ARRAYS)
    process = subprocess.Popen([sys.executable, "-c", HAMMER, tmp_path / "r"])
    try:
        deadline = time.monotonic() + HANG_SECONDS
        while not region["rows"]["a"][-7:].any() and time.monotonic() < deadline:
            time.sleep(0.01)
        for _ in range(200):
            copy = snapshot_rows(region["rows"], region["version"])["a"]
            assert len(copy) >= 1999  # the writer may be stopped in one row
            assert (copy == copy[:, :1]).all()
    finally:
        region["stop"][0] = 1
        process.wait(HANG_SECONDS)
    assert region["rows"]["a"].any()
