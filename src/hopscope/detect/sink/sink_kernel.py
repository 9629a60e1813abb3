"""Kernel of the sink: INT packets in, flows updated, values counted, events out (SmartNIC INT sink, III-B).

A packet of a known flow on its known path takes the fast path; every other packet takes the slow path.

===================== ==========================================================================
`reports`, `hops`     REPORT [n], HOP [m]
`tags`, `flows`       uint32 [rows * 16], FLOW [rows * WAYS], see `flow_cache_kernel`
`states`, `pool`      HOP_STATE, uint32 [blocks + 1], see `flow_cache_kernel`
`rows`, `bins`        DISTRIBUTION [rows], uint64 [rows * DISTRIBUTED * BINS]
`edges`               uint64 [EDGES], see `distribution_kernel`
`ports`, `shares`     PORT [rows], uint32 [OWNERS + 1]; packets have no source: owner 0 has all
`limits`              uint64 [rows * ROW]: T, 2T, above, below by Measure; row 0 applies to all switches
`overrides`           uint64 [power of two]: switches with limits of their own, see `limits_of`
`bounds`              uint32 [8]: the lowest limits of all switches, see `limits.bounds_of`
`knobs`, `tally`      uint64 [SINK_KNOBS], uint64 [SINK_TALLY], see `event_kernel`
`out`, `n`            SINK_EVENT [n], and their number so far
`journal`, `j`        EVENT [n], and their number so far
`evicted`, `g`        EVICTED [n], and their number so far
`event_rows`          uint32 [n]: rows of the batch that caused events
`hashes`              uint64 [2 * SLOTS], see `ahead_kernel`
`path`, `where`       uint32 [64]: node ids; uint64 [64]: index of each hop's state, or NOT_FOUND
`old_hops`            HOP_STATE [64]: copies
===================== ==========================================================================
"""

from ...base.kernels.jit import U32, U64, kernel, order
from ..distributions.distribution_kernel import count_path
from ..flows.ahead_kernel import AHEAD, SLOT, SLOTS, prefetch_flow
from ..flows.event_kernel import NOT_FOUND
from ..flows.flow_cache_kernel import INLINE, ROW_WORDS, VERSION, WAY, is_flow, use_way
from ..flows.path_kernel import HAS_PATH
from .alarm_kernel import settle_flow
from .event_kernel import ALARMED, COUNTED, EVENT_ROWS, PACKETS, emit_packet
from .fast_path_kernel import commit, emit_hops, find_rows, look
from .slow_path_kernel import CUT_SHORT, PARTIAL, take_packet, update_end_to_end
from .usual_packet_kernel import PATH_STATE, all_logarithmic, prefetch_next, prefetch_packet, usual_packets

PACKET_EVENTS = U64(65)
PACKET_JOURNAL = U64(64 * 9 + 3 + 2 * 8 + 64 + 65)
PACKET_EVICTIONS = U64(8)
"""Most records that a packet can cause, of each kind.

In the journal: three of each value, two paths, alarms of hops that left, and of an evicted flow.
"""
SHORT_RUN = U64(8)
"""Length of a run of usual packets from which the call of their own loop pays off."""
MAX_PATIENCE = U64(64)
"""At most this many packets are processed one by one before the loop of usual packets is tried again."""


@kernel
def update_kernel(
    reports, start, hops, tags, flows, states, pool, rows, bins, edges, ports, shares, limits, overrides,
    bounds, knobs, out, journal, evicted, event_rows, tally, hashes, path, where, old_hops,
):  # fmt: skip
    """Process packets from row `start` on, and stop before one whose records might not fit.

    Returns (first row not processed, records, journal events, evictions).
    """
    n = U64(0)
    j = U64(0)
    g = U64(0)
    total = U64(len(reports))
    mask = U64(len(tags)) // ROW_WORDS - U64(1)
    packets = U64(0)
    m = knobs[EVENT_ROWS]
    counted = knobs[COUNTED] != U64(0)
    logs = all_logarithmic(edges)
    base = U64(start)
    for k in range(base, min(base + U64(2) * AHEAD, total)):
        prefetch_packet(reports, U64(k), tags, hashes, knobs)
    for k in range(base, min(base + AHEAD, total)):
        prefetch_flow(reports, U64(k), tags, flows, states, hashes)
    patience = U64(1)
    room = True
    while base < total and room:
        reached = base
        usual = logs and counted and knobs[ALARMED] == U64(0)
        if usual:
            reached, more = usual_packets(
                reports, base, hops, tags, flows, states, rows, bins, edges, limits, bounds, knobs, hashes
            )
            packets += more
            patience = U64(1) if reached - base >= SHORT_RUN else min(patience << U64(1), MAX_PATIENCE)
        else:
            patience = total
        base = min(reached + patience, total)
        for k in range(reached, base):
            i = U64(k)
            if (
                (n + PACKET_EVENTS > U64(len(out)))
                | (j + PACKET_JOURNAL > U64(len(journal)))
                | (g + PACKET_EVICTIONS > U64(len(evicted)))
            ):
                base, room = i, False
                break
            if i != reached or not usual:
                prefetch_next(reports, i, tags, flows, states, hashes, knobs)
            hashed = hashes[i & SLOT]
            if hashed == U64(0):
                continue
            r = reports[i]
            packets += U64(1)
            way = hashes[SLOTS + (i & SLOT)]
            row = hashed & mask
            f = row * WAY + way
            first = U64(r.first_hop)
            count = U64(r.hop_count)
            before = n
            fast = False
            off_path, moved, types, latency, missing = U64(0), U64(0), U64(0), U64(0), U64(0)
            if not (
                (way == NOT_FOUND)
                | (count > INLINE)
                | (U64(r.int_flags) & CUT_SHORT != U64(0))
                | (U64(r.flags) & PARTIAL != U64(0))
            ) and is_flow(flows, f, reports, i):
                flow = flows[f]
                if (U64(flow.hop_count) == count) & (U64(flow.state) & PATH_STATE == HAS_PATH):
                    off_path, moved, types, latency, missing = look(
                        f, states, hops, first, count, rows, limits, overrides
                    )
                    fast = off_path == U64(0)
                    if fast and moved != U64(0) and counted:
                        fast = find_rows(f, states, hops, first, count, rows, bins, reports, i, knobs, tally)
            if not fast:
                n, j, g = take_packet(
                    reports, i, hops, hashed, way, tags, flows, states, pool, rows, bins, edges,
                    ports, shares, limits, overrides, knobs,
                    out, n, journal, j, evicted, g, tally, path, where, old_hops,
                )  # fmt: skip
            else:
                version = tags[row * ROW_WORDS + VERSION]
                tags[row * ROW_WORDS + VERSION] = version + U32(1)
                order()
                use_way(tags, row, way)
                if types | knobs[ALARMED]:
                    n, j = emit_hops(
                        f, states, hops, first, count, ports, shares, limits, overrides,
                        out, n, journal, j, tally, knobs, reports, i,
                    )  # fmt: skip
                commit(f, states, hops, first, count, rows, bins, edges, counted, logs, r.time_ns)
                flow = flows[f]
                if missing == U64(0):
                    types, last = update_end_to_end(flow, latency, limits)
                    if counted:
                        count_path(rows, bins, edges, latency, r.time_ns)
                    if types | knobs[ALARMED]:
                        j = settle_flow(
                            journal,
                            j,
                            tally,
                            knobs,
                            limits,
                            flows,
                            f,
                            latency,
                            reports,
                            i,
                            hops,
                            first,
                            count,
                        )
                    if types:
                        n, j = emit_packet(
                            out, n, journal, j, tally, knobs, limits, reports, i, hops, first, count, types,
                            latency, last, path, flow.path_hash, flow.path_hash,
                        )  # fmt: skip
                flow.packets += U64(1)
                flow.last_ns = r.time_ns
                order()
                tags[row * ROW_WORDS + VERSION] = version + U32(2)
            if n != before:
                event_rows[m] = U32(i)
                m += U64(1)
    tally[PACKETS] += packets
    knobs[EVENT_ROWS] = m
    return base, n, j, g
