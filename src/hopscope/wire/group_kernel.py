"""Reports 2.0, several in a datagram, for the batch decoder."""

from __future__ import annotations

from typing import Any

from ..jit import U64, be64, inlined, kernel
from . import layout
from .inner_kernel import CUT_HEADER, CUT_METADATA, INTERMEDIATE, KIND_INNER, find_tlv, finish, refuse
from .metadata_kernel import AT_INGRESS, INGRESS, OWN_2_0, PRESENT, WORDS, plan
from .packet_kernel import NONE, code, get, word
from .reasons import Place, Reason
from .records import REPORT
from .report_kernel import (
    BAD_METADATA,
    FLAGS_2,
    HAS_INGRESS,
    HAS_NODE,
    HW_2,
    NODE_2,
    SEQUENCE_2,
    UNKNOWN_TYPE,
    flags_of,
    kind_of,
    own_values,
)

REPORT_WORDS = U64(REPORT.itemsize // 8)
UNSUPPORTED = code(Reason.UNSUPPORTED, Place.REPORT_HEADER)
REPORT_TYPE, INNER_TYPE = word(layout.REPORT_2_0, "report_type"), word(layout.REPORT_2_0, "inner_type")
REPORT_LENGTH, MD_LENGTH = (
    word(layout.REPORT_2_0, "report_length"),
    word(layout.REPORT_2_0, "metadata_length"),
)
INTERMEDIATE_2 = word(layout.REPORT_2_0, "intermediate")
BITS_2 = word(layout.MAIN_2_0, "metadata_bits")


@inlined
def new_row(reports: Any, words: Any, index: Any) -> Any:
    """A REPORT row with all bytes 0; `words` is the same memory as uint64."""
    first = index * REPORT_WORDS
    for i in range(REPORT_WORDS):
        words[first + U64(i)] = U64(0)
    return reports[index]


@inlined
def main_2_0(buf: Any, at: Any, end: Any, length: Any, md_length: Any, plans: Any, row: Any) -> Any:
    """(code, own metadata or 0, offset behind) of the INT main contents at `at`."""
    if at + U64(8) > end:
        return CUT_METADATA, NONE, at
    bitmap = get(buf, at, BITS_2)
    base = plan(plans, U64(OWN_2_0), bitmap)
    size = plans[base + U64(WORDS)]
    if length == NONE and md_length == NONE:
        md_length = size
    if md_length < size:
        return BAD_METADATA, NONE, at
    behind = at + U64(8) + (md_length << U64(2))
    if behind > end:
        return (CUT_METADATA if length == NONE or length == U64(0xFF) else BAD_METADATA), NONE, at
    if bitmap == NONE:
        return NONE, NONE, behind
    own = at + U64(8)
    own_values(buf, own, plans, base, bitmap, bitmap & U64(1), row)
    if plans[base + U64(PRESENT)] & INGRESS:
        row.ingress_time = be64(buf, own + plans[base + AT_INGRESS])
        row.carried = U64(row.carried) | HAS_INGRESS
    return NONE, own, behind


@inlined
def part_2_0(
    buf: Any, origin: Any, at: Any, end: Any, row: Any, table: Any, plans: Any, hops: Any, first: Any
) -> Any:
    """An individual report whose end is known; returns the next free row of `hops`."""
    row.first_hop = first
    start = at
    report_type, type_ = get(buf, at, REPORT_TYPE), get(buf, at, INNER_TYPE)
    flags = flags_of(buf, at, FLAGS_2) | get(buf, at, INTERMEDIATE_2) * INTERMEDIATE
    row.flags = flags
    row.kind = kind_of(flags) if report_type != NONE else KIND_INNER
    if report_type > U64(1):
        refuse(row, UNSUPPORTED if report_type == U64(2) else UNKNOWN_TYPE, start, origin)
        return first
    if type_ > U64(5):
        refuse(row, UNKNOWN_TYPE, start, origin)
        return first
    length, md_length = get(buf, at, REPORT_LENGTH), get(buf, at, MD_LENGTH)
    at += U64(4)
    own = NONE
    if report_type != NONE:
        why, own, at = main_2_0(buf, at, end, length, md_length, plans, row)
        if why:
            refuse(row, why, at, origin)
            return first
    stop = end
    if type_ == U64(1):
        why, at, type_, stop = find_tlv(buf, at, end)
        if why:
            refuse(row, why, at, origin)
            type_ = NONE
    return finish(buf, origin, at, stop, type_, own, U64(OWN_2_0), row, table, plans, hops, first)


@inlined
def group_2_0(
    buf: Any,
    origin: Any,
    at: Any,
    end: Any,
    announced: Any,
    reports: Any,
    words: Any,
    index: Any,
    table: Any,
    plans: Any,
    hops: Any,
    first: Any,
) -> Any:
    """All reports of a 2.0 datagram; row `index` is begun. Returns the next free rows of `reports` and
    `hops`.
    """
    row = reports[index]
    row.first_hop = first
    if at + U64(8) > end:
        refuse(row, CUT_HEADER, at, origin)
        return index + U64(1), first
    row.hw_id = get(buf, at, HW_2)
    row.sequence = get(buf, at, SEQUENCE_2)
    row.node_id = get(buf, at, NODE_2)
    row.carried = HAS_NODE
    group = index
    at += U64(8)
    while True:
        row = reports[index]
        if at + U64(4) > end:
            row.first_hop = first
            refuse(row, CUT_HEADER, at, origin)
            return index + U64(1), first
        length = get(buf, at, REPORT_LENGTH)
        stop = at + U64(4) + (length << U64(2))
        empty = get(buf, at, REPORT_TYPE) == NONE and get(buf, at, INNER_TYPE) == NONE
        if length == U64(0xFF) or (length == NONE and not empty):
            stop = announced
        elif stop > announced and stop < announced + U64(4):
            stop = announced
        if stop > end:
            row.first_hop = first
            refuse(row, CUT_HEADER, at, origin)
            return index + U64(1), first
        first = part_2_0(buf, origin, at, stop, row, table, plans, hops, first)
        at = stop
        index += U64(1)
        if at + U64(4) > announced:  # less than a header is padding
            return index, first
        next_in_group(reports, words, group, index)


@kernel
def next_in_group(reports: Any, words: Any, group: Any, index: Any) -> None:
    """Begin the row of a group's further report with what the group says."""
    row = new_row(reports, words, index)
    head = reports[group]
    row.time_ns = head.time_ns
    row.source_hi = head.source_hi
    row.source_lo = head.source_lo
    row.packet = head.packet
    row.version = head.version
    row.hw_id = head.hw_id
    row.sequence = head.sequence
    row.node_id = head.node_id
    row.carried = HAS_NODE
    row.index = index - group
