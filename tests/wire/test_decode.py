"""What becomes of frames: rows, their fields, what is refused and what is read on after a refusal."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from hopscope.wire.decode.plain import decode_plain
from hopscope.wire.dialect import Dialect
from hopscope.wire.encode.encoder import mapped_v4, new_hops, new_reports
from hopscope.wire.reasons import Place, Reason
from hopscope.wire.records import Carried, Kind, Link, ReportBatch
from oracle.encode import encode_scalar
from support.packets.wire_cases import frame_batch, frames_of


def reports(version: int = 20, int_version: int = 20, hops: int = 3, proto: int = 17) -> ReportBatch:
    """One report with hops 1, 2, 3 …"""
    rows = new_reports(1, version)
    rows["int_version"], rows["instructions"], rows["hop_count"] = int_version, 0xE000, hops
    rows["proto"], rows["sport"], rows["dport"] = proto, 4000, 53
    rows["src_lo"] = mapped_v4(np.array([0xC6336401], np.uint32))
    path = new_hops(hops, 0xE000)
    path["node_id"], path["hop_latency"] = np.arange(1, hops + 1), 250
    return ReportBatch(rows, path)


def _one(frame: bytes, link: int = Link.ETHERNET, dialect: Dialect | None = None) -> tuple[int, int, int]:
    decoded = decode_plain(frame_batch([frame], link), dialect or Dialect("spec"))
    assert len(decoded) == 1
    return (
        int(decoded.reports["reason"][0]),
        int(decoded.reports["place"][0]),
        int(decoded.reports["hop_count"][0]),
    )


@pytest.mark.parametrize("version", [5, 10, 20])
@pytest.mark.parametrize("int_version", [5, 10, 20])
@pytest.mark.parametrize("proto", [6, 17])
def test_every_truncation(version: int, int_version: int, proto: int) -> None:
    """Cut at every byte: refused as truncated where something is missing, no report where the port is."""
    frame = frames_of(encode_scalar(reports(version, int_version, proto=proto)))[0]
    end = len(frame) - (2 if version == 20 else 0)  # 2.0 pads
    for cut in range(end):
        decoded = decode_plain(frame_batch([frame[:cut]]))
        if cut < 38:
            assert (len(decoded), decoded.other) == (0, 1)
        else:
            assert decoded.reports["reason"].tolist() == [Reason.TRUNCATED]
            assert decoded.reports["hop_count"].tolist() == [0]
            assert decoded.reports["reason_at"][0] <= cut
    assert _one(frame) == (0, 0, 3)


def test_payload_of_a_socket() -> None:
    """A datagram from a socket needs no port of the dialect; its source is the frame record's."""
    batch = encode_scalar(reports(), link=Link.UDP_PAYLOAD, port=7)
    batch.frames["source_lo"] = 0xFFFF_C000_0201
    decoded = decode_plain(batch, Dialect("none", ports=()))
    assert decoded.reports["source_lo"].tolist() == [0xFFFF_C000_0201]
    assert decoded.hops["node_id"].tolist() == [1, 2, 3]


def _group(*parts: str) -> bytes:
    return bytes.fromhex("2000000500000007" + "".join(parts))


def test_reading_goes_on_where_the_next_report_is_known() -> None:
    """A report refused within its own length is followed by the next; one whose length is wrong ends the
    group.
    """
    fine, ioam = "00000000", "23010000" + "00000000"
    decoded = decode_plain(frame_batch([_group(fine, ioam, fine)], Link.UDP_PAYLOAD))
    assert decoded.reports["reason"].tolist() == [0, Reason.UNSUPPORTED, 0]
    assert decoded.reports["index"].tolist() == [0, 1, 2]
    assert decoded.reports["sequence"].tolist() == [5, 5, 5]
    assert decoded.reports["kind"].tolist() == [Kind.INNER, Kind.INT, Kind.INNER]
    decoded = decode_plain(frame_batch([_group(fine, "13090000", fine)], Link.UDP_PAYLOAD))
    assert decoded.reports["reason"].tolist() == [0, Reason.TRUNCATED]
    assert decoded.reports["node_id"].tolist() == [7, 7]


def test_a_group_of_empty_reports_is_not_read_to_its_end() -> None:
    """The ninth report of a datagram without packet and metadata is rejected, or the 65th damaged one, and
    the rest is not read.
    """
    fine, unsupported = "00000000", "2301000000000000"
    decoded = decode_plain(frame_batch([_group(*[fine] * 8)], Link.UDP_PAYLOAD))
    assert decoded.reports["reason"].tolist() == [0] * 8
    for empty, most in ((fine, 8), (unsupported, 64)):
        frames = frame_batch([_group(*[empty] * 8000), _group(fine)], Link.UDP_PAYLOAD)
        reports = decode_plain(frames).reports
        assert reports["packet"].tolist() == [0] * (most + 1) + [1]
        found = Reason(reports["reason"][most]), Place(reports["place"][most])
        assert found == (Reason.EMPTY_REPORTS, Place.REPORT_HEADER)
        assert reports["reason_at"][most] == 8 + most * len(empty) // 2
        assert reports["reason"][-1] == 0


def test_a_group_has_a_report() -> None:
    """A group header with nothing behind it is refused, as is an empty datagram."""
    for payload in (_group(), b""):
        assert _one(payload, Link.UDP_PAYLOAD)[:2] == (Reason.TRUNCATED, Place.REPORT_HEADER)


def _inner(proto: int = 17) -> tuple[bytearray, int]:
    """A whole frame, and where its inner IP header begins."""
    frame = bytearray(frames_of(encode_scalar(reports(5, 20, proto=proto)))[0])
    return frame, 42 + 12 + 14


@pytest.mark.parametrize(
    ("at", "value", "reason", "place"),
    [
        (0, 0x65, Reason.UNKNOWN_VERSION, Place.INNER_IP),
        (0, 0x44, Reason.BAD_LENGTH, Place.INNER_IP),
        (6, 0x20, Reason.FRAGMENT, Place.INNER_IP),
        (7, 0x10, Reason.FRAGMENT, Place.INNER_IP),
        (28, 0x40, Reason.UNKNOWN_TYPE, Place.INT_SHIM),
        (28, 0x20, Reason.UNSUPPORTED, Place.INT_SHIM),
        (29, 2, Reason.BAD_LENGTH, Place.INT_SHIM),
        (29, 11, Reason.BAD_LENGTH, Place.INT_STACK),
        (29, 15, Reason.TRUNCATED, Place.INT_STACK),
        (32, 0x30, Reason.UNKNOWN_VERSION, Place.INT_HEADER),
        (34, 0, Reason.BAD_HOP_SIZE, Place.INT_HEADER),
        (36, 0xF0, Reason.BAD_HOP_SIZE, Place.INT_HEADER),
    ],
)
def test_refusals_of_the_inner_packet(at: int, value: int, reason: Reason, place: Place) -> None:
    """One byte changed, and the reason and the header that it is found in."""
    frame, ip = _inner()
    frame[ip + at] = value
    assert _one(bytes(frame))[:2] == (reason, place)


def test_the_inner_length_bounds_int() -> None:
    """An IP length that ends within the stack contradicts the shim's length."""
    frame, ip = _inner()
    frame[ip + 2 : ip + 4] = (50).to_bytes(2, "big")
    assert _one(bytes(frame))[:2] == (Reason.BAD_LENGTH, Place.INT_STACK)


def test_dscp_without_int() -> None:
    """Ordinary traffic with an indicating DSCP is no INT where the report does not track the flow."""
    frame, ip = _inner()
    frame[ip + 28] = 0x99
    assert _one(bytes(frame))[:2] == (Reason.UNKNOWN_TYPE, Place.INT_SHIM)
    frame[42 + 1] &= ~0x20  # F
    decoded = decode_plain(frame_batch([bytes(frame)]))
    assert decoded.reports["reason"].tolist() == [0]
    assert decoded.reports["int_version"].tolist() == [0]
    assert decoded.reports["sport"].tolist() == [4000]


def test_int_is_not_gated_on_f() -> None:
    """A production network sends F = 0 with INT inside: the indicator decides."""
    frame, _ = _inner()
    frame[42 + 1] &= ~0x20
    assert _one(bytes(frame)) == (0, 0, 3)


def test_no_indicator_no_int() -> None:
    """Without an indicating DSCP or port, what follows UDP is payload."""
    frame, ip = _inner()
    frame[ip + 1] = 0
    decoded = decode_plain(frame_batch([bytes(frame)]))
    assert decoded.reports["int_version"].tolist() == [0]
    decoded = decode_plain(frame_batch([bytes(frame)]), Dialect("port", int_ports=(53,)))
    assert decoded.reports["hop_count"].tolist() == [3]


def test_npt() -> None:
    """NPT 1 restores the UDP port; NPT 2 the protocol, with the ports behind the stack."""
    frame, ip = _inner()
    frame[ip + 28] = 0x14
    frame[ip + 30 : ip + 32] = (8053).to_bytes(2, "big")
    decoded = decode_plain(frame_batch([bytes(frame)]))
    assert (decoded.reports["dport"][0], decoded.reports["proto"][0]) == (8053, 17)
    frame[ip + 28] = 0x18
    frame[ip + 31] = 6
    assert _one(bytes(frame))[:2] == (Reason.TRUNCATED, Place.INNER_L4)
    frame += bytes.fromhex("00500051")
    for at, extra in ((16, 4), (38, 4), (ip + 2, 4)):  # outer IP, outer UDP and inner IP lengths
        frame[at : at + 2] = (int.from_bytes(frame[at : at + 2], "big") + extra).to_bytes(2, "big")
    decoded = decode_plain(frame_batch([bytes(frame)]))
    assert decoded.reports[["sport", "dport", "proto"]][0].item() == (0x50, 0x51, 6)
    frame[ip + 31] = 50
    decoded = decode_plain(frame_batch([bytes(frame)]))
    assert decoded.reports[["sport", "dport", "proto"]][0].item() == (0, 0, 50)
    assert not decoded.reports["carried"][0] & Carried.PORTS


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({20: 0x20}, (Reason.FRAGMENT, Place.OUTER_IP)),  # more fragments
        ({38: 0, 39: 7}, (Reason.BAD_LENGTH, Place.OUTER_UDP)),
        ({38: 0x7F}, (Reason.BAD_LENGTH, Place.OUTER_UDP)),
    ],
)
def test_outer_refusals(change: dict[int, int], expected: tuple[Reason, Place]) -> None:
    """A first fragment and wrong UDP lengths on a report port are refused."""
    frame, _ = _inner()
    for at, value in change.items():
        frame[at] = value
    assert _one(bytes(frame))[:2] == expected


@pytest.mark.parametrize("change", [{21: 1}, {23: 6}, {36: 1}, {12: 9}, {14: 0x44}, {14: 0x65}, {17: 19}])
def test_other_frames(change: dict[int, int]) -> None:
    """Later fragments, other protocols, ports and broken outer IP headers are no reports."""
    frame, _ = _inner()
    if 17 in change:
        frame[16] = 0
    for at, value in change.items():
        frame[at] = value
    decoded = decode_plain(frame_batch([bytes(frame)]))
    assert (len(decoded), decoded.other) == (0, 1)


def test_no_numba() -> None:
    """A small capture is decoded without importing Numba, whose start takes longer than the decoding."""
    modules = "hopscope.wire.decode.decoder, hopscope.wire.decode.as_json"
    code = f"import sys, {modules}; assert 'numba' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
