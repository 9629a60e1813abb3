"""Acknowledgments of DTA: one by one and in batches they say the same."""

from __future__ import annotations

import random

import numpy as np
import pytest

from hopscope.wire.dta.ack import encode_answers, parse_answers
from hopscope.wire.dta.forms import Form
from hopscope.wire.dta.records import DTA_ANSWER
from hopscope.wire.records import Link
from oracle.dta_codec import DtaAck, DtaError, pull_ack, push_ack
from support.packets.wire_cases import frame_batch, frames_of


def raw_ack(ack: DtaAck, form: Form) -> bytes:
    out = bytearray()
    push_ack(out, ack, form)
    return bytes(out)


def test_published_bytes() -> None:
    """Two bytes: the last report that was accepted, and one bit; a NACK wraps below 0."""
    assert raw_ack(DtaAck(200, nack=True), Form.THREE) == bytes([200, 0x80])
    answers = np.zeros(2, DTA_ANSWER)
    answers["nack"], answers["sequence"], answers["count"] = 1, [201, 0], 3
    assert frames_of(encode_answers(answers, Form.THREE)) == [bytes([200, 0x80]), bytes([255, 0x80])]
    with pytest.raises(ValueError, match="neither count nor reason"):
        raw_ack(DtaAck(1, nack=True, count=1), Form.THREE)
    with pytest.raises(ValueError, match="no sequence numbers"):
        encode_answers(answers, Form.TWO)


@pytest.mark.parametrize("form", [Form.THREE, Form.SIZED])
def test_batches_agree(form: Form) -> None:
    """Answers come back from their datagrams, whose bytes are those of the scalar codec."""
    rng = random.Random(4)
    answers = np.zeros(200, DTA_ANSWER)
    for row in answers:
        row["sequence"], row["nack"] = rng.getrandbits(form.sequence_bits), rng.random() < 0.5
        row["source_lo"], row["source_port"] = rng.getrandbits(64), rng.getrandbits(16)
        if form is Form.SIZED:
            row["count"], row["reason"] = rng.randrange(1, 65536), rng.randrange(10)
    batch = encode_answers(answers, form)
    for row, raw in zip(answers, frames_of(batch), strict=True):
        ack = pull_ack(raw, form)
        shift = 0 if form is Form.SIZED else int(row["nack"])
        assert (ack.sequence + shift) % (1 << form.sequence_bits) == row["sequence"]
        assert (ack.nack, ack.count, ack.reason) == (row["nack"], row["count"], row["reason"])
        assert raw_ack(ack, form) == raw
    back, damaged = parse_answers(batch, form)
    assert damaged == 0
    assert (back == answers).all()


@pytest.mark.parametrize("form", [Form.THREE, Form.SIZED])
def test_damaged_ones(form: Form) -> None:
    """Cut, lengthened and empty datagrams are counted, in batches and alone, whatever lies around them."""
    whole = raw_ack(DtaAck(7, nack=True, count=1 if form is Form.SIZED else 0), form)
    frames = [whole[:cut] for cut in range(len(whole))] + [whole + b"\0", whole]
    if form is Form.SIZED:
        frames.append(raw_ack(DtaAck(7), form)[:6] + b"\x80\0")  # a NACK of no reports
    for raw in frames:
        if raw != whole:
            with pytest.raises(DtaError):
                pull_ack(raw, form)
    for filler in (0, 0xFF):
        answers, damaged = parse_answers(frame_batch(frames, Link.UDP_PAYLOAD, 8, filler), form)
        assert (len(answers), damaged) == (1, len(frames) - 1)
