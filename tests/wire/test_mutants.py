"""Damaged frames: both decoders read the same, and nothing points outside of its frame."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hopscope.wire.decode.decoder import Decoder
from hopscope.wire.decode.plain import decode_plain
from hopscope.wire.dialect import DIALECTS
from hopscope.wire.records import FrameBatch, Link
from support.packets.corpus import corpus
from support.packets.mutants import Mutator, compare, insane

pytestmark = pytest.mark.kernel


@pytest.mark.parametrize("name", DIALECTS)
def test_both_decoders_agree(name: str) -> None:
    """Frames of every version, mode and carrier, and mutants of them, are read alike, in every dialect."""
    mutator = Mutator(corpus(DIALECTS[name]))
    for packets in (False, True):
        decoder = Decoder(replace(DIALECTS[name], packets=packets), frames=8)
        for batch in (mutator.exact(), mutator.block(7_000, 300)):
            found, wrong = compare(batch, decoder)
            assert not wrong, (wrong[0].what, wrong[0].link.name, wrong[0].frame.hex())
            assert not insane(batch, found)


@pytest.mark.parametrize("name", DIALECTS)
def test_any_values_of_hops(name: str) -> None:
    """Words of zeros, of ones and at random, wherever hops have values, are read alike, in every dialect."""
    decoder = Decoder(replace(DIALECTS[name], packets=True), frames=8)
    batch = Mutator(corpus(DIALECTS[name])).exact()
    random = np.random.default_rng(len(name))
    arena = batch.arena.copy()
    for report in decoder.decode(batch).reports:
        size = 4 * int(report["hop_words"]) * int(report["hop_count"])
        if report["int_version"] in (4, 5, 10, 20) and size:
            stack = int(batch.frames["offset"][report["packet"]]) + int(report["int_at"])
            stack += 12 if report["int_version"] == 20 else 8
            words = random.choice(np.array([0, 0xFFFFFFFF, 1], np.uint32), size // 4)
            words = np.where(words == 1, random.integers(1 << 32, size=size // 4, dtype=np.uint32), words)
            arena[stack : stack + size] = words.view(np.uint8)
    _, wrong = compare(FrameBatch(arena, batch.frames), decoder)
    assert not wrong, (wrong[0].what, wrong[0].link.name, wrong[0].frame.hex())


def test_a_disagreement_is_told() -> None:
    """What the decoders read differently is told with its frame, link layer and first field that differs."""
    decoder = Decoder(DIALECTS["spec"], frames=8)
    decoder.dialect = DIALECTS["report-0.5"]  # now the scalar codec reads by other rules
    _, wrong = compare(Mutator(corpus(DIALECTS["spec"])).block(0, 200), decoder)
    assert wrong
    assert all(one.frame and one.what for one in wrong)
    assert any(one.what.startswith("reports[0].") for one in wrong)


def test_a_mutant_is_its_number() -> None:
    """A mutant follows from the seed and its number, whatever block it is made in."""
    one, other = (Mutator(corpus()) for _ in range(2))
    whole, part = one.block(0, 50), other.block(40, 10)
    at = int(whole.frames["offset"][40])
    assert whole.arena[at:].tobytes() == part.arena.tobytes()
    assert (whole.frames["length"][40:] == part.frames["length"]).all()


def test_the_corpus_is_valid() -> None:
    """What mutants start from is accepted but for a few frames, in both forms of reports and of packets."""
    seeds = [seed for seed in corpus() if seed.link in (Link.ETHERNET, Link.UDP_PAYLOAD)]
    assert len(seeds) > 500
    reports = decode_plain(Mutator(seeds).exact()).reports
    assert (reports["reason"] == 0).mean() > 0.9
    assert set(reports["version"]) >= {5, 10, 20}
