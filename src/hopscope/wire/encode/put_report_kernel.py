"""Report headers and the metadata of their own, for the batch encoder."""

from __future__ import annotations

from typing import Any

from ...base.jit import U64, inlined, kernel
from ..headers.put_kernel import put8, put16, put32, put64
from ..records import Kind
from ..telemetry.metadata_kernel import ANY_SIZE, OWN_1_0, OWN_2_0, SLOTS, WORDS, plan
from . import put_int_kernel as put_int

DROP, QUEUE_KIND, INNER = U64(Kind.DROP), U64(Kind.QUEUE), U64(Kind.INNER)
AT_DROP = U64(SLOTS + 10)


@inlined
def flags_of(row: Any) -> Any:
    """D, Q and F in three bits."""
    flags = U64(row.flags)
    return ((flags & U64(1)) << U64(2)) | (flags & U64(2)) | ((flags >> U64(2)) & U64(1))


@inlined
def own_bits(row: Any, hops: Any, shift_queue: Any) -> Any:
    """`present` of a report's own metadata; 0 without."""
    if U64(row.carried) & put_int.HAS_OWN:
        return U64(hops[U64(row.first_hop) + U64(row.hop_count)].present)
    return U64(0)


@inlined
def put_own(out: Any, at: Any, row: Any, hops: Any, table: Any, plans: Any, kind: Any, bitmap: Any) -> Any:
    """Write a report's own metadata; returns the offset behind."""
    base = plan(plans, table, kind, bitmap, ANY_SIZE)
    size = plans[base + U64(WORDS)] << U64(2)
    if U64(row.carried) & put_int.HAS_OWN:
        put_int.put_hop(
            out,
            at,
            size,
            plans,
            base,
            U64(0),
            kind == U64(OWN_2_0),
            hops[U64(row.first_hop) + U64(row.hop_count)],
        )
    if U64(row.carried) & put_int.HAS_REASON:
        put32(
            out,
            at + plans[base + AT_DROP],
            (U64(row.queue_id) << U64(24)) | (U64(row.drop_reason) << U64(16)),
        )
    return at + size


@kernel
def put_0_5(out: Any, at: Any, row: Any, hops: Any) -> Any:
    """Write the headers of a Report 0.5; returns the offset behind."""
    kind = U64(row.kind)
    form = U64(1) if kind == DROP else (U64(2) if kind == QUEUE_KIND else U64(0))
    put32(out, at, (form << U64(24)) | (flags_of(row) << U64(21)) | U64(row.hw_id))
    put32(out, at + U64(4), row.sequence)
    put32(out, at + U64(8), row.ingress_time)
    at += U64(12)
    if form == U64(0):
        return at
    put32(out, at, row.node_id)
    put64(out, at + U64(4), U64(0))
    last = U64(row.queue_id) << U64(24)
    if form == U64(1):
        last |= U64(row.drop_reason) << U64(16)
    if U64(row.carried) & put_int.HAS_OWN:
        hop = hops[U64(row.first_hop) + U64(row.hop_count)]
        null = U64(hop.null)
        put16(out, at + U64(4), hop.ingress_port)
        put16(out, at + U64(6), hop.egress_port)
        if null & put_int.PORTS:
            put32(out, at + U64(4), put_int.ONES)
        if form == U64(2):
            last |= put_int.ONES if null & put_int.QUEUE else U64(hop.queue_occupancy)
            put32(out, at + U64(12), put_int.ONES if null & put_int.EGRESS else U64(hop.egress_time))
    elif form == U64(2):
        put32(out, at + U64(12), U64(0))
    put32(out, at + U64(8), last)
    return at + (U64(12) if form == U64(1) else U64(16))


@kernel
def put_1_0(out: Any, at: Any, row: Any, hops: Any, table: Any, plans: Any, type_: Any) -> Any:
    """Write the headers of a Report 1.0; returns the offset behind."""
    have = own_bits(row, hops, U64(0))
    bits = (U64(1) if have & put_int.PORTS else U64(0)) << U64(5)
    bits |= (U64(1) if have & put_int.LATENCY else U64(0)) << U64(4)
    bits |= (U64(1) if have & put_int.QUEUE else U64(0)) << U64(3)
    bits |= (U64(1) if have & put_int.EGRESS else U64(0)) << U64(2)
    bits |= (U64(1) if U64(row.carried) & put_int.HAS_REASON else U64(0)) << U64(1)
    bits |= U64(1) if have & put_int.UTILIZATION else U64(0)
    behind = put_own(out, at + U64(16), row, hops, table, plans, U64(OWN_1_0), bits << U64(10))
    length = (behind - at) >> U64(2)
    put32(
        out, at,
        (U64(1) << U64(28))
        | (length << U64(24))
        | (type_ << U64(21))
        | (bits << U64(15))
        | (flags_of(row) << U64(6))
        | U64(row.hw_id),
    )  # fmt: skip
    put32(out, at + U64(4), row.node_id)
    put32(out, at + U64(8), row.sequence)
    put32(out, at + U64(12), row.ingress_time)
    return behind


@kernel
def put_2_0(out: Any, at: Any, row: Any, hops: Any, table: Any, plans: Any, inner_ip: Any, dscp: Any) -> Any:
    """Write an individual Report 2.0; returns (offset behind, words behind its first word)."""
    start = at
    at += U64(4)
    typed = U64(row.kind) != INNER
    size = U64(0)
    if typed:
        have = own_bits(row, hops, U64(0))
        bits = U64(1) if U64(row.carried) & put_int.HAS_REASON else U64(0)
        for bit in range(1, 9):
            if have & (U64(1) << U64(bit)):
                bits |= U64(0x8000) >> U64(bit)
        put32(out, at, bits << U64(16))
        put32(out, at + U64(4), U64(0))
        behind = put_own(out, at + U64(8), row, hops, table, plans, U64(OWN_2_0), bits)
        size = (behind - at - U64(8)) >> U64(2)
        at = behind
    type_ = U64(0)
    if U64(row.carried) & put_int.HAS_FLOW:
        type_ = U64(3)
        if inner_ip:
            type_ = U64(4) if U64(row.ip_version) == U64(4) else U64(5)
        at = put_int.put_inner(out, at, row, hops, table, plans, inner_ip, dscp)
    while (at - start) & U64(3):
        put8(out, at, U64(0))
        at += U64(1)
    words = (at - start - U64(4)) >> U64(2)
    flags = (flags_of(row) << U64(1)) | ((U64(row.flags) >> U64(3)) & U64(1))
    first = (
        ((U64(1) if typed else U64(0)) << U64(28)) | (type_ << U64(24)) | (min(words, U64(0xFF)) << U64(16))
    )
    put32(out, start, first | (size << U64(8)) | (flags << U64(4)))
    return at, words
