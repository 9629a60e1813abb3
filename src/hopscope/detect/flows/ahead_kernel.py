"""Prefetches the flows of the next reports, in collector and sink, so that cache misses overlap with work.

While a report is processed, the flow and hops of the report AHEAD rows later are prefetched, and the row of
tags of the report AHEAD rows after that. The collector prefetches for AHEAD reports at once, since the
processor then computes their hashes in parallel: with 100,000 flows a report takes a tenth less CPU time than
one by one. It also prefetches the rows of their queues and ports: with 5,000 switches and 100,000 flows,
decoding and detection of a report of 3 hops and 8 fields take 143-165 ns instead of 224-318; with 20 switches
they take no longer than before. For longer paths it prefetches the hops in the pool: 430 ns instead of 584
for 12 hops.

===================== ==========================================================================
`reports`, `i`        REPORT [n], and the index of a report
`tags`, `flows`       uint32 [rows * 16], FLOW [rows * WAYS], see `flow_cache_kernel`
`states`, `ports`     HOP_STATE, PORT
`hashes`              uint64 [2 * SLOTS]: hashes of the next reports' flows, then their ways
`keys`                uint64: keys of the hash
===================== ==========================================================================
"""

from ...base.kernels.jit import U64, inlined, prefetch
from .event_kernel import NOT_FOUND, hash_report
from .flow_cache_kernel import INLINE, POOL, ROW_WORDS, WAY, hop_at, match, tag_of

AHEAD = U64(4)
"""Reports between the prefetch of a flow and its use.

A core can wait for about sixteen cache lines at a time. In the sink, with 100,000 flows, 5 hops and 4
instructions, an update takes 1.71 times as long as decoding with this value, and 1.83 times if a block of 32
is prefetched at once.  4 and 8 perform alike.
"""
SLOTS = U64(16)
SLOT = SLOTS - U64(1)


@inlined
def prefetch_row(reports, i, tags, hashes, keys):
    """Hash the flow of report i, and prefetch its row of tags."""
    hashed = hash_report(reports, i, keys)
    prefetch(tags, (hashed & (U64(len(tags)) // ROW_WORDS - U64(1))) * ROW_WORDS, U64(0))
    hashes[i & SLOT] = hashed


@inlined
def prefetch_flow(reports, i, tags, flows, states, hashes):
    """Find the way of report i by its tag, and prefetch the flow and its hops."""
    hashed = hashes[i & SLOT]
    row = hashed & (U64(len(tags)) // ROW_WORDS - U64(1))
    way = match(tags, row, tag_of(hashed))
    hashes[SLOTS + (i & SLOT)] = way
    if way != NOT_FOUND:
        f = row * WAY + way
        prefetch(flows, f, U64(0))
        prefetch(flows, f, U64(64))
        for h in range(min(U64(reports[i].hop_count), INLINE)):
            prefetch(states, f * INLINE + U64(h), U64(0))


@inlined
def prefetch_ports(reports, i, tags, flows, states, ports, hashes):
    """Prefetch the queues and egress ports that the hops of report i's flow had last, and its later hops."""
    way = hashes[SLOTS + (i & SLOT)]
    if way != NOT_FOUND:
        f = (hashes[i & SLOT] & (U64(len(tags)) // ROW_WORDS - U64(1))) * WAY + way
        for h in range(min(U64(reports[i].hop_count), INLINE)):
            state = states[f * INLINE + U64(h)]
            prefetch(ports, U64(state.queue_slot), U64(0))
            prefetch(ports, U64(state.port_slot), U64(0))
        count = U64(reports[i].hop_count)
        if count > INLINE:
            at = hop_at(f, INLINE, U64(flows[f].pool_block), U64(len(flows)) * INLINE)
            if at != NOT_FOUND:
                for h in range(min(count - INLINE, POOL)):
                    prefetch(states, at + U64(h), U64(0))


@inlined
def prefetch_first(reports, first, tags, flows, states, hashes, keys):
    """Prefetch for report `first` what earlier calls of `prefetch_next` would have prefetched."""
    total = U64(len(reports))
    for k in range(first, min(first + U64(2) * AHEAD, total)):
        prefetch_row(reports, U64(k), tags, hashes, keys)
    for k in range(first, min(first + AHEAD, total)):
        prefetch_flow(reports, U64(k), tags, flows, states, hashes)


@inlined
def prefetch_next(reports, i, tags, flows, states, ports, hashes, keys):
    """Before every AHEADth report: prefetch the ports of the next AHEAD reports, the flows of the AHEAD
    reports after them, and the rows of tags of the AHEAD reports after those.
    """
    total = U64(len(reports))
    for k in range(i, min(i + AHEAD, total)):
        prefetch_ports(reports, U64(k), tags, flows, states, ports, hashes)
    for k in range(i + U64(2) * AHEAD, min(i + U64(3) * AHEAD, total)):
        prefetch_row(reports, U64(k), tags, hashes, keys)
    for k in range(i + AHEAD, min(i + U64(2) * AHEAD, total)):
        prefetch_flow(reports, U64(k), tags, flows, states, hashes)
