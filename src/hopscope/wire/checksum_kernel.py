"""Internet checksums (RFC 1071, 1624), for kernels that change packets: eight bytes at a time."""

from __future__ import annotations

from typing import Any

from ..jit import U64, few, inlined, kernel, load64, store64
from .put_kernel import fold

NONE = U64(0)
ONES_16, ONES_32 = U64(0xFFFF), U64(0xFFFFFFFF)


@inlined
def swap16(value: Any) -> Any:
    """The two bytes of a number of 16 bits, exchanged."""
    return ((value << U64(8)) | (value >> U64(8))) & ONES_16


@inlined
def folded(total: Any) -> Any:
    """A sum of little-endian numbers of 32 bits as one big-endian number of 16 bits (RFC 1071 2)."""
    total = (total & ONES_32) + (total >> U64(32))
    total = (total & ONES_16) + ((total >> U64(16)) & ONES_16) + (total >> U64(32))
    total = (total & ONES_16) + (total >> U64(16))
    total = (total & ONES_16) + (total >> U64(16))
    return swap16(total)


@inlined
def halves(value: Any) -> Any:
    """Both halves of 64 bits, added."""
    return (value & ONES_32) + (value >> U64(32))


@kernel
def total_of(buf: Any, at: Any, end: Any) -> Any:
    """The sum of the bytes from `at` to `end`, as 16-bit numbers."""
    total: Any = NONE
    while at + U64(8) <= end:
        total += halves(load64(buf, at))
        at += U64(8)
    if at < end:
        total += halves(few(buf, at, end - at))
    return folded(total)


@inlined
def move_and_add(out: Any, to: Any, buf: Any, at: Any, end: Any) -> Any:
    """Copy, and return the sum as `total_of`."""
    total: Any = NONE
    while at + U64(8) <= end:
        value = load64(buf, at)
        store64(out, to, value)
        total += halves(value)
        at += U64(8)
        to += U64(8)
    if at < end:
        total += halves(few(buf, at, end - at))
        while at < end:
            out[to] = buf[at]
            at += U64(1)
            to += U64(1)
    return folded(total)


@inlined
def pseudo(buf: Any, ip: Any, protocol: Any, length: Any) -> Any:
    """Sum of the pseudo header in front of a segment of `length` bytes."""
    if U64(buf[ip]) >> U64(4) == U64(4):
        addresses = halves(load64(buf, ip + U64(12)))
    else:
        addresses = halves(load64(buf, ip + U64(8))) + halves(load64(buf, ip + U64(16)))
        addresses += halves(load64(buf, ip + U64(24))) + halves(load64(buf, ip + U64(32)))
    return fold(folded(addresses) + protocol + (length >> U64(16)) + (length & ONES_16))


@inlined
def updated(check: Any, after: Any, optional: Any) -> Any:
    """A checksum that makes a sum `after`, in which it is `check`, right."""
    value = (check + (ONES_16 ^ after)) % ONES_16
    return ONES_16 if value == NONE and optional else value
