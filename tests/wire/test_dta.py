"""DTA reports and acknowledgments: both parsers agree, and nothing outside a frame is read."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from hopscope.wire.address import number_of
from hopscope.wire.dta.encode import encode_dta
from hopscope.wire.dta.forms import Form
from hopscope.wire.dta.parser import DtaParser
from hopscope.wire.dta.records import DTA
from hopscope.wire.reasons import DtaReason
from hopscope.wire.records import FrameBatch, Link, Records
from oracle.dta import encode_dta_scalar, parse_scalar
from oracle.dta_codec import DtaError, DtaReport, pull_dta
from support.packets.by_hand import ethernet, ipv4, udp
from support.packets.dta_cases import any_report, payload
from support.packets.wire_cases import frame_batch, frames_of


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


def records_of(frames: list[bytes], form: Form) -> tuple[Records, FrameBatch]:
    batch = frame_batch(frames, Link.UDP_PAYLOAD)
    return parse_scalar(batch, form), batch


@pytest.mark.kernel
@pytest.mark.parametrize("form", Form)
@pytest.mark.parametrize("source", ["10.0.0.1", "2001:db8::1"])
def test_encoders_agree(form: Form, source: str) -> None:
    """Records become the bytes that they were read from, as payloads and in whole frames, by both encoders;
    whole frames are read as their payloads are, and say who sent them.
    """
    rng = random.Random(6)
    raw = [payload(any_report(rng, form), form) for _ in range(400)]
    reports, batch = records_of(raw, form)
    assert not reports["reason"].any()
    encoded = encode_dta(reports, batch.arena, form, source=source)
    assert frames_of(encoded) == raw
    for checksum in (False, True):
        options: Any = {"link": Link.ETHERNET, "source": source, "udp_checksum": checksum, "sport": 77}
        whole = encode_dta(reports, batch.arena, form, **options)
        twin = encode_dta_scalar(reports, batch.arena, form, **options)
        assert np.array_equal(whole.frames, twin.frames)
        assert np.array_equal(whole.arena, twin.arena)
    parser = DtaParser(form)
    again = parser.parse(whole)
    assert np.array_equal(again, parse_scalar(whole, form))
    same = [name for name in reports.dtype.names or () if not name.endswith("_at")]
    assert np.array_equal(again[same], reports[same])
    assert (parser.frames["source_port"] == 77).all()
    assert (parser.frames["source_lo"] == number_of(source) & (1 << 64) - 1).all()


@pytest.mark.kernel
def test_frames_that_are_no_reports() -> None:
    """Another port or protocol is told apart from a damaged datagram; a wrong length or a cut is named."""
    report = payload(DtaReport(1, b"1234", b"1234", redundancy=1), Form.TWO)
    good, other = (ethernet(ipv4(udp(report, port, sport=9), outer=True)) for port in (40040, 40041))
    long = bytearray(good)
    long[14 + 20 + 5] += 1  # UDP length
    fragment = bytearray(good)
    fragment[14 + 6] |= 0x20
    frames = [good, other, bytes(long), bytes(fragment), good[:-1], good[:30], b"", good + b"padding"]
    want = [
        DtaReason.NONE, DtaReason.NOT_DTA, DtaReason.BAD_LENGTH, DtaReason.TRUNCATED, DtaReason.TRUNCATED,
        DtaReason.NOT_DTA, DtaReason.NOT_DTA, DtaReason.NONE,
    ]  # fmt: skip
    for filler in (0, 0xFF):
        batch = frame_batch(frames, gap=64, filler=filler)
        records = parse_scalar(batch, Form.TWO)
        assert records["reason"].tolist() == want
        assert np.array_equal(DtaParser(Form.TWO).parse(batch), records)


@pytest.mark.kernel
def test_records_that_cannot_be_written() -> None:
    """The batch encoder refuses what the scalar one refuses, and what points outside its arena."""
    for form, fields, why in (
        (Form.TWO, {"opcode": 1, "sequence": 1}, "sequence number is above 0"),
        (Form.TWO, {"opcode": 1, "flags": 2}, "no retransmit"),
        (Form.THREE, {"opcode": 4, "path_length": 5}, "path length"),
        (Form.THREE, {"opcode": 2, "redundancy": 1}, "redundancy"),
        (Form.THREE, {"opcode": 2, "hop": 1}, "hop"),
        (Form.THREE, {"opcode": 1, "key_bytes": 5}, "key of 4"),
        (Form.THREE, {"opcode": 1, "data_bytes": 3}, "data of 4"),
        (Form.THREE, {"opcode": 1, "sequence": 256}, "above 255"),
        (Form.THREE, {"opcode": 16}, "opcode"),
        (Form.THREE, {"opcode": 0}, "opcode"),
        (Form.SIZED, {"opcode": 1, "key_at": 5}, "key ends after"),
        (Form.SIZED, {"opcode": 2, "data_at": 5}, "data ends after"),
    ):
        reports = np.zeros(2, DTA)
        reports["opcode"], reports["key_bytes"], reports["data_bytes"] = 1, 4, 4
        for name, value in fields.items():
            reports[name][1] = value
        with pytest.raises(ValueError, match=f"report 1: .*{why}"):
            encode_dta(reports, np.zeros(8, np.uint8), form)
