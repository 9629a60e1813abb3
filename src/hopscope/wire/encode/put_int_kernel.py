"""INT and the inner packet, for the batch encoder."""

from ...base.kernels.jit import U64, inlined, kernel
from .. import layout
from ..headers import put_kernel as put
from ..headers.packet_kernel import byte, word
from ..records import Carried, Have, IntFlag, Mode
from ..telemetry.metadata_kernel import (
    BITS,
    BUFFER,
    CHECKSUM,
    CONGESTION,
    EGRESS,
    INGRESS,
    INT_0_5,
    INT_1_0,
    INT_2_0,
    L2,
    LATENCY,
    NODE,
    PORTS,
    PRESENT,
    QUEUE,
    SLOTS,
    UTILIZATION,
    WORDS,
    plan,
)

HAS_REASON, HAS_OWN, HAS_FLOW = U64(Carried.DROP_REASON), U64(Carried.OWN_HOP), U64(Carried.FLOW)
TCP, UDP = U64(layout.PROTOCOL_TCP), U64(layout.PROTOCOL_UDP)
ETHERTYPE_LOCAL = U64(0x88B5)
ONES = U64(0xFFFFFFFF)
MD, MX = U64(Mode.MD), U64(Mode.MX)
EXCEEDED, MTU = U64(IntFlag.HOPS_EXCEEDED), U64(IntFlag.MTU_EXCEEDED)
DISCARD, COPY = U64(IntFlag.DISCARD), U64(IntFlag.COPY)
SIZE_TCP, SIZE_SHIM, SIZE_TAIL = U64(layout.TCP.size), U64(layout.SHIM_2_0.size), U64(layout.TAIL_0_5.size)
SIZE_0, SIZE_1, SIZE_2 = (U64(h.size) for h in (layout.MD_0_5, layout.MD_1_0, layout.MD_2_0))
SIZE_MX = U64(layout.MX_2_1.size)
QUEUE_ID, OCCUPANCY = (word(layout.QUEUE.fields, name) for name in ("queue_id", "queue_occupancy"))
BUFFER_ID, BUFFERED = (word(layout.BUFFER.fields, name) for name in ("buffer_id", "buffer_occupancy"))
CONGESTED_ID, CONGESTED = (
    word(layout.CONGESTION.fields, name) for name in ("congestion_queue_id", "queue_congestion")
)
INGRESS_PORT, EGRESS_PORT = (word(layout.PORT_PAIR.fields, name) for name in ("ingress_port", "egress_port"))
L2_EGRESS = byte(layout.L2_PORTS.fields, "l2_egress_port")
SHIM_TYPE, SHIM_LENGTH = word(layout.SHIM_2_0, "type"), word(layout.SHIM_2_0, "length")
OLD_TYPE, OLD_LENGTH = word(layout.SHIM_OLD, "type"), word(layout.SHIM_OLD, "length")
TAIL_PROTOCOL, TAIL_PORT = word(layout.TAIL_0_5, "protocol"), word(layout.TAIL_0_5, "dport")
VERSION_2, DISCARD_2, EXCEEDED_2, MTU_2, WORDS_2, REMAINING_2 = (
    word(layout.MD_2_0, name)
    for name in ("version", "discard", "hops_exceeded", "mtu_exceeded", "hop_words", "remaining_hops")
)
VERSION_1, COPY_1, EXCEEDED_1, MTU_1, WORDS_1, REMAINING_1 = (
    word(layout.MD_1_0, name)
    for name in ("version", "copy", "hops_exceeded", "mtu_exceeded", "hop_words", "remaining_hops")
)
COPY_0, EXCEEDED_0, WORDS_0, MOST_0, TOTAL_0 = (
    word(layout.MD_0_5, name) for name in ("copy", "hops_exceeded", "hop_words", "max_hops", "total_hops")
)
INSTRUCTIONS = word(layout.MD_2_0, "instructions")  # at the same place in every version
DOMAIN = word(layout.MD_2_0, "domain_id")
DS_INSTRUCTION, DS_FLAGS = word(layout.MD_2_0, "ds_instruction"), word(layout.MD_2_0, "ds_flags")
SPORT, DPORT = word(layout.PORTS, "sport"), word(layout.PORTS, "dport")
TCP_WORDS = word(layout.TCP, "header_words")
TCP_SEQUENCE, TCP_CHECKSUM = byte(layout.TCP, "sequence"), word(layout.TCP, "checksum")
RESERVED_0, RESERVED_1, RESERVED_2 = (
    U64(sum(0x8000 >> bit for bit, item in enumerate(items) if item is layout.FILLER))
    for items in (layout.HOP_0_5, layout.HOP_1_0, layout.HOP_2_0)
)
for _header in (layout.MD_0_5, layout.MD_1_0, layout.MX_2_1):
    assert _header.word("instructions") == layout.MD_2_0.word("instructions")
for _name in ("version", "discard", "domain_id", "ds_instruction", "ds_flags"):
    assert layout.MX_2_1.word(_name) == layout.MD_2_0.word(_name)
CONGESTION_BIT = 9
assert 1 << CONGESTION_BIT == Have.QUEUE_CONGESTION  # the last that has a slot of its own number


@inlined
def put_hop(out, at, size, plans, base, reserved, wide, hop):
    """Write the metadata of one hop; undefined items are all ones, domain-specific room is 0."""
    present = plans[base + U64(PRESENT)]
    slot = base + U64(SLOTS)
    if size != plans[base + U64(WORDS)] << U64(2) or plans[base + U64(BITS)] & reserved:
        fill_room(out, at, size, plans, base, present)
    if present & NODE:
        put.put32(out, at + plans[slot], hop.node_id)
    if present & PORTS:
        ports = put.bits(INGRESS_PORT, hop.ingress_port) | put.bits(EGRESS_PORT, hop.egress_port)
        put.put32(out, at + plans[slot + U64(1)], ports)
    if present & LATENCY:
        put.put32(out, at + plans[slot + U64(2)], hop.hop_latency)
    if present & QUEUE:
        queue = put.bits(QUEUE_ID, hop.queue_id) | put.bits(OCCUPANCY, hop.queue_occupancy)
        put.put32(out, at + plans[slot + U64(3)], queue)
    if present & INGRESS:
        put_time(out, at + plans[slot + U64(4)], wide, hop.ingress_time)
    if present & EGRESS:
        put_time(out, at + plans[slot + U64(5)], wide, hop.egress_time)
    if present & L2:
        put.put32(out, at + plans[slot + U64(6)], hop.l2_ingress_port)
        put.put32(out, at + plans[slot + U64(6)] + L2_EGRESS, hop.l2_egress_port)
    if present & UTILIZATION:
        put.put32(out, at + plans[slot + U64(7)], hop.tx_utilization)
    if present & BUFFER:
        buffer = put.bits(BUFFER_ID, hop.buffer_id) | put.bits(BUFFERED, hop.buffer_occupancy)
        put.put32(out, at + plans[slot + U64(8)], buffer)
    if present & CONGESTION:
        congestion = put.bits(CONGESTED_ID, hop.congestion_queue_id)
        put.put32(out, at + plans[slot + U64(9)], congestion | put.bits(CONGESTED, hop.queue_congestion))
    if present & CHECKSUM:
        put.put32(out, at + size - U64(4), hop.checksum_complement)
    if present & U64(hop.null):
        put_nulls(out, at, size, plans, slot, wide, present & U64(hop.null))


@kernel
def put_nulls(out, at, size, plans, slot, wide, null):
    """Write all ones for these values."""
    for bit in range(CONGESTION_BIT + 1):
        have = U64(1) << U64(bit)
        if null & have:
            put.put32(out, at + plans[slot + U64(bit)], ONES)
            if have == L2 or (wide and (have == INGRESS or have == EGRESS)):
                put.put32(out, at + plans[slot + U64(bit)] + U64(4), ONES)
    if null & CHECKSUM:
        put.put32(out, at + size - U64(4), ONES)


@inlined
def put_time(out, at, wide, value):
    """Write a timestamp of 8 or 4 bytes."""
    if wide:
        put.put64(out, at, value)
    else:
        put.put32(out, at, value)


@kernel
def fill_room(out, at, size, plans, base, present):
    """Write all ones for the bitmap's words, and 0 after them."""
    words = plans[base + U64(WORDS)] << U64(2)
    if present & CHECKSUM:
        words -= U64(4)
    for i in range(size):
        out[at + U64(i)] = 0xFF if U64(i) < words else 0


@inlined
def put_domain(out, at, row):
    """Write instructions, domain and domain-specific fields of a header of 2.x."""
    first = put.bits(INSTRUCTIONS, row.instructions) | put.bits(DOMAIN, row.domain_id)
    put.put_word(out, at, INSTRUCTIONS, first)
    last = put.bits(DS_INSTRUCTION, row.ds_instruction) | put.bits(DS_FLAGS, row.ds_flags)
    put.put_word(out, at, DS_INSTRUCTION, last)


@kernel
def put_mx(out, at, row):
    """Write shim and INT-MX header; returns the offset after them."""
    put.put_word(out, at, SHIM_TYPE, put.bits(SHIM_TYPE, MX) | put.bits(SHIM_LENGTH, SIZE_MX >> U64(2)))
    at += SIZE_SHIM
    discard = put.bits(DISCARD_2, U64(row.int_flags) & DISCARD != U64(0))
    put.put_word(out, at, VERSION_2, put.bits(VERSION_2, U64(2)) | discard)
    put_domain(out, at, row)
    return at + SIZE_MX


@kernel
def put_md(out, at, row, kind, words, count):
    """Write shim and INT-MD header; returns the offset after them, where the stack begins."""
    flags, remaining = U64(row.int_flags), U64(row.remaining_hops)
    exceeded, mtu = flags & EXCEEDED != U64(0), flags & MTU != U64(0)
    discard, copy = flags & DISCARD != U64(0), flags & COPY != U64(0)
    stack = words * count
    if kind == U64(INT_2_0):
        length = stack + (SIZE_2 >> U64(2))
        put.put_word(out, at, SHIM_TYPE, put.bits(SHIM_TYPE, MD) | put.bits(SHIM_LENGTH, length))
        at += SIZE_SHIM
        first = put.bits(VERSION_2, U64(2)) | put.bits(DISCARD_2, discard) | put.bits(EXCEEDED_2, exceeded)
        first |= put.bits(MTU_2, mtu) | put.bits(WORDS_2, words) | put.bits(REMAINING_2, remaining)
        put.put_word(out, at, VERSION_2, first)
        put_domain(out, at, row)
        return at + SIZE_2
    old = kind == U64(INT_0_5)
    length = stack + ((SIZE_SHIM + SIZE_1 + (SIZE_TAIL if old else U64(0))) >> U64(2))
    put.put_word(out, at, OLD_TYPE, put.bits(OLD_TYPE, MD) | put.bits(OLD_LENGTH, length))
    at += SIZE_SHIM
    put.put_word(out, at, INSTRUCTIONS, put.bits(INSTRUCTIONS, row.instructions))
    if old:
        first = put.bits(COPY_0, copy) | put.bits(EXCEEDED_0, exceeded) | put.bits(WORDS_0, words)
        most = min(remaining + count, U64(255))
        put.put_word(out, at, COPY_0, first | put.bits(MOST_0, most) | put.bits(TOTAL_0, count))
        return at + SIZE_0
    first = put.bits(VERSION_1, U64(1)) | put.bits(COPY_1, copy) | put.bits(EXCEEDED_1, exceeded)
    first |= put.bits(MTU_1, mtu) | put.bits(WORDS_1, words) | put.bits(REMAINING_1, remaining)
    put.put_word(out, at, VERSION_1, first)
    return at + SIZE_1


@kernel
def put_int(out, at, row, hops, table, plans):
    """Write shim, INT header, stack and tail of a report; returns the offset after them."""
    version = U64(row.int_version)
    kind = U64(INT_2_0) if version == U64(20) else (U64(INT_1_0) if version == U64(10) else U64(INT_0_5))
    words = U64(row.hop_words)
    base = plan(plans, table, kind, U64(row.instructions), words)
    if words == U64(0):
        words = plans[base + U64(WORDS)]
    if U64(row.int_mode) == MX and kind == U64(INT_2_0):
        return put_mx(out, at, row)
    count = U64(row.hop_count)
    at = put_md(out, at, row, kind, words, count)
    last = U64(row.first_hop) + count - U64(1)
    size = words << U64(2)
    reserved = RESERVED_2 if kind == U64(INT_2_0) else (RESERVED_1 if kind == U64(INT_1_0) else RESERVED_0)
    for i in range(count):
        put_hop(out, at, size, plans, base, reserved, kind == U64(INT_2_0), hops[last - U64(i)])
        at += size
    if kind == U64(INT_0_5):
        tail = put.bits(TAIL_PROTOCOL, row.proto) | put.bits(TAIL_PORT, row.dport)
        put.put_word(out, at, TAIL_PROTOCOL, tail)
        at += SIZE_TAIL
    return at


@kernel
def put_inner(out, at, row, hops, table, plans, bare, dscp):
    """Write the inner packet, without Ethernet if `bare`; returns the offset after it."""
    if not U64(row.carried) & HAS_FLOW:
        return put.put_ethernet(out, at, ETHERTYPE_LOCAL)
    version = U64(row.ip_version)
    if not bare:
        at = put.put_ethernet(out, at, put.IPV4 if version == U64(4) else put.IPV6)
    start = at
    proto = U64(row.proto)
    head = put.SIZE_IPV4 if version == U64(4) else put.SIZE_IPV6
    l4 = SIZE_TCP if proto == TCP else (put.SIZE_UDP if proto == UDP else U64(0))
    end = start + head + l4
    marked = U64(0)
    if row.int_version:
        end = put_int(out, end, row, hops, table, plans)
        marked = dscp
    length = max(U64(row.inner_length), end - start)
    identification = U64(row.packet_id) & U64(0xFFFF)
    ttl = U64(row.ttl) if row.ttl else put.TTL
    at = put.put_ip(
        out, start, version, proto, length, marked, U64(0), identification, ttl,
        row.src_hi, row.src_lo, row.dst_hi, row.dst_lo
    )  # fmt: skip
    if proto == UDP:
        put.put_udp(out, at, row.sport, row.dport, length - head)
    elif proto == TCP:
        put.put_word(out, at, SPORT, put.bits(SPORT, row.sport) | put.bits(DPORT, row.dport))
        put.put64(out, at + TCP_SEQUENCE, U64(0))
        put.put_word(out, at, TCP_WORDS, put.bits(TCP_WORDS, SIZE_TCP >> U64(2)))
        put.put_word(out, at, TCP_CHECKSUM, U64(0))
    return end
