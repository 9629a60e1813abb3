"""The batch encoder: REPORT and HOP rows to frames."""

from ...base.kernels.jit import U64, inlined, kernel
from ..headers import put_kernel as put
from ..records import Link
from . import put_report_kernel as report
from .put_int_kernel import HAS_FLOW, put_inner

PORT, SPORT, COLLECTOR_HI, COLLECTOR_LO, DSCP, INNER_IP, CHECK, LINK = range(8)
OPTIONS = 8
"""Indices into `options`: UDP ports, collector's address, DSCP of INT, three switches."""
UDP_PAYLOAD = U64(Link.UDP_PAYLOAD)
MAPPED = U64(0xFFFF)


@kernel
def put_payload(out, at, reports, first, last, hops, table, plans, inner_ip, dscp):
    """Write the payload of one datagram: rows first to last - 1. Returns (offset after it, row that is
    too long + 1).
    """
    row = reports[first]
    version = U64(row.version)
    if version == U64(20):
        at = report.put_group(out, at, row)
        long = U64(0)
        for i in range(first, last):
            at, words = report.put_2_0(out, at, reports[i], hops, table, plans, inner_ip, dscp)
            if words >= report.TO_THE_END and U64(i) + U64(1) != last:
                long = U64(i) + U64(1)
        return at, long
    if version == U64(5):
        at = report.put_0_5(out, at, row, hops)
        return put_inner(out, at, row, hops, table, plans, False, dscp), U64(0)
    bare = inner_ip and U64(row.carried) & HAS_FLOW != U64(0)
    type_ = U64(0)
    if bare:
        type_ = U64(1) if U64(row.ip_version) == U64(4) else U64(2)
    at = report.put_1_0(out, at, row, hops, table, plans, type_)
    return put_inner(out, at, row, hops, table, plans, bare, dscp), U64(0)


@inlined
def is_ipv6(high, low):
    """Whether an address is not ::ffff:a.b.c.d."""
    return high != U64(0) or low >> U64(32) != MAPPED


@kernel
def encode_frames(reports, hops, options, table, plans, out, frames, counts):
    """Write all reports. `counts` becomes [frames, bytes, row that is too long + 1, frame that is too long
    + 1].
    """
    rows = U64(len(reports))
    at, done, first = U64(0), U64(0), U64(0)
    inner_ip, check = options[INNER_IP] != U64(0), options[CHECK] != U64(0)
    while first < rows:
        last = first + U64(1)
        while last < rows and reports[last].index != 0:
            last += U64(1)
        row = reports[first]
        start = at
        source_hi, source_lo = U64(row.source_hi), U64(row.source_lo)
        six = is_ipv6(source_hi, source_lo) or is_ipv6(options[COLLECTOR_HI], options[COLLECTOR_LO])
        head = U64(0)
        if options[LINK] != UDP_PAYLOAD:
            head = put.OUTER_6 if six else put.OUTER_4
        at, long = put_payload(
            out, at + head, reports, first, last, hops, table, plans, inner_ip, options[DSCP]
        )
        if long:
            counts[2] = long
        if at - start > U64(65535) and counts[3] == U64(0):
            counts[3] = done + U64(1)
        if head:
            put.put_outer(
                out, start, at, six, check, options[SPORT], options[PORT],
                source_hi, source_lo, options[COLLECTOR_HI], options[COLLECTOR_LO],
            )  # fmt: skip
        frame = frames[done]
        frame.offset = start
        frame.time_ns = row.time_ns
        frame.source_hi = source_hi
        frame.source_lo = source_lo
        frame.length = at - start
        frame.wire_length = at - start
        frame.port = options[PORT]
        frame.link = options[LINK]
        done += U64(1)
        first = last
    counts[0], counts[1] = done, at
