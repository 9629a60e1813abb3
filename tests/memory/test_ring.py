"""Rings: every record is read once in order, or counted as lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopscope.memory.region import RegionError
from hopscope.memory.ring import RingReader, RingWriter, attach_ring, create_ring
from support.waiting import HANG_SECONDS

RECORD = np.dtype([("number", "<u8"), ("copy", "<u8", (3,))])


def numbered(first: int, count: int) -> np.ndarray:
    records = np.zeros(count, RECORD)
    records["number"] = np.arange(first, first + count)
    records["copy"] = records["number"][:, None]
    return records


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 20)), max_size=30))
def test_read_and_lost_are_published(steps: list[tuple[int, int]]) -> None:
    """Whatever the pace: records come in order, lost is exact, and the newest ring-full is kept."""
    region = create_ring(None, RECORD, 16, 1)
    writer, reader = RingWriter(region), RingReader(region)
    expected = 0
    for write, limit in steps:
        writer.write(numbered(writer.head, write))
        records, lost = reader.read(limit)
        overwritten = max(0, writer.head - 16 - expected)
        expected += overwritten
        assert lost == overwritten
        assert records["number"].tolist() == list(range(expected, expected + len(records)))
        assert len(records) == min(limit, writer.head - expected)
        expected += len(records)
    assert reader.cursor == expected


def test_nothing_is_visible_before_publish() -> None:
    """Reserved records are not read until they are published, and what they overwrite counts as lost."""
    region = create_ring(None, RECORD, 8, 1)
    writer, reader = RingWriter(region), RingReader(region)
    writer.write(numbered(0, 8))
    first, second = writer.reserve(3)
    assert (len(first), len(second)) == (3, 0)
    first[:] = numbered(8, 3)
    records, lost = reader.read()
    assert (records["number"].tolist(), lost) == ([3, 4, 5, 6, 7], 3)
    writer.publish(3)
    assert reader.read()[0]["number"].tolist() == [8, 9, 10]
    parts = writer.reserve(7)
    assert [len(part) for part in parts] == [5, 2]


def test_start_of_a_reader() -> None:
    """A reader starts at the newest, at the oldest that is left, or at a cursor that it had kept."""
    region = create_ring(None, RECORD, 8, 1)
    RingWriter(region).write(numbered(0, 20))
    assert len(RingReader(region).read()[0]) == 0
    assert RingReader(region, "oldest").read()[0]["number"].tolist() == list(range(12, 20))
    records, lost = RingReader(region, 10).read()
    assert (records["number"][0], lost) == (12, 2)


def test_writer_continues(tmp_path: Path) -> None:
    """A restarted writer goes on after what was published; a claim that was never published is not shown."""
    region = create_ring(tmp_path / "ring", RECORD, 8, 1)
    writer = RingWriter(region)
    writer.write(numbered(0, 5))
    writer.reserve(4)[0][:] = numbered(90, 3)
    again = RingWriter(attach_ring(tmp_path / "ring", 1, writable=True))
    assert again.head == 5
    again.write(numbered(5, 1))
    records, lost = RingReader(attach_ring(tmp_path / "ring", 1), 0).read()
    assert (records["number"].tolist(), lost) == ([1, 2, 3, 4, 5], 1)


def test_rejections(tmp_path: Path) -> None:
    """A writer needs a writable mapping, a ring a power of two, a reservation a ring that is long enough."""
    region = create_ring(tmp_path / "ring", RECORD, 8, 1)
    with pytest.raises(RegionError, match="read-only"):
        RingWriter(attach_ring(tmp_path / "ring", 1))
    with pytest.raises(ValueError, match="power of two"):
        create_ring(None, RECORD, 12, 1)
    with pytest.raises(ValueError, match="exceed a ring"):
        RingWriter(region).reserve(9)


HAMMER = """
import sys
import numpy as np
from hopscope.memory.ring import RingWriter, attach_ring

writer = RingWriter(attach_ring(sys.argv[1], 1, writable=True))
records = np.zeros(37, writer.reserve(0)[0].dtype)
records["number"] = np.arange(37)
records["copy"] = records["number"][:, None]
while writer.head < int(sys.argv[2]):
    writer.write(records)
    records["number"] += 37
    records["copy"] += 37
"""


@pytest.mark.e2e
def test_a_reader_during_writes(tmp_path: Path) -> None:
    """While another process writes as fast as it can, no torn record is read and none goes uncounted."""
    total = 37 * 3000
    region = create_ring(tmp_path / "ring", RECORD, 256, 1)
    reader = RingReader(region, 0)
    process = subprocess.Popen([sys.executable, "-c", HAMMER, tmp_path / "ring", str(total)])
    count = 0
    while reader.cursor < total:
        before = reader.cursor
        records, lost = reader.read(100)
        assert (records["copy"] == records["number"][:, None]).all()
        if len(records):
            assert records["number"][0] == before + lost
            assert (np.diff(records["number"]) == 1).all()
        count += len(records)
        assert process.poll() is None or reader.head == total
    assert process.wait(HANG_SECONDS) == 0
    assert count + reader.lost == total
