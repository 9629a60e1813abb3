"""DTA records to frames, with the same bytes as `codec.push_dta`."""

from ...base.kernels.jit import U64, inlined, kernel
from ..encode import encode_kernel as encode
from ..headers import put_kernel as put
from ..headers.put_kernel import put8, put32, put64
from . import parse_kernel as parse

TWO = U64(2)


@inlined
def copy(out, at, arena, source, count):
    """Copy bytes; returns the offset after them."""
    for i in range(count):
        out[at + U64(i)] = arena[source + U64(i)]
    return at + count


@inlined
def put_data(out, at, row, arena):
    """Write the data, a Key-Increment's counter; returns the offset after it."""
    if U64(row.opcode) == parse.KEY_INCREMENT:
        put64(out, at, row.counter)
        return at + U64(8)
    return copy(out, at, arena, U64(row.data_at), U64(row.data_bytes))


@inlined
def put_key(out, at, row, arena):
    """Write the key, an Append's list; returns the offset after it."""
    if U64(row.opcode) == parse.APPEND:
        put32(out, at, row.list)
        return at + U64(4)
    return copy(out, at, arena, U64(row.key_at), U64(row.key_bytes))


@kernel
def put_sized(out, at, row, flags, arena):
    """Write one report with lengths; returns the offset after it."""
    for i in range(parse.SIZED_BYTES):
        out[at + U64(i)] = 0
    key_at = at + parse.SIZED_BYTES
    data_at = put_key(out, key_at, row, arena)
    end = put_data(out, data_at, row, arena)
    put8(out, at, row.opcode)
    put8(out, at + parse.SIZED_FLAGS, flags)
    put8(out, at + parse.SIZED_KEY_BYTES, data_at - key_at)
    put8(out, at + parse.SIZED_DATA_BYTES, end - data_at)
    put32(out, at + parse.SIZED_SEQUENCE, row.sequence)
    put8(out, at + parse.SIZED_REDUNDANCY, row.redundancy)
    put8(out, at + parse.SIZED_HOP, row.hop)
    put8(out, at + parse.SIZED_PATH_LENGTH, row.path_length)
    return end


@kernel
def put_published(out, at, row, flags, arena, base, rules):
    """Write one report with a base header of `base` bytes; returns the offset after it."""
    rule = U64(row.opcode) * parse.RULE
    put8(out, at, row.opcode)
    if base != TWO:
        put8(out, at + parse.SEQUENCE, row.sequence)
    at += base
    put8(out, at - parse.ONE, flags)
    if parse.part(rules, rule, parse.REDUNDANCY):
        put8(out, at + parse.part(rules, rule, parse.REDUNDANCY_AT), row.redundancy)
    if parse.part(rules, rule, parse.HOP):
        put8(out, at + parse.part(rules, rule, parse.HOP_AT), row.hop)
    put_key(out, at + parse.part(rules, rule, parse.KEY_AT), row, arena)
    put_data(out, at + parse.part(rules, rule, parse.DATA_AT), row, arena)
    return at + parse.part(rules, rule, parse.SIZE)


@kernel
def put_reports(reports, arena, form, rules, options, source, check, out, frames):
    """Write all reports as frames; `source` is the sender's address, uint64 [2]. Returns the bytes used."""
    at = U64(0)
    high, low = source[0], source[1]
    whole = options[encode.LINK] != encode.UDP_PAYLOAD
    six = encode.is_ipv6(high, low) or encode.is_ipv6(
        options[encode.COLLECTOR_HI], options[encode.COLLECTOR_LO]
    )
    head = U64(0)
    if whole:
        head = put.OUTER_6 if six else put.OUTER_4
    for i in range(len(reports)):
        start = at
        row = reports[i]
        bits = U64(row.flags)
        flags = ((bits & parse.ONE) << parse.IMMEDIATE) | (
            ((bits >> parse.ONE) & parse.ONE) << parse.RETRANSMIT
        )
        if form == parse.SIZED_BYTES:
            at = put_sized(out, start + head, row, flags, arena)
        else:
            at = put_published(out, start + head, row, flags, arena, form, rules)
        if whole:
            put.put_outer(
                out, start, at, six, check, options[encode.SPORT], options[encode.PORT],
                high, low, options[encode.COLLECTOR_HI], options[encode.COLLECTOR_LO],
            )  # fmt: skip
        frame = frames[i]
        frame.offset = start
        frame.source_hi = high
        frame.source_lo = low
        frame.length = at - start
        frame.wire_length = at - start
        frame.port = options[encode.PORT]
        frame.source_port = options[encode.SPORT]
        frame.link = options[encode.LINK]
    return at
