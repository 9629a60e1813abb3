"""The batch encoder: REPORT and HOP rows to frames, byte for byte what encode_scalar.py writes."""

from __future__ import annotations

from typing import Any

from ..jit import U64, inlined, kernel
from . import layout
from .metadata_kernel import INT_2_0, OWN_1_0, OWN_2_0, PLAN, PRESENT, SLOTS, WORDS, plan
from .put_kernel import IPV4, IPV6, put8, put16, put32, put64, put_ethernet, put_ip, udp_checksum
from .records import Carried, Have, Kind, Link

PORT, SPORT, COLLECTOR_HI, COLLECTOR_LO, DSCP, INNER_IP, CHECK, LINK = range(8)
OPTIONS = 8
"""What `options` holds, by index: UDP ports, collector's address, DSCP of INT, three switches."""
UDP_PAYLOAD = U64(Link.UDP_PAYLOAD)
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
DROP, QUEUE_KIND, INNER = U64(Kind.DROP), U64(Kind.QUEUE), U64(Kind.INNER)
TCP, UDP = U64(layout.PROTOCOL_TCP), U64(layout.PROTOCOL_UDP)
ETHERTYPE_LOCAL = U64(0x88B5)
MAPPED = U64(0xFFFF)
AT_DROP = U64(SLOTS + 10)


@inlined
def put_hop(out: Any, at: Any, size: Any, plans: Any, base: Any, reserved: Any, wide: Any, hop: Any) -> None:
    """Write the metadata of one hop; what the bitmap does not define is all ones, domain-specific room is 0."""
    present = plans[base + U64(PRESENT)]
    slot = base + U64(SLOTS)
    if size != plans[base + U64(WORDS)] << U64(2) or (plans[base] - U64(1)) & reserved:
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
def put_int(out: Any, at: Any, row: Any, hops: Any, plans: Any) -> Any:
    """Write shim, INT-MD header, stack and tail of a report; returns the offset behind."""
    version = U64(row.int_version)
    kind = U64(2) if version == U64(20) else (U64(1) if version == U64(10) else U64(0))
    bitmap = U64(row.instructions)
    base = plan(plans, kind, bitmap)
    words = U64(row.hop_words)
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
def put_inner(out: Any, at: Any, row: Any, hops: Any, plans: Any, bare: Any, dscp: Any) -> Any:
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
        end = put_int(out, end, row, hops, plans)
        marked = dscp
    length = max(U64(row.inner_length), end - start)
    at = put_ip(
        out, start, version, proto, length, marked, U64(0), row.src_hi, row.src_lo, row.dst_hi, row.dst_lo
    )
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


@inlined
def put_own(out: Any, at: Any, row: Any, hops: Any, plans: Any, kind: Any, bitmap: Any) -> Any:
    """Write a report's own metadata; returns the offset behind."""
    base = plan(plans, kind, bitmap)
    size = plans[base + U64(WORDS)] << U64(2)
    if U64(row.carried) & HAS_OWN:
        put_hop(
            out,
            at,
            size,
            plans,
            base,
            U64(0),
            kind == U64(OWN_2_0),
            hops[U64(row.first_hop) + U64(row.hop_count)],
        )
    if U64(row.carried) & HAS_REASON:
        put32(
            out,
            at + plans[base + AT_DROP],
            (U64(row.queue_id) << U64(24)) | (U64(row.drop_reason) << U64(16)),
        )
    return at + size


@inlined
def own_bits(row: Any, hops: Any, shift_queue: Any) -> Any:
    """`present` of a report's own metadata; 0 without."""
    if U64(row.carried) & HAS_OWN:
        return U64(hops[U64(row.first_hop) + U64(row.hop_count)].present)
    return U64(0)


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
    if U64(row.carried) & HAS_OWN:
        hop = hops[U64(row.first_hop) + U64(row.hop_count)]
        put16(out, at + U64(4), hop.ingress_port)
        put16(out, at + U64(6), hop.egress_port)
        if form == U64(2):
            last |= U64(hop.queue_occupancy)
            put32(out, at + U64(12), hop.egress_time)
    elif form == U64(2):
        put32(out, at + U64(12), U64(0))
    put32(out, at + U64(8), last)
    return at + (U64(12) if form == U64(1) else U64(16))


@inlined
def flags_of(row: Any) -> Any:
    """D, Q and F in three bits."""
    flags = U64(row.flags)
    return ((flags & U64(1)) << U64(2)) | (flags & U64(2)) | ((flags >> U64(2)) & U64(1))


@kernel
def put_1_0(out: Any, at: Any, row: Any, hops: Any, plans: Any, type_: Any) -> Any:
    """Write the headers of a Report 1.0; returns the offset behind."""
    have = own_bits(row, hops, U64(0))
    bits = (U64(1) if have & PORTS else U64(0)) << U64(5)
    bits |= (U64(1) if have & LATENCY else U64(0)) << U64(4)
    bits |= (U64(1) if have & QUEUE else U64(0)) << U64(3)
    bits |= (U64(1) if have & EGRESS else U64(0)) << U64(2)
    bits |= (U64(1) if U64(row.carried) & HAS_REASON else U64(0)) << U64(1)
    bits |= U64(1) if have & UTILIZATION else U64(0)
    behind = put_own(out, at + U64(16), row, hops, plans, U64(OWN_1_0), bits << U64(10))
    length = (behind - at) >> U64(2)
    put32(
        out, at,
        (U64(1) << U64(28)) | (length << U64(24)) | (type_ << U64(21)) | (bits << U64(15)) | (flags_of(row) << U64(6))
        | U64(row.hw_id),
    )  # fmt: skip
    put32(out, at + U64(4), row.node_id)
    put32(out, at + U64(8), row.sequence)
    put32(out, at + U64(12), row.ingress_time)
    return behind


@kernel
def put_2_0(out: Any, at: Any, row: Any, hops: Any, plans: Any, inner_ip: Any, dscp: Any) -> Any:
    """Write an individual Report 2.0; returns (offset behind, words behind its first word)."""
    start = at
    at += U64(4)
    typed = U64(row.kind) != INNER
    size = U64(0)
    if typed:
        have = own_bits(row, hops, U64(0))
        bits = U64(1) if U64(row.carried) & HAS_REASON else U64(0)
        for bit in range(1, 9):
            if have & (U64(1) << U64(bit)):
                bits |= U64(0x8000) >> U64(bit)
        put32(out, at, bits << U64(16))
        put32(out, at + U64(4), U64(0))
        behind = put_own(out, at + U64(8), row, hops, plans, U64(OWN_2_0), bits)
        size = (behind - at - U64(8)) >> U64(2)
        at = behind
    type_ = U64(0)
    if U64(row.carried) & HAS_FLOW:
        type_ = U64(3)
        if inner_ip:
            type_ = U64(4) if U64(row.ip_version) == U64(4) else U64(5)
        at = put_inner(out, at, row, hops, plans, inner_ip, dscp)
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


@kernel
def put_payload(
    out: Any, at: Any, reports: Any, first: Any, last: Any, hops: Any, plans: Any, inner_ip: Any, dscp: Any
) -> Any:
    """Write the payload of one datagram: rows first to last - 1. Returns (offset behind, row that is too long + 1)."""
    row = reports[first]
    version = U64(row.version)
    if version == U64(20):
        put32(
            out, at, (U64(2) << U64(28)) | (U64(row.hw_id) << U64(22)) | (U64(row.sequence) & U64(0x3FFFFF))
        )
        put32(out, at + U64(4), row.node_id)
        at += U64(8)
        long = U64(0)
        for i in range(first, last):
            at, words = put_2_0(out, at, reports[i], hops, plans, inner_ip, dscp)
            if words >= U64(0xFF) and U64(i) + U64(1) != last:
                long = U64(i) + U64(1)
        return at, long
    if version == U64(5):
        at = put_0_5(out, at, row, hops)
        return put_inner(out, at, row, hops, plans, False, dscp), U64(0)
    bare = inner_ip and U64(row.carried) & HAS_FLOW != U64(0)
    type_ = U64(0)
    if bare:
        type_ = U64(1) if U64(row.ip_version) == U64(4) else U64(2)
    at = put_1_0(out, at, row, hops, plans, type_)
    return put_inner(out, at, row, hops, plans, bare, dscp), U64(0)


@inlined
def is_ipv6(high: Any, low: Any) -> Any:
    """Whether an address is no ::ffff:a.b.c.d."""
    return high != U64(0) or low >> U64(32) != MAPPED


@kernel
def encode_frames(
    reports: Any, hops: Any, options: Any, plans: Any, out: Any, frames: Any, counts: Any
) -> None:
    """Write all reports. `counts` becomes [frames, bytes, row that is too long + 1, frame that is too long + 1]."""
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
            head = U64(62) if six else U64(42)
        at, long = put_payload(out, at + head, reports, first, last, hops, plans, inner_ip, options[DSCP])
        if long:
            counts[2] = long
        if at - start > U64(65535) and counts[3] == U64(0):
            counts[3] = done + U64(1)
        if head:
            put_outer(out, start, at, source_hi, source_lo, six, check, options)
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


@kernel
def put_outer(
    out: Any, start: Any, end: Any, high: Any, low: Any, six: Any, check: Any, options: Any
) -> None:
    """Write Ethernet, IP and UDP in front of a payload that ends at `end`."""
    version = U64(6) if six else U64(4)
    at = put_ethernet(out, start, IPV6 if six else IPV4)
    target_hi, target_lo = options[COLLECTOR_HI], options[COLLECTOR_LO]
    at = put_ip(out, at, version, UDP, end - at, U64(0), U64(1), high, low, target_hi, target_lo)
    put16(out, at, options[SPORT])
    put16(out, at + U64(2), options[PORT])
    put16(out, at + U64(4), end - at)
    put16(out, at + U64(6), U64(0))
    if check or six:
        if not six:
            low, target_lo = low & U64(0xFFFFFFFF), target_lo & U64(0xFFFFFFFF)
        put16(out, at + U64(6), udp_checksum(out, at, end, high, low, target_hi, target_lo))


_ = PLAN
