"""Report headers and report metadata, for the batch encoder."""

import numpy as np

from ...base.kernels.jit import U64, inlined, kernel
from .. import layout
from ..headers import put_kernel as put
from ..headers.packet_kernel import byte, word
from ..records import Flag, Kind
from ..telemetry.metadata_kernel import (
    ANY_SIZE,
    EGRESS,
    OWN_1_0,
    OWN_2_0,
    PORTS,
    QUEUE,
    SLOTS,
    WORDS,
    plan,
)
from . import put_int_kernel as put_int

DROP, QUEUE_KIND, INNER = U64(Kind.DROP), U64(Kind.QUEUE), U64(Kind.INNER)
DROPPED, CONGESTED = U64(Flag.DROPPED), U64(Flag.CONGESTED)
TRACKED, INTERMEDIATE = U64(Flag.TRACKED), U64(Flag.INTERMEDIATE)
AT_DROP = U64(SLOTS + 10)
REASON = U64(1 << 16)
"""Bit in the result of `have_of` for the drop reason, which has no bit in `present`."""
HAVE_1_0, HAVE_2_0 = (
    np.array([REASON if item is layout.DROP else item.have for item in items], np.uint64)
    for items in (layout.OWN_1_0, layout.OWN_2_0)
)
"""Meaning of each bit of RepMdBits."""
UNUSED_1_0 = U64(16 - layout.REPORT_1_0.field("metadata_bits").bits)
"""Bits of a bitmap of 16 that a Report 1.0 does not have."""
DROP_QUEUE, DROP_REASON = word(layout.DROP.fields, "queue_id"), word(layout.DROP.fields, "drop_reason")

SIZE_0_5, SIZE_1_0, SIZE_2_0, SIZE_MAIN, SIZE_GROUP = (
    U64(h.size)
    for h in (layout.REPORT_0_5, layout.REPORT_1_0, layout.REPORT_2_0, layout.MAIN_2_0, layout.GROUP_2_0)
)
SIZE_DROP_0_5, SIZE_LOCAL_0_5 = U64(layout.DROP_0_5.size), U64(layout.SWITCH_LOCAL_0_5.size)
NEXT_0_5, DROPPED_0_5, CONGESTED_0_5, TRACKED_0_5, HW_ID_0_5 = (
    word(layout.REPORT_0_5, name) for name in ("next_protocol", "dropped", "congested", "tracked", "hw_id")
)
SEQUENCE_0_5, TIME_0_5 = byte(layout.REPORT_0_5, "sequence"), byte(layout.REPORT_0_5, "ingress_time")
NODE_0_5 = byte(layout.DROP_0_5, "node_id")
INGRESS_0_5, EGRESS_0_5 = word(layout.DROP_0_5, "ingress_port"), word(layout.DROP_0_5, "egress_port")
QUEUE_0_5, REASON_0_5 = word(layout.DROP_0_5, "queue_id"), word(layout.DROP_0_5, "drop_reason")
OCCUPANCY_0_5 = word(layout.SWITCH_LOCAL_0_5, "queue_occupancy")
EGRESS_TIME_0_5 = byte(layout.SWITCH_LOCAL_0_5, "egress_time")
for _name in ("node_id", "ingress_port", "egress_port", "queue_id"):
    assert layout.DROP_0_5.word(_name) == layout.SWITCH_LOCAL_0_5.word(_name)
VERSION_1_0, LENGTH_1_0, NEXT_1_0, BITS_1_0, DROPPED_1_0, CONGESTED_1_0, TRACKED_1_0, HW_ID_1_0 = (
    word(layout.REPORT_1_0, name)
    for name in (
        "version", "length", "next_protocol", "metadata_bits", "dropped", "congested", "tracked", "hw_id",
    )
)  # fmt: skip
NODE_1_0, SEQUENCE_1_0 = byte(layout.REPORT_1_0, "node_id"), byte(layout.REPORT_1_0, "sequence")
TIME_1_0 = byte(layout.REPORT_1_0, "ingress_time")
VERSION_2_0, HW_ID_2_0, SEQUENCE_2_0 = (
    word(layout.GROUP_2_0, name) for name in ("version", "hw_id", "sequence")
)
NODE_2_0 = byte(layout.GROUP_2_0, "node_id")
TYPE_2_0, INNER_2_0, LENGTH_2_0, OWN_LENGTH_2_0, DROPPED_2_0, CONGESTED_2_0, TRACKED_2_0, INTERMEDIATE_2_0 = (
    word(layout.REPORT_2_0, name)
    for name in (
        "report_type", "inner_type", "report_length", "metadata_length", "dropped", "congested", "tracked",
        "intermediate",
    )
)  # fmt: skip
BITS_2_0, DS_BITS_2_0 = word(layout.MAIN_2_0, "metadata_bits"), word(layout.MAIN_2_0, "ds_metadata_bits")
TO_THE_END = U64(0xFF)
"""Report Length of a Report 2.0 that ends with its datagram."""


@inlined
def marks(row, dropped, congested, tracked):
    """The flags D, Q and F, shifted to their fields."""
    flags = U64(row.flags)
    return (
        put.bits(dropped, flags & DROPPED != U64(0))
        | put.bits(congested, flags & CONGESTED != U64(0))
        | put.bits(tracked, flags & TRACKED != U64(0))
    )


@inlined
def have_of(row, hops):
    """`present` of the report metadata, and REASON; 0 if there is none."""
    have = REASON if U64(row.carried) & put_int.HAS_REASON else U64(0)
    if U64(row.carried) & put_int.HAS_OWN:
        have |= U64(hops[U64(row.first_hop) + U64(row.hop_count)].present)
    return have


@inlined
def bitmap_of(have, items):
    """RepMdBits, from the most significant of 16 bits on, for the result of `have_of`."""
    bitmap = U64(0)
    if have:
        for bit in range(16):
            if have & items[bit]:
                bitmap |= U64(0x8000) >> U64(bit)
    return bitmap


@inlined
def put_own(out, at, row, hops, table, plans, kind, bitmap):
    """Write the report metadata; returns the offset after it."""
    base = plan(plans, table, kind, bitmap, ANY_SIZE)
    size = plans[base + U64(WORDS)] << U64(2)
    if U64(row.carried) & put_int.HAS_OWN:
        hop = hops[U64(row.first_hop) + U64(row.hop_count)]
        put_int.put_hop(out, at, size, plans, base, U64(0), kind == U64(OWN_2_0), hop)
    if U64(row.carried) & put_int.HAS_REASON:
        drop = put.bits(DROP_QUEUE, row.queue_id) | put.bits(DROP_REASON, row.drop_reason)
        put.put32(out, at + plans[base + AT_DROP], drop)
    return at + size


@kernel
def put_0_5(out, at, row, hops):
    """Write the headers of a Report 0.5; returns the offset after them."""
    kind = U64(row.kind)
    form = U64(1) if kind == DROP else (U64(2) if kind == QUEUE_KIND else U64(0))
    first = put.bits(NEXT_0_5, form) | put.bits(HW_ID_0_5, row.hw_id)
    put.put_word(out, at, NEXT_0_5, first | marks(row, DROPPED_0_5, CONGESTED_0_5, TRACKED_0_5))
    put.put32(out, at + SEQUENCE_0_5, row.sequence)
    put.put32(out, at + TIME_0_5, row.ingress_time)
    at += SIZE_0_5
    if form == U64(0):
        return at
    ports, queue, time = U64(0), put.bits(QUEUE_0_5, row.queue_id), U64(0)
    if form == U64(1):
        queue |= put.bits(REASON_0_5, row.drop_reason)
    if U64(row.carried) & put_int.HAS_OWN:
        hop = hops[U64(row.first_hop) + U64(row.hop_count)]
        null = U64(hop.null)
        ports = put.bits(INGRESS_0_5, hop.ingress_port) | put.bits(EGRESS_0_5, hop.egress_port)
        if null & PORTS:
            ports = put_int.ONES
        if form == U64(2):
            queue |= put.bits(OCCUPANCY_0_5, hop.queue_occupancy)
            queue |= put_int.ONES if null & QUEUE else U64(0)
            time = put_int.ONES if null & EGRESS else U64(hop.egress_time)
    put.put32(out, at + NODE_0_5, row.node_id)
    put.put_word(out, at, INGRESS_0_5, ports)
    put.put_word(out, at, QUEUE_0_5, queue)
    if form == U64(1):
        return at + SIZE_DROP_0_5
    put.put32(out, at + EGRESS_TIME_0_5, time)
    return at + SIZE_LOCAL_0_5


@kernel
def put_1_0(out, at, row, hops, table, plans, type_):
    """Write the headers of a Report 1.0; returns the offset after them."""
    bitmap = bitmap_of(have_of(row, hops), HAVE_1_0)
    end = put_own(out, at + SIZE_1_0, row, hops, table, plans, U64(OWN_1_0), bitmap)
    first = put.bits(VERSION_1_0, U64(1)) | put.bits(LENGTH_1_0, (end - at) >> U64(2))
    first |= put.bits(NEXT_1_0, type_) | put.bits(BITS_1_0, bitmap >> UNUSED_1_0)
    first |= marks(row, DROPPED_1_0, CONGESTED_1_0, TRACKED_1_0) | put.bits(HW_ID_1_0, row.hw_id)
    put.put_word(out, at, VERSION_1_0, first)
    put.put32(out, at + NODE_1_0, row.node_id)
    put.put32(out, at + SEQUENCE_1_0, row.sequence)
    put.put32(out, at + TIME_1_0, row.ingress_time)
    return end


@kernel
def put_group(out, at, row):
    """Write the group header of Reports 2.0; returns the offset after it."""
    first = put.bits(VERSION_2_0, U64(2)) | put.bits(HW_ID_2_0, row.hw_id)
    put.put_word(out, at, VERSION_2_0, first | put.bits(SEQUENCE_2_0, row.sequence))
    put.put32(out, at + NODE_2_0, row.node_id)
    return at + SIZE_GROUP


@kernel
def put_2_0(out, at, row, hops, table, plans, inner_ip, dscp):
    """Write an individual Report 2.0; returns (offset after it, words after its first word)."""
    start = at
    at += SIZE_2_0
    typed = U64(row.kind) != INNER
    size = U64(0)
    if typed:
        bitmap = bitmap_of(have_of(row, hops), HAVE_2_0)
        put.put_word(out, at, BITS_2_0, put.bits(BITS_2_0, bitmap))
        put.put_word(out, at, DS_BITS_2_0, U64(0))
        at += SIZE_MAIN
        end = put_own(out, at, row, hops, table, plans, U64(OWN_2_0), bitmap)
        size = (end - at) >> U64(2)
        at = end
    type_ = U64(0)
    if U64(row.carried) & put_int.HAS_FLOW:
        type_ = U64(3)
        if inner_ip:
            type_ = U64(4) if U64(row.ip_version) == U64(4) else U64(5)
        at = put_int.put_inner(out, at, row, hops, table, plans, inner_ip, dscp)
    while (at - start) & U64(3):
        put.put8(out, at, U64(0))
        at += U64(1)
    words = (at - start - SIZE_2_0) >> U64(2)
    first = put.bits(TYPE_2_0, typed) | put.bits(INNER_2_0, type_)
    first |= put.bits(LENGTH_2_0, min(words, TO_THE_END)) | put.bits(OWN_LENGTH_2_0, size)
    first |= put.bits(INTERMEDIATE_2_0, U64(row.flags) & INTERMEDIATE != U64(0))
    put.put_word(out, start, TYPE_2_0, first | marks(row, DROPPED_2_0, CONGESTED_2_0, TRACKED_2_0))
    return at, words
