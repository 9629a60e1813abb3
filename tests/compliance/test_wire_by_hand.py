"""Packets built by hand from the texts of the specifications, not by the project's encoder, and what must be
said of them. Every case goes through a capture file and both decoders.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from io import BytesIO
from socket import AF_INET6, inet_aton, inet_pton
from typing import Any

import pytest

from hopscope.capture.pcap import Reader
from hopscope.wire.as_json import report_objects
from hopscope.wire.decode import Decoder, decode_scalar

pytestmark = pytest.mark.kernel
Report = dict[str, Any]

FLOW = {"src": "198.51.100.1", "dst": "203.0.113.9", "proto": 17, "sport": 4000, "dport": 53}
FLOW_TCP = FLOW | {"proto": 6}
FLOW_6 = FLOW | {"src": "2001:db8::1", "dst": "2001:db8::9"}
ONES = 0xFFFFFFFF


# ------------------------------------------------------------------------------------- outer and inner layers


def ethernet(payload: bytes, type_: int = 0x0800, tags: tuple[int, ...] = ()) -> bytes:
    """Ethernet; `tags` are the EtherTypes of its VLAN tags."""
    out = bytes(12)
    for tag in tags:
        out += struct.pack("!HH", tag, 100)
    return out + struct.pack("!H", type_) + payload


def ipv4(
    payload: bytes,
    proto: int = 17,
    dscp: int = 0,
    options: bytes = b"",
    outer: bool = False,
    fragment: int = 0,
) -> bytes:
    """IPv4, checksum 0; `fragment` is its third 16-bit pair."""
    source, destination = ("192.0.2.1", "192.0.2.2") if outer else (FLOW["src"], FLOW["dst"])
    size = 20 + len(options)
    head = struct.pack(
        "!BBHHHBBH", 0x40 | size // 4, dscp << 2, size + len(payload), 1, fragment, 9, proto, 0
    )
    return head + inet_aton(str(source)) + inet_aton(str(destination)) + options + payload


def ipv6(
    payload: bytes, proto: int = 17, dscp: int = 0, extensions: tuple[tuple[int, bytes], ...] = ()
) -> bytes:
    """IPv6; `extensions` are (own type, bytes behind the next-header field)."""
    kinds = [*(kind for kind, _ in extensions), proto]
    behind = b"".join(bytes([kinds[i + 1]]) + body for i, (_, body) in enumerate(extensions)) + payload
    head = struct.pack("!IHBB", 6 << 28 | dscp << 22, len(behind), kinds[0], 9)
    return head + inet_pton(AF_INET6, "2001:db8::1") + inet_pton(AF_INET6, "2001:db8::9") + behind


def udp(payload: bytes, dport: int = 53, sport: int = 4000) -> bytes:
    """UDP, checksum 0."""
    return struct.pack("!HHHH", sport, dport, 8 + len(payload), 0) + payload


def tcp(payload: bytes, options: bytes = b"", dport: int = 53) -> bytes:
    """TCP."""
    offset = (20 + len(options)) // 4 << 4
    return struct.pack("!HHIIBBHHH", 4000, dport, 1, 2, offset, 0x10, 3, 0, 0) + options + payload


def outer(report: bytes, port: int = 32766) -> bytes:
    """A report in Ethernet, IPv4 and UDP."""
    return ethernet(ipv4(udp(report, port), outer=True))


def u32(*values: int) -> bytes:
    """Words."""
    return struct.pack(f"!{len(values)}I", *values)


def u64(*values: int) -> bytes:
    """Double words."""
    return struct.pack(f"!{len(values)}Q", *values)


# -------------------------------------------------------------------------------------------------------- INT


def int_0_5(
    bitmap: int,
    stack: list[bytes],
    *,
    tail: tuple[int, int] = (17, 53),
    flags: int = 0,
    total: int | None = None,
) -> bytes:
    """INT 0.5: shim, header, stack (newest first) and tail."""
    words = sum(map(len, stack)) // 4
    head = struct.pack("!BBBB", 1, 0, words + 4, 0) + struct.pack(
        "!BBBBHH", flags, bitmap.bit_count(), 32, len(stack) if total is None else total, bitmap, 0
    )
    return head + b"".join(stack) + struct.pack("!BHB", *tail, 0)


def int_1_0(bitmap: int, stack: list[bytes], hop_words: int, flags: int = 0) -> bytes:
    """INT 1.0: shim (Length with itself), header and stack."""
    words = sum(map(len, stack)) // 4
    return struct.pack("!BBBBHBBHH", 1, 0, words + 3, 0, 0x1000 | flags, hop_words, 5, bitmap, 0) + b"".join(
        stack
    )


def int_2(
    bitmap: int, stack: list[bytes], hop_words: int, *, npt: int = 0, original: int = 0, flags: int = 0,
    domain: tuple[int, int, int] = (0, 0, 0),
) -> bytes:  # fmt: skip
    """INT-MD 2.x: shim (Length without itself), header and stack."""
    words = sum(map(len, stack)) // 4
    shim = struct.pack("!BBH", 0x10 | npt << 2, words + 3, original)
    return shim + struct.pack("!HBBHHHH", 0x2000 | flags, hop_words, 5, bitmap, *domain) + b"".join(stack)


def report_0_5(
    inner: bytes, *, nproto: int = 0, flags: str = "F", own: bytes = b"", version: int = 0
) -> bytes:
    """Report 0.5: hw_id 1, sequence 42, ingress timestamp 77."""
    bits = 4 * ("D" in flags) | 2 * ("Q" in flags) | ("F" in flags)
    return u32(version << 28 | nproto << 24 | bits << 21 | 1, 42, 77) + own + inner


def report_1_0(inner: bytes, *, nprot: int = 0, flags: str = "F", bits: int = 0, own: bytes = b"") -> bytes:
    """Report 1.0: switch 7, hw_id 1, sequence 42, ingress timestamp 77."""
    dqf = 4 * ("D" in flags) | 2 * ("Q" in flags) | ("F" in flags)
    word = 1 << 28 | (4 + len(own) // 4) << 24 | nprot << 21 | bits << 15 | dqf << 6 | 1
    return u32(word, 7, 42, 77) + own + inner


def group(*reports: bytes) -> bytes:
    """Report 2.0 group: node 7, hw_id 1, sequence 42."""
    return u32(2 << 28 | 1 << 22 | 42, 7) + b"".join(reports)


def single(
    inner: bytes, *, rep: int = 1, kind: int = 3, flags: str = "F", bits: int = 0, own: bytes = b"",
    length: int | None = None, md_length: int | None = None,
) -> bytes:  # fmt: skip
    """An individual Report 2.0; Report Length counts the last word as whole."""
    main = struct.pack("!HHHH", bits, 0, 0, 0) + own if rep == 1 else b""
    dqfi = 8 * ("D" in flags) | 4 * ("Q" in flags) | 2 * ("F" in flags) | ("I" in flags)
    if length is None:
        length = -(-len(main + inner) // 4)
    if md_length is None:
        md_length = len(own) // 4
    return struct.pack("!BBBB", rep << 4 | kind, length, md_length, dqfi << 4) + main + inner


# --------------------------------------------------------------------------------------------------- decoding


@lru_cache(1)
def _decoder() -> Decoder:
    return Decoder(frames=4)


def pcap(frames: list[bytes], linktype: int = 1, snap: int = 1 << 18) -> bytes:
    """A ns capture file; time is 1,700,000,000 s and the frame's number in ns."""
    out = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, snap, linktype)
    for i, frame in enumerate(frames):
        out += struct.pack("<IIII", 1_700_000_000, i, min(len(frame), snap), len(frame)) + frame[:snap]
    return out


def decode(*frames: bytes, linktype: int = 1, snap: int = 1 << 18) -> list[Report]:
    """The objects of all reports; both decoders must give the same."""
    return decode_file(pcap(list(frames), linktype, snap))


def decode_file(raw: bytes) -> list[Report]:
    """The objects of all reports in a capture file."""
    found: list[Report] = []
    for batch in Reader(BytesIO(raw)):
        plain = decode_scalar(batch)
        compiled = _decoder().decode(batch)
        assert plain.reports.tobytes() == compiled.reports.tobytes()
        assert plain.hops.tobytes() == compiled.hops.tobytes()
        assert plain.other == compiled.other
        found += report_objects(plain, batch)
    return found


def one(frame: bytes, linktype: int = 1) -> Report:
    """The object of the only report in a frame."""
    (found,) = decode(frame, linktype=linktype)
    return found


def error_of(found: Report) -> tuple[str, str]:
    """Reason and place of a refusal."""
    assert set(found) == {"packet", "index", "error"}
    assert set(found["error"]) == {"reason", "at", "detail"}
    assert found["error"]["detail"]
    return found["error"]["reason"], found["error"]["at"]


def inner_udp(telemetry: bytes, dscp: int = 0x17, dport: int = 53) -> bytes:
    """An inner IPv4 UDP packet with INT."""
    return ipv4(udp(telemetry + b"payload.", dport), dscp=dscp)


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
            "version": "0.5", "mode": "md", "instructions": "0xc000", "hop_words": 2, "remaining_hops": 29,
            "hops_exceeded": False,
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
        "version": "1.0", "mode": "md", "instructions": "0xff01", "hop_words": 10, "remaining_hops": 5,
        "hops_exceeded": True, "mtu_exceeded": True,
    }  # fmt: skip
    assert found["hops"][1] == {
        "node_id": 4, "ingress_port": 1, "egress_port": 2, "hop_latency": 250, "queue_id": 5,
        "queue_occupancy": 6, "ingress_time": 1000, "egress_time": 1250, "l2_ingress_port": 21,
        "l2_egress_port": 22, "tx_utilization": 80, "checksum_complement": None,
    }  # fmt: skip
    assert found["hops"][0]["checksum_complement"] == 3


# ------------------------------------------------------------------------------------------------- Report 2.0

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
        (3, ethernet(ipv4(udp(b"abcd")), tags=(0x88A8, 0x8100)), FLOW),
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


def hop_2(node: int, latency: int) -> bytes:
    """Node id and hop latency."""
    return u32(node, latency)


STACK_2 = [hop_2(3, 30), hop_2(2, ONES), hop_2(1, 10)]
PATH_2 = [
    {"node_id": 1, "hop_latency": 10},
    {"node_id": 2, "hop_latency": None},
    {"node_id": 3, "hop_latency": 30},
]


def test_int_2_with_the_original_dscp() -> None:
    """NPT 0: the flow is as in the inner headers; flags of the header; the report's own hop is apart."""
    telemetry = int_2(0xA000, STACK_2, 2, original=0x2E << 2, flags=0x0E00)
    found = one(outer(group(single(ethernet(inner_udp(telemetry)), bits=0x2000, own=u32(12)))))
    assert found["report"] == HEAD_2 | {"metadata": {"hop_latency": 12}}
    assert found["flow"] == FLOW
    assert found["int"] == {
        "version": "2", "mode": "md", "instructions": "0xa000", "hop_words": 2, "remaining_hops": 5,
        "hops_exceeded": True, "mtu_exceeded": True,
    }  # fmt: skip
    assert found["hops"] == PATH_2


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
            "checksum_complement": 0xC0DE,
        }
    ]  # fmt: skip


def test_int_2_source_only_metadata() -> None:
    """What the source alone adds lies in its record, before its checksum complement (INT 2.1 5.7)."""
    for word, value, source_only in ((11, 11, 0xD001), (ONES, None, 0xD001), (11, 11, ONES)):
        hops = [u32(2, 0xAAAA, 22), u32(1, 0xAAAA, source_only, word)]
        found = one(outer(group(single(ethernet(inner_udp(int_2(0x8001, hops, 3, domain=(5, 1, 0))))))))
        assert found["hops"] == [
            {"node_id": 1, "checksum_complement": value},
            {"node_id": 2, "checksum_complement": 22},
        ]
    found = one(
        outer(group(single(ethernet(inner_udp(int_2(0xA000, [*STACK_2, u32(9)], 2, domain=(5, 1, 0)))))))
    )
    assert found["hops"] == PATH_2


def test_domain_metadata_of_the_report() -> None:
    """MD Length above what RepMdBits imply: the rest is skipped, the inner packet is found behind it."""
    frame = outer(group(single(ethernet(ipv4(udp(b"x"))), bits=0x2000, own=u32(12, 1, 2, 3))))
    found = one(frame)
    assert found["report"] == HEAD_2 | {"metadata": {"hop_latency": 12}}
    assert found["flow"] == FLOW


@pytest.mark.parametrize("length", [0, 0xFF])
def test_report_length_to_the_end(length: int) -> None:
    """Report Length 0 (bmv2) and 255 reach to the end of the datagram."""
    inner = ethernet(inner_udp(int_2(0xA000, STACK_2, 2) + bytes(1200)))
    frame = outer(group(single(inner, bits=0x2000, own=u32(12), length=length)))
    found = one(frame + bytes(9))
    assert found["hops"] == PATH_2
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
        (b"\x30" + int_2(0xA000, STACK_2, 2)[1:], ("unsupported", "int shim")),
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


# ----------------------------------------------------------------------------------------- layers around them

EXTENSIONS = (
    (0, b"\x00" + bytes(6)),
    (60, b"\x01" + bytes(14)),
    (43, b"\x00" + bytes(6)),
    (44, b"\x00" + bytes(6)),  # a fragment that is the whole packet
    (51, b"\x04" + bytes(22)),
)
SIMPLE = group(single(ethernet(inner_udp(int_2(0xA000, STACK_2, 2)))))


@pytest.mark.parametrize(
    ("linktype", "frame"),
    [
        (1, ethernet(ipv4(udp(SIMPLE, 54321), outer=True), tags=(0x8100,))),
        (1, ethernet(ipv4(udp(SIMPLE, 8090), outer=True), tags=(0x88A8, 0x8100))),
        (1, ethernet(ipv4(udp(SIMPLE, 8086), outer=True, options=b"\x01" * 40))),
        (1, ethernet(ipv4(udp(SIMPLE, 1234), outer=True)) + bytes(30)),
        (113, bytes(14) + b"\x08\x00" + ipv4(udp(SIMPLE, 556), outer=True)),
        (276, b"\x08\x00" + bytes(18) + ipv4(udp(SIMPLE, 5900), outer=True)),
        (101, ipv4(udp(SIMPLE, 32766), outer=True)),
        (228, ipv4(udp(SIMPLE, 32766), outer=True)),
        (0, b"\x02\x00\x00\x00" + ipv4(udp(SIMPLE, 32766), outer=True)),
        (0, b"\x00\x00\x00\x02" + ipv4(udp(SIMPLE, 32766), outer=True)),
        (1, ethernet(ipv6(udp(SIMPLE, 32766)), 0x86DD)),
        (1, ethernet(ipv6(udp(SIMPLE, 32766), extensions=EXTENSIONS), 0x86DD)),
        (101, ipv6(udp(SIMPLE, 32766), extensions=EXTENSIONS[:3])),
        (0, b"\x1e\x00\x00\x00" + ipv6(udp(SIMPLE, 32766))),
    ],
)
def test_outer_layers(linktype: int, frame: bytes) -> None:
    """VLAN, QinQ, options, extension headers, link types, every port: the report is found."""
    found = one(frame, linktype)
    assert found["source"] in ("192.0.2.1", "2001:db8::1")
    assert found["hops"] == PATH_2


@pytest.mark.parametrize("tags", [(), (0x8100,), (0x88A8, 0x8100)])
def test_inner_layers(tags: tuple[int, ...]) -> None:
    """VLAN and QinQ, IPv4 options and IPv6 extension headers around INT."""
    telemetry = int_2(0xA000, STACK_2, 2)
    for type_, inner in (
        (0x0800, ipv4(udp(telemetry), dscp=0x17, options=b"\x01" * 12)),
        (0x86DD, ipv6(udp(telemetry), dscp=0x17, extensions=EXTENSIONS)),
        (0x86DD, ipv6(tcp(telemetry, b"\x01" * 40), 6, dscp=0x17)),
    ):
        assert one(outer(group(single(ethernet(inner, type_, tags)))))["hops"] == PATH_2


def test_fragments_of_a_report() -> None:
    """The first fragment of a report is refused by name; a later one has no port."""
    first = ethernet(ipv4(udp(SIMPLE, 32766), outer=True, fragment=0x2000))
    assert error_of(one(first)) == ("fragment", "outer ip")
    assert decode(ethernet(ipv4(udp(SIMPLE, 32766), outer=True, fragment=9))) == []
    six = ipv6(udp(SIMPLE, 32766), extensions=((44, b"\x00\x00\x01" + bytes(4)),))
    assert error_of(one(ethernet(six, 0x86DD))) == ("fragment", "outer ip")


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0" * 13,
        outer(SIMPLE, 32767),
        ethernet(ipv4(tcp(SIMPLE), 6)),
        ethernet(b"\0" * 28, 0x0806),
        bytes(60),
    ],
)
def test_what_is_no_report(frame: bytes) -> None:
    """Other packets print nothing."""
    assert decode(frame) == []


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


# ------------------------------------------------------------------------------------------------------ files


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    """A block of a pcapng."""
    body = body.ljust(-(-len(body) // 4) * 4, b"\0")
    length = struct.pack(f"{order}I", len(body) + 12)
    return struct.pack(f"{order}I", kind) + length + body + length


@pytest.mark.parametrize("order", ["<", ">"])
def test_pcapng(order: str) -> None:
    """Two interfaces with clocks of their own, unknown blocks between, and a simple packet block."""
    frame = outer(SIMPLE)

    def interface(linktype: int, options: bytes = b"") -> bytes:
        return block(1, struct.pack(f"{order}HHI", linktype, 0, 0) + options, order)

    def packet(index: int, time: int, raw: bytes) -> bytes:
        head = struct.pack(f"{order}IIIII", index, time >> 32, time & ONES, len(raw), len(raw))
        return block(6, head + raw, order)

    nanoseconds = struct.pack(f"{order}HHB3xHH", 9, 1, 9, 0, 0)
    raw = block(0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1), order)
    raw += interface(1) + interface(101, nanoseconds) + packet(0, 1_700_000_000_000_001, frame)
    raw += block(0xBAD, b"any", order) + packet(1, 1_700_000_000_000_000_005, frame[14:])
    raw += block(3, struct.pack(f"{order}I", len(frame)) + frame, order)
    found = decode_file(raw)
    assert [f["packet"] for f in found] == [0, 1, 2]
    assert [f["time_ns"] for f in found[:2]] == [1_700_000_000_000_001_000, 1_700_000_000_000_000_005]
    assert all(f["hops"] == PATH_2 for f in found)


def test_a_datagram_full_of_damaged_reports() -> None:
    """Above 9 KB, with 2,000 refused reports: each has its own detail, found in one reading of the frame."""
    frame = outer(group(*[single(b"", rep=3, kind=0, length=1) + u32(0)] * 1999, single(b"", kind=0)))
    found = decode(frame)
    assert [f["index"] for f in found] == list(range(2000))
    assert all("RepType 3" in f["error"]["detail"] for f in found[:-1])
    assert "error" not in found[-1]
