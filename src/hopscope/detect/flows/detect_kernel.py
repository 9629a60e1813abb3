"""Kernel of detection: reports in, state updated, events out.

Reports are taken in blocks of 32: hash all and ask for their rows of tags, find all tags and ask for the
flows and hops, then the work.  So the cache misses of a block overlap.
"""

from __future__ import annotations

from typing import Any

from ...base.jit import U32, U64, inlined, kernel, order, prefetch
from ...wire.reasons import Place
from ..records import HOP_STATE
from . import slow_path_kernel as slow_path
from .event_kernel import ENABLED, FLOW_CARRIED, NOBODY, VALUES, hash_flow, pack_l4
from .fast_path_kernel import commit, is_quiet
from .flow_cache_kernel import INLINE, NONE, ROW_WORDS, VERSION, WAY, is_flow, match, tag_of, use_way
from .path_kernel import HAS_PATH, node_of
from .source_table_kernel import follow

BLOCK = 32
HOP_BYTES = U64(HOP_STATE.itemsize)
HEADER = U64(Place.REPORT_HEADER)
UNUSUAL = slow_path.DROPPED | slow_path.CONGESTED | slow_path.INTERMEDIATE | slow_path.PARTIAL
MARKED = slow_path.DROPPED | slow_path.CONGESTED


@inlined
def room_for(report: Any) -> Any:
    """Most events that one report can cause: ten a hop (five values, two events each), and of the flow."""
    return (U64(report.hop_count) + U64(1)) * U64(10) + U64(128)


@inlined
def take_quietly(
    reports: Any, i: Any, hops: Any, row: Any, way: Any,
    tags: Any, flows: Any, states: Any, ports: Any, quiet: Any, knobs: Any,
) -> Any:  # fmt: skip
    """Take report i if there is nothing to tell of it.

    Returns the values in it, or 0 if it must be looked into.
    """
    r = reports[i]
    count = U64(r.hop_count)
    carried = U64(r.carried)
    if (
        (carried & FLOW_CARRIED == U64(0))
        | (U64(r.int_version) | U64(r.flags) & slow_path.JOINED == U64(0))
        | (count == U64(0))
        | (U64(r.int_flags) & slow_path.CUT_SHORT != U64(0))
        | (U64(r.flags) & UNUSUAL != U64(0))
        | (way == NONE)
    ):
        return U64(0)
    f = row * WAY + way
    flow = flows[f]
    first = U64(r.first_hop)
    last = first + count
    own = NOBODY
    if carried & slow_path.OWN_HOP:
        own = slow_path.own_node(reports, i, hops)
        count += U64((own != NOBODY) & (node_of(hops, last - U64(1), NOBODY) != own))
    if (
        not is_flow(flows, f, reports, i)
        or (U64(flow.hop_count) != count)
        | (count > INLINE)
        | (U64(flow.state) & (HAS_PATH | slow_path.INCOMPLETE) != HAS_PATH)
        | (flow.alarm != 0)
        or not is_quiet(flows, f, states, ports, hops, first, count, last, own, quiet, knobs)
    ):
        return U64(0)
    version = tags[row * ROW_WORDS + VERSION]
    tags[row * ROW_WORDS + VERSION] = version + U32(1)
    order()
    use_way(tags, row, way)
    values = commit(flows, f, states, ports, hops, first, count, r.time_ns)
    order()
    tags[row * ROW_WORDS + VERSION] = version + U32(2)
    return values


@kernel
def update_kernel(
    reports: Any, start: Any, hops: Any,
    tags: Any, flows: Any, states: Any, pool: Any, ports: Any, sources: Any,
    limits: Any, quiet: Any, knobs: Any, events: Any, tally: Any,
    hashes: Any, path: Any, where: Any, spare: Any,
) -> Any:  # fmt: skip
    """Take reports from `start` on. Returns (first report not taken, events written).

    Stops before a report whose events might not fit.  `limits` are the thresholds, with T + 1 as `change`
    (a gap of at least so much is a change), and 0 where detection is off, so that every value is looked at;
    `quiet` is uint64 [metric][T, 2T, above] of the same limits, as `quick_kernel` reads them.
    """
    n = U64(0)
    values = U64(0)
    source = U64(0)
    total = U64(len(reports))
    mask = U64(len(tags)) // ROW_WORDS - U64(1)
    enabled = knobs[ENABLED] != U64(0)
    base = U64(start)
    while base < total:
        end = min(base + U64(BLOCK), total)
        for k in range(base, end):
            i = U64(k)
            r = reports[i]
            hashed = hash_flow(
                r.src_hi, r.src_lo, r.dst_hi, r.dst_lo, pack_l4(r.sport, r.dport, r.proto, r.ip_version)
            )
            hashes[i - base] = hashed
            prefetch(tags, (hashed & mask) * ROW_WORDS, U64(0))
        for k in range(base, end):
            j = U64(k) - base
            row = hashes[j] & mask
            way = match(tags, row, tag_of(hashes[j]))
            hashes[j + U64(BLOCK)] = way
            if way != NONE:
                f = row * WAY + way
                prefetch(flows, f, U64(0))
                prefetch(flows, f, U64(64))
                for line in range(
                    (min(U64(reports[U64(k)].hop_count), INLINE) * HOP_BYTES + U64(63)) >> U64(6)
                ):
                    prefetch(states, f * INLINE, U64(line) << U64(6))
        for k in range(base, end):
            i = U64(k)
            r = reports[i]
            if U64(len(events)) - n < room_for(r):
                tally[VALUES] += values
                return i, n
            refused = r.reason != 0
            if (
                r.index == 0
                and (not refused or U64(r.place) > HEADER)
                and r.version != 0  # a packet that no report brought
                and U64(r.flags) & (slow_path.JOINED | slow_path.PARTIAL)
                == U64(0)  # postcards came by themselves
            ):
                n, source = follow(sources, reports, i, source, events, n, tally, knobs)
            if not refused and U64(r.flags) & slow_path.HELD:
                if U64(r.flags) & MARKED:
                    n = slow_path.mark(reports, i, hops, events, n, tally, knobs)
            elif not refused:
                j = i - base
                way = hashes[j + U64(BLOCK)]
                more = U64(0)
                if enabled:
                    more = take_quietly(
                        reports, i, hops, hashes[j] & mask, way, tags, flows, states, ports, quiet, knobs
                    )
                if more == U64(0):
                    n, more = slow_path.take_report(
                        reports, i, hops, hashes[j], way, tags, flows, states, pool, ports,
                        limits, knobs, events, n, tally, path, where, spare,
                    )  # fmt: skip
                values += more
        base = end
    tally[VALUES] += values
    return total, n
