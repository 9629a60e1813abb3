"""Kernel that puts what the distributions know of queues and links into the port table."""

from __future__ import annotations

from typing import Any

from ...base.jit import U8, U32, U64, kernel
from ..flows.event_kernel import PORT_QUEUES
from ..flows.hop_kernel import KIND_EGRESS, KIND_QUEUE, UNKNOWN
from ..flows.port_table_kernel import NONE, find_port, port_key
from ..records import BINS, DISTRIBUTED, NO_VALUE
from .records import Measure

OCCUPANCY = U64(Measure.QUEUE_OCCUPANCY)
UTILIZATION = U64(Measure.LINK_UTILIZATION)
NOTHING = U32(NO_VALUE)


@kernel
def put_row(ports: Any, key: Any, rows: Any, at: Any, measure: Any, bins: Any, seen: Any, tally: Any) -> None:
    """Put the latest and highest value of a measure of distribution row `at` into the port table."""
    row = rows[at]
    total = U64(0)
    base = (at * U64(DISTRIBUTED) + measure) * U64(BINS)
    for k in range(BINS):
        total += bins[base + U64(k)]
    to = find_port(ports, key, row.last_ns, tally)
    if to == NONE:
        return
    port = ports[to]
    if row.last_ns >= port.last_ns:
        port.latest[U64(0)] = row.latest[measure]
        port.last_ns = row.last_ns
        port.port = row.port
    port.highest[U64(0)] = max(port.highest[U64(0)], row.highest[measure])
    port.samples += total - seen[at * U64(2) + measure - OCCUPANCY]
    port.state |= U8(1)
    seen[at * U64(2) + measure - OCCUPANCY] = total


@kernel
def show_rows(rows: Any, bins: Any, since: Any, ports: Any, seen: Any, knobs: Any, tally: Any) -> Any:
    """Show the distributions that counted after `since`, ns; `seen` uint64 [rows * 2] is what was shown.

    Returns the time of the newest.
    """
    newest = since
    for k in range(1, len(rows)):
        at = U64(k)
        row = rows[at]
        if row.key == U64(0) or row.last_ns < since:
            continue
        newest = max(newest, row.last_ns)
        node = U64(row.node_id)
        if row.latest[OCCUPANCY] != NOTHING:
            queue = U64(row.queue_id)
            if knobs[PORT_QUEUES]:
                queue |= U64(row.port) << U64(8)
            put_row(ports, port_key(KIND_QUEUE, queue, node), rows, at, OCCUPANCY, bins, seen, tally)
        if row.latest[UTILIZATION] != NOTHING and U64(row.port) != UNKNOWN:
            key = port_key(KIND_EGRESS, U64(row.port), node)
            put_row(ports, key, rows, at, UTILIZATION, bins, seen, tally)
    return newest
