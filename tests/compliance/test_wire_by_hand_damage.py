"""Limits, damage and truncation of reports that were built by hand."""

from __future__ import annotations

import pytest

from support.packets.by_hand import (
    EXTENSIONS,
    FLOW,
    PATH_2,
    SIMPLE,
    STACK_2,
    decode,
    error_of,
    ethernet,
    group,
    hop_2,
    inner_udp,
    int_0_5,
    int_1_0,
    int_2,
    ipv4,
    ipv6,
    one,
    outer,
    report_0_5,
    report_1_0,
    single,
    tcp,
    u32,
    udp,
)

pytestmark = pytest.mark.kernel


# ----------------------------------------------------------------------------------------------------- limits


@pytest.mark.parametrize("count", [0, 1, 2, 6, 63, 64])
def test_up_to_64_hops(count: int) -> None:
    """Any number of hops up to 64, in path order."""
    stacks = [hop_2(node, 5) for node in range(count, 0, -1)]
    old = [u32(node) for node in range(count, 0, -1)]
    path = list(range(1, count + 1))
    for frame in (
        outer(group(single(ethernet(inner_udp(int_2(0xA000, stacks, 2))), length=0xFF))),
        outer(report_1_0(ethernet(inner_udp(int_1_0(0xA000, stacks, 2))))),
        outer(report_0_5(ethernet(inner_udp(int_0_5(0x8000, old))))),
    ):
        assert [hop["node_id"] for hop in one(frame)["hops"]] == path


@pytest.mark.parametrize("count", [65, 252])
def test_more_than_64_hops(count: int) -> None:
    """65 hops, and a stack of 255 words, are refused by name."""
    stack = [u32(1)] * count
    for telemetry in (int_2(0x8000, stack, 1), int_1_0(0x8000, stack, 1)):
        frame = outer(group(single(ethernet(inner_udp(telemetry)), length=0xFF)))
        assert error_of(one(frame)) == ("too_many_hops", "int stack")


@pytest.mark.parametrize(
    ("telemetry", "expected"),
    [
        (int_2(0xA000, STACK_2, 0), ("bad_hop_size", "int header")),
        (int_2(0xA000, STACK_2, 3), ("bad_hop_size", "int header")),
        (int_1_0(0xA000, STACK_2, 0), ("bad_hop_size", "int header")),
        (int_0_5(0x8000, [u32(1)], total=2), ("bad_length", "int stack")),
        (int_0_5(0, [], total=0), ("bad_hop_size", "int header")),
        (int_2(0xA000, [*STACK_2, u32(1)], 2), ("bad_length", "int stack")),
        (int_2(0xA000, STACK_2, 2)[:1] + b"\x02" + int_2(0xA000, STACK_2, 2)[2:], ("bad_length", "int shim")),
        (int_2(0xA000, STACK_2, 2)[:1] + b"\xff" + int_2(0xA000, STACK_2, 2)[2:], ("truncated", "int stack")),
        (int_2(0xA000, STACK_2, 2, flags=0x1000), ("unknown_version", "int header")),
        (b"\x00" + int_2(0xA000, STACK_2, 2)[1:], ("unknown_type", "int shim")),
        (b"\x20" + int_2(0xA000, STACK_2, 2)[1:], ("unsupported", "int shim")),
    ],
)
def test_damaged_int(telemetry: bytes, expected: tuple[str, str]) -> None:
    """What is damaged in INT has a reason and a place."""
    inner = ipv4(udp(telemetry), dscp=0x17)
    assert error_of(one(outer(group(single(inner, kind=4))))) == expected


@pytest.mark.parametrize(
    "payload", [b"\x30 digits", b"\x20", b"\x01text" + bytes(30), b"\x12" + b"text" * 9, b"GET /"]
)
@pytest.mark.parametrize("flags", ["D", "Q", ""])
def test_ordinary_traffic_with_the_dscp_of_int(payload: bytes, flags: str) -> None:
    """F=0 says that no INT is in the packet: what reads as damaged INT there is ordinary traffic."""
    inner = ethernet(inner_udp(payload))
    for frame in (outer(report_0_5(inner, flags=flags)), outer(group(single(inner, flags=flags)))):
        found = one(frame)
        assert found["flow"] == FLOW
        assert "int" not in found


@pytest.mark.parametrize("flags", ["D", ""])
def test_int_in_untracked_packets(flags: str) -> None:
    """INT is read where F=0, too: there are switches that do not set it."""
    inner = ethernet(inner_udp(int_2(0xA000, STACK_2, 2)))
    assert one(outer(group(single(inner, flags=flags))))["hops"] == PATH_2


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        (b"", ("truncated", "report header")),
        (b"\x30" + bytes(40), ("unknown_version", "report header")),
        (report_0_5(b"", nproto=3), ("unknown_type", "report header")),
        (report_1_0(b"", nprot=3), ("unknown_type", "report header")),
        (report_1_0(b"", bits=1), ("bad_length", "report header")),
        (group(), ("truncated", "report header")),
        (group(single(b"", rep=2)), ("unsupported", "report header")),
        (group(single(b"", rep=3)), ("unknown_type", "report header")),
        (group(single(b"", kind=6)), ("unknown_type", "report header")),
        (group(single(b"", kind=0, bits=0x2000, own=u32(1), md_length=0)), ("bad_length", "report metadata")),
        (group(single(b"", kind=0, md_length=9)), ("bad_length", "report metadata")),
        (group(single(b"", kind=0, length=9)), ("truncated", "report header")),
        (group(single(ipv4(udp(b"x"), fragment=0x2000), kind=4)), ("fragment", "inner ip")),
        (group(single(ipv4(udp(b"x"), fragment=2), kind=4)), ("fragment", "inner ip")),
        (
            group(single(ipv6(udp(b"x"), 17, 0, ((44, b"\0\0\x01" + bytes(4)),)), kind=5)),
            ("fragment", "inner ip"),
        ),
        (group(single(ipv4(b"x"), kind=5)), ("truncated", "inner ip")),
        (group(single(ipv4(bytes(40)), kind=5)), ("unknown_version", "inner ip")),
    ],
)
def test_damaged_reports(report: bytes, expected: tuple[str, str]) -> None:
    """What is damaged in a report's headers has a reason and a place."""
    assert error_of(one(outer(report))) == expected


# ------------------------------------------------------------------------------------------------- truncation

WHOLE = {
    "0.5": outer(report_0_5(ethernet(inner_udp(int_0_5(0xA000, STACK_2), dport=9999)))),
    "0.5 tcp": outer(report_0_5(ethernet(ipv4(tcp(int_0_5(0xA000, STACK_2, tail=(6, 53))), 6, 1)))),
    "0.5 drop": outer(report_0_5(ethernet(ipv4(udp(b"x"))), nproto=1, flags="D", own=u32(9, 2, 3 << 16))),
    "1.0": outer(report_1_0(ipv4(udp(int_1_0(0xA000, STACK_2, 2)), dscp=1), nprot=1, bits=9, own=u32(1, 2))),
    "2.0": outer(group(single(inner_udp(int_2(0xA000, STACK_2, 2)), kind=4, bits=0x2000, own=u32(12)))),
    "2.0 npt 2": outer(
        group(single(inner_udp(int_2(0xA000, STACK_2, 2, npt=2, original=6) + tcp(b"x")), kind=4))
    ),
    "2.0 tcp": outer(
        group(single(ethernet(ipv4(tcp(int_2(0xA000, STACK_2, 2), b"\1" * 8), 6, 0x17)), length=0xFF))
    ),
    "2.0 six": ethernet(ipv6(udp(SIMPLE, 32766), extensions=EXTENSIONS), 0x86DD),
    "2.0 group": outer(group(*[single(inner_udp(int_2(0xA000, STACK_2, 2)), kind=4)] * 3)),
}


@pytest.mark.parametrize("name", WHOLE)
def test_truncated_at_every_byte(name: str) -> None:
    """A capture that cuts the frame anywhere: a refusal with a reason, or exactly what the whole report says;
    never a part of the hops.
    """
    whole = decode(WHOLE[name])
    for cut in range(len(WHOLE[name])):
        found = decode(WHOLE[name], snap=cut)
        for report, full in zip(found, whole, strict=False):
            if "error" in report:
                assert error_of(report)[0] == "truncated", cut
            else:
                assert report == full, cut
        assert found or cut < WHOLE[name].index(b"\x7f\xfe") + 2  # the port, 32766


def test_inner_packet_cut_behind_int() -> None:
    """A sink may cut the packet right behind the stack, in every version."""
    telemetry = int_2(0xA000, STACK_2, 2)
    cut = len(inner_udp(telemetry)) - 8
    for report in (
        group(single(inner_udp(telemetry)[:cut], kind=4)),
        report_1_0(inner_udp(int_1_0(0xA000, STACK_2, 2))[: cut - 4], nprot=1),
        report_0_5(ethernet(inner_udp(int_0_5(0xA000, STACK_2)))[: cut + 14]),
    ):
        assert one(outer(report))["hops"] == PATH_2


def test_a_datagram_full_of_damaged_reports() -> None:
    """Above 9 KB, with 64 refused reports: each has its own detail, found in one reading of the frame. One
    more ends the reading.
    """
    damaged = single(b"", rep=3, kind=0, length=40) + u32(*[0] * 40)
    most = decode(outer(group(*[damaged] * 64)))
    found = decode(outer(group(*[damaged] * 70)))
    assert [f["index"] for f in most] == list(range(64))
    assert [f["index"] for f in found] == list(range(65))
    assert all("RepType 3" in f["error"]["detail"] for f in [*most, *found[:-1]])
    assert found[-1]["error"]["reason"] == "empty_reports"
