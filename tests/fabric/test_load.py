"""Reports for load tests: what is sent again has the next sequence numbers of its source."""

from __future__ import annotations

import numpy as np
import pytest

from hopscope.fabric import load as load_module
from hopscope.fabric.load import BENCHMARK, LOOPBACK, SEQUENCES, Load
from hopscope.wire.decode.plain import decode_plain
from hopscope.wire.records import Flag, Link

BLOCK = 1024


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a sixteenth: the uncompiled decoder reads 12,000 reports per second."""
    monkeypatch.setattr(load_module, "BLOCK", BLOCK)


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


@pytest.mark.parametrize("flows", [1, 600, 2_500])
def test_each_flow_has_a_report(flows: int) -> None:
    """Also where there are more flows than reports that are usually made: each as often as
    others, give or take one report.
    """
    load = Load(hops=1, flows=flows, sources=4, fields=1)
    batch = load.next(1 << 20)
    reports = decode_plain(batch).reports
    assert not reports["reason"].any()
    _, counts = np.unique(reports[["src_lo", "sport"]], return_counts=True)
    assert len(counts) == flows
    assert counts.max() - counts.min() <= 1


def test_sources_share_a_block() -> None:
    """Their number divides it."""
    with pytest.raises(ValueError, match="expected a divisor"):
        Load(hops=1, flows=1, sources=3)


@pytest.mark.parametrize("link", [Link.UDP_PAYLOAD, Link.ETHERNET])
def test_datagrams_of_several_reports(link: Link) -> None:
    """Sources take turns after a run of datagrams, and each numbers its own; marked ones have the flag Q in
    their first report, and only in this call.
    """
    load = Load(hops=2, flows=100, sources=4, fields=1, grouped=4, run=8, link=link, collector="192.0.2.9")
    expected: dict[int, int] = {}
    for call in range(3):
        batch = load.next(3000, events=10 * (call % 2))
        reports = decode_plain(batch).reports
        assert not reports["reason"].any()
        assert len(reports) == 4 * len(batch)
        flagged = reports["flags"] & Flag.CONGESTED != 0
        assert flagged.sum() == 10 * (call % 2)
        assert not (reports["index"][flagged]).any()
        first = reports[reports["index"] == 0]
        sources = (first["source_lo"] & np.uint64(0xFFFFFFFF)).tolist()
        assert all(len(set(sources[at : at + 8])) == 1 for at in range(0, len(sources) // 8 * 8, 8))
        for source, sequence in zip(sources, first["sequence"].tolist(), strict=True):
            assert sequence == expected.get(source, sequence)
            expected[source] = (sequence + 1) % SEQUENCES
    begin = LOOPBACK if link == Link.UDP_PAYLOAD else BENCHMARK
    assert sorted(expected) == list(range(begin, begin + 4))
