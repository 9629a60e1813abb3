"""Reports around captured packets: writes the headers and copies the packets."""

from ...base.kernels.jit import U8, U64, kernel
from ..headers import put_kernel as put
from ..records import Link
from . import put_report_kernel as report

VERSION, NODE, HW, SEQUENCE = range(4)
OPTIONS = 4
"""Indices into `options`; SEQUENCE is the sequence number of the first report."""
ETHERNET, PAYLOAD = U64(Link.ETHERNET), U64(Link.UDP_PAYLOAD)
LOW_32 = U64(0xFFFFFFFF)
INNER_ETHERNET = U64(3)
ONE = U64(1)


@kernel
def put_headers(out, at, options, number, time, inner):
    """Write a report's headers before `inner` bytes of an Ethernet packet; returns the offset after."""
    hw, version = options[HW], options[VERSION]
    if version == U64(20):
        first = put.bits(report.VERSION_2_0, U64(2)) | put.bits(report.HW_ID_2_0, hw)
        put.put_word(out, at, report.VERSION_2_0, first | put.bits(report.SEQUENCE_2_0, number))
        put.put32(out, at + report.NODE_2_0, options[NODE])
        at += report.SIZE_GROUP
        words = min((report.SIZE_MAIN + inner + U64(3)) >> U64(2), report.TO_THE_END)
        first = put.bits(report.TYPE_2_0, ONE) | put.bits(report.INNER_2_0, INNER_ETHERNET)
        first |= put.bits(report.LENGTH_2_0, words) | put.bits(report.TRACKED_2_0, ONE)
        put.put_word(out, at, report.TYPE_2_0, first)
        put.put64(out, at + report.SIZE_2_0, U64(0))
        return at + report.SIZE_2_0 + report.SIZE_MAIN
    if version == U64(5):
        first = put.bits(report.TRACKED_0_5, ONE) | put.bits(report.HW_ID_0_5, hw)
        put.put_word(out, at, report.TRACKED_0_5, first)
        put.put32(out, at + report.SEQUENCE_0_5, number)
        put.put32(out, at + report.TIME_0_5, time & LOW_32)
        return at + report.SIZE_0_5
    first = put.bits(report.VERSION_1_0, ONE) | put.bits(report.LENGTH_1_0, report.SIZE_1_0 >> U64(2))
    first |= put.bits(report.TRACKED_1_0, ONE) | put.bits(report.HW_ID_1_0, hw)
    put.put_word(out, at, report.VERSION_1_0, first)
    put.put32(out, at + report.NODE_1_0, options[NODE])
    put.put32(out, at + report.SEQUENCE_1_0, number)
    put.put32(out, at + report.TIME_1_0, time & LOW_32)
    return at + report.SIZE_1_0


@kernel
def enclose(arena, frames, rows, starts, lengths, options, out, made):
    """Write one datagram per row: report headers, and `lengths` bytes of its frame from `starts` on. `made`
    gets their FRAME records; returns the bytes written.
    """
    at = U64(0)
    for i in range(len(rows)):
        frame = frames[U64(rows[i].packet)]
        begin = at
        bare = U64(frame.link) != ETHERNET
        start, count = U64(frame.offset) + U64(starts[i]), U64(lengths[i])
        number = options[SEQUENCE] + U64(i)
        inner = count + (put.SIZE_ETHERNET if bare else U64(0))
        at = put_headers(out, at, options, number, U64(frame.time_ns), inner)
        if bare:  # the MAC addresses of both ends are unknown
            put.put64(out, at, U64(0))
            put.put32(out, at + U64(8), U64(0))
            put.put16(out, at + put.ETHERNET_TYPE, put.IPV4 if arena[start] >> U8(4) == U8(4) else put.IPV6)
            at += put.SIZE_ETHERNET
        for k in range(count):
            out[at + U64(k)] = arena[start + U64(k)]
        at += count
        while options[VERSION] == U64(20) and (at - begin) & U64(3):
            put.put8(out, at, U64(0))
            at += U64(1)
        made[i].offset = begin
        made[i].time_ns = frame.time_ns
        made[i].length = at - begin
        made[i].wire_length = at - begin
        made[i].link = PAYLOAD
    return at
