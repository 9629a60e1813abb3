"""Reports around packets as they were captured: headers written, packets copied."""

from __future__ import annotations

from typing import Any

from ...base.jit import U8, U64, kernel
from .. import layout
from ..headers.put_kernel import IPV4, IPV6, put8, put16, put32, put64
from ..records import Flag, Link

VERSION, NODE, HW, SEQUENCE = range(4)
OPTIONS = 4
"""What `options` holds, by index; SEQUENCE is the number of the first report."""
TRACKED = U64(Flag.TRACKED) >> U64(2)
ETHERNET, PAYLOAD = U64(Link.ETHERNET), U64(Link.UDP_PAYLOAD)
LOW_32 = U64(0xFFFFFFFF)
INNER_ETHERNET = U64(3)
FIXED = U64(layout.MAIN_2_0.size)


@kernel
def put_headers(out: Any, at: Any, options: Any, number: Any, time: Any, inner: Any) -> Any:
    """Write a report's headers in front of `inner` bytes of an Ethernet packet; returns the offset behind."""
    hw, version = options[HW], options[VERSION]
    if version == U64(20):
        put32(out, at, (U64(2) << U64(28)) | (hw << U64(22)) | (number & U64(0x3FFFFF)))
        put32(out, at + U64(4), options[NODE])
        words = (FIXED + inner + U64(3)) >> U64(2)
        put32(
            out,
            at + U64(8),
            (U64(1) << U64(28))
            | (INNER_ETHERNET << U64(24))
            | (min(words, U64(0xFF)) << U64(16))
            | (TRACKED << U64(5)),
        )
        put64(out, at + U64(12), U64(0))
        return at + U64(20)
    if version == U64(5):
        put32(out, at, (TRACKED << U64(21)) | hw)
        put32(out, at + U64(4), number)
        put32(out, at + U64(8), time & LOW_32)
        return at + U64(12)
    put32(out, at, (U64(1) << U64(28)) | (U64(4) << U64(24)) | (TRACKED << U64(6)) | hw)
    put32(out, at + U64(4), options[NODE])
    put32(out, at + U64(8), number)
    put32(out, at + U64(12), time & LOW_32)
    return at + U64(16)


@kernel
def enclose(
    arena: Any, frames: Any, rows: Any, starts: Any, lengths: Any, options: Any, out: Any, made: Any
) -> Any:
    """Write one datagram a row: report headers, and `lengths` bytes of its frame from `starts` on. `made`
    are FRAME records of them; returns the bytes written.
    """
    at = U64(0)
    for i in range(len(rows)):
        frame = frames[U64(rows[i].packet)]
        begin = at
        bare = U64(frame.link) != ETHERNET
        start, count = U64(frame.offset) + U64(starts[i]), U64(lengths[i])
        number = options[SEQUENCE] + U64(i)
        inner = count + (U64(14) if bare else U64(0))
        at = put_headers(out, at, options, number, U64(frame.time_ns), inner)
        if bare:  # neither end's MAC address is known
            put64(out, at, U64(0))
            put32(out, at + U64(8), U64(0))
            put16(out, at + U64(12), IPV4 if arena[start] >> U8(4) == U8(4) else IPV6)
            at += U64(14)
        for k in range(count):
            out[at + U64(k)] = arena[start + U64(k)]
        at += count
        while options[VERSION] == U64(20) and (at - begin) & U64(3):
            put8(out, at, U64(0))
            at += U64(1)
        made[i].offset = begin
        made[i].time_ns = frame.time_ns
        made[i].length = at - begin
        made[i].wire_length = at - begin
        made[i].link = PAYLOAD
    return at
