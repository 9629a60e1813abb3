"""Kernel of detection: reports in, state updated, events out.

===================== ==========================================================================
`reports`, `hops`     REPORT [n], HOP [m]
`tags`                uint32 [rows * 16]: rows of tags, see `flow_cache_kernel`
`flows`, `states`     FLOW [rows * WAYS]; HOP_STATE, see `records.HOP_STATE`
`pool`                uint32 [blocks + 1]: number of free blocks of hops, then a stack of their numbers
`ports`, `sources`    PORT and SOURCE [rows]; their `shares`: uint32 [OWNERS + 1], see `fair_kernel`
`limits`, `bounds`    THRESHOLD [rows * METRICS]; uint64 [METRICS * 3], see `update_kernel`
`overrides`           uint64 [power of two]: switches with limits of their own, see `limits_of`
`knobs`               uint64 [event_kernel.KNOBS]: hash keys, then settings
`events`, `tally`     EVENT [n] and uint64 [event_kernel.TALLY]: results
`hashes`              uint64 [2 * SLOTS], see `ahead_kernel`
`path`, `where`       uint32 [64]: node ids; uint64 [64]: index of each hop's state, or NOT_FOUND
`old_hops`            HOP_STATE [64]: copies
===================== ==========================================================================
"""

from ...base.kernels.jit import U32, U64, inlined, kernel, order
from ...wire.reasons import Place
from ...wire.records import Flag
from . import slow_path_kernel as slow_path
from .ahead_kernel import AHEAD, SLOT, SLOTS, prefetch_first, prefetch_next
from .event_kernel import ENABLED, FLOW_CARRIED, NO_NODE, NOT_FOUND, VALUES
from .fast_path_kernel import are_bare, commit, is_steady
from .flow_cache_kernel import INLINE, ROW_WORDS, VERSION, WAY, is_flow, use_way
from .path_kernel import HAS_PATH, node_of
from .source_table_kernel import check_sequence

HEADER = U64(Place.REPORT_HEADER)
UNUSUAL = slow_path.DROPPED | slow_path.CONGESTED | slow_path.INTERMEDIATE | slow_path.PARTIAL
COUNTED = slow_path.JOINED | slow_path.PARTIAL | U64(Flag.NUMBERED)
"""Flags of reports that are counted already: postcards on arrival, numbered reports by the XDP program."""
FLAGGED = slow_path.DROPPED | slow_path.CONGESTED


@inlined
def room_for(report):
    """Largest number of events that one report can cause.

    23 per hop (three events for each of five values, two alarms of each of four replaced rows); 138 of an
    evicted flow (a path of 8 parts, a latency, 64 hops, 65 alarms), or 64 of hops that left the path; the
    flow's own path and loop, latency, flags and gap.
    """
    return (U64(report.hop_count) + U64(1)) * U64(23) + U64(256)


@inlined
def try_fast_path(reports, i, hops, row, way, tags, flows, states, ports, bounds, knobs):
    """Process report i if it causes no event. Returns the values in it, or 0 if it needs the slow path."""
    r = reports[i]
    count = U64(r.hop_count)
    carried = U64(r.carried)
    if (
        (carried & FLOW_CARRIED == U64(0))
        | (U64(r.int_version) | U64(r.flags) & slow_path.JOINED == U64(0))
        | (count == U64(0))
        | (U64(r.int_flags) & slow_path.CUT_SHORT != U64(0))
        | (U64(r.flags) & UNUSUAL != U64(0))
        | (way == NOT_FOUND)
    ):
        return U64(0)
    f = row * WAY + way
    flow = flows[f]
    first = U64(r.first_hop)
    last = first + count
    own = NO_NODE
    if carried & slow_path.OWN_HOP:
        own = slow_path.own_node(reports, i, hops)
        count += U64((own != NO_NODE) & (node_of(hops, last - U64(1), NO_NODE) != own))
    if not is_flow(flows, f, reports, i) or (U64(flow.hop_count) != count) | (
        U64(flow.state) & (HAS_PATH | slow_path.INCOMPLETE) != HAS_PATH
    ) | (flow.alarm != 0):
        return U64(0)
    bare = count <= INLINE and are_bare(states, f * INLINE, hops, first, count)
    if not bare and not is_steady(flows, f, states, ports, hops, first, count, last, own, bounds, knobs):
        return U64(0)
    version = tags[row * ROW_WORDS + VERSION]
    tags[row * ROW_WORDS + VERSION] = version + U32(1)
    order()
    use_way(tags, row, way)
    values = commit(flows, f, states, ports, hops, first, count, r.time_ns, bare)
    order()
    tags[row * ROW_WORDS + VERSION] = version + U32(2)
    return values


@kernel
def steady_reports(
    reports, start, base, hops, tags, flows, states, ports, sources, source_shares, bounds, knobs, events, n,
    tally, hashes, source,
):  # fmt: skip
    """Process reports from `start` up to the first that is not steady; `base` is the first report of the
    batch.

    Returns (that report, events so far, row of its source, whether there is room for its events); if there is
    room, its sequence number has been checked. This loop is separate because it keeps fewer values alive
    than a loop that also calls the slow path: with decoding, a report of 6 hops and 8 fields takes 125 ns
    instead of 131.
    """
    total = U64(len(reports))
    mask = U64(len(tags)) // ROW_WORDS - U64(1)
    enabled = knobs[ENABLED] != U64(0)
    i = U64(start)
    while i < total:
        if (i - base) & (AHEAD - U64(1)) == U64(0):
            prefetch_next(reports, i, tags, flows, states, ports, hashes, knobs)
        stop = min(i + AHEAD - ((i - base) & (AHEAD - U64(1))), total)
        while i < stop:
            hashed, way = hashes[i & SLOT], hashes[SLOTS + (i & SLOT)]
            r = reports[i]
            if U64(len(events)) - n < room_for(r):
                return i, n, source, False
            rejected = r.reason != 0
            if (
                r.index == 0
                and (not rejected or U64(r.place) > HEADER)
                and r.version != 0  # not a packet without a report
                and U64(r.flags) & COUNTED == U64(0)
            ):
                n, source = check_sequence(
                    sources, source_shares, reports, i, source, events, n, tally, knobs
                )
            values = U64(0)
            if enabled and not rejected and U64(r.flags) & slow_path.HELD == U64(0):
                values = try_fast_path(
                    reports, i, hops, hashed & mask, way, tags, flows, states, ports, bounds, knobs
                )
            if values == U64(0):
                return i, n, source, True
            tally[VALUES] += values
            i += U64(1)
    return total, n, source, True


@kernel
def update_kernel(
    reports, start, hops, tags, flows, states, pool, ports, port_shares, sources, source_shares, limits,
    overrides, bounds, knobs, events, tally, hashes, path, where, old_hops,
):  # fmt: skip
    """Process reports from `start` on. Returns (first report not processed, events written).

    Stops before a report whose events might not fit. `limits` are METRICS rows for all switches, then
    METRICS rows for each switch in `overrides`. Their `change` is T + 1 (a difference of at least this is a
    change), or 0 if detection is off, so that every value is reported. `bounds` is uint64 [metric][T, 2T,
    above] of the lowest of these limits, for `fast_path_kernel`: a value within them is within the limits of
    every switch.
    """
    n, source, room = U64(0), U64(0), True
    total = U64(len(reports))
    base = U64(start)
    i = base
    prefetch_first(reports, base, tags, flows, states, hashes, knobs)
    while i < total:
        i, n, source, room = steady_reports(
            reports, i, base, hops, tags, flows, states, ports, sources, source_shares, bounds, knobs,
            events, n, tally, hashes, source,
        )  # fmt: skip
        if i == total or not room:
            break
        r = reports[i]
        if r.reason == 0 and U64(r.flags) & slow_path.HELD == U64(0):
            n, values = slow_path.take_report(
                reports, i, hops, hashes[i & SLOT], hashes[SLOTS + (i & SLOT)], tags, flows, states, pool,
                ports, port_shares, limits, overrides, knobs, events, n, tally, path, where, old_hops,
            )  # fmt: skip
            tally[VALUES] += values
        elif r.reason == 0 and U64(r.flags) & FLAGGED:
            n = slow_path.emit_flags(reports, i, hops, ports, port_shares, events, n, tally, knobs)
        i += U64(1)
    return i, n
