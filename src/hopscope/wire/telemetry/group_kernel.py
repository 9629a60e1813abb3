"""Reports 2.0, several in a datagram, for the batch decoder."""

from ...base.kernels.jit import U64, clear, inlined, kernel
from .. import layout, rules
from ..decode.inner_kernel import (
    CUT_HEADER,
    CUT_METADATA,
    HAS_FLOW,
    INTERMEDIATE,
    KIND_INNER,
    find_tlv,
    finish,
)
from ..headers.packet_kernel import NONE, code, get, refuse, word
from ..reasons import Place, Reason
from ..records import DAMAGED_PER_EMPTY, MAX_EMPTY_REPORTS
from . import report_kernel as report
from .metadata_kernel import ANY_SIZE, INGRESS, OWN_2_0, WORDS, plan

UNSUPPORTED = code(Reason.UNSUPPORTED, Place.REPORT_HEADER)
EMPTY_REPORTS = code(Reason.EMPTY_REPORTS, Place.REPORT_HEADER)
REPORT_TYPE, INNER_TYPE = word(layout.REPORT_2_0, "report_type"), word(layout.REPORT_2_0, "inner_type")
REPORT_LENGTH, MD_LENGTH = (
    word(layout.REPORT_2_0, "report_length"),
    word(layout.REPORT_2_0, "metadata_length"),
)
INTERMEDIATE_2 = word(layout.REPORT_2_0, "intermediate")
BITS_2 = word(layout.MAIN_2_0, "metadata_bits")
INNER_2_0, MAIN_2_0, BARE_2_0 = U64(rules.INNER_2_0), U64(rules.MAIN_2_0), U64(rules.BARE_2_0)


@inlined
def new_row(reports, index):
    """A REPORT row with all bytes 0."""
    row = reports[index]
    clear(row)
    return row


@inlined
def main_2_0(buf, origin, at, end, length, md_length, table, plans, row):
    """(code, report metadata or 0, offset after) of the INT main contents at `at`."""
    if at + U64(8) > end:
        return CUT_METADATA, NONE, at
    bitmap = get(buf, at, BITS_2)
    base = plan(plans, table, U64(OWN_2_0), bitmap, ANY_SIZE)
    size = plans[base + U64(WORDS)]
    if length == NONE and md_length == NONE:
        md_length = size
    if md_length < size:
        return report.BAD_METADATA, NONE, at
    behind = at + U64(8) + (md_length << U64(2))
    if behind > end:
        return (CUT_METADATA if length == NONE or length == U64(0xFF) else report.BAD_METADATA), NONE, at
    if md_length != NONE:
        row.own_at = at + U64(8) - origin
    if bitmap == NONE:
        return NONE, NONE, behind
    own = at + U64(8)
    report.own_values(buf, own, plans, base, bitmap & U64(1), row)
    return NONE, own, behind


@kernel
def told_by_own(hop, row):
    """Write the values of the report metadata that belong to the report itself: its queue, unless it is a
    drop, and ingress time.
    """
    report.queue_of(hop, U64(row.carried) & report.HAS_REASON, row)
    if U64(hop.present) & INGRESS:
        row.ingress_time = hop.ingress_time
        row.carried = U64(row.carried) | report.HAS_INGRESS


@inlined
def part_2_0(buf, origin, at, end, bare, row, table, plans, hops, first):
    """Read an individual report whose end is known, or (`bare`: InType) only the packet that it is about;
    returns the next free row of `hops`.
    """
    row.first_hop = first
    type_, own = bare, NONE
    if bare == NONE:
        rule = MAIN_2_0 + (get(buf, at, REPORT_TYPE) << U64(1))
        form, type_ = U64(table[rule]), U64(table[INNER_2_0 + get(buf, at, INNER_TYPE)])
        flags = report.flags_of(buf, at, report.FLAGS_2) | get(buf, at, INTERMEDIATE_2) * INTERMEDIATE
        row.flags = flags
        row.kind = report.kind_of(flags) if form != NONE else KIND_INNER
        if form == U64(2):
            refuse(row, UNSUPPORTED, at, origin)
            return first
        if form == report.UNKNOWN or type_ == report.UNKNOWN:
            refuse(row, report.UNKNOWN_TYPE, at, origin)
            return first
        length, md_length = get(buf, at, REPORT_LENGTH), get(buf, at, MD_LENGTH)
        at += U64(4)
        if form == U64(1):
            why, own, at = main_2_0(buf, origin, at, end, length, md_length, table, plans, row)
            if why:
                refuse(row, why, at, origin)
                return first
        elif form == U64(3):
            size = U64(table[rule + U64(1)])
            if at + size > end:
                refuse(row, CUT_METADATA, at, origin)
                return first
            row.own_at = at - origin
            at += size
    stop = end
    if type_ == U64(1):
        why, at, type_, stop = find_tlv(buf, at, end)
        if why:
            refuse(row, why, at, origin)
            type_ = NONE
    done = finish(buf, origin, at, stop, type_, own, U64(OWN_2_0), row, table, plans, hops, first)
    if own != NONE:
        told_by_own(hops[done - U64(1)], row)
    return done


@inlined
def group_2_0(buf, origin, at, end, announced, reports, index, table, plans, hops, first):
    """Read all reports of a 2.0 datagram; row `index` is begun. Returns the next free rows of `reports` and
    `hops`.
    """
    row = reports[index]
    row.first_hop = first
    if at + U64(8) > end:
        refuse(row, CUT_HEADER, at, origin)
        return index + U64(1), first
    row.hw_id = get(buf, at, report.HW_2)
    row.sequence = get(buf, at, report.SEQUENCE_2)
    row.node_id = get(buf, at, report.NODE_2)
    row.carried = report.HAS_NODE
    group = index
    at += U64(8)
    bare = U64(table[BARE_2_0])
    to_end = bare != NONE or table[report.ANY_REPORT_LENGTH] != 0
    spent = NONE
    while True:
        row = reports[index]
        if bare == NONE and at + U64(4) > end:
            row.first_hop = first
            refuse(row, CUT_HEADER, at, origin)
            return index + U64(1), first
        stop = announced
        if not to_end:
            length = get(buf, at, REPORT_LENGTH)
            empty = get(buf, at, REPORT_TYPE) == NONE and get(buf, at, INNER_TYPE) == NONE
            if length != U64(0xFF) and (length != NONE or empty):
                stop = at + U64(4) + (length << U64(2))
                if stop > announced and stop < announced + U64(4):
                    stop = announced
        if stop > end:
            row.first_hop = first
            refuse(row, CUT_HEADER, at, origin)
            return index + U64(1), first
        done = part_2_0(buf, origin, at, stop, bare, row, table, plans, hops, first)
        if done == first and U64(row.carried) & HAS_FLOW == NONE:
            spent += U64(1) if row.reason != NONE else U64(DAMAGED_PER_EMPTY)
            if spent > U64(MAX_EMPTY_REPORTS * DAMAGED_PER_EMPTY):
                refuse(row, EMPTY_REPORTS, at, origin)
                return index + U64(1), first
        first = done
        at = stop
        index += U64(1)
        if at + U64(4) > announced:  # fewer bytes than a header are padding
            return index, first
        next_in_group(reports, group, index)


@kernel
def next_in_group(reports, group, index):
    """Begin the row of a group's next report with the values of the group."""
    row = new_row(reports, index)
    head = reports[group]
    row.time_ns = head.time_ns
    row.source_hi = head.source_hi
    row.source_lo = head.source_lo
    row.packet = head.packet
    row.version = head.version
    row.hw_id = head.hw_id
    row.sequence = head.sequence
    row.node_id = head.node_id
    row.carried = report.HAS_NODE
    row.index = index - group
