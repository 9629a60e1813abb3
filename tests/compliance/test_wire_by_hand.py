"""What must be said of Reports 0.5 and 1.0, built by hand from the texts."""

from __future__ import annotations

import pytest

from support.packets.by_hand import (
    FLOW,
    FLOW_6,
    FLOW_TCP,
    ONES,
    Report,
    ethernet,
    inner_udp,
    int_0_5,
    int_1_0,
    ipv4,
    ipv6,
    one,
    outer,
    report_0_5,
    report_1_0,
    tcp,
    u32,
    udp,
)

pytestmark = pytest.mark.kernel


# ------------------------------------------------------------------------------------------------- Report 0.5


def test_report_0_5_with_int_over_udp() -> None:
    """Every key, and its order of hops: the stack has the newest hop first."""
    telemetry = int_0_5(0xC000, [u32(3, 0x30004), u32(2, ONES), u32(ONES, 0xFFFF0001)], tail=(17, 53))
    assert one(outer(report_0_5(ethernet(inner_udp(telemetry, dport=9999))))) == {
        "packet": 0, "index": 0, "time_ns": 1_700_000_000_000_000_000, "source": "192.0.2.1",
        "report": {
            "version": "0.5", "kind": "int", "hw_id": 1, "sequence": 42, "dropped": False, "congested": False,
            "tracked": True, "ingress_time": 77, "metadata": {},
        },
        "flow": FLOW,
        "int": {
            "version": "0.5", "mode": "md", "carrier": "udp", "instructions": "0xc000", "hop_words": 2,
            "remaining_hops": 29, "hops_exceeded": False,
        },
        "hops": [
            {"node_id": None, "ingress_port": 0xFFFF, "egress_port": 1},
            {"node_id": 2, "ingress_port": None, "egress_port": None},
            {"node_id": 3, "ingress_port": 3, "egress_port": 4},
        ],
    }  # fmt: skip


def test_report_0_5_with_int_over_tcp_with_options() -> None:
    """All eight instructions of 0.5: bit 6 is the queue congestion; 32-bit timestamps."""
    values = u32(4, 0x10002, 250, 0x05FFFFFF, 1000, ONES, 0x05000009, 80)
    segment = tcp(int_0_5(0xFF00, [values], tail=(6, 53)), options=b"\x01" * 12, dport=1)
    for version in (0, 1):
        found = one(outer(report_0_5(ethernet(ipv4(segment, 6, dscp=1)), version=version)))
        assert found["report"]["version"] == "0.5"
        assert found["flow"] == FLOW_TCP
        assert found["hops"] == [
            {
                "node_id": 4, "ingress_port": 1, "egress_port": 2, "hop_latency": 250, "queue_id": 5,
                "queue_occupancy": 0xFFFFFF, "ingress_time": 1000, "egress_time": None, "queue_congestion": 9,
                "tx_utilization": 80,
            }
        ]  # fmt: skip


def test_int_0_5_congestion_without_occupancy() -> None:
    """The congestion word names its queue; where the occupancy's word is all ones, too."""
    (hop,) = one(outer(report_0_5(ethernet(inner_udp(int_0_5(0x0200, [u32(0x06000007)]))))))["hops"]
    assert hop == {"queue_id": 6, "queue_congestion": 7}
    (hop,) = one(outer(report_0_5(ethernet(inner_udp(int_0_5(0x1200, [u32(ONES, 0x06000007)]))))))["hops"]
    assert hop == {"queue_id": 6, "queue_occupancy": None, "queue_congestion": 7}


def test_report_0_5_drop() -> None:
    """NProto 1: the drop header."""
    frame = outer(report_0_5(ethernet(ipv4(udp(b"x"))), nproto=1, flags="D", own=u32(9, 0x10002, 0x03040000)))
    found = one(frame)
    assert found["report"] == {
        "version": "0.5", "kind": "drop", "node_id": 9, "hw_id": 1, "sequence": 42, "dropped": True,
        "congested": False, "tracked": False, "drop_reason": 4, "queue_id": 3, "ingress_time": 77,
        "metadata": {"ingress_port": 1, "egress_port": 2},
    }  # fmt: skip
    assert found["flow"] == FLOW
    assert "int" not in found
    assert "hops" not in found


def test_report_0_5_switch_local() -> None:
    """NProto 2: the switch-local header."""
    own = u32(9, ONES, 0x03000040, 99)
    found = one(outer(report_0_5(ethernet(ipv4(udp(b"x"))), nproto=2, flags="Q", own=own)))
    assert found["report"] == {
        "version": "0.5", "kind": "queue", "node_id": 9, "hw_id": 1, "sequence": 42, "dropped": False,
        "congested": True, "tracked": False, "queue_id": 3, "ingress_time": 77,
        "metadata": {
            "ingress_port": None, "egress_port": None, "queue_id": 3, "queue_occupancy": 64,
            "egress_time": 99,
        },
    }  # fmt: skip


# ------------------------------------------------------------------------------------------------- Report 1.0


def test_report_1_0_with_all_metadata() -> None:
    """All RepMdBits, with an inner IPv4 packet."""
    own = u32(0x10002, 12, 0x05000006, 88, 0x05040000, 55)
    found = one(outer(report_1_0(ipv4(udp(b"x")), nprot=1, flags="DQF", bits=0x3F, own=own)))
    assert found["report"] == {
        "version": "1.0", "kind": "drop", "node_id": 7, "hw_id": 1, "sequence": 42, "dropped": True,
        "congested": True, "tracked": True, "drop_reason": 4, "queue_id": 5, "ingress_time": 77,
        "metadata": {
            "ingress_port": 1, "egress_port": 2, "hop_latency": 12, "queue_id": 5, "queue_occupancy": 6,
            "egress_time": 88, "tx_utilization": 55,
        },
    }  # fmt: skip
    assert found["flow"] == FLOW


@pytest.mark.parametrize(
    ("bit", "own", "expected"),
    [
        (0x20, 0x30004, {"metadata": {"ingress_port": 3, "egress_port": 4}}),
        (0x20, ONES, {"metadata": {"ingress_port": None, "egress_port": None}}),
        (0x10, ONES, {"metadata": {"hop_latency": None}}),
        (0x08, 0x01000002, {"queue_id": 1, "metadata": {"queue_id": 1, "queue_occupancy": 2}}),
        (0x08, ONES, {"queue_id": None, "metadata": {"queue_id": None, "queue_occupancy": None}}),
        (0x04, 5, {"metadata": {"egress_time": 5}}),
        (0x02, 0x01020000, {"drop_reason": 2, "queue_id": 1, "metadata": {}}),
        (0x02, ONES, {"drop_reason": None, "queue_id": None, "metadata": {}}),
        (0x01, 6, {"metadata": {"tx_utilization": 6}}),
        (0, None, {"metadata": {}}),
    ],
)
def test_report_1_0_metadata_by_bit(bit: int, own: int | None, expected: Report) -> None:
    """Each RepMdBit alone: its keys, no others, and null where its word is all ones."""
    found = one(
        outer(report_1_0(ethernet(ipv4(udp(b"x"))), bits=bit, own=u32(own) if own is not None else b""))
    )
    common = {
        "version": "1.0", "kind": "int", "node_id": 7, "hw_id": 1, "sequence": 42, "dropped": False,
        "congested": False, "tracked": True, "ingress_time": 77,
    }  # fmt: skip
    assert found["report"] == common | expected


def test_int_1_0_with_l2_ports_and_checksum_complement() -> None:
    """Bit 6 of INT 1.0 is 8 bytes, bit 15 the last word."""
    values = u32(4, 0x10002, 250, 0x05000006, 1000, 1250, 21, 22, 80, ONES)
    far = values[:-4] + u32(3)
    inner = ipv6(udp(int_1_0(0xFF01, [values, far], 10, flags=0x0180)), dscp=0x20)
    found = one(outer(report_1_0(inner, nprot=2)))
    assert found["flow"] == FLOW_6
    assert found["int"] == {
        "version": "1.0", "mode": "md", "carrier": "udp", "instructions": "0xff01", "hop_words": 10,
        "remaining_hops": 5, "hops_exceeded": True, "mtu_exceeded": True,
    }  # fmt: skip
    assert found["hops"][1] == {
        "node_id": 4, "ingress_port": 1, "egress_port": 2, "hop_latency": 250, "queue_id": 5,
        "queue_occupancy": 6, "ingress_time": 1000, "egress_time": 1250, "l2_ingress_port": 21,
        "l2_egress_port": 22, "tx_utilization": 80, "checksum_complement": None,
    }  # fmt: skip
    assert found["hops"][0]["checksum_complement"] == 3
