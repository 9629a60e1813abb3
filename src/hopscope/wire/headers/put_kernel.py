"""Writing headers, for the batch encoder: big-endian numbers, IP headers, checksums. Numbers are uint64."""

from __future__ import annotations

from typing import Any

from ...base.jit import U8, U64, be16, inlined, kernel
from .. import layout

MAC_A, MAC_B = U64(0x020000000001), U64(0x020000000002)
IPV4, IPV6 = U64(layout.ETHERTYPE_IPV4), U64(layout.ETHERTYPE_IPV6)
LOW_16 = U64(0xFFFF)


@inlined
def put8(out: Any, at: Any, value: Any) -> None:
    """Write 8 bits."""
    out[at] = U8(value)


@inlined
def put16(out: Any, at: Any, value: Any) -> None:
    """Write 16 bits."""
    value = U64(value)
    out[at] = U8(value >> U64(8))
    out[at + U64(1)] = U8(value)


@inlined
def put32(out: Any, at: Any, value: Any) -> None:
    """Write 32 bits."""
    value = U64(value)
    out[at] = U8(value >> U64(24))
    out[at + U64(1)] = U8(value >> U64(16))
    out[at + U64(2)] = U8(value >> U64(8))
    out[at + U64(3)] = U8(value)


@inlined
def put64(out: Any, at: Any, value: Any) -> None:
    """Write 64 bits."""
    value = U64(value)
    put32(out, at, value >> U64(32))
    put32(out, at + U64(4), value)


@kernel
def put_ethernet(out: Any, at: Any, type_: Any) -> Any:
    """Write an Ethernet header; returns the offset behind it."""
    put32(out, at, MAC_B >> U64(16))
    put16(out, at + U64(4), MAC_B)
    put32(out, at + U64(6), MAC_A >> U64(16))
    put16(out, at + U64(10), MAC_A)
    put16(out, at + U64(12), type_)
    return at + U64(14)


@kernel
def put_ip(
    out: Any, at: Any, version: Any, protocol: Any, length: Any, dscp: Any, whole: Any, identification: Any,
    src_hi: Any, src_lo: Any, dst_hi: Any, dst_lo: Any
) -> Any:  # fmt: skip
    """Write an IPv4 or IPv6 header of a packet of `length` bytes; `whole`: don't fragment;
    `identification`: 16 bits, IPv4 only. Returns the offset behind.
    """
    if version == U64(6):
        put32(out, at, (U64(6) << U64(28)) | (dscp << U64(22)))
        put16(out, at + U64(4), length - U64(40))
        put8(out, at + U64(6), protocol)
        put8(out, at + U64(7), U64(64))
        put64(out, at + U64(8), src_hi)
        put64(out, at + U64(16), src_lo)
        put64(out, at + U64(24), dst_hi)
        put64(out, at + U64(32), dst_lo)
        return at + U64(40)
    source, target = src_lo & U64(0xFFFFFFFF), dst_lo & U64(0xFFFFFFFF)
    first = U64(0x4500) | (dscp << U64(2))
    flags = whole << U64(14)
    rest = (U64(64) << U64(8)) | protocol
    total = first + length + identification + flags + rest
    total += (source >> U64(16)) + (source & LOW_16) + (target >> U64(16)) + (target & LOW_16)
    put16(out, at, first)
    put16(out, at + U64(2), length)
    put32(out, at + U64(4), (identification << U64(16)) | flags)
    put16(out, at + U64(8), rest)
    put16(out, at + U64(10), fold(total) ^ LOW_16)
    put32(out, at + U64(12), source)
    put32(out, at + U64(16), target)
    return at + U64(20)


@inlined
def fold(total: Any) -> Any:
    """A sum of 16-bit numbers as one, with end-around carry."""
    while total >> U64(16):
        total = (total & LOW_16) + (total >> U64(16))
    return total


@kernel
def udp_checksum(out: Any, at: Any, end: Any, src_hi: Any, src_lo: Any, dst_hi: Any, dst_lo: Any) -> Any:
    """Checksum of the UDP datagram at `at`, whose own is 0. IPv4 addresses come as ::ffff:a.b.c.d in IPv4."""
    total = U64(17) + (end - at)
    for half in (src_hi, src_lo, dst_hi, dst_lo):
        total += (
            (half >> U64(48)) + ((half >> U64(32)) & LOW_16) + ((half >> U64(16)) & LOW_16) + (half & LOW_16)
        )
    i = at
    while i + U64(1) < end:
        total += be16(out, i)
        i += U64(2)
    if i < end:
        total += U64(out[i]) << U64(8)
    value = fold(total) ^ LOW_16
    return value if value else LOW_16
