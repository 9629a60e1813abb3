"""The ring of datagrams: what is found by number is what was received, or nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hopscope.detect.evidence import layout
from hopscope.detect.evidence.datagrams import (
    MAX_DIALECTS,
    MIN_BYTES,
    DatagramReader,
    DatagramWriter,
    attach_ring,
    create_ring,
    ring_path,
)
from hopscope.memory.region import Region
from hopscope.wire.records import FRAME, HOP, REPORT, FrameBatch, ReportBatch

pytestmark = pytest.mark.kernel
WORKER = 5


def batch_of(
    raws: list[bytes], first: int, reports: list[int] | None = None
) -> tuple[FrameBatch, ReportBatch]:
    """Frames with these bytes, in an arena with gaps of other bytes; `reports`: the frame of each report."""
    frames = np.zeros(len(raws), FRAME)
    arena, gap = bytearray(), bytes([0xEE]) * 7
    for frame, raw in zip(frames, raws, strict=True):
        arena += gap
        frame["offset"], frame["length"], frame["wire_length"] = len(arena), len(raw), len(raw)
        arena += raw
    frames["time_ns"] = first + np.arange(len(raws))
    frames["source_hi"], frames["source_lo"], frames["port"], frames["link"] = 1, 2, 3, 255
    frames["source_port"] = np.arange(len(raws))
    rows = np.zeros(len(raws) if reports is None else len(reports), REPORT)
    rows["packet"] = np.arange(len(raws)) if reports is None else reports
    batch = ReportBatch(rows, np.zeros(0, HOP), 77)
    return FrameBatch(np.frombuffer(bytes(arena), np.uint8), frames), batch


def reader_of(region: Region) -> DatagramReader:
    """A reader that has the ring as that of WORKER."""
    return DatagramReader([create_ring(None, 1)] * WORKER + [region])


def test_each_report_leads_to_its_datagram() -> None:
    """Lengths around every boundary of the copy, two reports in one datagram, one datagram without a report:
    bytes, time, source and dialect are those that came in.
    """
    region = create_ring(None, 1)
    writer, reader = DatagramWriter(region, WORKER), reader_of(region)
    dice = np.random.default_rng(1)
    raws = [dice.bytes(length) for length in (*range(70), 127, 128, 129, 1472, 9000, layout.MAX_BYTES)]
    reports = [0, *range(len(raws) - 1)]
    frames, batch = batch_of(raws, 1000, reports)
    writer.hold(frames, batch, "spec")
    other, later = batch_of([b"another"], 5)
    writer.hold(other, later, "onos")
    assert batch.first_packet == 0
    for number, of in zip(batch.reports["packet"].tolist(), reports, strict=True):
        found = reader.find(number)
        assert found is not None
        wanted = frames.frames[of].copy()
        wanted["offset"] = 0
        assert (found.raw, found.dialect) == (raws[of], "spec")
        for name in FRAME.names or ():
            assert found.frame[0][name] == wanted[name], name
    last = reader.find(int(later.reports["packet"][0]))
    assert last is not None
    assert (last.raw, last.dialect) == (b"another", "onos")


def test_the_oldest_are_overwritten_and_never_mixed(tmp_path: Path) -> None:
    """Many times the size of the ring, in batches of all sizes, by a writer that is killed in between: what
    is found is whole, all of the newest are found, and nothing that is older than the ring.
    """
    path = ring_path(tmp_path, WORKER)
    create_ring(path, 1)
    reader = reader_of(attach_ring(path))
    dice = np.random.default_rng(2)
    held = list[tuple[int, bytes]]()
    for turn in range(60):
        if turn % 10 == 0:  # a worker that was killed, and its successor
            writer = DatagramWriter(attach_ring(path, writable=True), WORKER)
        longest = 60_000 if turn % 3 == 0 else 300
        raws = [dice.bytes(int(length)) for length in dice.integers(0, longest, dice.integers(1, 40))]
        frames, batch = batch_of(raws, turn)
        writer.hold(frames, batch, f"dialect {turn // 20}")
        held += zip(batch.reports["packet"].tolist(), raws, strict=True)
    room, found = MIN_BYTES, 0
    gone = False
    for number, raw in reversed(held):
        one = reader.find(number)
        if one is not None:
            assert not gone, "an older one is there, a newer one is not"
            assert one.raw == raw
            found += len(raw)
        gone = one is None
    assert gone
    assert room // 2 < found < room


def test_what_is_in_no_ring_is_not_found() -> None:
    """A datagram that is too long, other workers' numbers, an empty ring, places after the last datagram."""
    region = create_ring(None, 1)
    reader = reader_of(region)
    assert reader.find(WORKER << layout.WORKER_SHIFT) is None
    frames, batch = batch_of([b"a", bytes(layout.MAX_BYTES + 1), b"b"], 1)
    DatagramWriter(region, WORKER).hold(frames, batch, "spec")
    first, none, last = batch.reports["packet"].tolist()
    assert none == layout.NOT_HELD
    assert [reader.find(number) is None for number in (first, none, last)] == [False, True, False]
    assert reader.find(last + 1) is None
    assert reader.find(first + (1 << layout.WORKER_SHIFT)) is None
    assert reader.find(first - (1 << layout.WORKER_SHIFT)) is None


def test_more_dialects_than_names() -> None:
    """The first keep their names; of further ones the name is not known. The bytes are there."""
    region = create_ring(None, 1)
    writer, reader = DatagramWriter(region, WORKER), reader_of(region)
    numbers = []
    for number in range(MAX_DIALECTS + 2):
        frames, batch = batch_of([b"x"], number)
        writer.hold(frames, batch, f"d{number}")
        numbers.append(int(batch.reports["packet"][0]))
    named = [found.dialect for number in numbers if (found := reader.find(number)) is not None]
    assert named == [f"d{number}" for number in range(MAX_DIALECTS - 1)] + [""] * 3
