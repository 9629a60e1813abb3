"""Readers of the rings of all workers: each record once and in order, or counted as lost."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from hopscope.detect.sink.records import EVICTED, EVICTED_VERSION, SINK_EVENT, SINK_EVENT_VERSION
from hopscope.detect.sink.rings import Evictions, SinkEvents
from hopscope.memory import rings as module
from hopscope.memory.ring import RingWriter, create_ring
from hopscope.memory.rings import Rings, columns

RECORD = np.dtype([("sequence", "<u8"), ("shard", "u1"), ("reserved", "u1", (7,))])


@pytest.fixture(autouse=True)
def _look_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SCAN_SECONDS", 0.0)


def numbered(first: int, count: int, shard: int = 0, record: np.dtype = RECORD) -> np.ndarray:
    """Records of a shard with the sequence numbers from `first`."""
    made = np.zeros(count, record)
    made["sequence"], made["shard"] = np.arange(first, first + count), shard
    return made


def ring(folder: Path, shard: int = 0, capacity: int = 16) -> RingWriter:
    """Writer of a new ring."""
    return RingWriter(create_ring(folder / f"worker-{shard}.things", RECORD, capacity, 1))


def test_each_record_once_also_after_a_restart(tmp_path: Path) -> None:
    """A reader that is made again goes on after what it had; what the ring overwrote is lost and counted."""
    writer = ring(tmp_path)
    following = np.zeros(4, np.uint64)
    writer.write(numbered(0, 5))
    assert [len(block) for block in Rings(tmp_path, "things", 1, following).read()[0]] == [5]
    writer.write(numbered(5, 3))
    again = Rings(tmp_path, "things", 1, following)
    blocks, lost = again.read()
    assert (blocks[0]["sequence"].tolist(), lost) == ([5, 6, 7], 0)
    writer.write(numbered(8, 40))
    blocks, lost = again.read()
    assert len(blocks[0]) + lost == 40
    assert (following[0], again.lost) == (48, lost)


def test_new_rings_and_restarted_numbers(tmp_path: Path) -> None:
    """A reader of what is new skips what was there, reads the ring of a later worker whole, and a ring that
    was recreated from its beginning, whatever it had read of the old one.
    """
    writer = ring(tmp_path)
    writer.write(numbered(0, 9))
    reader = Rings(tmp_path, "things", 1, start="new")
    assert reader.read() == ([], 0)
    writer.write(numbered(9, 2))
    ring(tmp_path, 1).write(numbered(0, 3, 1))
    assert sorted(len(block) for block in reader.read()[0]) == [2, 3]
    ring(tmp_path).write(numbered(0, 4))
    (block,), lost = reader.read()
    assert (block["sequence"].tolist(), lost) == ([0, 1, 2, 3], 0)
    assert list(columns(block)) == ["sequence", "shard"]


@pytest.mark.parametrize("of_data", [True, False])
def test_the_sinks_rings(tmp_path: Path, of_data: bool) -> None:
    """Events and evictions of all workers come as records or columns, from a data folder or its regions."""
    regions = tmp_path / "regions"
    regions.mkdir()
    for shard in range(2):
        for name, record, version in (
            ("sink-events", SINK_EVENT, SINK_EVENT_VERSION),
            ("evictions", EVICTED, EVICTED_VERSION),
        ):
            path = regions / f"worker-{shard}.{name}"
            writer = RingWriter(create_ring(path, record, 16, version))
            writer.write(numbered(0, 20 + shard, shard, record))
    folder = tmp_path if of_data else regions
    for reader in (SinkEvents(folder, "oldest"), Evictions(folder, "oldest")):
        records, lost = reader.read()
        assert records.dtype == reader.record
        assert (np.bincount(records["shard"]).tolist(), lost, reader.lost) == ([16, 16], 0, 0)
        assert reader.read_columns()[0]["sequence"].tolist() == []


def test_the_guides_structure_is_the_record() -> None:
    """Fields, order and size of the C structure in the guide are those of SINK_EVENT, and it has no padding
    when it is compiled: every field is at a multiple of its size.
    """
    page = (Path(__file__).parents[2] / "docs" / "guides" / "rings.md").read_text()
    body = page.split("struct sink_event {", 1)[1].split("};", 1)[0]
    found, at = [], 0
    for bits, names in re.findall(r"^\s+u?int(\d+)_t\s+([^;]+);", body, re.M):
        for name, count in re.findall(r"(\w+)(?:\[(\d+)\])?", names):
            assert at % (int(bits) // 8) == 0, name
            found.append((name, at))
            at += int(bits) // 8 * int(count or 1)
    assert SINK_EVENT.fields is not None
    assert found == [(name, SINK_EVENT.fields[name][1]) for name in SINK_EVENT.names or ()]
    assert at == SINK_EVENT.itemsize
