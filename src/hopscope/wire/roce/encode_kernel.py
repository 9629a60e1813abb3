"""ROCE records to RoCEv2 frames, in batches, with their ICRC: the inverse of `roce_kernel`."""

from __future__ import annotations

from typing import Any

from ...base.jit import I64, U64, inlined, kernel
from .. import layout
from ..headers.put_kernel import put8, put16, put32, put64, put_ethernet, put_ip, udp_checksum
from ..records import Link, RoceFlag
from .icrc_kernel import transport_state
from .parse_kernel import (
    ATOMIC_ADDRESS,
    ATOMIC_COMPARE,
    ATOMIC_KEY,
    ATOMIC_VALUE,
    HAS_AETH,
    HAS_ATOMIC,
    HAS_ATOMIC_ACK,
    HAS_DETH,
    HAS_IMMEDIATE,
    HAS_PAYLOAD,
    HAS_RETH,
    HEADERS,
    ICRC,
    LINK,
    NONE,
    OWN_HI,
    OWN_LO,
    OWN_PORT,
    PORT,
    RETH_ADDRESS,
    RETH_KEY,
    RETH_LENGTH,
    SIZE_AETH,
    SIZE_ATOMIC,
    SIZE_ATOMIC_ACK,
    SIZE_BTH,
    SIZE_DETH,
    SIZE_IMMEDIATE,
    SIZE_RETH,
    SIZE_UDP,
    UDP,
    UDP_PAYLOAD,
    is_mapped,
    ports_state,
)

LOW_24, MOST_PAYLOAD = U64(0xFFFFFF), U64(65_000)
OVERHEAD = U64(128)
"""Bytes for all headers, pad and ICRC of one frame, and more."""
IPV4, IPV6 = U64(layout.ETHERTYPE_IPV4), U64(layout.ETHERTYPE_IPV6)
ETHERNET = U64(Link.ETHERNET)


@inlined
def bit(row: Any, flag: Any, shift: Any) -> Any:
    """1 at bit `shift` where the record has the flag."""
    return U64(1) << U64(shift) if U64(row.flags) & U64(flag) else NONE


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
    at += SIZE_BTH
    if headers & HAS_RETH:
        put64(out, at + RETH_ADDRESS, row.address)
        put32(out, at + RETH_KEY, row.key)
        put32(out, at + RETH_LENGTH, row.length)
        at += SIZE_RETH
    if headers & HAS_ATOMIC:
        put64(out, at + ATOMIC_ADDRESS, row.address)
        put32(out, at + ATOMIC_KEY, row.key)
        put64(out, at + ATOMIC_VALUE, row.value)
        put64(out, at + ATOMIC_COMPARE, row.compare)
        at += SIZE_ATOMIC
    if headers & HAS_AETH:
        put32(out, at, (U64(row.syndrome) << U64(24)) | (U64(row.message) & U64(0xFFFFFF)))
        at += SIZE_AETH
    if headers & HAS_ATOMIC_ACK:
        put64(out, at, row.value)
        at += SIZE_ATOMIC_ACK
    if headers & HAS_DETH:
        put32(out, at, row.queue_key)
        put32(out, at + U64(4), U64(row.source_queue_pair) & U64(0xFFFFFF))
        at += SIZE_DETH
    if headers & HAS_IMMEDIATE:
        put32(out, at, row.immediate)
        at += SIZE_IMMEDIATE
    start = U64(row.payload_at)
    for i in range(size):
        out[at + i] = payload[start + i]
    at += size
    for i in range(pad):
        put8(out, at + i, NONE)
    return at + pad


@kernel
def put_outer(out: Any, start: Any, end: Any, row: Any, setup: Any) -> None:
    """Write Ethernet, IP and UDP at `start`, in front of the transport packet that ends at `end`."""
    hi, lo, own_hi, own_lo = U64(row.source_hi), U64(row.source_lo), setup[OWN_HI], setup[OWN_LO]
    six = not is_mapped(own_hi, own_lo)
    at = put_ethernet(out, start, IPV6 if six else IPV4)
    version = U64(6) if six else U64(4)
    at = put_ip(out, at, version, UDP, end - at, NONE, U64(1), NONE, own_hi, own_lo, hi, lo)
    put16(out, at, setup[OWN_PORT])
    put16(out, at + U64(2), PORT)
    put16(out, at + U64(4), end - at)
    put16(out, at + U64(6), NONE)
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
    at = NONE
    for i in range(len(rows)):
        row, frame = rows[i], frames[i]
        headers, size = U64(HEADERS[U64(row.opcode)]), U64(row.payload_bytes)
        room = at + OVERHEAD + size <= U64(len(out))
        there = U64(row.payload_at) + size <= U64(len(payload)) and size <= MOST_PAYLOAD
        if not room or not there or headers == NONE or (size and headers & HAS_PAYLOAD == NONE):
            return I64(i)
        hi, lo = U64(row.source_hi), U64(row.source_lo)
        start, link = at, setup[LINK]
        begin = start
        if link != UDP_PAYLOAD:
            begin += U64(42) if is_mapped(setup[OWN_HI], setup[OWN_LO]) else U64(62)
        end = write_transport(out, begin, row, headers, payload)
        udp_length = end + ICRC - begin + SIZE_UDP
        state = ports_state(udp_length, setup[OWN_HI], setup[OWN_LO], setup[OWN_PORT], hi, lo)
        icrc = transport_state(state, udp_length, out, begin, end)
        for k in range(4):
            put8(out, end + U64(k), icrc >> U64(8 * k))
        end += ICRC
        if link != UDP_PAYLOAD:
            put_outer(out, start, end, row, setup)
        frame.offset = start
        frame.time_ns = 0
        frame.source_hi, frame.source_lo = hi, lo
        frame.length, frame.wire_length = end - start, end - start
        frame.source_port, frame.port = setup[OWN_PORT], PORT
        frame.link = link
        at = end
    return I64(len(rows))
