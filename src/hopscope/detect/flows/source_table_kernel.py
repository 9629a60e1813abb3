"""Kernels of the source table: what was lost, came twice or came late, by sequence number.

Each (source address, node id, hw id) numbers its reports, modulo 2^22 (Report 2.0) or 2^32; in Report 0.5
each (source address, hw id).  Against the
highest number seen so far, a report is

* the next, or up to 2^20 (2^24) ahead: the numbers between are lost for now, and a GAP event tells how many;
* less than 64 behind: seen already (duplicate), or late (reordered), and then one less is lost;
* elsewhere: a suspect, counted as reordered.  If a later one follows it by less than 64, the source has begun
  its numbering anew (a restart), and the jump lost nothing; if not, it was a stray.
"""

from __future__ import annotations

from typing import Any

from ...base.jit import U32, U64, inlined, kernel, mix64, order
from ...wire.records import Carried
from ..records import NO_PORT, Kind
from .event_kernel import DUPLICATE, LOST, REORDERED, SOURCES_FULL, at_hop, emit

GAP = U64(Kind.GAP)
RETURNED = U64(Kind.RETURNED)
NONE = U64(0xFFFFFFFFFFFFFFFF)
NODE_CARRIED = U64(Carried.NODE_ID)
WINDOW = U64(64)
PROBES = 64


@inlined
def hash_source(hi: Any, lo: Any, node: Any, hw: Any) -> Any:
    """Hash of a sequence space."""
    return mix64((lo ^ (hi * U64(0x9E3779B97F4A7C15))) + (node << U64(8) | hw) * U64(0xC2B2AE3D27D4EB4F))


@kernel
def find_source(sources: Any, hi: Any, lo: Any, node: Any, hw: Any, bits: Any, now: Any) -> Any:
    """Row of a sequence space, made if it is new; NONE where the table is full.

    A space that has gone silent gives its row to a new one when there is no empty row near.
    """
    mask = U64(len(sources)) - U64(1)
    at = hash_source(hi, lo, node, hw) & mask
    spare = NONE
    for _ in range(min(PROBES, len(sources))):
        s = sources[at]
        if s.bits == U32(0):
            spare = at
            break
        if s.source_lo == lo and s.source_hi == hi and U64(s.node_id) == node and U64(s.hw_id) == hw:
            if U64(s.bits) == bits:
                return at
        if spare == NONE and s.silent != U32(0):
            spare = at
        at = (at + U64(1)) & mask
    if spare == NONE:
        return NONE
    s = sources[spare]
    s.version |= U32(1)
    order()
    s.source_hi = hi
    s.source_lo = lo
    s.node_id = U32(node)
    s.hw_id = U32(hw)
    s.first_ns = now
    s.last_ns = now
    s.window = U64(0)
    s.received = U64(0)
    s.lost = U64(0)
    s.duplicate = U64(0)
    s.reordered = U64(0)
    s.highest = U32(0)
    s.depth = U32(0)
    s.silent = U32(0)
    s.restarts = U64(0)
    s.suspected = U32(0)
    s.bits = U32(bits)
    order()
    s.version += U32(1)
    return spare


@kernel
def settle(sources: Any, at: Any, number: Any, mask: Any, tally: Any) -> Any:
    """Count a report that is not simply the next; returns how many are newly missing."""
    s = sources[at]
    highest = U64(s.highest)
    ahead = (number - highest) & mask
    behind = (highest - number) & mask
    depth = U64(s.depth)
    if depth == U64(0):  # the first report of all
        s.highest = U32(number)
        s.window = U64(1)
        s.depth = U32(1)
        return U64(0)
    if behind < WINDOW:
        bit = U64(1) << behind
        if s.window & bit:
            s.duplicate += U64(1)
            tally[DUPLICATE] += U64(1)
            return U64(0)
        s.window |= bit
        s.reordered += U64(1)
        tally[REORDERED] += U64(1)
        if behind < depth:  # a number from before the first report had not been counted as lost
            s.lost -= U64(1)
            tally[LOST] -= U64(1)
        return U64(0)
    if ahead <= (mask >> U64(2) if mask < U64(0xFFFFFFFF) else U64(1 << 24)):
        s.window = (s.window << ahead) | U64(1) if ahead < WINDOW else U64(1)
        s.highest = U32(number)
        s.depth = U32(min(depth + ahead, WINDOW))
        s.lost += ahead - U64(1)
        tally[LOST] += ahead - U64(1)
        s.suspected = U32(0)
        return ahead - U64(1)
    after = (number - U64(s.suspect)) & mask
    if s.suspected != U32(0) and after != U64(0) and after < WINDOW:
        s.window = (U64(1) << after) | U64(1)
        s.highest = U32(number)
        s.depth = U32(after + U64(1))
        s.lost += after - U64(1)
        tally[LOST] += after - U64(1)
        s.restarts += U64(1)
        s.suspected = U32(0)
        return after - U64(1)
    s.suspect = U32(number)
    s.suspected = U32(1)
    s.reordered += U64(1)
    tally[REORDERED] += U64(1)
    return U64(0)


@kernel
def tell(
    events: Any, n: Any, tally: Any, knobs: Any, reports: Any, i: Any, kind: Any, value: Any, before: Any
) -> Any:
    """One event about the source of report i."""
    r = reports[i]
    emit(events, n, tally, knobs, kind, U64(0), r.time_ns, value, before)
    at_hop(events, n, r.node_id, r.hw_id, U64(NO_PORT), U64(0), U64(0))
    events[n].src_hi = r.source_hi
    events[n].src_lo = r.source_lo
    return n + U64(1)


@inlined
def follow(sources: Any, reports: Any, i: Any, last: Any, events: Any, n: Any, tally: Any, knobs: Any) -> Any:
    """Check the sequence number of report i; `last` is a row to try first. Returns (events so far, row)."""
    r = reports[i]
    # 0.5 numbers by (source, hw id), and only its drop and switch-local forms carry a node id
    named = U64(r.carried) & NODE_CARRIED and r.version != 5
    node = U64(r.node_id) if named else U64(0)
    bits = U64(22) if r.version == 20 else U64(32)
    s = sources[last]
    at = last
    if not (
        s.source_lo == r.source_lo
        and s.source_hi == r.source_hi
        and U64(s.node_id) == node
        and U64(s.hw_id) == U64(r.hw_id)
        and U64(s.bits) == bits
    ):
        at = find_source(sources, r.source_hi, r.source_lo, node, U64(r.hw_id), bits, r.time_ns)
        if at == NONE:
            tally[SOURCES_FULL] += U64(1)
            return n, last
    s = sources[at]
    number = U64(r.sequence) & ((U64(1) << bits) - U64(1))
    version = s.version
    s.version = version | U32(1)
    order()
    s.received += U64(1)
    missing = U64(0)
    if number == ((U64(s.highest) + U64(1)) & ((U64(1) << bits) - U64(1))) and U64(s.depth) == WINDOW:
        s.highest = U32(number)
        s.window = (s.window << U64(1)) | U64(1)
    else:
        missing = settle(sources, at, number, (U64(1) << bits) - U64(1), tally)
    if s.silent != U32(0):
        s.silent = U32(0)
        gone = U64(max(r.time_ns - s.last_ns, 0))  # the clock may have been put back
        n = tell(events, n, tally, knobs, reports, i, RETURNED, U64(0), gone)
    s.last_ns = r.time_ns
    order()
    s.version = (version | U32(1)) + U32(1)
    if missing:
        n = tell(events, n, tally, knobs, reports, i, GAP, missing, U64(0))
    return n, at
