"""What must be said of Reports 2.0, built by hand from the text."""

from __future__ import annotations

import struct

import pytest

from support.packets.by_hand import (
    FLOW,
    FLOW_6,
    FLOW_TCP,
    ONES,
    PATH_2,
    STACK_2,
    Report,
    decode,
    error_of,
    ethernet,
    group,
    hop_2,
    inner_udp,
    int_2,
    ipv4,
    ipv6,
    one,
    outer,
    report_1_0,
    single,
    tcp,
    u32,
    u64,
    udp,
)

pytestmark = pytest.mark.kernel


HEAD_2 = {
    "version": "2.0", "kind": "int", "node_id": 7, "hw_id": 1, "sequence": 42, "dropped": False,
    "congested": False, "tracked": True, "intermediate": False,
}  # fmt: skip


def test_report_2_0_with_all_metadata() -> None:
    """All defined RepMdBits: 64-bit timestamps, L2 ports, buffer, and the drop word at bit 15."""
    own = u32(0, 0x10002, 12, 0x05000006) + u64(1 << 40, (1 << 40) + 12) + u32(21, 22, 80, 0x07000008)
    own += u32(*[ONES] * 6) + u32(0x05040000)
    frame = outer(group(single(ethernet(ipv4(udp(b"x"))), flags="DI", bits=0xFFFF, own=own)))
    assert one(frame)["report"] == HEAD_2 | {
        "kind": "drop", "dropped": True, "tracked": False, "intermediate": True,
        "drop_reason": 4, "queue_id": 5, "ingress_time": 1 << 40,
        "metadata": {
            "ingress_port": 1, "egress_port": 2, "hop_latency": 12, "queue_id": 5, "queue_occupancy": 6,
            "ingress_time": 1 << 40, "egress_time": (1 << 40) + 12, "l2_ingress_port": 21,
            "l2_egress_port": 22, "tx_utilization": 80, "buffer_id": 7, "buffer_occupancy": 8,
        },
    }  # fmt: skip


@pytest.mark.parametrize(
    ("bit", "own", "expected"),
    [
        (0, u32(5), {"metadata": {}}),
        (4, u64((1 << 64) - 1), {"ingress_time": None, "metadata": {"ingress_time": None}}),
        (4, u64(ONES), {"ingress_time": ONES, "metadata": {"ingress_time": ONES}}),
        (5, u64((1 << 64) - 1), {"metadata": {"egress_time": None}}),
        (6, u64((1 << 64) - 1), {"metadata": {"l2_ingress_port": None, "l2_egress_port": None}}),
        (6, u32(ONES, 2), {"metadata": {"l2_ingress_port": ONES, "l2_egress_port": 2}}),
        (8, u32(ONES), {"metadata": {"buffer_id": None, "buffer_occupancy": None}}),
        (12, u32(5), {"metadata": {}}),
        (15, u32(0x05040000), {"drop_reason": 4, "queue_id": 5, "metadata": {}}),
        (15, u32(ONES), {"drop_reason": None, "queue_id": None, "metadata": {}}),
        (15, u32(0x05FF0000), {"drop_reason": 255, "queue_id": 5, "metadata": {}}),
    ],
)
def test_report_2_0_metadata_by_bit(bit: int, own: bytes, expected: Report) -> None:
    """Each RepMdBit alone: its keys, no others, and null where it is all ones."""
    frame = outer(group(single(ethernet(ipv4(udp(b"x"))), bits=0x8000 >> bit, own=own)))
    assert one(frame)["report"] == HEAD_2 | expected


@pytest.mark.parametrize(
    ("kind", "inner", "flow"),
    [
        (0, b"", None),
        (
            1,
            struct.pack("!BBH", 0, 1, 5) + u32(9) + struct.pack("!BBH", 2 << 4, 8, 0) + ipv4(udp(b"abcd")),
            FLOW,
        ),
        (1, struct.pack("!BBH", 3 << 4, 13, 0) + ipv6(udp(b"abcd")), FLOW_6),
        (2, u32(1, 2, 3), None),
        (3, ethernet(ipv4(udp(b"abcd"))), FLOW),
        (3, ethernet(ipv4(udp(b"abcd")), tags=(0x88A8, 0x8100)), FLOW | {"layers": ["qinq"], "vlan": 100}),
        (3, ethernet(b"\x00\x01" * 14, type_=0x0806), None),
        (4, ipv4(udp(b"abcd")), FLOW),
        (5, ipv6(udp(b"abcd")), FLOW_6),
    ],
)
@pytest.mark.parametrize("rep", [0, 1])
def test_report_2_0_inner_types(kind: int, inner: bytes, flow: Report | None, rep: int) -> None:
    """Every InType in both RepTypes; RepType 0 ignores MD Length, and is of kind inner."""
    found = one(outer(group(single(inner, rep=rep, kind=kind, md_length=None if rep else 9))))
    assert found["report"] == HEAD_2 | {"kind": "int" if rep else "inner", "metadata": {}}
    assert found.get("flow") == flow


@pytest.mark.parametrize(
    ("flags", "kind"), [("D", "drop"), ("DQF", "drop"), ("Q", "queue"), ("F", "int"), ("", "int")]
)
def test_kinds(flags: str, kind: str) -> None:
    """Kinds of 1.0 and 2.0, by D, Q and F."""
    inner = ethernet(ipv4(udp(b"x")))
    assert one(outer(report_1_0(inner, flags=flags)))["report"]["kind"] == kind
    assert one(outer(group(single(inner, flags=flags))))["report"]["kind"] == kind


def test_int_2_with_the_original_dscp() -> None:
    """NPT 0: the flow is as in the inner headers; flags of the header; the report's own hop is the last."""
    telemetry = int_2(0xA000, STACK_2, 2, original=0x2E << 2, flags=0x0E00)
    found = one(outer(group(single(ethernet(inner_udp(telemetry)), bits=0x2000, own=u32(12)))))
    assert found["report"] == HEAD_2 | {"metadata": {"hop_latency": 12}}
    assert found["flow"] == FLOW
    assert found["int"] == {
        "version": "2", "mode": "md", "carrier": "udp", "npt": 0, "instructions": "0xa000", "hop_words": 2,
        "remaining_hops": 5, "hops_exceeded": True, "mtu_exceeded": True,
    }  # fmt: skip
    assert found["hops"] == [*PATH_2, {"node_id": 7, "hop_latency": 12, "in_report": True}]


def test_the_sink_in_stack_and_report() -> None:
    """Metadata of the report are no further hop where they are of the stack's last node, or where there is
    no stack.
    """
    stack = [hop_2(7, 30), hop_2(1, 10)]
    same = ethernet(inner_udp(int_2(0xA000, stack, 2)))
    none = ethernet(inner_udp(b"", dscp=0))
    for inner, hops in ((same, [PATH_2[0], {"node_id": 7, "hop_latency": 30}]), (none, [])):
        found = one(outer(group(single(inner, bits=0x2000, own=u32(12)))))
        assert found["report"]["metadata"] == {"hop_latency": 12}
        assert found.get("hops", []) == hops


def test_int_2_with_the_original_port() -> None:
    """NPT 1: the flow has the port that the shim kept."""
    telemetry = int_2(0xA000, STACK_2, 2, npt=1, original=53)
    found = one(outer(group(single(ethernet(inner_udp(telemetry, dport=9999))))))
    assert found["flow"] == FLOW
    assert found["hops"] == PATH_2


@pytest.mark.parametrize(
    ("proto", "behind", "flow"),
    [
        (6, tcp(b"x"), FLOW_TCP),
        (17, udp(b"x"), FLOW),
        (1, b"\x08\x00", {"src": FLOW["src"], "dst": FLOW["dst"], "proto": 1}),
    ],
)
def test_int_2_with_an_inserted_udp_header(proto: int, behind: bytes, flow: Report) -> None:
    """NPT 2: the flow has the protocol that the shim kept, and the ports behind the stack."""
    telemetry = int_2(0xA000, STACK_2, 2, npt=2, original=proto)
    found = one(outer(group(single(ethernet(ipv4(udp(telemetry + behind, 9, 8), dscp=0x17))))))
    assert found["flow"] == flow
    assert found["hops"] == PATH_2


def test_int_2_all_instructions_and_domain_metadata() -> None:
    """Baseline, reserved words, 8 bytes of domain-specific metadata, and the checksum complement last."""
    values = u32(4, 0x10002, 250, 0x05000006) + u64(1000, (1 << 64) - 1) + u32(21, 22, 80, 0x07000008)
    values += u32(*[ONES] * 6) + u32(0xAAAA, 0xBBBB) + u32(0xC0DE)
    telemetry = int_2(0xFFFF, [values, values], len(values) // 4, domain=(5, 0xC000, 0))
    found = one(outer(group(single(ethernet(ipv4(tcp(telemetry, b"\x01" * 8), 6, dscp=0x17))))))
    assert found["int"]["instructions"] == "0xffff"
    assert found["flow"] == FLOW_TCP
    assert found["hops"] == 2 * [
        {
            "node_id": 4, "ingress_port": 1, "egress_port": 2, "hop_latency": 250, "queue_id": 5,
            "queue_occupancy": 6, "ingress_time": 1000, "egress_time": None, "l2_ingress_port": 21,
            "l2_egress_port": 22, "tx_utilization": 80, "buffer_id": 7, "buffer_occupancy": 8,
            "checksum_complement": 0xC0DE, "extras": {"ds": "0000aaaa0000bbbb"},
        }
    ]  # fmt: skip


def test_int_2_source_only_metadata() -> None:
    """What the source alone adds lies in its record, before its checksum complement (INT 2.1 5.7)."""
    for word, value, source_only in ((11, 11, 0xD001), (ONES, None, 0xD001), (11, 11, ONES)):
        hops = [u32(2, 0xAAAA, 22), u32(1, 0xAAAA, source_only, word)]
        found = one(outer(group(single(ethernet(inner_udp(int_2(0x8001, hops, 3, domain=(5, 1, 0))))))))
        assert found["hops"] == [
            {
                "node_id": 1,
                "checksum_complement": value,
                "extras": {"ds": "0000aaaa", "ds_source": f"{source_only:08x}"},
            },
            {"node_id": 2, "checksum_complement": 22, "extras": {"ds": "0000aaaa"}},
        ]
    found = one(
        outer(group(single(ethernet(inner_udp(int_2(0xA000, [*STACK_2, u32(9)], 2, domain=(5, 1, 0)))))))
    )
    assert found["hops"] == [
        {"node_id": 1, "hop_latency": 10, "extras": {"ds_source": "00000009"}},
        *PATH_2[1:],
    ]


def test_domain_metadata_of_the_report() -> None:
    """MD Length above what RepMdBits imply: the rest is raw, the inner packet is found behind it."""
    frame = outer(group(single(ethernet(ipv4(udp(b"x"))), bits=0x2000, own=u32(12, 1, 2, 3))))
    found = one(frame)
    assert found["report"] == HEAD_2 | {
        "metadata": {"hop_latency": 12},
        "extras": {"ds": "000000010000000200000003"},
    }
    assert found["flow"] == FLOW


@pytest.mark.parametrize("length", [0, 0xFF])
def test_report_length_to_the_end(length: int) -> None:
    """Report Length 0 (bmv2) and 255 reach to the end of the datagram."""
    inner = ethernet(inner_udp(int_2(0xA000, STACK_2, 2) + bytes(1200)))
    frame = outer(group(single(inner, bits=0x2000, own=u32(12), length=length)))
    found = one(frame + bytes(9))
    assert found["hops"][:-1] == PATH_2
    assert found["report"]["metadata"] == {"hop_latency": 12}


def test_group_with_a_damaged_report_in_the_middle() -> None:
    """Index counts within the group, and neighbours of a damaged report are whole."""
    good = single(ipv4(udp(int_2(0xA000, STACK_2, 2)), dscp=0x17), kind=4)
    bad = single(ipv4(udp(int_2(0xA000, STACK_2, 0)), dscp=0x17), kind=4)
    found = decode(outer(group(good, bad, good)), outer(group(bad)), outer(group(good)))
    assert [(f["packet"], f["index"], "error" in f) for f in found] == [
        (0, 0, False), (0, 1, True), (0, 2, False), (1, 0, True), (2, 0, False),
    ]  # fmt: skip
    assert [f["hops"] for f in found if "hops" in f] == [PATH_2] * 3
    assert error_of(found[1]) == ("bad_hop_size", "int header")


@pytest.mark.parametrize("spare", [1, 2, 3])
def test_padding_behind_a_group(spare: int) -> None:
    """Less than a header behind the last report is padding, whether Report Length was rounded down or up."""
    inner = ethernet(inner_udp(int_2(0xA000, STACK_2, 2)) + bytes(spare))
    assert one(outer(group(single(inner, length=(8 + len(inner)) // 4))))["hops"] == PATH_2
    assert one(outer(group(single(inner))))["hops"] == PATH_2
    assert one(outer(group(single(ipv4(udp(b"abcd")), kind=4)) + bytes(spare)))["flow"] == FLOW
