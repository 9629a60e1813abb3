"""IOAM options by hand, byte for byte as RFC 9197, 9326 and 9486 draw them, for the tests of IOAM."""

from __future__ import annotations

import struct

from hypothesis import strategies as st

ALL_BITS = 0xFFF002
"""Bits 0 to 11, and the snapshot."""


def trace(
    nodes: list[bytes], trace_type: int, words: int, *, free: int = 0, kind: int = 0, flags: int = 0
) -> bytes:
    """A trace option of namespace 123; nodes are given in wire order, the newest first."""
    head = struct.pack("!HHI", 123, words << 11 | flags << 7 | free, trace_type << 8)
    room = bytes(4 * free) if kind == 0 else b""
    return option(kind, head + room + b"".join(nodes))


def option(kind: int, body: bytes, option_type: int = 0x31) -> bytes:
    """An IPv6 option with IOAM."""
    return bytes([option_type, 2 + len(body), 0, kind]) + body


def short_node(hop_limit: int, node: int, ingress: int, egress: int, fraction: int) -> bytes:
    """What a node writes for trace type 0xf00000."""
    return struct.pack("!IHHII", hop_limit << 24 | node, ingress, egress, 0x66000000, fraction)


def full_node(hop_limit: int, node: int, snapshot: bytes) -> bytes:
    """What a node writes for bits 0 to 11 and 22; its transit delay did not fit."""
    fields = struct.pack(
        "!IHHIIIIII", hop_limit << 24 | node, 1, 2, 0x66000000, 5, 0x80000000, 0xDEAD0001, 77, 0xFFFFFFFF
    )
    wide = struct.pack("!QIIQI", hop_limit << 56 | node, 1, 2, 0x1122334455667788, 99)
    return fields + wide + snapshot


def dex(extensions: int, *more: int, option_type: int = 0x11) -> bytes:
    """Direct export of namespace 123."""
    head = struct.pack("!HBBI", 123, 0, extensions, 0xF00000 << 8)
    return option(4, head + struct.pack(f"!{len(more)}I", *more), option_type)


NEW, OLD = short_node(63, 2, 21, 22, 250), short_node(64, 1, 11, 12, 100)
SNAPSHOT, NO_SNAPSHOT = b"\x02\x00\x00\x07SNAPSHOT", b"\x00\xff\xff\xff"
OPTIONS = {
    "pre-allocated with room": trace([NEW, OLD], 0xF00000, 4, free=4),
    "pre-allocated and full": trace([NEW, OLD], 0xF00000, 4, flags=8),
    "incremental": trace([NEW, OLD], 0xF00000, 4, kind=1),
    "incremental with a budget": trace([NEW, OLD], 0xF00000, 4, kind=1, free=4),
    "every bit": trace([full_node(63, 2, SNAPSHOT), full_node(64, 1, NO_SNAPSHOT)], ALL_BITS, 15),
    "an undefined bit": trace([struct.pack("!II", 64 << 24 | 1, 0xFFFFFFFF)], 0x800800, 2),
    "snapshots alone": trace([SNAPSHOT, NO_SNAPSHOT], 0x000002, 0),
    "nobody wrote": trace([], 0xF00000, 4, free=8),
    "wide ids": trace([struct.pack("!QII", 61 << 56 | 0xAB12345678, 7, 8)], 0x00C000, 4),
    "nothing available": trace([b"\xff" * 60 + NO_SNAPSHOT], ALL_BITS, 15),
    "direct export": dex(0xC0, 0xCAFE0001, 42),
    "direct export with a flow alone": dex(0x80, 0xCAFE0001),
    "direct export with a sequence alone": dex(0x40, 42, option_type=0x31),
    "direct export with neither": dex(0),
    "direct export with an unknown extension": dex(0xE0, 0xCAFE0001, 42, 7),
}
"""Options that can be read."""


def extension(options: bytes, next_header: int = 17) -> bytes:
    """A hop-by-hop or destination header with one IOAM option, which begins at byte 4 of it."""
    size = 4 + len(options)
    tail = {0: b"", 4: b"\x01\x02\0\0"}[-size % 8]
    return bytes([next_header, (size + len(tail)) // 8 - 1, 1, 0]) + options + tail


def packet(header: bytes, next_header: int = 0) -> bytes:
    """An Ethernet frame with UDP behind IPv6 and this extension header."""
    udp = struct.pack("!HHHH", 1111, 2222, 12, 0) + b"abcd"
    addresses = bytes.fromhex("20010db800000000000000000000000120010db8000000000000000000000002")
    ip = struct.pack("!IHBB", 6 << 28, len(header) + len(udp), next_header, 62) + addresses
    return bytes.fromhex("02000000000202000000000186dd") + ip + header + udp


def insert(frame: bytes, header: bytes, at: int = 14) -> bytes:
    """The frame with a hop-by-hop header after its IPv6 header at `at`."""
    out = bytearray(frame[: at + 40] + header + frame[at + 40 :])
    out[at + 40], out[at + 6] = out[at + 6], 0
    out[at + 4 : at + 6] = (int.from_bytes(frame[at + 4 : at + 6], "big") + len(header)).to_bytes(2, "big")
    return bytes(out)


_READABLE = st.sampled_from(list(OPTIONS.values()))
_TYPES = st.one_of(st.integers(0, 0xFFFFFF), st.sampled_from([0xF00000, 0x800002, 2, 0xFFFFFF]))
_NODES = st.one_of(st.binary(max_size=200), st.integers(0, 60).map(lambda n: bytes(4 * n)))
# made once: Hypothesis looks through each strategy that it meets for the first time


@st.composite
def hostile(draw: st.DrawFn) -> bytes:
    """Option bytes: arbitrary ones, readable ones with bytes changed, and headers before arbitrary data."""
    how = draw(st.integers(0, 2))
    if how == 0:
        return draw(st.binary(max_size=80))
    if how == 1:
        raw = bytearray(draw(_READABLE))
        for _ in range(draw(st.integers(1, 3))):
            raw[draw(st.integers(0, len(raw) - 1))] = draw(st.integers(0, 255))
        return bytes(raw[: draw(st.integers(0, len(raw)))] if draw(st.booleans()) else raw)
    type_ = draw(_TYPES)
    words = sum(2 if 8 <= bit <= 10 else 1 for bit in range(22) if type_ >> (23 - bit) & 1)
    data = draw(_NODES)
    head = struct.pack("!HHI", 1, words << 11 | draw(st.integers(0, 2047)) & 0x79F, type_ << 8)
    body = (head + data)[:253]
    return option(draw(st.integers(0, 5)), body, 0x31)


PAD = (b"\0", b"\x01\0", b"\x01\x03\0\0\0", b"\x3e\x02ab", b"\x05\x02\0\0")
"""Padding, and options of others."""


def option_areas() -> st.SearchStrategy[bytes]:
    """What an extension header may hold."""
    known = [*OPTIONS.values(), option(2, bytes(8)), option(64, bytes(4)), option(3, bytes(4), 0x11)]
    pieces = st.one_of(st.sampled_from(PAD), st.sampled_from(known), hostile(), st.binary(max_size=9))
    return st.lists(pieces, max_size=4).map(b"".join)


def ipv6(headers: list[tuple[int, bytes]]) -> bytes:
    """An IPv6 header and these extension headers: (own type, what is behind the length field); each is cut
    or padded to what its length can say.
    """
    out = bytearray()
    for at, (kind, body) in enumerate(headers):
        following = headers[at + 1][0] if at + 1 < len(headers) else 17
        unit, most = (4, 254) if kind == 51 else (8, 255)
        size = 8 if kind == 44 else -(-max(len(body) + 2, 8) // unit) * unit
        size = min(size, (most + 1) * unit)
        length = size // 4 - 2 if kind == 51 else size // 8 - 1
        out += (bytes([following, length]) + body).ljust(size, b"\0")[:size]
    head = struct.pack("!IHBB", 6 << 28, len(out), headers[0][0] if headers else 17, 64)
    return head + bytes(32) + out
