"""Kernel of the sink: INT packets in, flows updated, values counted, events told (SmartNIC INT sink, III-B).

While a packet is worked on, the flow and the hops of one a few packets later are asked for, and the row of
tags of one as far again behind that.  A packet of a known flow on its known path takes the straight lane
(`lane_kernel`), everything else the general way (`packet_kernel`).
"""

from __future__ import annotations

from typing import Any

from ...base.jit import U32, U64, inlined, kernel, order, prefetch
from ...wire.records import Carried, Flag, Mode
from ..distributions.distribution_kernel import FLAGS, count_path
from ..flows.event_kernel import hash_flow, pack_l4
from ..flows.flow_cache_kernel import INLINE, NONE, ROW_WORDS, VERSION, WAY, is_flow, match, tag_of, use_way
from ..flows.path_kernel import HAS_PATH
from .event_kernel import COUNTED, MARKED, PACKETS, tell_packet
from .fast_path_kernel import commit, find_rows, look, tell_hops
from .records import MEASURES
from .slow_path_kernel import CUT_SHORT, INCOMPLETE, PARTIAL, take_end_to_end, take_packet

BLOCK = 32
BLOCK_TOLD = BLOCK * 65
BLOCK_JOURNAL = BLOCK * (64 * 6 + 32)
BLOCK_GONE = BLOCK * 8
"""Most records that a block can cause, of each kind."""
AHEAD = U64(4)
"""Packets between the asking for a flow and its use.

With 100,000 flows, 5 hops and 4 instructions an update takes 1.71 times as long as decoding; 1.83 times
where a block of 32 is asked for at once, since a core has room for some sixteen lines on their way.  4 and 8
are alike.
"""
SLOTS = U64(16)
SLOT = SLOTS - U64(1)
FLOW_CARRIED = U64(Carried.FLOW)
NOT_TAKEN = U64(Flag.HELD | Flag.JOINED)
MX = U64(Mode.MX)
USUAL = HAS_PATH | INCOMPLETE


@inlined
def is_taken(r: Any) -> Any:
    """Whether a row is a packet with a stack of INT metadata: not refused, no report, no postcard."""
    return (
        (r.reason == 0)
        & (r.version == 0)
        & (U64(r.carried) & FLOW_CARRIED != U64(0))
        & (U64(r.flags) & NOT_TAKEN == U64(0))
        & (r.int_version != 0)
        & (U64(r.int_mode) != MX)
    )


@inlined
def ask_for_row(reports: Any, i: Any, tags: Any, hashes: Any) -> None:
    """Hash the flow of packet i (0: it is not taken), and ask for its row of tags."""
    r = reports[i]
    hashed = U64(0)
    if is_taken(r):
        hashed = hash_flow(
            r.src_hi, r.src_lo, r.dst_hi, r.dst_lo, pack_l4(r.sport, r.dport, r.proto, r.ip_version)
        )
        prefetch(tags, (hashed & (U64(len(tags)) // ROW_WORDS - U64(1))) * ROW_WORDS, U64(0))
    hashes[i & SLOT] = hashed


@inlined
def ask_for_flow(reports: Any, i: Any, tags: Any, flows: Any, states: Any, hashes: Any) -> None:
    """Find the way of packet i by its tag, and ask for the flow and its hops."""
    hashed = hashes[i & SLOT]
    row = hashed & (U64(len(tags)) // ROW_WORDS - U64(1))
    way = match(tags, row, tag_of(hashed))
    hashes[SLOTS + (i & SLOT)] = way
    if way != NONE:
        f = row * WAY + way
        prefetch(flows, f, U64(0))
        prefetch(flows, f, U64(64))
        for h in range(min(U64(reports[i].hop_count), INLINE)):
            prefetch(states, f * INLINE + U64(h), U64(0))


@kernel
def update_kernel(
    reports: Any, start: Any, hops: Any, tags: Any, flows: Any, states: Any, pool: Any,
    rows: Any, bins: Any, edges: Any, limits: Any, overrides: Any,
    knobs: Any, told: Any, journal: Any, gone: Any, marked: Any,
    tally: Any, hashes: Any, path: Any, where: Any, spare: Any,
) -> Any:  # fmt: skip
    """Take packets from row `start` on. Returns (first row not taken, records, journal events, evictions).

    Stops before a block whose records might not fit.  `limits` uint64 [rows][Measure][T, 2T, above];
    `marked` uint32 [rows of the batch] gets those that caused events.
    """
    n = U64(0)
    j = U64(0)
    g = U64(0)
    total = U64(len(reports))
    mask = U64(len(tags)) // ROW_WORDS - U64(1)
    packets = U64(0)
    m = knobs[MARKED]
    counted = knobs[COUNTED] != U64(0)
    logs = True
    for k in range(MEASURES):
        logs &= edges[FLAGS + U64(k)] != U64(0)
    base = U64(start)
    for k in range(base, min(base + U64(2) * AHEAD, total)):
        ask_for_row(reports, U64(k), tags, hashes)
    for k in range(base, min(base + AHEAD, total)):
        ask_for_flow(reports, U64(k), tags, flows, states, hashes)
    while base < total:
        if (
            (n + U64(BLOCK_TOLD) > U64(len(told)))
            | (j + U64(BLOCK_JOURNAL) > U64(len(journal)))
            | (g + U64(BLOCK_GONE) > U64(len(gone)))
        ):
            break
        end = min(base + U64(BLOCK), total)
        for k in range(base, end):
            i = U64(k)
            if i + U64(2) * AHEAD < total:
                ask_for_row(reports, i + U64(2) * AHEAD, tags, hashes)
            if i + AHEAD < total:
                ask_for_flow(reports, i + AHEAD, tags, flows, states, hashes)
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
            straight = False
            strange, moved, types, latency, lacking = U64(0), U64(0), U64(0), U64(0), U64(0)
            if not (
                (way == NONE)
                | (count > INLINE)
                | (U64(r.int_flags) & CUT_SHORT != U64(0))
                | (U64(r.flags) & PARTIAL != U64(0))
            ) and is_flow(flows, f, reports, i):
                flow = flows[f]
                if (U64(flow.hop_count) == count) & (U64(flow.state) & USUAL == HAS_PATH):
                    strange, moved, types, latency, lacking = look(
                        f, states, hops, first, count, rows, limits, overrides
                    )
                    straight = strange == U64(0)
                    if straight and moved != U64(0) and counted:
                        straight = find_rows(f, states, hops, first, count, rows)
            if not straight:
                n, j, g = take_packet(
                    reports, i, hops, hashed, way, tags, flows, states, pool, rows, bins, edges,
                    limits, overrides, knobs, told, n, journal, j, gone, g, tally, path, where, spare,
                )  # fmt: skip
            else:
                version = tags[row * ROW_WORDS + VERSION]
                tags[row * ROW_WORDS + VERSION] = version + U32(1)
                order()
                use_way(tags, row, way)
                if types:
                    n, j = tell_hops(
                        f, states, hops, first, count, limits, overrides,
                        told, n, journal, j, tally, knobs, reports, i,
                    )  # fmt: skip
                commit(f, states, hops, first, count, rows, bins, edges, counted, logs, r.time_ns)
                flow = flows[f]
                if lacking == U64(0):
                    types, last = take_end_to_end(flow, latency, limits)
                    if counted:
                        count_path(rows, bins, edges, latency, r.time_ns)
                    if types:
                        n, j = tell_packet(
                            told, n, journal, j, tally, knobs, limits, reports, i, hops, first, count, types,
                            latency, last, path, flow.path_hash, flow.path_hash,
                        )  # fmt: skip
                flow.packets += U64(1)
                flow.last_ns = r.time_ns
                order()
                tags[row * ROW_WORDS + VERSION] = version + U32(2)
            if n != before:
                marked[m] = U32(i)
                m += U64(1)
        base = end
    tally[PACKETS] += packets
    knobs[MARKED] = m
    return base, n, j, g
