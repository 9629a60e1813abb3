"""ROCE records to RoCEv2 frames, in batches, with their ICRC: the inverse of `roce_kernel`."""

from __future__ import annotations

from typing import Any

from ...base.jit import I64, U64, inlined, kernel
from .. import layout
from ..headers.put_kernel import put8, put16, put32, put64, put_ethernet, put_ip, udp_checksum
from ..records import Link, RoceFlag
from . import parse_kernel as parse
from .icrc_kernel import transport_state

LOW_24, MOST_PAYLOAD = U64(0xFFFFFF), U64(65_000)
OVERHEAD = U64(128)
"""Bytes for all headers, pad and ICRC of one frame, and more."""
IPV4, IPV6 = U64(layout.ETHERTYPE_IPV4), U64(layout.ETHERTYPE_IPV6)
ETHERNET = U64(Link.ETHERNET)


@inlined
def bit(row: Any, flag: Any, shift: Any) -> Any:
    """1 at bit `shift` where the record has the flag."""
    return U64(1) << U64(shift) if U64(row.flags) & U64(flag) else parse.NONE


@inlined
def write_transport(out: Any, at: Any, row: Any, headers: Any, payload: Any) -> Any:
    """Write BTH, further headers, payload and pad; returns the offset behind them."""
    size = U64(row.payload_bytes)
    pad = (U64(0) - size) & U64(3)
    put8(out, at, row.opcode)
    put8(
        out, at + U64(1),
        bit(row, RoceFlag.SOLICITED, 7) | bit(row, RoceFlag.MIGRATION, 6) | (pad << U64(4)),
    )  # fmt: skip
    put16(out, at + U64(2), row.partition)
    marks = bit(row, RoceFlag.FECN, 31) | bit(row, RoceFlag.BECN, 30)
    put32(out, at + U64(4), marks | (U64(row.queue_pair) & LOW_24))
    put32(out, at + U64(8), bit(row, RoceFlag.ACK_REQUEST, 31) | (U64(row.psn) & LOW_24))
    at += parse.SIZE_BTH
    if headers & parse.HAS_RETH:
        put64(out, at + parse.RETH_ADDRESS, row.address)
        put32(out, at + parse.RETH_KEY, row.key)
        put32(out, at + parse.RETH_LENGTH, row.length)
        at += parse.SIZE_RETH
    if headers & parse.HAS_ATOMIC:
        put64(out, at + parse.ATOMIC_ADDRESS, row.address)
        put32(out, at + parse.ATOMIC_KEY, row.key)
        put64(out, at + parse.ATOMIC_VALUE, row.value)
        put64(out, at + parse.ATOMIC_COMPARE, row.compare)
        at += parse.SIZE_ATOMIC
    if headers & parse.HAS_AETH:
        put32(out, at, (U64(row.syndrome) << U64(24)) | (U64(row.message) & U64(0xFFFFFF)))
        at += parse.SIZE_AETH
    if headers & parse.HAS_ATOMIC_ACK:
        put64(out, at, row.value)
        at += parse.SIZE_ATOMIC_ACK
    if headers & parse.HAS_DETH:
        put32(out, at, row.queue_key)
        put32(out, at + U64(4), U64(row.source_queue_pair) & U64(0xFFFFFF))
        at += parse.SIZE_DETH
    if headers & parse.HAS_IMMEDIATE:
        put32(out, at, row.immediate)
        at += parse.SIZE_IMMEDIATE
    start = U64(row.payload_at)
    for i in range(size):
        out[at + i] = payload[start + i]
    at += size
    for i in range(pad):
        put8(out, at + i, parse.NONE)
    return at + pad


@kernel
def put_outer(out: Any, start: Any, end: Any, row: Any, setup: Any) -> None:
    """Write Ethernet, IP and UDP at `start`, in front of the transport packet that ends at `end`."""
    hi, lo, own_hi, own_lo = U64(row.source_hi), U64(row.source_lo), setup[parse.OWN_HI], setup[parse.OWN_LO]
    six = not parse.is_mapped(own_hi, own_lo)
    at = put_ethernet(out, start, IPV6 if six else IPV4)
    version = U64(6) if six else U64(4)
    at = put_ip(out, at, version, parse.UDP, end - at, parse.NONE, U64(1), parse.NONE, own_hi, own_lo, hi, lo)
    put16(out, at, setup[parse.OWN_PORT])
    put16(out, at + U64(2), parse.PORT)
    put16(out, at + U64(4), end - at)
    put16(out, at + U64(6), parse.NONE)
    if six:  # over IPv4 it may be 0, and is
        put16(out, at + U64(6), udp_checksum(out, at, end, own_hi, own_lo, hi, lo))


@kernel
def build(rows: Any, payload: Any, setup: Any, out: Any, frames: Any) -> Any:
    """Write every row as a packet into `out`, and describe it in `frames`; how many rows were written.

    `rows` ROCE [n], `payload` uint8 [bytes], `setup` uint64 [8] (RoceSetup), `out` uint8 [bytes], `frames`
    FRAME [n or more]. It stops in front of a row for which `out` has no room (128 bytes and its payload are
    always enough), whose opcode is unknown, or whose payload is not in `payload`, is longer than 65,000
    bytes, or is one that its opcode does not have. `source_*` of a frame is to whom it is to go.
    """
    at = parse.NONE
    for i in range(len(rows)):
        row, frame = rows[i], frames[i]
        headers, size = U64(parse.HEADERS[U64(row.opcode)]), U64(row.payload_bytes)
        room = at + OVERHEAD + size <= U64(len(out))
        there = U64(row.payload_at) + size <= U64(len(payload)) and size <= MOST_PAYLOAD
        if (
            not room
            or not there
            or headers == parse.NONE
            or (size and headers & parse.HAS_PAYLOAD == parse.NONE)
        ):
            return I64(i)
        hi, lo = U64(row.source_hi), U64(row.source_lo)
        start, link = at, setup[parse.LINK]
        begin = start
        if link != parse.UDP_PAYLOAD:
            begin += U64(42) if parse.is_mapped(setup[parse.OWN_HI], setup[parse.OWN_LO]) else U64(62)
        end = write_transport(out, begin, row, headers, payload)
        udp_length = end + parse.ICRC - begin + parse.SIZE_UDP
        state = parse.ports_state(
            udp_length, setup[parse.OWN_HI], setup[parse.OWN_LO], setup[parse.OWN_PORT], hi, lo
        )
        icrc = transport_state(state, udp_length, out, begin, end)
        for k in range(4):
            put8(out, end + U64(k), icrc >> U64(8 * k))
        end += parse.ICRC
        if link != parse.UDP_PAYLOAD:
            put_outer(out, start, end, row, setup)
        frame.offset = start
        frame.time_ns = 0
        frame.source_hi, frame.source_lo = hi, lo
        frame.length, frame.wire_length = end - start, end - start
        frame.source_port, frame.port = setup[parse.OWN_PORT], parse.PORT
        frame.link = link
        at = end
    return I64(len(rows))
