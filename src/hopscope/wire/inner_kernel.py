"""The inner packet of a report, for the batch decoder: flow and INT; and the row of a refusal."""

from __future__ import annotations

from typing import Any

from ..jit import U64, be16, inlined, kernel
from . import layout, rules
from .form_kernel import OVER_TCP, OVER_UDP, TCP, UDP, read_own
from .int_kernel import find_shim, read_int
from .metadata_kernel import NODE, ONES_32, OWN_2_0
from .packet_kernel import (
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
    word,
)
from .reasons import Place, Reason
from .records import Carried, Flag, Kind

FIRST_BYTE, INT_DSCP, UDP_ROLE = U64(rules.FIRST_BYTE), U64(rules.INT_DSCP), U64(rules.UDP_ROLE)
INNER_ETHERNET, INNER_IP, INNER_L4 = U64(Place.INNER_ETHERNET), U64(Place.INNER_IP), U64(Place.INNER_L4)
CUT_HEADER, CUT_METADATA = (
    code(Reason.TRUNCATED, Place.REPORT_HEADER),
    code(Reason.TRUNCATED, Place.REPORT_METADATA),
)
CUT_ETHERNET, CUT_UDP = code(Reason.TRUNCATED, Place.INNER_ETHERNET), code(Reason.TRUNCATED, Place.OUTER_UDP)
CUT_INT = code(Reason.TRUNCATED, Place.INT_HEADER)
OUTER_FRAGMENT, INNER_FRAGMENT = code(Reason.FRAGMENT, Place.OUTER_IP), code(Reason.FRAGMENT, Place.INNER_IP)
DROPPED, CONGESTED, TRACKED, INTERMEDIATE = (U64(flag) for flag in tuple(Flag)[:4])
KIND_INT, KIND_DROP, KIND_QUEUE, KIND_INNER = (U64(kind) for kind in Kind)
HAS_FLOW, HAS_PORTS = U64(Carried.FLOW), U64(Carried.PORTS)
TLV_TYPE, TLV_LENGTH = word(layout.TLV_2_0, "type"), word(layout.TLV_2_0, "length")


@inlined
def refuse(row: Any, why: Any, at: Any, origin: Any) -> None:
    """Write a refusal into the row; `at` is an index into the arena, `origin` the frame's."""
    row.reason = why >> U64(8)
    row.place = why & U64(0xFF)
    row.reason_at = at - origin


@kernel
def refuse_int(row: Any, why: Any, at: Any, origin: Any) -> None:
    """Write a refusal, unless what was taken for INT may be ordinary traffic that has this DSCP."""
    if U64(row.flags) & TRACKED or row.int_version or why == CUT_INT:
        refuse(row, why, at, origin)


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
    if not table[INT_DSCP + dscp] and not (protocol == UDP and table[UDP_ROLE + dport] & 2):
        return NONE
    why, at = find_shim(buf, at, end, limit, protocol)
    if why:
        refuse_int(row, why, at, origin)
        return NONE
    carrier = OVER_TCP if protocol == TCP else OVER_UDP
    why, at, count = read_int(buf, origin, at, end, limit, protocol, carrier, row, table, plans, hops, first)
    if why:
        refuse_int(row, why, at, origin)
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
    read_own(buf, own, plans, kind, table, kind == U64(OWN_2_0), hop)
    node = U64(row.node_id)
    hop.node_id = node
    hop.present = U64(hop.present) | NODE
    hop.null = U64(hop.null) | (NODE if node == ONES_32 else NONE)
    return first + count + U64(1)
