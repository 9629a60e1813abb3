"""One Report 1.0 or 0.5 without report metadata, around a usual packet, as sent by older switches.

It has a loop of its own, as in `usual_report_kernel`: a report of 3 hops and 8 fields takes 35 ns, and 48 ns
with `any_frames`; if each hop's values are read one by one and INT before 2.0 in a function, 72 ns.
"""

from ...base.kernels.jit import U64, kernel
from ..headers.packet_kernel import NONE, get
from ..records import Link
from ..telemetry import group_kernel as group
from ..telemetry import report_kernel as report
from .inner_kernel import FIRST_BYTE, KIND_INT
from .usual_kernel import OTHER_FORM, read_usual

UDP_PAYLOAD = U64(Link.UDP_PAYLOAD)
SIZE_0, SIZE_1, WORDS_1 = U64(12), U64(16), U64(4)


@kernel
def usual_old_reports(buf, frames, start, table, plans, reports, index, hops, first):
    """Decode frames from `start` up to the first of another form, which does not affect the results.

    Returns (that frame, next free row of `hops`); each frame takes a row of `reports`.
    """
    max_reports, max_hops = U64(len(reports)), U64(len(hops))
    any_length = table[report.ANY_REPORT_LENGTH] != 0
    for i in range(start, U64(len(frames))):
        frame = frames[i]
        length = U64(frame.length)
        at = U64(frame.offset)
        end = at + length
        room = (length >> U64(2)) + U64(2)
        if (
            index + room > max_reports
            or first + room > max_hops
            or U64(frame.link) != UDP_PAYLOAD
            or length < SIZE_1
        ):
            return U64(i), first
        version = U64(table[FIRST_BYTE + U64(buf[at])])
        row = group.new_row(reports, index)
        if version == U64(10):
            type_ = U64(table[report.INNER_1_0 + get(buf, at, report.NPROTO_1)])
            if (
                type_ == report.UNKNOWN
                or get(buf, at, report.BITS_1) != NONE
                or (get(buf, at, report.LENGTH_1) != WORDS_1 and not any_length)
            ):
                return U64(i), first
            flags = report.flags_of(buf, at, report.FLAGS_1)
            row.kind = report.kind_of(flags)
            row.hw_id = get(buf, at, report.HW_1)
            row.node_id = get(buf, at, report.NODE_1)
            row.sequence = get(buf, at, report.SEQUENCE_1)
            row.ingress_time = get(buf, at, report.INGRESS_1)
            row.carried = report.HAS_INGRESS | report.HAS_NODE
            inner = at + SIZE_1
        elif version == U64(5):
            rule = report.FORM_0_5 + U64(3) * get(buf, at, report.NPROTO_0)
            if table[rule] != 0:
                return U64(i), first
            type_ = U64(table[rule + U64(2)])
            flags = report.flags_of(buf, at, report.FLAGS_0)
            row.kind = KIND_INT
            row.hw_id = get(buf, at, report.HW_0)
            row.sequence = get(buf, at, report.SEQUENCE_0)
            row.ingress_time = get(buf, at, report.INGRESS_0)
            row.carried = report.HAS_INGRESS
            inner = at + SIZE_0
        else:
            return U64(i), first
        row.time_ns = frame.time_ns
        row.packet = i
        row.source_hi = frame.source_hi
        row.source_lo = frame.source_lo
        row.version = version
        row.flags = flags
        count = read_usual(buf, at, inner, end, type_, row, table, plans, hops, first)
        if count == OTHER_FORM:
            return U64(i), first
        row.first_hop = first
        row.hop_count = count
        first += count
        index += U64(1)
    return U64(len(frames)), first
