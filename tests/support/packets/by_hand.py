"""Packets built by hand from the texts of the specifications, not by the project's encoder; and both
decoders on a capture file that holds them.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from io import BytesIO
from socket import AF_INET6, inet_aton, inet_pton
from typing import Any

from hopscope.capture.pcap.reader import PcapReader
from hopscope.wire.decode.as_json import report_objects
from hopscope.wire.decode.decoder import Decoder
from hopscope.wire.decode.plain import decode_plain

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
    for batch in PcapReader(BytesIO(raw)):
        plain = decode_plain(batch)
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
    assert set(found) - {"wire_length"} == {"packet", "index", "error", "link", "frame"}
    assert set(found["error"]) == {"reason", "at", "detail"}
    assert found["error"]["detail"]
    return found["error"]["reason"], found["error"]["at"]


def inner_udp(telemetry: bytes, dscp: int = 0x17, dport: int = 53) -> bytes:
    """An inner IPv4 UDP packet with INT."""
    return ipv4(udp(telemetry + b"payload.", dport), dscp=dscp)


def hop_2(node: int, latency: int) -> bytes:
    """Node id and hop latency."""
    return u32(node, latency)


STACK_2 = [hop_2(3, 30), hop_2(2, ONES), hop_2(1, 10)]
PATH_2 = [
    {"node_id": 1, "hop_latency": 10},
    {"node_id": 2, "hop_latency": None},
    {"node_id": 3, "hop_latency": 30},
]


EXTENSIONS = (
    (0, b"\x00" + bytes(6)),
    (60, b"\x01" + bytes(14)),
    (43, b"\x00" + bytes(6)),
    (44, b"\x00" + bytes(6)),  # a fragment that is the whole packet
    (51, b"\x04" + bytes(22)),
)
SIMPLE = group(single(ethernet(inner_udp(int_2(0xA000, STACK_2, 2)))))
