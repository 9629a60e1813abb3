"""The datagram that most switches send: one Report 2.0 without report metadata, around a usual packet.

It has a loop of its own, since LLVM then keeps its values in registers: a report of 3 hops and 8 fields takes
35 ns, and 44 ns in the loop of `decode_kernel`, which reads all other frames. IPv6 has a separate loop: in a
common one, IPv4 takes 4 ns longer.
"""

from ...base.kernels.jit import U64, inlined, kernel
from ..headers.packet_kernel import get
from ..records import Link
from ..telemetry import group_kernel as group
from ..telemetry import report_kernel as report
from .inner_kernel import FIRST_BYTE, INTERMEDIATE, KIND_INNER
from .usual_kernel import OTHER_FORM, read_usual, read_usual_six

UDP_PAYLOAD, TO_END = U64(Link.UDP_PAYLOAD), U64(0xFF)
HEADERS, MAIN, WORD = U64(8 + 4), U64(8), U64(4)


@kernel
def usual_reports(buf, frames, start, table, plans, reports, index, hops, first):
    """`run` for reports about IPv4 packets."""
    return run(buf, frames, start, table, plans, reports, index, hops, first, False)


@kernel
def usual_six_reports(buf, frames, start, table, plans, reports, index, hops, first):
    """`run` for reports about IPv6 packets."""
    return run(buf, frames, start, table, plans, reports, index, hops, first, True)


@inlined
def run(buf, frames, start, table, plans, reports, index, hops, first, six):
    """Decode frames from `start` up to the first of another form, which does not affect the results; `six`, a
    constant: reports are about IPv6 packets.

    Returns (that frame, next free row of `hops`); each frame takes a row of `reports`.
    """
    max_reports, max_hops = U64(len(reports)), U64(len(hops))
    if table[group.BARE_2_0] or table[report.ANY_REPORT_LENGTH]:
        return start, first
    for i in range(start, U64(len(frames))):
        frame = frames[i]
        length = U64(frame.length)
        at = U64(frame.offset)
        end = at + length
        origin = at
        room = (length >> U64(2)) + U64(2)
        if (
            index + room > max_reports
            or first + room > max_hops
            or U64(frame.link) != UDP_PAYLOAD
            or length < HEADERS
            or table[FIRST_BYTE + U64(buf[at])] != 20
        ):
            return U64(i), first
        at += MAIN
        words = get(buf, at, group.REPORT_LENGTH)
        stop = end if words == TO_END else at + WORD + (words << U64(2))
        form = U64(table[group.MAIN_2_0 + (get(buf, at, group.REPORT_TYPE) << U64(1))])
        inner = at + WORD
        if form == U64(1):
            inner += MAIN
        if (
            stop > end
            or stop + WORD <= end
            or inner > stop
            or form > U64(1)
            or (form == U64(1) and get(buf, at, group.MD_LENGTH) | get(buf, at + WORD, group.BITS_2))
        ):
            return U64(i), first
        row = group.new_row(reports, index)
        row.time_ns = frame.time_ns
        row.packet = i
        row.source_hi = frame.source_hi
        row.source_lo = frame.source_lo
        row.version = U64(20)
        row.hw_id = get(buf, origin, report.HW_2)
        row.sequence = get(buf, origin, report.SEQUENCE_2)
        row.node_id = get(buf, origin, report.NODE_2)
        row.carried = report.HAS_NODE
        flags = report.flags_of(buf, at, report.FLAGS_2) | get(buf, at, group.INTERMEDIATE_2) * INTERMEDIATE
        row.flags = flags
        row.kind = report.kind_of(flags) if form else KIND_INNER
        type_ = U64(table[group.INNER_2_0 + get(buf, at, group.INNER_TYPE)])
        if six:
            count = read_usual_six(buf, origin, inner, stop, type_, row, table, plans, hops, first)
        else:
            count = read_usual(buf, origin, inner, stop, type_, row, table, plans, hops, first)
        if count == OTHER_FORM:
            return U64(i), first
        row.first_hop = first
        row.hop_count = count
        first += count
        index += U64(1)
    return U64(len(frames)), first
