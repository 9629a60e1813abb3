"""Kernels of the source table: lost, duplicate and reordered reports, by sequence number.

Each (source address, node id, hw id) numbers its reports, modulo 2^22 (Report 2.0) or 2^32; in Report 0.5
each (source address, hw id). Compared with the highest number so far, a report is

* the next, or up to 2^20 (2^24) ahead: the numbers between count as lost for now, in a GAP event. Exception:
  a number below 64 that is more than 2^16 ahead, since a restart is more likely than such a loss;
* less than 64 behind: a duplicate, or reordered; a reordered report reduces the number of lost ones by one;
* anywhere else: a suspect, counted as reordered. If another number less than 64 away from it arrives before
  the old numbering continues, the source has restarted its numbering, and nothing was lost; else it was a
  stray.

===================== ==========================================================================
`sources`, `at`       SOURCE [power of two], and the index of a row
`shares`, `keys`      uint32 [OWNERS + 1], and keys of the hash, see `fair_kernel`
`reports`, `i`        REPORT [n], and the index of the current one
`events`, `tally`     EVENT [n], uint64 [TALLY], see `event_kernel`; `n`: events so far
===================== ==========================================================================
"""

from ...base.kernels.jit import U16, U32, U64, inlined, kernel, order
from ...base.keyed_kernel import spread, weigh
from ...wire.records import Carried
from ...wire.versions import IPFIX
from ..records import Kind
from .event_kernel import (
    DUPLICATE,
    LOST,
    NO_PORT,
    NOT_FOUND,
    NOTHING,
    REORDERED,
    SOURCE_EVICTIONS,
    SOURCES_FULL,
    emit,
    put_hop,
)
from .fair_kernel import add_share, end_share, owner_of, rank, rank_of_new
from .switch_time_kernel import report_time

GAP = U64(Kind.GAP)
RETURNED = U64(Kind.RETURNED)
NODE_CARRIED = U64(Carried.NODE_ID)
WINDOW = U64(64)
BEGINS_AHEAD = U64(1 << 16)
PROBES = 64


@inlined
def hash_source(hi, lo, node, hw, keys):
    """Hash of a sequence space."""
    return spread(weigh(keys, 0, lo) + weigh(keys, 2, hi) + weigh(keys, 4, node << U64(32) | hw))


@inlined
def numbering_node(r):
    """Node id of a report's sequence space; 0: it has none."""
    # 0.5 numbers by (source, hw id), and only its drop and switch-local forms carry a node id
    with_node = U64(r.carried) & NODE_CARRIED and r.version != 5
    return U64(r.node_id) if with_node else U64(0)


@kernel
def find_source(sources, shares, reports, i, node, bits, tally, keys):
    """Row of the sequence space of report i, created if it is new; NOT_FOUND: the table is full.

    Without an empty row nearby, a new sequence space replaces a silent one, else one of an owner with more
    rows.
    """
    r = reports[i]
    hi, lo, hw, now = r.source_hi, r.source_lo, U64(r.hw_id), r.time_ns
    mask = U64(len(sources)) - U64(1)
    at = hash_source(hi, lo, node, hw, keys) & mask
    owner = owner_of(r, keys)
    most = rank_of_new(shares, owner)
    free = NOT_FOUND
    worst = NOT_FOUND
    for _ in range(min(PROBES, len(sources))):
        s = sources[at]
        if s.bits == U32(0):
            free = at
            break
        if s.source_lo == lo and s.source_hi == hi and U64(s.node_id) == node and U64(s.hw_id) == hw:
            if U64(s.bits) == bits:
                return at
        if free == NOT_FOUND and s.silent != U32(0):
            free = at
        found = rank(shares, s.owner, s.received)
        if found > most:
            worst, most = at, found
        at = (at + U64(1)) & mask
    if free == NOT_FOUND:
        if worst == NOT_FOUND:
            tally[SOURCES_FULL] += U64(1)
            return NOT_FOUND
        tally[SOURCE_EVICTIONS] += U64(1)
        free = worst
    s = sources[free]
    if s.bits != U32(0):
        end_share(shares, s.owner)
    add_share(shares, owner)
    s.version |= U32(1)
    order()
    s.owner = U16(owner)
    s.source_hi = hi
    s.source_lo = lo
    s.node_id = U32(node)
    s.hw_id = U32(hw)
    s.first_ns = now
    s.last_ns = now
    s.window = U64(0)
    s.received = U64(0)
    s.lost = U64(0)
    s.moved = U64(0)
    s.duplicate = U64(0)
    s.reordered = U64(0)
    s.highest = U32(0)
    s.first = U32(0)
    s.depth = U32(0)
    s.silent = U32(0)
    s.restarts = U64(0)
    s.suspected = U16(0)
    s.bits = U32(bits)
    order()
    s.version += U32(1)
    return free


@kernel
def count_sequence(sources, at, number, mask, tally):
    """Count a report that is not the next one; returns how many numbers are newly missing."""
    s = sources[at]
    highest = U64(s.highest)
    ahead = (number - highest) & mask
    behind = (highest - number) & mask
    depth = U64(s.depth)
    if depth == U64(0):  # the first report
        s.highest = U32(number)
        s.first = U32(number)
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
            if s.lost != U64(0):
                s.lost -= U64(1)
                tally[LOST] -= U64(1)
            else:  # another member accounts for it, see `detect.moved`
                s.moved -= U64(1)
        return U64(0)
    begins = (number < WINDOW) & (ahead > BEGINS_AHEAD)
    if not begins and ahead <= (mask >> U64(2) if mask < U64(0xFFFFFFFF) else U64(1 << 24)):
        s.window = (s.window << ahead) | U64(1) if ahead < WINDOW else U64(1)
        s.highest = U32(number)
        s.depth = U32(min(depth + ahead, WINDOW))
        s.lost += ahead - U64(1)
        tally[LOST] += ahead - U64(1)
        s.suspected = U16(0)
        return ahead - U64(1)
    suspect = U64(s.suspect)
    step = min((number - suspect) & mask, (suspect - number) & mask)
    if s.suspected != U16(0) and step != U64(0) and step < WINDOW:
        after = (number - suspect) & mask == step  # else its first two reports came in reverse order
        s.window = (U64(1) << step) | U64(1)
        s.highest = U32(number if after else suspect)
        s.first = U32(suspect if after else number)
        s.depth = U32(step + U64(1))
        s.lost += step - U64(1)
        tally[LOST] += step - U64(1)
        s.restarts += U64(1)
        s.suspected = U16(0)
        return step - U64(1)
    s.suspect = U32(number)
    s.suspected = U16(1)
    s.reordered += U64(1)
    tally[REORDERED] += U64(1)
    return U64(0)


@kernel
def emit_source(events, n, tally, sources, at, reports, i, kind, value, before):
    """One event about the source of report i, row `at`, with the source's node. Returns events so far."""
    r = reports[i]
    emit(events, n, tally, kind, U64(0), r.time_ns, value, before)
    put_hop(events, n, U64(sources[at].node_id), U64(r.hw_id), NO_PORT, NOTHING, NOTHING)
    events[n].sequence = i
    events[n].src_hi = r.source_hi
    events[n].src_lo = r.source_lo
    events[n].switch_ns = report_time(reports, i)
    return n + U64(1)


@inlined
def check_sequence(sources, shares, reports, i, last, events, n, tally, keys):
    """Check the sequence number of report i; `last` is the row to try first. Returns (events so far, row)."""
    r = reports[i]
    node = numbering_node(r)
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
        at = find_source(sources, shares, reports, i, node, bits, tally, keys)
        if at == NOT_FOUND:
            return n, last
    s = sources[at]
    number = U64(r.sequence) & ((U64(1) << bits) - U64(1))
    version = s.version
    s.version = version | U32(1)
    order()
    s.received += U64(r.inner_length) if r.version == IPFIX else U64(1)  # losses count records, too
    missing = U64(0)
    if number == ((U64(s.highest) + U64(1)) & ((U64(1) << bits) - U64(1))) and U64(s.depth) == WINDOW:
        s.highest = U32(number)
        s.window = (s.window << U64(1)) | U64(1)
        s.suspected = U16(0)
    else:
        missing = count_sequence(sources, at, number, (U64(1) << bits) - U64(1), tally)
    if s.silent != U32(0):
        s.silent = U32(0)
        silent_ns = U64(max(r.time_ns - s.last_ns, 0))  # the clock may have been set back
        n = emit_source(events, n, tally, sources, at, reports, i, RETURNED, U64(0), silent_ns)
    s.last_ns = r.time_ns
    order()
    s.version = (version | U32(1)) + U32(1)
    if missing:
        first = (U64(s.highest) - missing) & ((U64(1) << bits) - U64(1))
        n = emit_source(events, n, tally, sources, at, reports, i, GAP, missing, first)
    return n, at
