"""DTA reports and acknowledgments: both parsers agree, and nothing outside a frame is read."""

from __future__ import annotations

import random

import numpy as np
import pytest
from dta_cases import any_report, payload
from wire_cases import frame_batch

from hopscope.wire.dta import DtaError, DtaReport, Form, pull_dta
from hopscope.wire.dta_batch import DtaParser, parse_scalar
from hopscope.wire.reasons import DtaReason
from hopscope.wire.records import Link


@pytest.mark.parametrize("form", Form)
def test_what_is_written_is_read(form: Form) -> None:
    """Any report of any form comes back from its bytes, and its bytes from it."""
    rng = random.Random(1)
    for _ in range(500):
        report = any_report(rng, form)
        raw = payload(report, form)
        assert pull_dta(raw, form) == report


@pytest.mark.parametrize("form", Form)
def test_a_datagram_of_another_length_is_refused(form: Form) -> None:
    """Each byte less is truncated, one more is a bad length: both say so."""
    rng = random.Random(2)
    for _ in range(30):
        raw = payload(any_report(rng, form), form)
        for cut in range(len(raw)):
            with pytest.raises(DtaError) as error:
                pull_dta(raw[:cut], form)
            assert error.value.reason is DtaReason.TRUNCATED
        with pytest.raises(DtaError, match="bad_length"):
            pull_dta(raw + b"\0", form)


@pytest.mark.kernel
@pytest.mark.parametrize("form", Form)
def test_parsers_agree(form: Form) -> None:
    """Whole, cut, lengthened and changed datagrams give the same records, whatever lies around them."""
    rng = random.Random(3)
    frames = []
    for _ in range(3000):
        raw = bytearray(payload(any_report(rng, form), form))
        chance = rng.random()
        if chance < 0.2:
            raw = raw[: rng.randrange(len(raw) + 1)]
        elif chance < 0.4:
            raw += rng.randbytes(rng.randrange(12))
        elif chance < 0.7:
            raw[rng.randrange(min(len(raw), 12))] = rng.getrandbits(8)
        frames.append(bytes(raw))
    parser = DtaParser(form, frames=16)
    batch = frame_batch(frames, Link.UDP_PAYLOAD, gap=8)
    want = parse_scalar(batch, form)
    assert np.array_equal(parser.parse(batch), want)
    other = frame_batch(frames, Link.UDP_PAYLOAD, gap=8, filler=0xFF)
    assert np.array_equal(parser.parse(other), want)
    assert set(want["reason"]) >= {DtaReason.NONE, DtaReason.TRUNCATED, DtaReason.BAD_LENGTH}


def test_a_report_that_its_form_cannot_carry() -> None:
    """Nothing is left out silently: what has no field is an error."""
    for form, report, why in (
        (Form.TWO, DtaReport(1, b"1234", b"1234", sequence=1), "sequence"),
        (Form.TWO, DtaReport(1, b"1234", b"1234", retransmit=True), "retransmit"),
        (Form.THREE, DtaReport(4, b"1234", b"1234", path_length=5), "path_length"),
        (Form.THREE, DtaReport(4, b"1234", b"1234", redundancy=1), "redundancy"),
        (Form.THREE, DtaReport(1, b"12345", b"1234"), "key of 5 bytes"),
        (Form.THREE, DtaReport(1, b"1234", b"1234", sequence=256), "256"),
        (Form.THREE, DtaReport(16, b"1234", b"1234"), "opcode 16"),
        (Form.SIZED, DtaReport(2, b"123", b"1234"), "list of 3 bytes"),
        (Form.SIZED, DtaReport(3, b"123", b"1234"), "counter of 4 bytes"),
        (Form.SIZED, DtaReport(1, bytes(256), b"1234"), "key_bytes 256"),
    ):
        with pytest.raises(ValueError, match=why):
            payload(report, form)
