"""IOAM options by the scalar codec: columns, extras, refusals and the inverse."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given

from hopscope.wire import layout
from hopscope.wire.buffer import Buffer
from hopscope.wire.dialect import DEFAULT
from hopscope.wire.errors import WireError
from hopscope.wire.reasons import Place, Reason
from hopscope.wire.records import Carrier, Have, IntFlag, Mode
from hopscope.wire.telemetry import ioam
from oracle.ioam import read_extensions, read_ioam
from oracle.row import Row
from support.packets.ioam_cases import (
    ALL_BITS,
    NEW,
    OLD,
    OPTIONS,
    SNAPSHOT,
    dex,
    extension,
    hostile,
    ipv6,
    option,
    trace,
)


def read(raw: bytes, at: int = 0) -> Row:
    """The row of an option that begins at `at`."""
    row = Row({})
    read_ioam(Buffer(raw, at), row, DEFAULT)
    return row


def extras(raw: bytes, hop: int | None) -> dict[str, str]:
    """The bytes of a hop's extras, in hexadecimal digits; None: those of the packet."""
    before = b"\x31" * 3
    frame = before + raw
    return {
        name: frame[at : at + size].hex()
        for place, name, at, size in ioam.extras_of(frame, len(before) + 4)
        if place == hop
    }


def refusal(raw: bytes) -> tuple[Reason, Place, int]:
    """Why an option is refused."""
    with pytest.raises(WireError) as caught:
        read(raw)
    return caught.value.reason, caught.value.place, caught.value.at


def test_columns_of_a_preallocated_trace() -> None:
    """Header and hops, in path order: the free room in front of the nodes is skipped."""
    row = read(b"\0" * 7 + OPTIONS["pre-allocated with room"], 7)
    assert row.fields == {
        "int_version": 91, "int_mode": Mode.IOAM_PREALLOCATED, "carrier": Carrier.IPV6_OPTION,
        "domain_id": 123, "instructions": 0xF000, "ds_instruction": 0, "hop_words": 4, "remaining_hops": 1,
        "int_flags": 0, "int_at": 11,
    }  # fmt: skip
    assert [(hop.node_id, hop.ingress_port, hop.egress_port) for hop in row.hops] == [
        (1, 11, 12),
        (2, 21, 22),
    ]
    assert [hop.ingress_time for hop in row.hops] == [0x66000000_00000064, 0x66000000_000000FA]
    assert row.hops[0].present == Have.NODE_ID | Have.PORTS | Have.INGRESS_TIME
    assert row.hops[0].null == 0


def test_overflow_is_a_path_cut_short() -> None:
    """The Overflow flag sets HOPS_EXCEEDED."""
    row = read(OPTIONS["pre-allocated and full"])
    assert row.fields["int_flags"] == IntFlag.HOPS_EXCEEDED
    assert len(row.hops) == 2


@pytest.mark.parametrize("name", ["incremental", "incremental with a budget"])
def test_incremental_data_begin_behind_the_header(name: str) -> None:
    """RemainingLen of an incremental trace is a budget, no room in front of the nodes."""
    row = read(OPTIONS[name])
    assert row.fields["int_mode"] == Mode.IOAM_INCREMENTAL
    assert [hop.node_id for hop in row.hops] == [1, 2]


def test_every_bit() -> None:
    """Each field has its column or is an extra; a transit delay that does not fit saturates."""
    raw = OPTIONS["every bit"]
    row = read(raw)
    assert (row.fields["instructions"], row.fields["ds_instruction"]) == (0xFFF0, 2)
    old, new = row.hops
    assert (old.node_id, new.node_id) == (1, 2)
    assert (new.hop_latency, new.queue_occupancy, new.buffer_occupancy) == (0x7FFFFFFF, 77, 99)
    assert (new.l2_ingress_port, new.l2_egress_port, new.queue_id) == (1, 2, 0)
    assert new.null == Have.CHECKSUM_COMPLEMENT
    assert extras(raw, 1) == {
        "hop_limit": "3f", "namespace_data": "dead0001", "wide_hop_limit": "3f",
        "wide_node_id": "00000000000002", "wide_namespace_data": "1122334455667788", "schema": "000007",
        "snapshot": b"SNAPSHOT".hex(),
    }  # fmt: skip
    assert (extras(raw, 0)["schema"], extras(raw, 0)["snapshot"]) == ("ffffff", "")


def test_what_nobody_knows_is_null() -> None:
    """All ones are null in every column."""
    raw = OPTIONS["nothing available"]
    (hop,) = read(raw).hops
    assert hop.null == hop.present != 0
    assert set("".join(extras(raw, 0).values())) == {"f"}


def test_wide_ids() -> None:
    """Of a wide node id the low 32 bits are the node, and the whole is an extra."""
    raw = OPTIONS["wide ids"]
    (hop,) = read(raw).hops
    assert (hop.node_id, hop.l2_ingress_port, hop.l2_egress_port) == (0x12345678, 7, 8)
    assert extras(raw, 0) == {"wide_hop_limit": "3d", "wide_node_id": "0000ab12345678"}


def test_undefined_bits() -> None:
    """They take their place, and are extras by the number of the bit."""
    assert extras(OPTIONS["an undefined bit"], 0) == {"hop_limit": "40", "bit_12": "ffffffff"}


@pytest.mark.parametrize(
    ("seconds", "fraction", "null"),
    [(0xFFFFFFFF, 5, True), (5, 0xFFFFFFFF, False), (0xFFFFFFFF, 0xFFFFFFFF, True)],
)
def test_a_time_without_seconds_is_null(seconds: int, fraction: int, null: bool) -> None:
    """All ones are a legal fraction in NTP's format, so the seconds alone decide."""
    (hop,) = read(trace([struct.pack("!II", seconds, fraction)], 0x300000, 2)).hops
    assert bool(hop.null & Have.INGRESS_TIME) == null
    assert hop.ingress_time == seconds << 32 | fraction


@pytest.mark.parametrize(
    ("word", "value", "null"),
    [
        (0xFFFFFFFF, 0xFFFFFFFF, True),
        (0x80000000, 0x7FFFFFFF, False),
        (0xFFFFFFFE, 0x7FFFFFFF, False),
        (0x7FFFFFFF, 0x7FFFFFFF, False),
        (9, 9, False),
    ],
)
def test_transit_delay(word: int, value: int, null: bool) -> None:
    """31 bits of ns: with the overflow bit they saturate, and all ones are null, whatever comes first."""
    (hop,) = read(trace([struct.pack("!I", word)], 0x080000, 1)).hops
    assert (hop.hop_latency, bool(hop.null)) == (value, null)


def test_direct_export() -> None:
    """It has no hops; its sequence number tells packets apart, wherever the flags put it."""
    for name, sequence, flow in (
        ("direct export", 42, 0xCAFE0001),
        ("direct export with a flow alone", 0, 0xCAFE0001),
        ("direct export with a sequence alone", 42, None),
        ("direct export with an unknown extension", 42, 0xCAFE0001),
    ):
        row = read(OPTIONS[name])
        assert row.fields["int_mode"] == Mode.IOAM_DEX
        assert row.fields["packet_id"] == sequence
        assert (row.hops, row.fields["int_at"], row.fields["instructions"]) == ([], 4, 0xF000)
        told = {"flow_id": "cafe0001"} if flow else {}
        told |= {"sequence": "0000002a"} if sequence else {}
        assert extras(OPTIONS[name], None) == told
        found = ioam.reread(OPTIONS[name], 4)
        assert isinstance(found, ioam.Dex)
        assert (found.flow_id, found.sequence or 0) == (flow, sequence)


def test_the_first_trace_counts() -> None:
    """What follows a packet's first trace is left alone, even if it could not be read."""
    row = read(OPTIONS["incremental"])
    before = dict(row.fields)
    read_ioam(Buffer(option(2, bytes(8))), row, DEFAULT)
    read_ioam(Buffer(OPTIONS["wide ids"]), row, DEFAULT)
    assert (row.fields, len(row.hops)) == (before, 2)


def read_headers(*headers: tuple[int, bytes]) -> Row:
    """The row of the extension headers of a packet; a refusal is in it."""
    raw, row = b"\x60" + ipv6(list(headers)), Row({})
    try:
        read_extensions(raw, 1, len(raw), row, DEFAULT)
    except WireError as error:
        row.refuse(error)
    return row


OTHERS = b"\x01\0\x3e\x02ab\0"
"""Padding, an unknown option, one more byte of padding."""


@pytest.mark.parametrize("kind", [0, 60])
def test_options_of_others_are_passed_by(kind: int) -> None:
    """IOAM is found behind padding and unknown options, in both kinds of headers, and behind others."""
    row = read_headers((43, bytes(6)), (51, bytes(10)), (kind, OTHERS + OPTIONS["incremental"] + OTHERS))
    assert row.error is None
    assert len(row.hops) == 2
    assert row.fields["int_at"] == 1 + 40 + 8 + 12 + 2 + len(OTHERS) + 4


def test_a_trace_beside_what_is_not_read() -> None:
    """Proof of transit is refused only where no trace is with it, in the same header or in another."""
    proof, trace = option(2, bytes(16)), OPTIONS["incremental"]
    for headers in (
        [(0, OTHERS + proof + trace)],
        [(0, OTHERS + trace + proof)],
        [(0, proof), (60, trace)],
        [(0, trace), (60, proof)],
    ):
        row = read_headers(*headers)
        assert (row.error, len(row.hops)) == (None, 2)
    row = read_headers((0, proof), (60, option(64, bytes(4))))
    assert row.error is not None
    assert (row.error.reason, row.error.at) == (Reason.UNSUPPORTED, 1 + 40 + 2)


def test_an_option_longer_than_its_header() -> None:
    """IOAM that reaches beyond its header is refused; another option ends the search of its header."""
    row = read_headers((0, OPTIONS["incremental"][:-12]), (60, bytes(6)))
    assert row.error is not None
    assert (row.error.reason, row.error.at) == (Reason.BAD_LENGTH, 43)
    row = read_headers((0, b"\x3e\xffab"), (60, OPTIONS["incremental"]))
    assert (row.error, len(row.hops)) == (None, 2)


def test_no_options() -> None:
    """A packet without extension headers, or with others alone, has no IOAM."""
    for headers in ([], [(43, bytes(6))], [(0, b"")], [(44, bytes(6))]):
        row = read_headers(*headers)
        assert (row.fields, row.error) == ({}, None)


OPTION, DATA = Place.IOAM_OPTION, Place.IOAM_DATA


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"", (Reason.TRUNCATED, OPTION, 0)),
        (b"\x31\x0a\0\0", (Reason.TRUNCATED, OPTION, 0)),
        (b"\x31\x01\0\0", (Reason.BAD_LENGTH, OPTION, 0)),
        (option(0, bytes(7)), (Reason.BAD_LENGTH, OPTION, 0)),
        (option(2, bytes(20)), (Reason.UNSUPPORTED, OPTION, 0)),
        (option(3, bytes(4)), (Reason.UNSUPPORTED, OPTION, 0)),
        (option(64, bytes(20)), (Reason.UNKNOWN_TYPE, OPTION, 0)),
        (trace([NEW], 0xF00000, 3), (Reason.BAD_HOP_SIZE, OPTION, 4)),
        (trace([NEW], 0xF00000, 0), (Reason.BAD_HOP_SIZE, OPTION, 4)),
        (trace([], 0x000001, 0), (Reason.BAD_HOP_SIZE, OPTION, 4)),
        (option(0, struct.pack("!HHI", 1, 4 << 11 | 5, 0xF00000 << 8) + NEW), (Reason.BAD_LENGTH, OPTION, 4)),
        (trace([NEW, OLD[:-4]], 0xF00000, 4), (Reason.BAD_LENGTH, DATA, 12)),
        (trace([NEW, OLD[:-1]], 0xF00000, 4, free=1), (Reason.BAD_LENGTH, DATA, 16)),
        (trace([SNAPSHOT, SNAPSHOT[:-4]], 2, 0), (Reason.BAD_LENGTH, DATA, 24)),
        (trace([SNAPSHOT, b"\0\0\0"], 2, 0), (Reason.BAD_LENGTH, DATA, 24)),
        (trace([NEW, SNAPSHOT, OLD], 0xF00002, 4), (Reason.BAD_LENGTH, DATA, 40)),
        (dex(0xC0, 1), (Reason.BAD_LENGTH, OPTION, 4)),
        (dex(0x01), (Reason.BAD_LENGTH, OPTION, 4)),
    ],
)
def test_refusals(raw: bytes, expected: tuple[Reason, Place, int]) -> None:
    """One option per way to be damaged, with the place and the byte."""
    assert refusal(raw) == expected


@pytest.mark.parametrize("name", OPTIONS)
def test_every_prefix_is_truncated(name: str) -> None:
    """A cut option is refused at its first byte."""
    for cut in range(len(OPTIONS[name])):
        assert refusal(OPTIONS[name][:cut]) == (Reason.TRUNCATED, OPTION, 0)


def test_the_most_nodes_fit() -> None:
    """An option has room for 61 nodes: fewer than are read at most."""
    assert len(read(trace([bytes(4)] * 61, 0x800000, 1)).hops) == 61


@given(hostile())
def test_hostile_options(raw: bytes) -> None:
    """Whatever the bytes are, they are read or refused with a reason, within the option."""
    row = Row({})
    try:
        read_ioam(Buffer(raw), row, DEFAULT)
    except WireError as error:
        row.refuse(error)
    if row.error is not None:
        assert row.error.place in (OPTION, DATA)
        assert 0 <= row.error.at <= len(raw)
        assert not row.hops
        return
    if row.fields["int_mode"] != Mode.IOAM_DEX:
        found = ioam.reread(raw, row.fields["int_at"])
        assert isinstance(found, tuple)
        assert len(found[1]) == len(row.hops)


@pytest.mark.parametrize("name", [one for one in OPTIONS if "unknown" not in one])
def test_push_is_the_inverse(name: str) -> None:
    """What was read is written as the same bytes."""
    raw, out = OPTIONS[name], bytearray()
    found = ioam.reread(raw, 4)
    if isinstance(found, tuple):
        ioam.push_trace(out, *found, option_type=raw[0])
    else:
        ioam.push_dex(out, found, option_type=raw[0])
    assert out.hex() == raw.hex()


@pytest.mark.parametrize("name", OPTIONS)
def test_push_extension(name: str) -> None:
    """The header around an option is aligned and padded as Linux does it."""
    out = bytearray()
    ioam.push_extension(out, OPTIONS[name], 17)
    assert out.hex() == extension(OPTIONS[name]).hex()


def test_worked_examples() -> None:
    """The cases of these tests are the bytes that other implementations were shown."""
    assert extension(OPTIONS["pre-allocated and full"]).hex() == (
        "11050100312a0000007b2400f00000003f0000020015001666000000000000fa40000001000b000c6600000000000064"
    )
    assert extension(OPTIONS["direct export with a flow alone"]).hex() == (
        "11020100110e0004007b0080f0000000cafe000101020000"
    )


def test_node_words() -> None:
    """NodeLen counts bits 0 to 21: two words for bits 8 to 10, none for the snapshot."""
    assert ioam.node_words(ALL_BITS) == 15
    assert ioam.node_words(0xFFFFFF) == 25
    assert len(layout.IOAM_NODE) == 22
