"""Kernels of the port table: (switch, queue), (switch, buffer), (switch, egress port), by open addressing.

===================== ==========================================================================
`ports`, `at`         PORT [power of two], and the index of a row
`shares`, `owner`     uint32 [OWNERS + 1], and whose row it is, see `fair_kernel`
`slot`                0 or 1: which value of the row
`reports`, `i`        REPORT [n], and the index of the current one
`limits`              THRESHOLD [METRICS], see `detect_kernel.update_kernel`
`events`, `n`         EVENT [n], and their number so far
`tally`, `knobs`      uint64 [TALLY], uint64 [KNOBS], see `event_kernel`
===================== ==========================================================================
"""

from ...base.kernels.jit import U8, U16, U32, U64, inlined, kernel, order
from ...base.keyed_kernel import spread, weigh
from .. import records
from ..records import ClearReason, Metric, PortKind
from .event_kernel import (
    ALARMS,
    CLEARED,
    NOT_FOUND,
    NOTHING,
    PORT_EVICTIONS,
    PORTS_FULL,
    check_limits,
    emit,
    put_hop,
)
from .fair_kernel import OWNERS, add_share, end_share, owner_of, rank, rank_of_new

KIND_AT = U64(records.KIND_AT)
PLACE = U64(records.PLACE)
DELETED = U64(1)
QUEUE = U64(PortKind.QUEUE)
EGRESS = U64(PortKind.EGRESS)
EVICTED = U64(ClearReason.EVICTED)
WIDEST = U64(0xFFFFFFFF)
PROBES = 128
CANDIDATES = 32
"""Number of rows among which the one to be replaced is chosen, if the table has no room."""


@inlined
def port_key(kind, place, node):
    """Key of a row: kind, place (30 bits) and node."""
    return (kind << KIND_AT) | ((place & PLACE) << U64(32)) | node


@kernel
def find_port(ports, shares, key, owner, now, events, n, tally, knobs):
    """Find or create the row of a key. Returns (events so far, row; NOT_FOUND: the table is full)."""
    mask = U64(len(ports)) - U64(1)
    home = spread(weigh(knobs, 0, key)) & mask
    at = home
    free = NOT_FOUND
    for _ in range(min(PROBES, len(ports))):
        found = ports[at].key
        if found == key:
            return n, at
        if found <= DELETED:
            if free == NOT_FOUND:
                free = at
            if found == U64(0):
                break
        at = (at + U64(1)) & mask
    if free == NOT_FOUND or U64(shares[OWNERS]) >= room(ports):
        worst = find_worst(ports, shares, home, owner)
        if worst == NOT_FOUND:
            tally[PORTS_FULL] += U64(1)
            return n, NOT_FOUND
        n = clear_port(ports, worst, now, EVICTED, events, n, tally)
        forget_port(ports, shares, worst)
        tally[PORT_EVICTIONS] += U64(1)
        if free == NOT_FOUND or (worst - home) & mask < (free - home) & mask:  # none after a gap
            free = worst
    row = ports[free]
    row.version |= U32(1)
    order()
    row.key = key
    row.kind = U8(key >> KIND_AT)
    row.ident = U32((key >> U64(32)) & (U64(0xFF) if key >> KIND_AT == QUEUE else PLACE))
    row.node_id = U32(key)
    row.owner = U16(owner)
    row.first_ns = now
    row.last_ns = now
    row.pushed_ns = now
    row.samples = U64(0)
    row.drops = U64(0)
    row.state = U8(0)
    row.alarm = U8(0)
    for k in range(2):
        row.latest[U64(k)] = U32(0)
        row.stored[U64(k)] = U32(0)
        row.highest[U64(k)] = U32(0)
        row.width[U64(k)] = U32(0)
    add_share(shares, owner)
    order()
    row.version += U32(1)
    return n, free


@inlined
def room(ports):
    """Limit of rows in use: a large table keeps an eighth empty, so that searches of unknown keys end."""
    rows = U64(len(ports))
    return rows - (rows >> U64(3) if rows > U64(8 * PROBES) else U64(0))


@kernel
def find_worst(ports, shares, home, owner):
    """Row to replace with a new row of `owner`, for a search that begins at `home`; NOT_FOUND: none."""
    mask = U64(len(ports)) - U64(1)
    worst = NOT_FOUND
    most = rank_of_new(shares, owner)
    for k in range(min(CANDIDATES, len(ports))):
        at = (home + U64(k)) & mask
        row = ports[at]
        if row.key > DELETED:
            found = rank(shares, row.owner, row.samples)
            if found > most:
                worst, most = at, found
    return worst


@kernel
def count_drop(ports, shares, node, port, reports, i, events, n, tally, knobs):
    """Count the drop of report i at an egress port, which may be unknown. Returns events so far."""
    now = reports[i].time_ns
    key = port_key(EGRESS, port, node)
    n, at = find_port(ports, shares, key, owner_of(reports[i], knobs), now, events, n, tally, knobs)
    if at != NOT_FOUND:
        row = ports[at]
        row.drops += U64(1)
        row.last_ns = now
        row.port = U16(port)
    return n


@kernel
def metric_of(kind, slot):
    """Metric of a slot of a row."""
    if kind == EGRESS:
        return U64(Metric.LINK_UTILIZATION)
    if kind == QUEUE:
        return U64(Metric.QUEUE_OCCUPANCY) + slot
    return U64(Metric.BUFFER_OCCUPANCY)


@kernel
def clear_port(ports, at, now, reason, events, n, tally):
    """CLEARED of each alarm of a row that is removed. Returns events so far."""
    row = ports[at]
    for k in range(2):
        slot = U64(k)
        if (U64(row.alarm) >> slot) & U64(1):
            metric = metric_of(row.kind, slot)
            emit(events, n, tally, CLEARED, metric, now, U64(row.latest[slot]), NOTHING)
            tally[ALARMS + metric] -= U64(1)
            put_hop(events, n, U64(row.node_id), U64(row.ident), U64(row.port), NOTHING, NOTHING)
            events[n].reason = U8(reason)
            n += U64(1)
    return n


@kernel
def forget_port(ports, shares, at):
    """Delete a row. At the end of a probe chain, the row and the deleted rows before it become free."""
    mask = U64(len(ports)) - U64(1)
    row = ports[at]
    end_share(shares, row.owner)
    row.version |= U32(1)
    order()
    row.key = DELETED
    row.kind = U8(0)
    order()
    row.version += U32(1)
    if ports[(at + U64(1)) & mask].key == U64(0):
        while ports[at].key == DELETED:
            ports[at].key = U64(0)
            at = (at - U64(1)) & mask


@inlined
def most(change):
    """The largest difference (32 bits) that is not a change; `change` is T + 1."""
    return min(change - U64(1), WIDEST)


@inlined
def steady_values(stored, change, above, alarm):
    """Range of values that cause no event: the lowest value, and the number of values (0: none).

    The fast path compares a value of a queue, buffer or port with these two numbers instead of the stored
    value, its state, its alarm, T and the limit. With decoding, a report of 8 fields takes 80-83 ns with 3
    hops (instead of 85-88), and 115-121 ns with 6 (instead of 127-132).
    """
    if alarm or change == U64(0):
        return U32(0), U32(0)
    span = most(change)
    low = stored - min(stored, span)
    high = min(stored + span, above)
    return U32(low), U32(min(high + U64(1) - low, WIDEST) if high >= low else U64(0))


@inlined
def store_value(
    ports, at, slot, value, port, change, above, events, n, tally, knobs, reports, i, limits, base, metric,
    node, hop, hop_count,
):  # fmt: skip
    """Store a value. Returns events so far; `change` and `above` are those of the metric's limits."""
    row = ports[at]
    version = row.version
    row.version = version + U32(1)
    order()
    bit = U64(1) << slot
    stored = U64(row.stored[slot])
    gap = value - stored if value > stored else stored - value
    row.latest[slot] = U32(value)
    row.samples += U64(1)
    row.last_ns = reports[i].time_ns
    if value > U64(row.highest[slot]):
        row.highest[slot] = U32(value)
    ready = U64(row.state) & ~U64(row.alarm) & bit
    odd = (gap >= change) | (value > above) | (ready == U64(0))
    alarm = U64(0)
    if odd:
        n, stored, alarm = check_limits(
            events,
            n,
            tally,
            knobs,
            reports,
            i,
            limits,
            base,
            metric,
            value,
            stored,
            U64(row.state) & bit,
            U64(row.alarm) & bit,
            node,
            U64(row.ident),
            port,
            hop,
            hop_count,
        )
        row.port = U16(port)
        row.stored[slot] = U32(stored)
        row.state |= U8(bit)
        row.alarm = U8((U64(row.alarm) & ~bit) | (bit if alarm else U64(0)))
    if odd or row.width[slot] == U32(0):
        row.low[slot], row.width[slot] = steady_values(stored, change, above, alarm)
    order()
    row.version = version + U32(2)
    return n
