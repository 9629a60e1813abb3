"""ROCE records to RoCEv2 frames, in batches, with their ICRC: the inverse of `roce_kernel`."""

from ...base.kernels.jit import I64, U64, inlined, kernel
from ..headers import put_kernel as put
from ..headers.packet_kernel import word
from ..headers.put_kernel import bits, put8, put32, put64, put_word
from . import layout
from . import parse_kernel as parse
from .icrc_kernel import transport_state
from .records import RoceFlag

MAX_PAYLOAD = U64(65_000)
OVERHEAD = U64(128)
"""Bytes that are enough for all headers, pad and ICRC of one frame."""
OPCODE = word(layout.BTH, "opcode")
SOLICITED, MIGRATION = U64(RoceFlag.SOLICITED), U64(RoceFlag.MIGRATION)
FECN, BECN, ACK_REQUEST = U64(RoceFlag.FECN), U64(RoceFlag.BECN), U64(RoceFlag.ACK_REQUEST)


@inlined
def write_transport(out, at, row, headers, payload):
    """Write BTH, further headers, payload and pad; returns the offset after them."""
    size, flags = U64(row.payload_bytes), U64(row.flags)
    pad = (U64(0) - size) & U64(3)
    first = bits(OPCODE, row.opcode) | bits(parse.SOLICITED, flags & SOLICITED != parse.NONE)
    first |= bits(parse.MIGRATION, flags & MIGRATION != parse.NONE) | bits(parse.PAD, pad)
    put_word(out, at, OPCODE, first | bits(parse.PARTITION, row.partition))
    marks = bits(parse.FECN, flags & FECN != parse.NONE) | bits(parse.BECN, flags & BECN != parse.NONE)
    put_word(out, at, parse.QUEUE_PAIR, marks | bits(parse.QUEUE_PAIR, row.queue_pair))
    request = bits(parse.ACK_REQUEST, flags & ACK_REQUEST != parse.NONE)
    put_word(out, at, parse.PSN, request | bits(parse.PSN, row.psn))
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
        put_word(
            out, at, parse.SYNDROME, bits(parse.SYNDROME, row.syndrome) | bits(parse.MESSAGE, row.message)
        )
        at += parse.SIZE_AETH
    if headers & parse.HAS_ATOMIC_ACK:
        put64(out, at, row.value)
        at += parse.SIZE_ATOMIC_ACK
    if headers & parse.HAS_DETH:
        put32(out, at + parse.DETH_KEY, row.queue_key)
        put_word(out, at, parse.DETH_SOURCE, bits(parse.DETH_SOURCE, row.source_queue_pair))
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
def build(rows, payload, setup, out, frames):
    """Write every row as a packet into `out`, and describe it in `frames`; returns the number of rows
    written.

    `rows` ROCE [n], `payload` uint8 [bytes], `setup` uint64 [8] (RoceSetup), `out` uint8 [bytes], `frames`
    FRAME [n or more]. It stops before a row for which `out` has no room (128 bytes and its payload are always
    enough), whose opcode is unknown, whose payload is not within `payload` or is longer than 65,000 bytes, or
    that has a payload although its opcode has none. `source_*` of a frame is its receiver.
    """
    at = parse.NONE
    for i in range(len(rows)):
        row, frame = rows[i], frames[i]
        headers, size = U64(parse.HEADERS[U64(row.opcode)]), U64(row.payload_bytes)
        room = at + OVERHEAD + size <= U64(len(out))
        there = U64(row.payload_at) + size <= U64(len(payload)) and size <= MAX_PAYLOAD
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
            begin += put.OUTER_4 if parse.is_mapped(setup[parse.OWN_HI], setup[parse.OWN_LO]) else put.OUTER_6
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
            six = not parse.is_mapped(setup[parse.OWN_HI], setup[parse.OWN_LO])
            put.put_outer(
                out, start, end, six, False, setup[parse.OWN_PORT], parse.PORT,
                setup[parse.OWN_HI], setup[parse.OWN_LO], hi, lo,
            )  # fmt: skip
        frame.offset = start
        frame.time_ns = 0
        frame.source_hi, frame.source_lo = hi, lo
        frame.length, frame.wire_length = end - start, end - start
        frame.source_port, frame.port = setup[parse.OWN_PORT], parse.PORT
        frame.link = link
        at = end
    return I64(len(rows))
