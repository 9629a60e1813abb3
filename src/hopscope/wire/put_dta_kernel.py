"""DTA records to frames, byte for byte what dta.push_dta writes."""

from __future__ import annotations

from typing import Any

from ..jit import U64, inlined, kernel
from .encode_kernel import COLLECTOR_HI, COLLECTOR_LO, LINK, PORT, SPORT, UDP_PAYLOAD, is_ipv6, put_outer
from .put_kernel import put8, put16, put32, put64

APPEND, KEY_INCREMENT, POSTCARDING = U64(2), U64(3), U64(4)
TWO, THREE, SIZED = U64(2), U64(3), U64(12)


@inlined
def copy(out: Any, at: Any, arena: Any, source: Any, count: Any) -> Any:
    """Copy bytes; returns the offset behind them."""
    for i in range(count):
        out[at + U64(i)] = arena[source + U64(i)]
    return at + count


@inlined
def put_data(out: Any, at: Any, row: Any, arena: Any) -> Any:
    """Write the data, a Key-Increment's counter; returns the offset behind."""
    if U64(row.opcode) == KEY_INCREMENT:
        put64(out, at, row.counter)
        return at + U64(8)
    return copy(out, at, arena, U64(row.data_at), U64(row.data_bytes))


@inlined
def put_key(out: Any, at: Any, row: Any, arena: Any) -> Any:
    """Write the key, an Append's list; returns the offset behind."""
    if U64(row.opcode) == APPEND:
        put32(out, at, row.list)
        return at + U64(4)
    return copy(out, at, arena, U64(row.key_at), U64(row.key_bytes))


@kernel
def put_report(out: Any, at: Any, row: Any, arena: Any, form: Any) -> Any:
    """Write one report; returns the offset behind."""
    opcode = U64(row.opcode)
    flags = ((U64(row.flags) & U64(1)) << U64(7)) | ((U64(row.flags) & U64(2)) << U64(5))
    put8(out, at, opcode)
    if form == SIZED:
        put8(out, at + U64(1), flags)
        put8(out, at + U64(2), U64(4) if opcode == APPEND else U64(row.key_bytes))
        put8(out, at + U64(3), U64(8) if opcode == KEY_INCREMENT else U64(row.data_bytes))
        put32(out, at + U64(4), row.sequence)
        put8(out, at + U64(8), row.redundancy)
        put8(out, at + U64(9), row.hop)
        put16(out, at + U64(10), U64(row.path_length) << U64(8))
        at = put_key(out, at + SIZED, row, arena)
        return put_data(out, at, row, arena)
    if form == THREE:
        put8(out, at + U64(1), row.sequence)
    at += form
    put8(out, at - U64(1), flags)
    if opcode != APPEND and opcode != POSTCARDING:
        put8(out, at, row.redundancy)
        at += U64(1)
    at = put_key(out, at, row, arena)
    if opcode == POSTCARDING:
        put8(out, at, row.hop)
        at += U64(1)
    return put_data(out, at, row, arena)


@kernel
def put_reports(
    reports: Any, arena: Any, form: Any, options: Any, source: Any, check: Any, out: Any, frames: Any
) -> Any:
    """Write all reports as frames; `source` is the sender's address, uint64 [2]. Returns the bytes used."""
    at = U64(0)
    high, low = source[0], source[1]
    whole = options[LINK] != UDP_PAYLOAD
    six = is_ipv6(high, low) or is_ipv6(options[COLLECTOR_HI], options[COLLECTOR_LO])
    head = U64(0)
    if whole:
        head = U64(62) if six else U64(42)
    for i in range(len(reports)):
        start = at
        at = put_report(out, start + head, reports[i], arena, form)
        if whole:
            put_outer(out, start, at, high, low, six, check, options)
        frame = frames[i]
        frame.offset = start
        frame.source_hi = high
        frame.source_lo = low
        frame.length = at - start
        frame.wire_length = at - start
        frame.port = options[PORT]
        frame.source_port = options[SPORT]
        frame.link = options[LINK]
    return at
