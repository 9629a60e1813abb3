"""The batch decoder: frames to REPORT and HOP rows, by the checks of decode_scalar.py in the same order."""

from __future__ import annotations

from typing import Any

from ..jit import U64, be16, be32, be64, inlined, kernel
from . import layout
from .int_kernel import TCP, UDP, find_shim, read_int
from .metadata_kernel import (
    AT_DROP,
    AT_INGRESS,
    AT_QUEUE,
    DROP_0_5,
    INGRESS,
    LOCAL_0_5,
    NODE,
    ONES_32,
    OWN_1_0,
    OWN_2_0,
    PRESENT,
    QUEUE,
    WORDS,
    plan,
    read_hop,
)
from .packet_kernel import (
    ETHERNET,
    IPV4_DESTINATION,
    IPV4_SOURCE,
    IPV6_DESTINATION,
    IPV6_SOURCE,
    NONE,
    address,
    code,
    ethernet,
    get,
    ipv4,
    ipv6,
    lacks,
    other_link,
    word,
)
from .reasons import Place, Reason
from .records import REPORT, Carried, Flag, Kind, Link

REPORT_WORDS = U64(REPORT.itemsize // 8)
UDP_PAYLOAD = U64(Link.UDP_PAYLOAD)
# Parts of Dialect.table(); dialect.py is no kernel's import, decode.py checks that they are the same.
FIRST_BYTE, INT_DSCP, PORT_TABLE = U64(0), U64(256), U64(320)

HEADER, METADATA = U64(Place.REPORT_HEADER), U64(Place.REPORT_METADATA)
INNER_ETHERNET, INNER_IP, INNER_L4 = U64(Place.INNER_ETHERNET), U64(Place.INNER_IP), U64(Place.INNER_L4)
TRUNCATED = U64(Reason.TRUNCATED << 8)
CUT_HEADER, CUT_METADATA = (
    code(Reason.TRUNCATED, Place.REPORT_HEADER),
    code(Reason.TRUNCATED, Place.REPORT_METADATA),
)
CUT_ETHERNET, CUT_UDP = code(Reason.TRUNCATED, Place.INNER_ETHERNET), code(Reason.TRUNCATED, Place.OUTER_UDP)
BAD_UDP, LACKING_UDP = code(Reason.BAD_LENGTH, Place.OUTER_UDP), U64(Place.OUTER_UDP)
OUTER_FRAGMENT, INNER_FRAGMENT = code(Reason.FRAGMENT, Place.OUTER_IP), code(Reason.FRAGMENT, Place.INNER_IP)
UNKNOWN_REPORT = code(Reason.UNKNOWN_VERSION, Place.REPORT_HEADER)
UNKNOWN_TYPE = code(Reason.UNKNOWN_TYPE, Place.REPORT_HEADER)
UNSUPPORTED = code(Reason.UNSUPPORTED, Place.REPORT_HEADER)
BAD_HEADER, BAD_METADATA = (
    code(Reason.BAD_LENGTH, Place.REPORT_HEADER),
    code(Reason.BAD_LENGTH, Place.REPORT_METADATA),
)

DROPPED, CONGESTED, TRACKED, INTERMEDIATE = (U64(flag) for flag in Flag)
KIND_INT, KIND_DROP, KIND_QUEUE, KIND_INNER = (U64(kind) for kind in Kind)
HAS_NODE, HAS_REASON, HAS_QUEUE = U64(Carried.NODE_ID), U64(Carried.DROP_REASON), U64(Carried.QUEUE_ID)
HAS_INGRESS, HAS_OWN = U64(Carried.INGRESS_TIME), U64(Carried.OWN_HOP)
HAS_FLOW, HAS_PORTS = U64(Carried.FLOW), U64(Carried.PORTS)

NPROTO_0 = word(layout.REPORT_0_5, "next_protocol")
FLAGS_0 = tuple(word(layout.REPORT_0_5, name) for name in ("dropped", "congested", "tracked"))
HW_0, SEQUENCE_0 = word(layout.REPORT_0_5, "hw_id"), word(layout.REPORT_0_5, "sequence")
INGRESS_0 = word(layout.REPORT_0_5, "ingress_time")
NPROTO_1, LENGTH_1 = word(layout.REPORT_1_0, "next_protocol"), word(layout.REPORT_1_0, "length")
BITS_1, HW_1, NODE_1 = (word(layout.REPORT_1_0, name) for name in ("metadata_bits", "hw_id", "node_id"))
SEQUENCE_1, INGRESS_1 = word(layout.REPORT_1_0, "sequence"), word(layout.REPORT_1_0, "ingress_time")
FLAGS_1 = tuple(word(layout.REPORT_1_0, name) for name in ("dropped", "congested", "tracked"))
HW_2, SEQUENCE_2, NODE_2 = (word(layout.GROUP_2_0, name) for name in ("hw_id", "sequence", "node_id"))
REPORT_TYPE, INNER_TYPE = word(layout.REPORT_2_0, "report_type"), word(layout.REPORT_2_0, "inner_type")
REPORT_LENGTH, MD_LENGTH = (
    word(layout.REPORT_2_0, "report_length"),
    word(layout.REPORT_2_0, "metadata_length"),
)
FLAGS_2 = tuple(word(layout.REPORT_2_0, name) for name in ("dropped", "congested", "tracked"))
INTERMEDIATE_2 = word(layout.REPORT_2_0, "intermediate")
BITS_2 = word(layout.MAIN_2_0, "metadata_bits")
TLV_TYPE, TLV_LENGTH = word(layout.TLV_2_0, "type"), word(layout.TLV_2_0, "length")


@inlined
def refuse(row: Any, why: Any, at: Any, origin: Any) -> None:
    """Write a refusal into the row; `at` is an index into the arena, `origin` the frame's."""
    row.reason = why >> U64(8)
    row.place = why & U64(0xFF)
    row.reason_at = at - origin


@inlined
def flags_of(buf: Any, at: Any, fields: Any) -> Any:
    """D, Q and F."""
    return (
        get(buf, at, fields[0]) * DROPPED
        | get(buf, at, fields[1]) * CONGESTED
        | get(buf, at, fields[2]) * TRACKED
    )


@inlined
def kind_of(flags: Any) -> Any:
    """Kind of a Report 1.0 or 2.0."""
    if flags & DROPPED:
        return KIND_DROP
    return KIND_QUEUE if (flags & (CONGESTED | TRACKED)) == CONGESTED else KIND_INT


@inlined
def new_row(reports: Any, words: Any, index: Any) -> Any:
    """A REPORT row with all bytes 0; `words` is the same memory as uint64."""
    first = index * REPORT_WORDS
    for i in range(REPORT_WORDS):
        words[first + U64(i)] = U64(0)
    return reports[index]


@inlined
def inner(
    buf: Any,
    origin: Any,
    at: Any,
    end: Any,
    type_: Any,
    row: Any,
    table: Any,
    plans: Any,
    hops: Any,
    first: Any,
) -> Any:
    """Read the inner packet (InType 0, 2-5) into the row; returns how many hops were written from `first`."""
    version = NONE
    if type_ == U64(3):
        start = at
        cut, at, version = ethernet(buf, at, end)
        if cut:
            refuse(row, CUT_ETHERNET, at, origin)
            return NONE
        _ = start
    elif type_ == U64(4):
        version = U64(4)
    elif type_ == U64(5):
        version = U64(6)
    if version == NONE:
        return NONE
    start = at
    if version == U64(4):
        why, at, protocol, dscp, length, part = ipv4(buf, at, end)
    else:
        why, at, protocol, dscp, length, part = ipv6(buf, at, end)
    if why:
        refuse(row, why | INNER_IP, at, origin)
        return NONE
    row.src_hi, row.src_lo = address(buf, start, version, IPV4_SOURCE, IPV6_SOURCE)
    row.dst_hi, row.dst_lo = address(buf, start, version, IPV4_DESTINATION, IPV6_DESTINATION)
    row.proto = protocol
    row.ip_version = version
    row.inner_length = length
    row.carried = U64(row.carried) | HAS_FLOW
    if part != NONE:
        refuse(row, INNER_FRAGMENT, start, origin)
        return NONE
    if protocol != TCP and protocol != UDP:
        return NONE
    limit = min(end, start + length)
    why = lacks(at, U64(4), end, limit)
    if why:
        refuse(row, why | INNER_L4, at, origin)
        return NONE
    dport = be16(buf, at + U64(2))
    row.sport = be16(buf, at)
    row.dport = dport
    row.carried = U64(row.carried) | HAS_PORTS
    if not table[INT_DSCP + dscp] and not (protocol == UDP and table[PORT_TABLE + dport] & 2):
        return NONE
    why, at = find_shim(buf, at, end, limit, protocol)
    if why:
        if U64(row.flags) & TRACKED:  # otherwise ordinary traffic that has this DSCP
            refuse(row, why, at, origin)
        return NONE
    why, at, count = read_int(buf, at, end, limit, protocol, row, plans, hops, first)
    if why:
        refuse(row, why, at, origin)
    return count


@kernel
def find_tlv(buf: Any, at: Any, end: Any) -> Any:
    """(code, offset, InType, end) of the first packet among the TLVs of a report."""
    type_, start, stop = NONE, at, end
    while at < end:
        if at + U64(4) > end:
            return CUT_METADATA, at, NONE, end
        size = get(buf, at, TLV_LENGTH) << U64(2)
        if at + U64(4) + size > end:
            return CUT_METADATA, at, NONE, end
        kind = get(buf, at, TLV_TYPE)
        if type_ == NONE and kind >= U64(1) and kind <= U64(3):
            type_, start, stop = kind + U64(2), at + U64(4), at + U64(4) + size
        at += U64(4) + size
    return NONE, start, type_, stop


@inlined
def finish(
    buf: Any,
    origin: Any,
    at: Any,
    end: Any,
    type_: Any,
    own: Any,
    kind: Any,
    row: Any,
    table: Any,
    plans: Any,
    hops: Any,
    first: Any,
) -> Any:
    """Read the inner packet, then the report's own metadata (at `own`; 0: none) behind its hops.

    Returns the next free row of `hops`.
    """
    count = inner(buf, origin, at, end, type_, row, table, plans, hops, first)
    row.first_hop = first
    row.hop_count = count
    if own == NONE:
        return first + count
    hop = hops[first + count]
    read_hop(buf, own, NONE, plans, kind * U64(16), kind == U64(OWN_2_0), hop)
    node = U64(row.node_id)
    hop.node_id = node
    hop.present = U64(hop.present) | NODE
    hop.null = U64(hop.null) | (NODE if node == ONES_32 else NONE)
    return first + count + U64(1)


@kernel
def report_0_5(
    buf: Any, origin: Any, at: Any, end: Any, row: Any, table: Any, plans: Any, hops: Any, first: Any
) -> Any:
    """A Report 0.5; returns the next free row of `hops`."""
    row.first_hop = first
    if at + U64(12) > end:
        refuse(row, CUT_HEADER, at, origin)
        return first
    form = get(buf, at, NPROTO_0)
    if form > U64(2):
        refuse(row, UNKNOWN_TYPE, at, origin)
        return first
    row.flags = flags_of(buf, at, FLAGS_0)
    row.hw_id = get(buf, at, HW_0)
    row.sequence = get(buf, at, SEQUENCE_0)
    row.ingress_time = get(buf, at, INGRESS_0)
    row.kind = KIND_DROP if form == U64(1) else (KIND_QUEUE if form == U64(2) else KIND_INT)
    carried = HAS_INGRESS
    at += U64(12)
    own, kind = NONE, U64(DROP_0_5)
    if form != NONE:
        size = U64(12) if form == U64(1) else U64(16)
        if at + size > end:
            row.carried = carried
            refuse(row, CUT_METADATA, at, origin)
            return first
        own = at
        row.node_id = be32(buf, at)
        row.queue_id = buf[at + U64(8)]
        carried |= HAS_NODE | HAS_QUEUE | HAS_OWN
        if form == U64(1):
            row.drop_reason = buf[at + U64(9)]
            carried |= HAS_REASON
            plan(plans, U64(DROP_0_5), U64(0xC000))
        else:
            kind = U64(LOCAL_0_5)
            plan(plans, kind, U64(0xF000))
        at += size
    row.carried = carried
    return finish(buf, origin, at, end, U64(3), own, kind, row, table, plans, hops, first)


@inlined
def own_values(buf: Any, at: Any, plans: Any, base: Any, bitmap: Any, has_drop: Any, row: Any) -> None:
    """Queue id and drop reason of a report's own metadata."""
    carried = U64(row.carried) | HAS_OWN
    if plans[base + U64(PRESENT)] & QUEUE:
        row.queue_id = buf[at + plans[base + AT_QUEUE]]
        carried |= HAS_QUEUE
    if has_drop:
        row.queue_id = buf[at + plans[base + AT_DROP]]
        row.drop_reason = buf[at + plans[base + AT_DROP] + U64(1)]
        carried |= HAS_QUEUE | HAS_REASON
    row.carried = carried


@kernel
def report_1_0(
    buf: Any, origin: Any, at: Any, end: Any, row: Any, table: Any, plans: Any, hops: Any, first: Any
) -> Any:
    """A Report 1.0; returns the next free row of `hops`."""
    row.first_hop = first
    if at + U64(16) > end:
        refuse(row, CUT_HEADER, at, origin)
        return first
    type_ = get(buf, at, NPROTO_1)
    if type_ > U64(2):
        refuse(row, UNKNOWN_TYPE, at, origin)
        return first
    bitmap = get(buf, at, BITS_1) << U64(10)
    base = plan(plans, U64(OWN_1_0), bitmap)
    size = plans[base + U64(WORDS)] << U64(2)
    if get(buf, at, LENGTH_1) << U64(2) != size + U64(16):
        refuse(row, BAD_HEADER, at, origin)
        return first
    flags = flags_of(buf, at, FLAGS_1)
    row.flags = flags
    row.kind = kind_of(flags)
    row.hw_id = get(buf, at, HW_1)
    row.node_id = get(buf, at, NODE_1)
    row.sequence = get(buf, at, SEQUENCE_1)
    row.ingress_time = get(buf, at, INGRESS_1)
    row.carried = HAS_INGRESS | HAS_NODE
    at += U64(16)
    own = NONE
    if bitmap != NONE:
        if at + size > end:
            refuse(row, CUT_METADATA, at, origin)
            return first
        own = at
        own_values(buf, at, plans, base, bitmap, bitmap & U64(0x0800), row)
        at += size
    return finish(buf, origin, at, end, type_ + U64(3), own, U64(OWN_1_0), row, table, plans, hops, first)


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
    """All reports of a 2.0 datagram; row `index` is begun. Returns the next free rows of `reports` and `hops`."""
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
        if at >= announced:
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


@inlined
def payload(
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
    """A datagram's payload; row `index` is begun. Returns the next free rows of `reports` and `hops`."""
    row = reports[index]
    if at >= end:
        row.first_hop = first
        refuse(row, CUT_HEADER, at, origin)
        return index + U64(1), first
    version = table[FIRST_BYTE + U64(buf[at])]
    row.version = version
    if version == 20:
        return group_2_0(buf, origin, at, end, announced, reports, words, index, table, plans, hops, first)
    if version == 10:
        first = report_1_0(buf, origin, at, end, row, table, plans, hops, first)
    elif version == 5:
        first = report_0_5(buf, origin, at, end, row, table, plans, hops, first)
    else:
        row.first_hop = first
        refuse(row, UNKNOWN_REPORT, at, origin)
    return index + U64(1), first


@inlined
def outer(buf: Any, at: Any, end: Any, link: Any, table: Any) -> Any:
    """(verdict, offset, end, announced, source high, source low) of a captured frame.

    The verdict is 0 for no report, 1 for a report's payload at `offset`, otherwise a refusal's code.
    """
    if link == ETHERNET:
        cut, at, version = ethernet(buf, at, end)
        if cut:
            version = NONE
    else:
        at, version = other_link(buf, at, end, link)
    if version == NONE:
        return NONE, at, end, end, NONE, NONE
    start = at
    if version == U64(4):
        why, at, protocol, _, length, part = ipv4(buf, at, end)
    else:
        why, at, protocol, _, length, part = ipv6(buf, at, end)
    behind = start + length
    if why or protocol != UDP or part == U64(1) or at + U64(4) > min(end, behind):
        return NONE, at, end, end, NONE, NONE
    if not table[PORT_TABLE + be16(buf, at + U64(2))] & 1:
        return NONE, at, end, end, NONE, NONE
    high, low = address(buf, start, version, IPV4_SOURCE, IPV6_SOURCE)
    if part != NONE:
        return OUTER_FRAGMENT, start, end, end, high, low
    why = lacks(at, U64(8), end, min(end, behind))
    if why:
        return why | LACKING_UDP, at, end, end, high, low
    size = be16(buf, at + U64(4))
    announced = at + size
    if size < U64(8) or announced > behind:
        return BAD_UDP, at, end, end, high, low
    return U64(1), at + U64(8), min(end, announced), announced, high, low


@kernel
def decode_frames(
    buf: Any,
    frames: Any,
    start: Any,
    table: Any,
    plans: Any,
    reports: Any,
    words: Any,
    hops: Any,
    counts: Any,
) -> Any:
    """Decode frames from `start` on; returns the frame to go on at when a block is nearly full, else their number.

    `words` is the memory of `reports` as uint64.  `counts` is [reports, hops, frames that are no reports], and
    goes on from what it holds.
    """
    index, first, other = counts[0], counts[1], counts[2]
    most_reports, most_hops = U64(len(reports)), U64(len(hops))
    done = U64(len(frames))
    for i in range(start, U64(len(frames))):
        frame = frames[i]
        origin = U64(frame.offset)
        end = origin + U64(frame.length)
        room = (U64(frame.length) >> U64(2)) + U64(2)  # a report or a hop takes 4 bytes at least
        if index + room > most_reports or first + room > most_hops:
            done = U64(i)
            break
        link = U64(frame.link)
        if link == UDP_PAYLOAD:
            verdict, at, announced = U64(1), origin, end
            high, low = U64(frame.source_hi), U64(frame.source_lo)
        else:
            verdict, at, end, announced, high, low = outer(buf, origin, end, link, table)
        if verdict == NONE:
            other += U64(1)
            continue
        row = new_row(reports, words, index)
        row.time_ns = frame.time_ns
        row.packet = i
        row.source_hi = high
        row.source_lo = low
        if verdict == U64(1):
            index, first = payload(
                buf, origin, at, end, announced, reports, words, index, table, plans, hops, first
            )
        else:
            row.first_hop = first
            refuse(row, verdict, at, origin)
            index += U64(1)
    counts[0], counts[1], counts[2] = index, first, other
    return done
