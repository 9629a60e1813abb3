"""Kernels of the port table: (switch, queue), (switch, buffer), (switch, egress port), by open addressing.

===================== ==========================================================================
`ports`, `at`         PORT [power of two], and the index of a row
`slot`                0 or 1: which value of the row
`reports`, `i`        REPORT [n], and the index of the current one
`limits`              THRESHOLD [METRICS], see `detect_kernel.update_kernel`
`events`, `n`         EVENT [n], and their number so far
`tally`, `knobs`      uint64 [TALLY], uint64 [KNOBS], see `event_kernel`
===================== ==========================================================================
"""

from __future__ import annotations

from typing import Any

from ...base.jit import U8, U16, U32, U64, inlined, kernel, mix64, order
from ..records import PortKind
from .event_kernel import NOT_FOUND, PORTS_FULL, check_limits

DELETED = U64(1)
QUEUE = U64(PortKind.QUEUE)
EGRESS = U64(PortKind.EGRESS)
PROBES = 128


@inlined
def port_key(kind: Any, place: Any, node: Any) -> Any:
    """Key of a row: kind, place (24 bits) and node."""
    return (kind << U64(56)) | ((place & U64(0xFFFFFF)) << U64(32)) | node


@kernel
def find_port(ports: Any, key: Any, now: Any, tally: Any) -> Any:
    """Row of a key, made if it is new; NOT_FOUND: the table is full."""
    mask = U64(len(ports)) - U64(1)
    at = mix64(key) & mask
    free = NOT_FOUND
    for _ in range(min(PROBES, len(ports))):
        found = ports[at].key
        if found == key:
            return at
        if found <= DELETED:
            if free == NOT_FOUND:
                free = at
            if found == U64(0):
                break
        at = (at + U64(1)) & mask
    if free == NOT_FOUND:
        tally[PORTS_FULL] += U64(1)
        return NOT_FOUND
    row = ports[free]
    row.version |= U32(1)
    order()
    row.key = key
    row.kind = U8(key >> U64(56))
    row.ident = U32((key >> U64(32)) & (U64(0xFF) if key >> U64(56) == QUEUE else U64(0xFFFFFF)))
    row.node_id = U32(key)
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
    order()
    row.version += U32(1)
    return free


@kernel
def count_drop(ports: Any, node: Any, port: Any, now: Any, tally: Any) -> None:
    """Count a drop at an egress port, which may be unknown."""
    at = find_port(ports, port_key(EGRESS, port, node), now, tally)
    if at != NOT_FOUND:
        row = ports[at]
        row.drops += U64(1)
        row.last_ns = now
        row.port = U16(port)


@kernel
def forget_port(ports: Any, at: Any) -> Any:
    """Empty a row. At the end of a chain of probes it and the deleted rows before it become free."""
    mask = U64(len(ports)) - U64(1)
    row = ports[at]
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
def store_value(
    ports: Any,
    at: Any,
    slot: Any,
    value: Any,
    port: Any,
    change: Any,
    above: Any,
    events: Any,
    n: Any,
    tally: Any,
    knobs: Any,
    reports: Any,
    i: Any,
    limits: Any,
    metric: Any,
    node: Any,
    hop: Any,
    hop_count: Any,
) -> Any:
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
    row.port = U16(port)
    if value > U64(row.highest[slot]):
        row.highest[slot] = U32(value)
    ready = U64(row.state) & ~U64(row.alarm) & bit
    if (gap >= change) | (value > above) | (ready == U64(0)):
        n, stored, alarm = check_limits(
            events,
            n,
            tally,
            knobs,
            reports,
            i,
            limits,
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
        row.stored[slot] = U32(stored)
        row.state |= U8(bit)
        row.alarm = U8((U64(row.alarm) & ~bit) | (bit if alarm else U64(0)))
    order()
    row.version = version + U32(2)
    return n
