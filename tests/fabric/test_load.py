"""Reports for load tests: what is sent again has the next sequence numbers of its source."""

from __future__ import annotations

import numpy as np
import pytest

from hopscope.fabric.load import BLOCK, LOOPBACK, SEQUENCES, Load
from hopscope.wire.decode.plain import decode_plain


def test_sources_count_their_reports() -> None:
    """Over several blocks, and past the end of 22 bits; all else stays."""
    load = Load(hops=3, flows=100, sources=64)
    load._words[:] += SEQUENCES - BLOCK // 64 * 2  # shortly before the end
    expected: dict[int, int] = {}
    for most in (BLOCK, 100, BLOCK, BLOCK, BLOCK):
        batch = load.next(most)
        assert len(batch) == most if most == 100 else len(batch) in (BLOCK, BLOCK - 100)
        reports = decode_plain(batch).reports
        assert not reports["reason"].any()
        assert set(reports["hop_count"]) == {3}
        sources = batch.frames["source_lo"] & np.uint64(0xFFFFFFFF)
        for source, sequence in zip(sources.tolist(), reports["sequence"].tolist(), strict=True):
            assert sequence == expected.get(source, sequence)
            expected[source] = (sequence + 1) % SEQUENCES
    assert sorted(expected) == list(range(LOOPBACK, LOOPBACK + 64))


def test_sources_share_a_block() -> None:
    """Their number divides it."""
    with pytest.raises(ValueError, match="expected a divisor"):
        Load(hops=1, flows=1, sources=3)
