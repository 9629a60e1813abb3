"""Frames through the stripper and through its oracle, for the tests of what a sink sends on."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from hopscope.wire.decode.plain import decode_plain
from hopscope.wire.dialect import DEFAULT, Dialect
from hopscope.wire.errors import WireError
from hopscope.wire.records import Hop, Link
from hopscope.wire.rewrite.strip_batch import Stripper
from oracle.strip import Restored, restore

from .wire_cases import frame_batch

SPEC = replace(DEFAULT, name="sink", packets=True)
HOPS = [Hop(node_id=1, hop_latency=7, checksum_complement=5), Hop(node_id=2, hop_latency=9)]


@lru_cache(16)
def stripper_of(dialect: Dialect) -> Stripper:
    """The stripper of a dialect."""
    return Stripper(dialect)


def _scalar(frame: bytes, dialect: Dialect, link: int) -> Restored | None:
    try:
        return restore(frame, link, dialect)
    except WireError:
        return None


def assert_same(frames: list[bytes], dialect: Dialect = SPEC, link: int = Link.ETHERNET) -> list[Restored]:
    """Fail where both differ in a frame or a count, or the kernel reads what lies around a frame or writes
    beside it; what the scalar one made of each, damaged ones as they came.
    """
    scalar = [_scalar(frame, dialect, link) for frame in frames]
    kept = [Restored(frame) if one is None else one for frame, one in zip(frames, scalar, strict=True)]
    room = max(map(len, frames), default=0) + 24
    offsets = np.arange(len(frames), dtype=np.uint64) * np.uint64(room) + np.uint64(8)
    stripper = stripper_of(dialect)
    for filler in (0, 0xFF):
        batch = frame_batch(frames, link, gap=48, filler=filler)
        reports = decode_plain(batch, dialect)
        arena = np.full(len(frames) * room + 8, 0xA5, np.uint8)
        lengths = stripper.strip_into(batch, reports, arena, offsets, room - 16)
        for number, (one, at, length) in enumerate(
            zip(kept, offsets.tolist(), lengths.tolist(), strict=True)
        ):
            assert arena[at : at + length].tobytes() == one.frame, f"frame {number}: {frames[number].hex()}"
            arena[at : at + length] = 0xA5
        assert (arena == 0xA5).all()
        counts = (stripper.stripped, stripper.unverified, stripper.damaged, stripper.passed)
        stripped = sum(one.removed > 0 for one in kept)
        damaged = sum(one is None for one in scalar)
        assert counts == (
            stripped, sum(one.unverified for one in kept), damaged, len(frames) - stripped - damaged
        )  # fmt: skip
    return kept


def mutants(frames: list[bytes], seed: int, count: int) -> list[bytes]:
    """Frames in which a few bytes or bits are changed, from the 12th on."""
    rng = np.random.default_rng(seed)
    out = []
    for number in rng.integers(0, len(frames), count).tolist():
        raw = bytearray(frames[number])
        for at in rng.integers(12, len(raw), rng.integers(1, 4)).tolist():
            raw[at] = rng.integers(0, 256) if rng.random() < 0.5 else raw[at] ^ 1 << int(rng.integers(0, 8))
        out.append(bytes(raw))
    return out
