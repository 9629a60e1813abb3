"""Report headers and their own metadata: round trips, truncation, and every reason of refusal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopscope.wire import layout
from hopscope.wire.buffer import Buffer
from hopscope.wire.dialect import Dialect
from hopscope.wire.errors import WireError
from hopscope.wire.reasons import Place, Reason
from hopscope.wire.records import Flag, Have, Kind
from hopscope.wire.telemetry.report import kind_of, main_form
from hopscope.wire.telemetry.report_metadata import push_metadata_0_5, push_report_metadata
from oracle.report import (
    Form05,
    Group20,
    Main20,
    Report05,
    Report10,
    Report20,
    check_types,
    form_0_5,
    pull_group,
    pull_main,
    pull_report_0_5,
    pull_report_1_0,
    pull_report_2_0,
    pull_tlvs,
    push_group,
    push_main,
    push_report_0_5,
    push_report_1_0,
    push_report_2_0,
    push_tlv,
)
from oracle.report_metadata import pull_metadata_0_5, pull_report_metadata

U6, U16, U22, U32 = (st.integers(0, (1 << bits) - 1) for bits in (6, 16, 22, 32))
FLAGS = st.integers(0, 7)


def _all_cuts_are_truncated(raw: bytes, pull: Callable[[Buffer], Any]) -> None:
    for cut in range(len(raw)):
        with pytest.raises(WireError) as caught:
            pull(Buffer(raw[:cut]))
        assert caught.value.reason == Reason.TRUNCATED


@given(st.builds(Report05, st.integers(0, 1), st.integers(0, 2), FLAGS, U6, U32, U32))
def test_report_0_5(report: Report05) -> None:
    """The fixed header survives, and every cut is told."""
    out = bytearray()
    push_report_0_5(out, report)
    assert pull_report_0_5(Buffer(bytes(out))) == report
    _all_cuts_are_truncated(bytes(out), pull_report_0_5)


@given(st.sampled_from([1, 2]), st.binary(min_size=16, max_size=16))
def test_own_0_5(form: int, raw: bytes) -> None:
    """Drop and switch-local headers survive, and every cut is told."""
    raw = raw[:10] + b"\0\0" if form == 1 else raw
    own = pull_metadata_0_5(Buffer(raw), form)
    assert (own.drop_reason is None) == (form == 2)
    out = bytearray()
    push_metadata_0_5(out, form, own)
    assert bytes(out) == raw
    _all_cuts_are_truncated(raw, lambda buf: pull_metadata_0_5(buf, form))


@given(st.integers(0, 63), FLAGS, U6, U32, U32, U32, st.integers(0, 2), st.binary(min_size=24, max_size=24))
def test_report_1_0(
    bits: int, flags: int, hw_id: int, node: int, sequence: int, time: int, inner: int, values: bytes
) -> None:
    """The header with any optional metadata survives, and every cut is told."""
    size = layout.metadata_size(layout.OWN_1_0, bits << 10)
    report = Report10(4 + size // 4, inner, bits, flags, hw_id, node, sequence, time)
    out = bytearray()
    push_report_1_0(out, report)
    assert pull_report_1_0(Buffer(bytes(out))) == report
    raw = bytearray(values[:size])
    if bits & 2:  # padding of the drop word is sent as 0
        at = layout.metadata_size(layout.OWN_1_0, (bits & 0b111100) << 10)
        raw[at + 2 : at + 4] = b"\0\0"
    own = pull_report_metadata(Buffer(bytes(raw)), layout.OWN_1_0, bits << 10, node)
    again = bytearray()
    push_report_metadata(again, layout.OWN_1_0, bits << 10, own)
    if not (bits & 2 and bits & 8 and own.queue_id != own.hop.queue_id):
        assert again == raw
    assert (own.drop_reason is not None) == bool(bits & 2)
    _all_cuts_are_truncated(bytes(out), pull_report_1_0)


@given(U6, U22, U32)
def test_group(hw_id: int, sequence: int, node: int) -> None:
    """The group header survives, and every cut is told."""
    out = bytearray()
    push_group(out, Group20(hw_id, sequence, node))
    assert pull_group(Buffer(bytes(out))) == Group20(hw_id, sequence, node)
    _all_cuts_are_truncated(bytes(out), pull_group)


@given(st.integers(0, 2), st.integers(0, 5), st.integers(1, 254), st.integers(0, 255), st.integers(0, 15))
def test_report_2_0(report_type: int, inner: int, length: int, metadata: int, flags: int) -> None:
    """The first word survives; a report that is cut anywhere is refused."""
    out = bytearray()
    push_report_2_0(out, Report20(report_type, inner, length, metadata, flags))
    raw = bytes(out) + bytes(4 * length)
    report = pull_report_2_0(Buffer(raw), len(raw))
    assert report == Report20(report_type, inner, length, metadata, flags, len(raw))
    for cut in (0, 3, 4, len(raw) - 4):
        with pytest.raises(WireError) as caught:
            pull_report_2_0(Buffer(raw[:cut]), cut)
        assert caught.value.reason == Reason.TRUNCATED


@pytest.mark.parametrize(("length", "end"), [(0, 50), (0xFF, 50), (2, 12), (12, 50), (11, 48)])
def test_where_a_report_2_0_ends(length: int, end: int) -> None:
    """Report Length 0 (bmv2) and 255 reach to the end; a last word that is not whole is taken as padding."""
    raw = bytes([0x13, length, 0, 0]) + bytes(46)
    assert pull_report_2_0(Buffer(raw), 50).end == end


def test_an_empty_report_ends_where_it_begins() -> None:
    """RepType 0, InType 0, Report Length 0 is a report without contents: the next one follows."""
    assert pull_report_2_0(Buffer(bytes(40)), 40).end == 4


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (0x23, Reason.UNSUPPORTED),
        (0x33, Reason.UNKNOWN_TYPE),
        (0x16, Reason.UNKNOWN_TYPE),
        (0x1F, Reason.UNKNOWN_TYPE),
    ],
)
def test_types(first: int, reason: Reason) -> None:
    """IOAM is unsupported, reserved types are unknown."""
    with pytest.raises(WireError) as caught:
        check_types(Report20(first >> 4, first & 15), 0)
    assert (caught.value.reason, caught.value.place) == (reason, Place.REPORT_HEADER)


@given(U16, st.binary(min_size=80, max_size=80), st.integers(0, 3))
def test_main_2_0(bits: int, values: bytes, extra: int) -> None:
    """Main contents with any metadata survive; domain-specific words behind it are skipped."""
    size = layout.metadata_size(layout.OWN_2_0, bits)
    main = Main20(bits, 7, 8, 9)
    report = Report20(report_length=200, metadata_length=size // 4 + extra)
    out = bytearray()
    push_main(out, main, pull_report_metadata(Buffer(values), layout.OWN_2_0, bits, 5))
    assert len(out) == 8 + size
    buf = Buffer(bytes(out) + bytes(4 * extra))
    read, own = pull_main(buf, report, 5)
    assert read == main
    assert buf.left == 0
    assert own.hop.node_id == 5
    assert own.hop.present & ~Have.NODE_ID == bits_to_have(bits)
    assert (own.drop_reason is not None) == bool(bits & 1)


def bits_to_have(bits: int) -> int:
    """`present` of a Report 2.0's bitmap: bits 1 to 8 are those of INT 2.x."""
    return sum(1 << bit for bit in range(1, 9) if bits >> (15 - bit) & 1)


@pytest.mark.parametrize(
    ("report", "size", "reason"),
    [
        (Report20(report_length=3, metadata_length=0), 12, Reason.BAD_LENGTH),
        (Report20(report_length=3, metadata_length=9), 12, Reason.BAD_LENGTH),
        (Report20(report_length=0, metadata_length=9), 12, Reason.TRUNCATED),
        (Report20(report_length=1, metadata_length=1), 7, Reason.TRUNCATED),
    ],
)
def test_main_refusals(report: Report20, size: int, reason: Reason) -> None:
    """MD Length below the bitmap's words, or above what Report Length leaves, contradicts it."""
    raw = bytes.fromhex("2000000000000000") + bytes(20)
    with pytest.raises(WireError) as caught:
        pull_main(Buffer(raw[:size]), report, 1)
    assert (caught.value.reason, caught.value.place) == (reason, Place.REPORT_METADATA)


def test_bmv2_leaves_both_lengths_zero() -> None:
    """Report Length 0 and MD Length 0: the bitmap says how much metadata there is."""
    raw = bytes.fromhex("2000000000000000 0000002a")
    _, own = pull_main(Buffer(raw), Report20(), 1)
    assert own.hop.hop_latency == 42


def test_tlvs() -> None:
    """The first packet among TLVs is found, others are stepped over, and a TLV that is cut is refused."""
    out = bytearray()
    push_tlv(out, 0, 1, b"abcdefg")
    push_tlv(out, 2, 0, bytes(20))
    push_tlv(out, 1, 0, bytes(16))
    assert pull_tlvs(Buffer(bytes(out))) == (4, 16, 36)
    assert pull_tlvs(Buffer(bytes(out[:12]))) is None
    for cut in (1, 5, 13, 30):
        with pytest.raises(WireError):
            pull_tlvs(Buffer(bytes(out[:cut])))


@pytest.mark.parametrize("header", ["32000000", "1ce00000"])
def test_reserved_next_protocols(header: str) -> None:
    """NProto 3 and more of 0.5, and NProt 3 and more of 1.0."""
    raw = bytes.fromhex(header) + bytes(12)
    pull = pull_report_1_0 if header[0] == "1" else lambda buf: pull_report_0_5(Buffer(b"\x03" + buf.raw[1:]))
    with pytest.raises(WireError) as caught:
        pull(Buffer(raw))
    assert caught.value.reason == Reason.UNKNOWN_TYPE


def test_length_of_1_0_must_fit_its_metadata() -> None:
    """A Length that is not 4 words and the metadata's is refused."""
    with pytest.raises(WireError) as caught:
        pull_report_1_0(Buffer(bytes.fromhex("16000000") + bytes(20)))
    assert caught.value.reason == Reason.BAD_LENGTH


@pytest.mark.parametrize(
    ("flags", "kind"),
    [
        (0, Kind.INT),
        (Flag.TRACKED, Kind.INT),
        (Flag.CONGESTED | Flag.TRACKED, Kind.INT),
        (Flag.CONGESTED, Kind.QUEUE),
        (Flag.DROPPED | Flag.CONGESTED, Kind.DROP),
    ],
)
def test_kind(flags: int, kind: Kind) -> None:
    """A drop, else a congested queue without a tracked flow, else INT."""
    assert kind_of(flags) == kind


def test_what_a_dialect_says_of_report_headers() -> None:
    """NProto, RepType, InType and Length by rule; the defaults are the specification's."""
    dialect = Dialect(
        "one", next_protocols=((4, 8, 5),), report_types=((0, 12),), inner_types=((4, 3),),
        any_report_length=True,
    )  # fmt: skip
    raw = bytes.fromhex("04000000") + bytes(8)
    assert pull_report_0_5(Buffer(raw), dialect).next_protocol == 4
    assert form_0_5(4, dialect) == Form05(3, 8, 5)
    assert [form_0_5(number).form for number in range(5)] == [0, 1, 2, 255, 255]
    assert [form_0_5(4, dialect).kind(flags) for flags in (Flag.DROPPED, Flag.CONGESTED, 0)] == [
        Kind.DROP, Kind.QUEUE, Kind.INT,
    ]  # fmt: skip
    assert pull_report_1_0(Buffer(bytes.fromhex("11000000") + bytes(12)), dialect).length == 1
    assert main_form(0, dialect) == (3, 12)
    assert main_form(0) == (0, 0)
    assert check_types(Report20(0, 4), 0, dialect) == (3, 3)
    assert check_types(Report20(1, 4), 0) == (1, 4)
    assert pull_report_2_0(Buffer(bytes([0x14, 2, 0, 0]) + bytes(46)), 50, dialect).end == 50


def test_inner_only_ignores_metadata_length() -> None:
    """RepType 0 has no main contents, whatever its MD Length says."""
    assert main_form(0) == (0, 0)
    report = pull_report_2_0(Buffer(bytes([0x03, 5, 9, 0]) + bytes(20)), 24)
    assert (report.metadata_length, report.end) == (9, 24)
