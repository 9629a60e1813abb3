"""Reports and frames that the tests of wire share."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from hopscope.wire.records import FRAME, HOP, REPORT, Carried, FrameBatch, Kind, Link, Mode, ReportBatch


def frame_batch(frames: list[bytes], link: int = Link.ETHERNET, gap: int = 0, filler: int = 0) -> FrameBatch:
    """Frames behind each other in one arena, with `gap` bytes of `filler` around each."""
    records = np.zeros(len(frames), FRAME)
    arena = bytearray()
    for record, frame in zip(records, frames, strict=True):
        arena += bytes([filler]) * gap
        record["offset"], record["length"], record["wire_length"], record["link"] = (
            len(arena),
            len(frame),
            len(frame),
            link,
        )
        arena += frame
    arena += bytes([filler]) * gap
    return FrameBatch(np.frombuffer(bytes(arena), np.uint8), records)


def frames_of(batch: FrameBatch) -> list[bytes]:
    """The bytes of each frame."""
    return [
        batch.arena[int(f["offset"]) : int(f["offset"]) + int(f["length"])].tobytes() for f in batch.frames
    ]


def read_capture(path: Path) -> list[bytes]:
    """Packets of a little-endian pcap or pcapng file."""
    raw = path.read_bytes()
    out: list[bytes] = []
    if raw[:4] == b"\x0a\x0d\x0d\x0a":
        at = 0
        while at < len(raw):
            kind, length = struct.unpack_from("<II", raw, at)
            if kind == 6:
                size = struct.unpack_from("<I", raw, at + 20)[0]
                out.append(raw[at + 28 : at + 28 + size])
            at += length
        return out
    order = "<" if raw[0] in (0xD4, 0x4D) else ">"
    at = 24
    while at < len(raw):
        size = struct.unpack_from(order + "I", raw, at + 8)[0]
        out.append(raw[at + 16 : at + 16 + size])
        at += 16 + size
    return out


def assert_same(one: ReportBatch, other: ReportBatch) -> None:
    """Fail with the first field that differs."""
    assert one.other == other.other
    assert len(one) == len(other)
    for left, right in ((one.reports, other.reports), (one.hops, other.hops)):
        assert len(left) == len(right)
        if left.tobytes() == right.tobytes():
            continue
        for row, (a, b) in enumerate(zip(left, right, strict=True)):
            for name in left.dtype.names or ():
                assert a[name] == b[name], f"row {row}, {name}: {a[name]} and {b[name]}"
        raise AssertionError("padding differs")


@st.composite
def report_batches(draw: st.DrawFn, most: int = 6) -> ReportBatch:
    """Reports that can be encoded: every version, form, INT version, bitmap and own metadata."""
    count = draw(st.integers(1, most))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    rows = np.frombuffer(rng.bytes(count * REPORT.itemsize), REPORT).copy()
    for name in ("reason", "place", "reason_at", "index"):
        rows[name] = 0
    versions = draw(st.lists(st.sampled_from((5, 10, 20)), min_size=count, max_size=count))
    rows["version"] = versions
    rows["kind"] %= 4
    rows["kind"][(rows["version"] != 20) & (rows["kind"] == Kind.INNER)] = 0
    rows["hw_id"] %= 64
    rows["flags"] = rows["flags"] % 16 | 4
    rows["carried"] = rng.choice([0, Carried.DROP_REASON], count) | rng.choice([0, Carried.OWN_HOP], count)
    rows["carried"] |= Carried.FLOW | Carried.PORTS
    rows["ip_version"] = rng.choice([4, 6], count)
    rows["inner_length"] = rng.choice([0, 1400], count)
    for name, six in (
        ("source", rng.random(count) < 0.5),
        ("src", rows["ip_version"] == 6),
        ("dst", rows["ip_version"] == 6),
    ):
        rows[name + "_hi"][~six] = 0
        rows[name + "_lo"][~six] = rows[name + "_lo"][~six] & 0xFFFFFFFF | 0xFFFF << 32
    rows["proto"] = rng.choice([6, 17, 50], count)
    rows["int_version"] = np.where(rows["proto"] == 50, 0, rng.choice([0, 5, 10, 20], count))
    rows["instructions"] = rng.choice([0x8000, 0xFF00, 0xFF80, 0x2001, 0xFFFF, 0x1111], count)
    rows["int_flags"] %= 16
    rows["int_mode"] = np.where(rng.random(count) < 0.2, Mode.MX, Mode.MD)
    rows["int_mode"][rows["int_version"] != 20] = Mode.MD
    rows["remaining_hops"] %= 128
    rows["ds_instruction"] = rng.choice([0, 0x8000], count)
    rows["hop_words"] = np.where((rows["ds_instruction"] > 0) & (rows["int_version"] == 20), 25, 0)
    rows["hop_count"] = np.where(rows["int_mode"] == Mode.MX, 0, rng.integers(0, 9, count))
    rows["first_hop"] = np.concatenate([[0], np.cumsum(rows["hop_count"].astype(int) + 1)[:-1]])
    for row in range(1, count):
        if rows["version"][row - 1] == rows["version"][row] == 20 and rng.random() < 0.5:
            rows["index"][row] = rows["index"][row - 1] + 1
    hops = np.frombuffer(rng.bytes(int((rows["hop_count"].astype(int) + 1).sum()) * HOP.itemsize), HOP).copy()
    for name in ("queue_occupancy", "buffer_occupancy", "queue_congestion"):
        hops[name] &= 0xFFFFFF
    hops["null"][rng.random(len(hops)) < 0.6] = 0
    return ReportBatch(rows, hops)
