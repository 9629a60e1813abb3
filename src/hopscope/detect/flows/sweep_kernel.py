"""Kernels of the periodic work: live values are pushed, idle keys expire, silent sources are reported.

Each call processes a slice of a table and returns (row to continue with, events written); it stops before a
row whose events might not fit. If the clock was set back, a row's time may be in the future; it is set to
now, since nothing of the row would be due until then. At the end (`idle_ns` below 0) every flow leaves, and
every alarm is cleared.

===================== ==========================================================================
`tags`, `flows`       uint32 [rows * 16], FLOW [rows * WAYS], see `flow_cache_kernel`
`states`, `pool`      HOP_STATE, uint32 [blocks + 1], see `flow_cache_kernel`
`ports`, `sources`    PORT and SOURCE [rows]
`now`, `…_ns`         times and durations, ns; a duration of 0: never
`events`, `tally`     EVENT [n] and uint64 [event_kernel.TALLY]: results
`knobs`               uint64 [event_kernel.KNOBS]: settings
`path`                uint32 [64]: node ids
===================== ==========================================================================
"""

from ...base.kernels.jit import U8, U32, U64, kernel, order
from ..records import WAYS, ClearReason, Kind
from .event_kernel import ENABLED, EXPIRIES, NO_PORT, NOT_FOUND, NOTHING, emit, put_hop
from .flow_cache_kernel import (
    FLOW_RECORD,
    INLINE,
    ROW_WORDS,
    VERSION,
    WAY,
    clear_flow,
    emit_flow,
    forget_flow,
    hop_at,
)
from .port_table_kernel import DELETED, clear_port, forget_port, metric_of

PUSH = U64(Kind.PUSH)
SILENT = U64(Kind.SILENT)
EXPIRED = U64(ClearReason.EXPIRED)
STOPPED = U64(ClearReason.STOPPED)
ROW_ROOM = U64(WAYS * 138)
"""Most events of one row: 12 flows, each with 64 hops, 8 parts of a path, a latency and 65 alarms."""
HALF_FULL = U64(1 << 31)


@kernel
def is_due(now, last, pushed, push_ns):
    """Whether a key had reports since its last push, and that push was long enough ago."""
    return push_ns > 0 and last > pushed and now - pushed >= push_ns


@kernel
def halve_sums(flows, f, states):
    """Halve sums and samples of flow f's hops whose samples have reached half of the maximum; means stay."""
    flow = flows[f]
    for k in range(flow.hop_count):
        at = hop_at(f, U64(k), U64(flow.pool_block), U64(len(flows)) * INLINE)
        if at != NOT_FOUND and U64(states[at].samples) >= HALF_FULL:
            states[at].samples >>= U32(1)
            states[at].latency_sum >>= U64(1)


@kernel
def sweep_flows(tags, flows, states, pool, start, end, now, idle_ns, push_ns, events, tally, knobs, path):
    """Push or expire the flows of the rows `start` to `end`."""
    n = U64(0)
    ends = idle_ns < 0
    reason = STOPPED if ends else EXPIRED
    for k in range(U64(start), U64(end)):
        row = U64(k)
        if U64(len(events)) - n < ROW_ROOM:
            return row, n
        for w in range(WAYS):
            way = U64(w)
            if tags[row * ROW_WORDS + way] == U32(0):
                continue
            f = row * WAY + way
            flow = flows[f]
            idle = ends or now - flow.last_ns >= idle_ns
            due = is_due(now, flow.last_ns, flow.pushed_ns, push_ns) and knobs[ENABLED] != U64(0)
            set_back = not ends and max(flow.last_ns, flow.pushed_ns) > now
            many = flow.packets >= HALF_FULL
            if not (idle or due or set_back or many):
                continue
            version = tags[row * ROW_WORDS + VERSION]
            tags[row * ROW_WORDS + VERSION] = version | U32(1)
            order()
            if many:
                halve_sums(flows, f, states)
            if set_back:
                flow.last_ns = min(flow.last_ns, now)
                flow.pushed_ns = min(flow.pushed_ns, now)
            elif idle:
                n = clear_flow(events, n, tally, flows, f, states, now, reason)
                n = emit_flow(events, n, tally, flows, f, states, path, FLOW_RECORD, flow.last_ns)
                forget_flow(tags, flows, f, pool)
                tally[EXPIRIES] += U64(not ends)
            elif due:
                n = emit_flow(events, n, tally, flows, f, states, path, PUSH, now)
                flow.pushed_ns = now
            order()
            tags[row * ROW_WORDS + VERSION] = (version | U32(1)) + U32(1)
    return U64(end), n


@kernel
def push_port(ports, at, now, events, n, tally, knobs):
    """PUSH events of each value of a row. Returns events so far."""
    row = ports[at]
    version = row.version
    row.version = version | U32(1)
    order()
    for k in range(2):
        slot = U64(k)
        if (U64(row.state) >> slot) & U64(1):
            metric = metric_of(row.kind, slot)
            emit(events, n, tally, PUSH, metric, now, U64(row.latest[slot]), U64(row.stored[slot]))
            put_hop(events, n, U64(row.node_id), U64(row.ident), U64(row.port), NOTHING, NOTHING)
            row.stored[slot] = row.latest[slot]
            row.highest[slot] = row.latest[slot]
            row.width[slot] = U32(0)
            n += U64(1)
    row.pushed_ns = now
    order()
    row.version = (version | U32(1)) + U32(1)
    return n


@kernel
def sweep_ports(ports, shares, start, end, now, idle_ns, push_ns, events, tally, knobs):
    """Push or expire the queues, buffers and egress ports of the rows `start` to `end`."""
    n = U64(0)
    for k in range(U64(start), U64(end)):
        at = U64(k)
        row = ports[at]
        if row.key <= DELETED:
            continue
        if U64(len(events)) - n < U64(2):
            return at, n
        if idle_ns < 0:
            n = clear_port(ports, at, now, STOPPED, events, n, tally)
            row.alarm = U8(0)
        elif max(row.last_ns, row.pushed_ns) > now:
            row.last_ns = min(row.last_ns, now)
            row.pushed_ns = min(row.pushed_ns, now)
        elif now - row.last_ns >= idle_ns:
            n = clear_port(ports, at, now, EXPIRED, events, n, tally)
            forget_port(ports, shares, at)
        elif knobs[ENABLED] and is_due(now, row.last_ns, row.pushed_ns, push_ns):
            n = push_port(ports, at, now, events, n, tally, knobs)
    return U64(end), n


@kernel
def sweep_sources(sources, start, now, silent_ns, events, tally):
    """SILENT events of the sources that have sent nothing for `silent_ns`, once each."""
    n = U64(0)
    for k in range(U64(start), U64(len(sources))):
        at = U64(k)
        s = sources[at]
        if s.last_ns > now:
            s.last_ns = now
        if s.bits == U32(0) or s.silent != U32(0) or now - s.last_ns < silent_ns:
            continue
        if n == U64(len(events)):
            return at, n
        s.silent = U32(1)
        emit(events, n, tally, SILENT, U64(0), now, U64(0), U64(now - s.last_ns))
        put_hop(events, n, U64(s.node_id), U64(s.hw_id), NO_PORT, NOTHING, NOTHING)
        events[n].src_hi = s.source_hi
        events[n].src_lo = s.source_lo
        n += U64(1)
    return U64(len(sources)), n
