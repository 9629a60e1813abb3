"""Kernel that copies the values of queues and links from the distributions to the port table.

===================== ==========================================================================
`rows`, `bins`        DISTRIBUTION [rows], uint64 [rows * DISTRIBUTED * BINS]
`ports`, `shares`     PORT [power of two], uint32 [OWNERS + 1]; packets have no source: owner 0 has all
`seen`                uint64 [rows * SEEN]: values copied so far, of queue and link, and the row's key
`events`              EVENT [n], unused: no row is replaced
`knobs`, `tally`      uint64 [SINK_KNOBS], uint64 [SINK_TALLY], see `event_kernel`
===================== ==========================================================================
"""

from ...base.kernels.jit import U8, U32, U64, kernel
from ..flows.event_kernel import NO_PORT, NOT_FOUND, PORT_QUEUES
from ..flows.hop_kernel import KIND_EGRESS, KIND_QUEUE
from ..flows.port_table_kernel import find_port, port_key
from ..records import BINS, DISTRIBUTED, NO_VALUE
from .records import Measure

OCCUPANCY = U64(Measure.QUEUE_OCCUPANCY)
UTILIZATION = U64(Measure.LINK_UTILIZATION)
NO_VALUE_32 = U32(NO_VALUE)
SEEN, KEY = U64(3), U64(2)


@kernel
def update_port(ports, shares, key, rows, at, measure, bins, seen, events, tally, knobs):
    """Copy the latest and highest value of a measure from distribution row `at` to the port table, if it had
    a value since the last copy; so a row that has expired is not created again.
    """
    row = rows[at]
    total = U64(0)
    base = (at * U64(DISTRIBUTED) + measure) * U64(BINS)
    for k in range(BINS):
        total += bins[base + U64(k)]
    before = at * SEEN + measure - OCCUPANCY
    if total == seen[before]:
        return
    _, to = find_port(ports, shares, key, U64(0), row.last_ns, events, U64(0), tally, knobs)
    if to == NOT_FOUND:
        return
    port = ports[to]
    if row.last_ns >= port.last_ns:
        port.latest[U64(0)] = row.latest[measure]
        port.last_ns = row.last_ns
        port.port = row.port
    port.highest[U64(0)] = max(port.highest[U64(0)], row.highest[measure])
    port.samples += total - seen[before]
    port.state |= U8(1)
    seen[before] = total


@kernel
def update_ports(rows, bins, since, ports, shares, seen, events, knobs, tally):
    """Copy the distributions that have values since `since`, ns. Returns the time of the newest."""
    newest = since
    for k in range(1, len(rows)):
        at = U64(k)
        row = rows[at]
        if row.key == U64(0) or row.last_ns < since:
            continue
        newest = max(newest, row.last_ns)
        if seen[at * SEEN + KEY] != row.key:  # the row was reused for another key
            seen[at * SEEN] = U64(0)
            seen[at * SEEN + U64(1)] = U64(0)
            seen[at * SEEN + KEY] = row.key
        node = U64(row.node_id)
        if row.latest[OCCUPANCY] != NO_VALUE_32:
            queue = U64(row.queue_id)
            if knobs[PORT_QUEUES]:
                queue |= U64(row.port) << U64(8)
            key = port_key(KIND_QUEUE, queue, node)
            update_port(ports, shares, key, rows, at, OCCUPANCY, bins, seen, events, tally, knobs)
        if row.latest[UTILIZATION] != NO_VALUE_32 and U64(row.port) != NO_PORT:
            key = port_key(KIND_EGRESS, U64(row.port), node)
            update_port(ports, shares, key, rows, at, UTILIZATION, bins, seen, events, tally, knobs)
    return newest
