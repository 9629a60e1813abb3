"""Hop metadata for the batch decoder: the place of each value, found once per instruction bitmap and hop
size, and read per hop.

A plan is 20 uint64: its key (0: none yet), words of a hop, `present`, the byte offset of each slot, the bits
that take room, the row of their items in the dialect's table, and whether all of them are the
specification's: other items are read by `stack_kernel`.
"""

from __future__ import annotations

from typing import Any

from ...base.jit import U64, be32, be64, clear, inlined, kernel
from .. import layout, rules
from ..records import Have

INT_0_5, INT_1_0, INT_2_0 = layout.INT_0_5, layout.INT_1_0, layout.INT_2_0
OWN_1_0, OWN_2_0 = layout.OWN_OF_1_0, layout.OWN_OF_2_0
DROP_0_5, LOCAL_0_5 = layout.DROP_OF_0_5, layout.LOCAL_OF_0_5
"""Kinds of metadata; each has a plan of its own, since a stream's reports tend to have one bitmap of each."""
PLAN = 20
PLANS = layout.KINDS * PLAN
WORDS, PRESENT, SLOTS, BITS, ROWS, ODD = 1, 2, 3, 16, 17, 18
_DROP_SLOT, _FILLER_SLOT, _CHECKSUM_SLOT = 10, 11, 12
NO_BIT, USUAL, IS_DROP = U64(255), U64(1), U64(2)
ITEMS, ITEM, KIND_ROWS = U64(rules.ITEMS), U64(rules.ITEM), U64(rules.ALTERNATIVES * 16 * rules.ITEM)
ALTERNATIVE_ROWS = U64(16 * rules.ITEM)
ANY_SIZE = U64(0)
"""The hop size to give for metadata whose size nothing states: the usual items of its kind."""
assert rules.ALTERNATIVES == 2  # `fill` tries two

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
WORDS_ONLY = NODE | PORTS | LATENCY | QUEUE | UTILIZATION
"""What `read_words` reads: all are words of 32 bits in every version."""
assert [item.size for item in layout.HOP_2_0[:8]] == [4, 4, 4, 4, 8, 8, 8, 4]  # the fixed offsets in read_hop
ONES_32, ONES_64 = U64(0xFFFFFFFF), U64(0xFFFFFFFFFFFFFFFF)
LOW_16, LOW_24 = U64(0xFFFF), U64(0xFFFFFF)
AT_QUEUE, AT_INGRESS, AT_DROP = U64(SLOTS + 3), U64(SLOTS + 4), U64(SLOTS + _DROP_SLOT)


@kernel
def words_of(table: Any, rows: Any, bits: Any) -> Any:
    """Words that the items of these bits take."""
    size = U64(0)
    for bit in range(16):
        if (bits >> U64(15 - bit)) & U64(1):
            size += U64(table[rows + U64(bit) * ITEM])
    return size >> U64(2)


@kernel
def defined(table: Any, rows: Any, bits: Any) -> Any:
    """These bits without the reserved ones."""
    for bit in range(16):
        if U64(table[rows + U64(bit) * ITEM + U64(1)]) == NO_BIT:
            bits &= ~(U64(0x8000) >> U64(bit))
    return bits


@kernel
def fill(plans: Any, base: Any, table: Any, kind: Any, bitmap: Any, hop_words: Any) -> None:
    """Find the plan of a bitmap: the first of the dialect's alternatives that has the hop size, then of these
    without the reserved bits (for which a node may add nothing); if none has it, the usual one.
    """
    usual = ITEMS + kind * KIND_ROWS
    rows, bits, found = usual, bitmap, hop_words == ANY_SIZE
    for attempt in range(4):
        these = usual + U64(attempt & 1) * ALTERNATIVE_ROWS
        taking = bitmap if attempt < 2 else defined(table, these, bitmap)
        if not found and words_of(table, these, taking) == hop_words:
            rows, bits, found = these, taking, True
    at = U64(0)
    present = U64(0)
    odd = U64(0)
    for bit in range(16):
        if (bits >> U64(15 - bit)) & U64(1):
            row = rows + U64(bit) * ITEM
            have, flags = U64(table[row + U64(1)]), U64(table[row + U64(2)])
            slot = have
            if have == NO_BIT:
                slot = U64(_DROP_SLOT) if flags & IS_DROP else U64(_FILLER_SLOT)
            else:
                present |= U64(1) << have
                if have == U64(15):
                    slot = U64(_CHECKSUM_SLOT)
            plans[base + U64(SLOTS) + slot] = at
            at += U64(table[row])
            if not flags & USUAL:
                odd = U64(1)
    plans[base] = key(bitmap, hop_words)
    plans[base + U64(WORDS)] = at >> U64(2)
    plans[base + U64(PRESENT)] = present
    plans[base + U64(BITS)] = bits
    plans[base + U64(ROWS)] = rows
    plans[base + U64(ODD)] = odd


@inlined
def key(bitmap: Any, hop_words: Any) -> Any:
    """What a plan was made for, and never 0."""
    return ((bitmap << U64(8)) | hop_words) + U64(1)


@inlined
def plan(plans: Any, table: Any, kind: Any, bitmap: Any, hop_words: Any) -> Any:
    """Index of the plan of a bitmap and hop size (words), made now unless the last one of this kind was the
    same.
    """
    base = U64(kind) * U64(PLAN)
    if plans[base] != key(bitmap, hop_words):
        fill(plans, base, table, U64(kind), bitmap, hop_words)
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
    # A word of all ones plus 1 has bit 32 set: one test for all, and only after it `nulls` finds which.
    full = (node + U64(1)) | (ports + U64(1)) | (latency + U64(1)) | (queue + U64(1)) | (utilization + U64(1))
    full |= (ingress >> U64(32)) + U64(1) | (egress >> U64(32)) + U64(1) | (l2 >> U64(32)) + U64(1)
    if not wide:
        full |= (ingress + U64(1)) | (egress + U64(1))
    null = U64(0)
    if full >> U64(32):
        null = nulls(buf, at, plans, slot, present, wide)
    hop.null = null | read_rest(buf, at, size, plans, slot, present, hop)


@inlined
def read_words(
    buf: Any, at: Any, present: Any, node_at: Any, ports_at: Any, latency_at: Any, queue_at: Any,
    utilization_at: Any, hop: Any,
) -> Any:  # fmt: skip
    """`read_hop` of a hop with values of WORDS_ONLY only, at offsets that the caller keeps in registers: what
    it lacks is cleared in one go, and a hop of the sink's four instructions takes 4 ns instead of 7.

    Returns whether a value is all ones; `null` is left to the caller then.
    """
    clear(hop)
    hop.present = present
    full = U64(0)
    if present & NODE:
        node = be32(buf, at + node_at)
        hop.node_id = node
        full |= node + U64(1)
    if present & PORTS:
        ports = be32(buf, at + ports_at)
        hop.ingress_port = ports >> U64(16)
        hop.egress_port = ports & LOW_16
        full |= ports + U64(1)
    if present & LATENCY:
        latency = be32(buf, at + latency_at)
        hop.hop_latency = latency
        full |= latency + U64(1)
    if present & QUEUE:
        queue = be32(buf, at + queue_at)
        hop.queue_id = queue >> U64(24)
        hop.queue_occupancy = queue & LOW_24
        full |= queue + U64(1)
    if present & UTILIZATION:
        utilization = be32(buf, at + utilization_at)
        hop.tx_utilization = utilization
        full |= utilization + U64(1)
    return full >> U64(32)


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
def nulls(buf: Any, at: Any, plans: Any, slot: Any, present: Any, wide: Any) -> Any:
    """Which of the first eight values that the hop at `at` has are all ones; `wide`: 64-bit timestamps."""
    null = U64(0)
    for bit in range(8):
        have = U64(1) << U64(bit)
        if present & have:
            where = at + plans[slot + U64(bit)]
            full = be32(buf, where) == ONES_32
            if full and (have == L2 or (wide and have & (INGRESS | EGRESS))):
                full = be32(buf, where + U64(4)) == ONES_32
            if full:
                null |= have
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
        if present & CHECKSUM:  # the last word, after domain-specific metadata
            checksum = be32(buf, at + size - U64(4))
            null |= CHECKSUM if checksum == ONES_32 else U64(0)
    hop.buffer_id = buffer >> U64(24)
    hop.buffer_occupancy = buffer & LOW_24
    hop.congestion_queue_id = congestion >> U64(24)
    hop.queue_congestion = congestion & LOW_24
    hop.checksum_complement = checksum
    return null
