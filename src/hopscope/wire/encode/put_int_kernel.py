"""INT and the inner packet, for the batch encoder."""

from __future__ import annotations

from typing import Any

from ...base.jit import U64, inlined, kernel
from .. import layout
from ..headers.put_kernel import IPV4, IPV6, put16, put32, put64, put_ethernet, put_ip
from ..records import Carried, Have, Mode
from ..telemetry.metadata_kernel import BITS, INT_2_0, PRESENT, SLOTS, WORDS, plan

NODE, PORTS, LATENCY, QUEUE = (
    U64(Have.NODE_ID),
    U64(Have.PORTS),
    U64(Have.HOP_LATENCY),
    U64(Have.QUEUE_OCCUPANCY),
)
INGRESS, EGRESS, L2 = U64(Have.INGRESS_TIME), U64(Have.EGRESS_TIME), U64(Have.L2_PORTS)
UTILIZATION, BUFFER = U64(Have.TX_UTILIZATION), U64(Have.BUFFER_OCCUPANCY)
CONGESTION, CHECKSUM = U64(Have.QUEUE_CONGESTION), U64(Have.CHECKSUM_COMPLEMENT)
HAS_REASON, HAS_OWN, HAS_FLOW = U64(Carried.DROP_REASON), U64(Carried.OWN_HOP), U64(Carried.FLOW)
TCP, UDP = U64(layout.PROTOCOL_TCP), U64(layout.PROTOCOL_UDP)
ETHERTYPE_LOCAL = U64(0x88B5)
ONES = U64(0xFFFFFFFF)
MX = U64(Mode.MX)
CONGESTION_BIT = 9
assert 1 << CONGESTION_BIT == Have.QUEUE_CONGESTION  # the last that has a slot of its own number


@inlined
def put_hop(out: Any, at: Any, size: Any, plans: Any, base: Any, reserved: Any, wide: Any, hop: Any) -> None:
    """Write the metadata of one hop; what the bitmap does not define is all ones, domain-specific room is
    0.
    """
    present = plans[base + U64(PRESENT)]
    slot = base + U64(SLOTS)
    if size != plans[base + U64(WORDS)] << U64(2) or plans[base + U64(BITS)] & reserved:
        fill_room(out, at, size, plans, base, present)
    if present & NODE:
        put32(out, at + plans[slot], hop.node_id)
    if present & PORTS:
        put16(out, at + plans[slot + U64(1)], hop.ingress_port)
        put16(out, at + plans[slot + U64(1)] + U64(2), hop.egress_port)
    if present & LATENCY:
        put32(out, at + plans[slot + U64(2)], hop.hop_latency)
    if present & QUEUE:
        put32(out, at + plans[slot + U64(3)], (U64(hop.queue_id) << U64(24)) | U64(hop.queue_occupancy))
    if present & INGRESS:
        put_time(out, at + plans[slot + U64(4)], wide, hop.ingress_time)
    if present & EGRESS:
        put_time(out, at + plans[slot + U64(5)], wide, hop.egress_time)
    if present & L2:
        put32(out, at + plans[slot + U64(6)], hop.l2_ingress_port)
        put32(out, at + plans[slot + U64(6)] + U64(4), hop.l2_egress_port)
    if present & UTILIZATION:
        put32(out, at + plans[slot + U64(7)], hop.tx_utilization)
    if present & BUFFER:
        put32(out, at + plans[slot + U64(8)], (U64(hop.buffer_id) << U64(24)) | U64(hop.buffer_occupancy))
    if present & CONGESTION:
        put32(
            out,
            at + plans[slot + U64(9)],
            (U64(hop.congestion_queue_id) << U64(24)) | U64(hop.queue_congestion),
        )
    if present & CHECKSUM:
        put32(out, at + size - U64(4), hop.checksum_complement)
    if present & U64(hop.null):
        put_nulls(out, at, size, plans, slot, wide, present & U64(hop.null))


@kernel
def put_nulls(out: Any, at: Any, size: Any, plans: Any, slot: Any, wide: Any, null: Any) -> None:
    """All ones where these values are."""
    for bit in range(CONGESTION_BIT + 1):
        have = U64(1) << U64(bit)
        if null & have:
            put32(out, at + plans[slot + U64(bit)], ONES)
            if have == L2 or (wide and (have == INGRESS or have == EGRESS)):
                put32(out, at + plans[slot + U64(bit)] + U64(4), ONES)
    if null & CHECKSUM:
        put32(out, at + size - U64(4), ONES)


@inlined
def put_time(out: Any, at: Any, wide: Any, value: Any) -> None:
    """Write a timestamp of 8 or 4 bytes."""
    if wide:
        put64(out, at, value)
    else:
        put32(out, at, value)


@kernel
def fill_room(out: Any, at: Any, size: Any, plans: Any, base: Any, present: Any) -> None:
    """All ones where the bitmap's words are, 0 behind them."""
    words = plans[base + U64(WORDS)] << U64(2)
    if present & CHECKSUM:
        words -= U64(4)
    for i in range(size):
        out[at + U64(i)] = 0xFF if U64(i) < words else 0


@kernel
def put_mx(out: Any, at: Any, row: Any, discard: Any) -> Any:
    """Write shim and INT-MX header; returns the offset behind."""
    put32(out, at, (MX << U64(28)) | (U64(3) << U64(16)))
    put32(out, at + U64(4), (U64(2) << U64(28)) | (discard << U64(27)))
    put16(out, at + U64(8), row.instructions)
    put16(out, at + U64(10), row.domain_id)
    put16(out, at + U64(12), row.ds_instruction)
    put16(out, at + U64(14), row.ds_flags)
    return at + U64(16)


@kernel
def put_int(out: Any, at: Any, row: Any, hops: Any, table: Any, plans: Any) -> Any:
    """Write shim, INT-MD header, stack and tail of a report; returns the offset behind."""
    version = U64(row.int_version)
    kind = U64(2) if version == U64(20) else (U64(1) if version == U64(10) else U64(0))
    bitmap = U64(row.instructions)
    words = U64(row.hop_words)
    base = plan(plans, table, kind, bitmap, words)
    if words == U64(0):
        words = plans[base + U64(WORDS)]
    count = U64(row.hop_count)
    flags = U64(row.int_flags)
    exceeded, mtu, discard, copy = (
        flags & U64(1),
        (flags >> U64(1)) & U64(1),
        (flags >> U64(2)) & U64(1),
        flags >> U64(3) & U64(1),
    )
    remaining = U64(row.remaining_hops)
    if U64(row.int_mode) == MX and kind == U64(2):
        return put_mx(out, at, row, discard)
    length = words * count + (U64(4) if kind == U64(0) else U64(3))
    put32(
        out,
        at,
        ((U64(1) << U64(28)) | (length << U64(16)))
        if kind == U64(2)
        else ((U64(1) << U64(24)) | (length << U64(8))),
    )
    at += U64(4)
    put32(out, at + U64(4), bitmap << U64(16))
    if kind == U64(2):
        put32(
            out,
            at,
            (U64(2) << U64(28))
            | (discard << U64(27))
            | (exceeded << U64(26))
            | (mtu << U64(25))
            | (words << U64(8))
            | remaining,
        )
        put16(out, at + U64(6), row.domain_id)
        put16(out, at + U64(8), row.ds_instruction)
        put16(out, at + U64(10), row.ds_flags)
        at += U64(12)
    elif kind == U64(1):
        put32(
            out,
            at,
            (U64(1) << U64(28))
            | (copy << U64(25))
            | (exceeded << U64(24))
            | (mtu << U64(23))
            | (words << U64(8))
            | remaining,
        )
        at += U64(8)
    else:
        most = min(remaining + count, U64(255))
        put32(
            out, at, (copy << U64(25)) | (exceeded << U64(24)) | (words << U64(16)) | (most << U64(8)) | count
        )
        at += U64(8)
    first = U64(row.first_hop) + count - U64(1)
    size = words << U64(2)
    reserved = U64(0x007E) if kind == U64(2) else (U64(0x00FE) if kind == U64(1) else U64(0x00FF))
    for i in range(count):
        put_hop(out, at, size, plans, base, reserved, kind == U64(INT_2_0), hops[first - U64(i)])
        at += size
    if kind == U64(0):
        put32(out, at, (U64(row.proto) << U64(24)) | (U64(row.dport) << U64(8)))
        at += U64(4)
    return at


@kernel
def put_inner(out: Any, at: Any, row: Any, hops: Any, table: Any, plans: Any, bare: Any, dscp: Any) -> Any:
    """Write the inner packet, without Ethernet where `bare`; returns the offset behind."""
    if not U64(row.carried) & HAS_FLOW:
        return put_ethernet(out, at, ETHERTYPE_LOCAL)
    version = U64(row.ip_version)
    if not bare:
        at = put_ethernet(out, at, IPV4 if version == U64(4) else IPV6)
    start = at
    proto = U64(row.proto)
    head = U64(20) if version == U64(4) else U64(40)
    l4 = U64(20) if proto == TCP else (U64(8) if proto == UDP else U64(0))
    end = start + head + l4
    marked = U64(0)
    if row.int_version:
        end = put_int(out, end, row, hops, table, plans)
        marked = dscp
    length = max(U64(row.inner_length), end - start)
    identification = U64(row.packet_id) & U64(0xFFFF)
    at = put_ip(
        out, start, version, proto, length, marked, U64(0), identification,
        row.src_hi, row.src_lo, row.dst_hi, row.dst_lo
    )  # fmt: skip
    if l4:
        put16(out, at, row.sport)
        put16(out, at + U64(2), row.dport)
    if proto == UDP:
        put16(out, at + U64(4), length - head)
        put16(out, at + U64(6), U64(0))
    elif proto == TCP:
        put64(out, at + U64(4), U64(0))
        put32(out, at + U64(12), U64(5) << U64(28))
        put32(out, at + U64(16), U64(0))
    return end
