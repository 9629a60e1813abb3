"""Hop metadata for the batch decoder: where each value is, found once per instruction bitmap, and read per
hop.

A plan is 16 uint64: bitmap + 1 (0: none yet), words, `present`, then the byte offset of each slot.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit import U64, be32, be64, inlined, kernel
from . import layout
from .records import Have

INT_0_5, INT_1_0, INT_2_0, OWN_1_0, OWN_2_0, DROP_0_5, LOCAL_0_5 = range(7)
"""Kinds of metadata; each has a plan of its own, since a stream's reports tend to have one bitmap of each."""
PLAN = 16
PLANS = 7 * PLAN
WORDS, PRESENT, SLOTS = 1, 2, 3

_ITEMS = (
    layout.HOP_0_5,
    layout.HOP_1_0,
    layout.HOP_2_0,
    layout.OWN_1_0,
    layout.OWN_2_0,
    (layout.FILLER, layout.PORT_PAIR, layout.DROP, *[layout.FILLER] * 13),
    (layout.FILLER, layout.PORT_PAIR, layout.QUEUE, layout.EGRESS_32, *[layout.FILLER] * 12),
)
_DROP_SLOT, _FILLER_SLOT, _CHECKSUM_SLOT = 10, 11, 12


def _slot(item: layout.Item) -> int:
    if item is layout.DROP:
        return _DROP_SLOT
    if not item.have:
        return _FILLER_SLOT
    return _CHECKSUM_SLOT if item is layout.CHECKSUM else item.have.bit_length() - 1


SLOT = np.array([_slot(item) for items in _ITEMS for item in items], np.uint64)
SIZE = np.array([item.size for items in _ITEMS for item in items], np.uint64)
HAVE = np.array([item.have for items in _ITEMS for item in items], np.uint64)

NODE, PORTS, LATENCY, QUEUE = (
    U64(Have.NODE_ID),
    U64(Have.PORTS),
    U64(Have.HOP_LATENCY),
    U64(Have.QUEUE_OCCUPANCY),
)
INGRESS, EGRESS, L2 = U64(Have.INGRESS_TIME), U64(Have.EGRESS_TIME), U64(Have.L2_PORTS)
UTILIZATION, BUFFER = U64(Have.TX_UTILIZATION), U64(Have.BUFFER_OCCUPANCY)
CONGESTION, CHECKSUM = U64(Have.QUEUE_CONGESTION), U64(Have.CHECKSUM_COMPLEMENT)
FIRST_EIGHT = U64(0xFF)
assert [item.size for item in layout.HOP_2_0[:8]] == [4, 4, 4, 4, 8, 8, 8, 4]  # the fixed offsets in read_hop
ONES_32, ONES_64 = U64(0xFFFFFFFF), U64(0xFFFFFFFFFFFFFFFF)
LOW_16, LOW_24 = U64(0xFFFF), U64(0xFFFFFF)
AT_QUEUE, AT_INGRESS, AT_DROP = U64(SLOTS + 3), U64(SLOTS + 4), U64(SLOTS + _DROP_SLOT)


@kernel
def fill(plans: Any, base: Any, kind: Any, bitmap: Any) -> None:
    """Find the plan of a bitmap."""
    at = U64(0)
    present = U64(0)
    for bit in range(16):
        if (bitmap >> U64(15 - bit)) & U64(1):
            entry = kind * U64(16) + U64(bit)
            plans[base + U64(SLOTS) + SLOT[entry]] = at
            present |= HAVE[entry]
            at += SIZE[entry]
    plans[base] = bitmap + U64(1)
    plans[base + U64(WORDS)] = at >> U64(2)
    plans[base + U64(PRESENT)] = present


@inlined
def plan(plans: Any, kind: Any, bitmap: Any) -> Any:
    """Index of the plan of a bitmap, made now unless the last one of this kind was the same."""
    base = U64(kind) * U64(PLAN)
    if plans[base] != bitmap + U64(1):
        fill(plans, base, U64(kind), bitmap)
    return base


@inlined
def read_hop(buf: Any, at: Any, size: Any, plans: Any, base: Any, wide: Any, hop: Any) -> None:
    """Read the metadata at `at` into a HOP record; every field is written. `wide`: 64-bit timestamps."""
    present = plans[base + U64(PRESENT)]
    slot = base + U64(SLOTS)
    if wide and present & FIRST_EIGHT == FIRST_EIGHT:
        # The first eight bits of INT 2.x are the usual bitmap, and fixed offsets save 12 ns of 55 a report
        # (3 hops).
        node, ports, latency, queue = (
            be32(buf, at),
            be32(buf, at + U64(4)),
            be32(buf, at + U64(8)),
            be32(buf, at + U64(12)),
        )
        ingress, egress, l2 = be64(buf, at + U64(16)), be64(buf, at + U64(24)), be64(buf, at + U64(32))
        utilization = be32(buf, at + U64(40))
    else:
        node, ports, latency, queue = planned(buf, at, plans, slot, present)
        ingress, egress, l2, utilization = planned_further(buf, at, plans, slot + U64(4), present, wide)
    hop.node_id = node
    hop.ingress_port = ports >> U64(16)
    hop.egress_port = ports & LOW_16
    hop.hop_latency = latency
    hop.queue_id = queue >> U64(24)
    hop.queue_occupancy = queue & LOW_24
    hop.ingress_time = ingress
    hop.egress_time = egress
    hop.l2_ingress_port = l2 >> U64(32)
    hop.l2_egress_port = l2 & ONES_32
    hop.tx_utilization = utilization
    hop.present = present
    hop.reserved = U64(0)
    # A word of all ones plus 1 has bit 32 set: one test for all, and only where it says so `nulls` looks
    # for which.
    full = (node + U64(1)) | (ports + U64(1)) | (latency + U64(1)) | (queue + U64(1)) | (utilization + U64(1))
    full |= (ingress >> U64(32)) + U64(1) | (egress >> U64(32)) + U64(1) | (l2 >> U64(32)) + U64(1)
    if not wide:
        full |= (ingress + U64(1)) | (egress + U64(1))
    null = U64(0)
    if full >> U64(32):
        null = nulls(
            node, ports, latency, queue, ingress, egress, l2, utilization, ONES_64 if wide else ONES_32
        )
    hop.null = null | read_rest(buf, at, size, plans, slot, present, hop)


@inlined
def planned(buf: Any, at: Any, plans: Any, slot: Any, present: Any) -> Any:
    """Node, ports, latency and queue; the branches are the same for every hop of a bitmap, so they are
    predicted.
    """
    node, ports, latency, queue = U64(0), U64(0), U64(0), U64(0)
    if present & NODE:
        node = be32(buf, at + plans[slot])
    if present & PORTS:
        ports = be32(buf, at + plans[slot + U64(1)])
    if present & LATENCY:
        latency = be32(buf, at + plans[slot + U64(2)])
    if present & QUEUE:
        queue = be32(buf, at + plans[slot + U64(3)])
    return node, ports, latency, queue


@inlined
def planned_further(buf: Any, at: Any, plans: Any, slot: Any, present: Any, wide: Any) -> Any:
    """Timestamps, L2 ports and utilisation."""
    ingress, egress, l2, utilization = U64(0), U64(0), U64(0), U64(0)
    if present & INGRESS:
        ingress = time(buf, at + plans[slot], wide)
    if present & EGRESS:
        egress = time(buf, at + plans[slot + U64(1)], wide)
    if present & L2:
        l2 = be64(buf, at + plans[slot + U64(2)])
    if present & UTILIZATION:
        utilization = be32(buf, at + plans[slot + U64(3)])
    return ingress, egress, l2, utilization


@kernel
def nulls(
    node: Any,
    ports: Any,
    latency: Any,
    queue: Any,
    ingress: Any,
    egress: Any,
    l2: Any,
    utilization: Any,
    ones: Any,
) -> Any:
    """Which of these words are all ones; a word that is not present is 0."""
    null = U64(0)
    if node == ONES_32:
        null |= NODE
    if ports == ONES_32:
        null |= PORTS
    if latency == ONES_32:
        null |= LATENCY
    if queue == ONES_32:
        null |= QUEUE
    if ingress == ones:
        null |= INGRESS
    if egress == ones:
        null |= EGRESS
    if l2 == ONES_64:
        null |= L2
    if utilization == ONES_32:
        null |= UTILIZATION
    return null


@inlined
def time(buf: Any, at: Any, wide: Any) -> Any:
    """A timestamp of 4 or 8 bytes."""
    return be64(buf, at) if wide else be32(buf, at)


@inlined
def read_rest(buf: Any, at: Any, size: Any, plans: Any, slot: Any, present: Any, hop: Any) -> Any:
    """Buffer, congestion and checksum complement, which few bitmaps name; returns their bits of `null`."""
    null = U64(0)
    buffer, congestion, checksum = U64(0), U64(0), U64(0)
    if present & (BUFFER | CONGESTION | CHECKSUM):
        if present & BUFFER:
            buffer = be32(buf, at + plans[slot + U64(8)])
            null |= BUFFER if buffer == ONES_32 else U64(0)
        if present & CONGESTION:
            congestion = be32(buf, at + plans[slot + U64(9)])
            null |= CONGESTION if congestion == ONES_32 else U64(0)
        if present & CHECKSUM:  # the last word, behind domain-specific metadata
            checksum = be32(buf, at + size - U64(4))
            null |= CHECKSUM if checksum == ONES_32 else U64(0)
    hop.buffer_id = buffer >> U64(24)
    hop.buffer_occupancy = buffer & LOW_24
    hop.congestion_queue_id = congestion >> U64(24)
    hop.queue_congestion = congestion & LOW_24
    hop.checksum_complement = checksum
    return null
