"""Hop metadata for the batch decoder: the place of each value is found once per instruction bitmap and hop
size, and then used for each hop.

A plan is PLAN uint64: its key (0: none yet), words of a hop, `present`, the byte offset of each slot, the
bits that take room, the row of their items in the dialect's table, whether one of them differs from the
specification (ODD), their number, the bit of each word that belongs to no value, the bits of words that
values have, and a move for each column of HOP: the end of its item in the hop (bytes), a right shift and a
mask. `stack_kernel.read_stack` chooses how hops are read: by a shuffle if all values are whole bytes; else
by slots (`read_hop`) if all items are those of the specification, or by moves (`read_moved_hop`).

The working memory begins with the latest plan of each kind, at a fixed place. KEPT plans of each kind follow,
chosen by a hash, so that streams with several bitmaps copy plans rather than make them again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.kernels.jit import SHUFFLED, U64, be32, be64, clear, inlined, kernel, shuffle_by, shuffler
from .. import layout, rules
from ..records import HOP, HOP_MAX, Have

INT_0_5, INT_1_0, INT_2_0 = layout.INT_0_5, layout.INT_1_0, layout.INT_2_0
OWN_1_0, OWN_2_0 = layout.OWN_OF_1_0, layout.OWN_OF_2_0
DROP_0_5, LOCAL_0_5 = layout.DROP_OF_0_5, layout.LOCAL_OF_0_5
"""Kinds of metadata; each kind has its own plans."""
WORDS, PRESENT, SLOTS, BITS, ROWS, ODD, COUNT, BOTTOM, WHOLE = 1, 2, 3, 16, 17, 18, 19, 20, 21
INVERSE, SHUFFLES, SUSPECT, ORDER, MOVES = 22, 23, 24, 25, 33
_FIELDS: Any = HOP.fields
_AT: dict[str, int] = {name: _FIELDS[name][1] for name in HOP.names or ()}
COLUMN_AT = np.array([*_AT.values()], np.uint64)
COLUMN_BYTES = np.array([HOP[name].itemsize for name in _AT], np.uint64)
"""Offsets and sizes of the columns of HOP."""
MOVE, COLUMNS = 3, len(_AT)
PLAN = MOVES + MOVE * COLUMNS
EXCESS_AT = U64(_AT["checksum_complement"])
KEPT = 8
PLANS = layout.KINDS * (1 + KEPT) * PLAN
_DROP_SLOT, _FILLER_SLOT, _CHECKSUM_SLOT = 10, 11, 12
NO_BIT, USUAL, IS_DROP = U64(255), U64(1), U64(2)
ITEMS, ITEM, KIND_ROWS = U64(rules.ITEMS), U64(rules.ITEM), U64(rules.ALTERNATIVES * 16 * rules.ITEM)
ALTERNATIVE_ROWS = U64(16 * rules.ITEM)
ANY_SIZE = U64(0)
"""Hop size for metadata whose size is not stated: selects the usual items of its kind."""
assert rules.ALTERNATIVES == 2  # `fill` tries two
assert (Have.BUFFER_OCCUPANCY, Have.QUEUE_CONGESTION) == (1 << 8, 1 << 9)  # shifts in `read_moved_hop`

NODE, PORTS, LATENCY, QUEUE = (
    U64(Have.NODE_ID),
    U64(Have.PORTS),
    U64(Have.HOP_LATENCY),
    U64(Have.QUEUE_OCCUPANCY),
)
INGRESS, EGRESS, L2 = U64(Have.INGRESS_TIME), U64(Have.EGRESS_TIME), U64(Have.L2_PORTS)
UTILIZATION, BUFFER = U64(Have.TX_UTILIZATION), U64(Have.BUFFER_OCCUPANCY)
CONGESTION, CHECKSUM = U64(Have.QUEUE_CONGESTION), U64(Have.CHECKSUM_COMPLEMENT)
WORDS_ONLY = NODE | PORTS | LATENCY | QUEUE | UTILIZATION
"""Values that `read_words` reads: all are words of 32 bits in every version."""


def _eight(items: tuple[layout.Item, ...]) -> tuple[Any, Any, Any, Any]:
    """For the first eight values of a version of INT: (their bits of `present`, number of bytes before the
    hop at which the 64 shuffled bytes begin, a mask of the words among these that belong to the hop, the
    shuffle).
    """
    order, others = [-1] * HOP.itemsize, bytearray(HOP.itemsize)
    size = sum(item.size for item in items[:8])
    at, present = SHUFFLED - size, 0
    for item in items[:8]:
        present |= item.have
        for value in item.fields.fields:
            octets, start = value.bits // 8, _AT[value.name]
            first = at + value.at // 8
            order[start : start + octets] = range(first + octets - 1, first - 1, -1)
        at += item.size
    start = _AT["present"]
    others[start : start + 2] = present.to_bytes(2, "little")
    words = 0x10000 - (1 << (SHUFFLED - size) // 4)
    return U64(present), U64(SHUFFLED - size), U64(words), shuffler(tuple(order), bytes(others))


EIGHT_0_5, BEFORE_0_5, FULL_0_5, shuffle_0_5 = _eight(layout.HOP_0_5)
EIGHT_1_0, BEFORE_1_0, FULL_1_0, shuffle_1_0 = _eight(layout.HOP_1_0)
EIGHT_2_0, BEFORE_2_0, FULL_2_0, shuffle_2_0 = _eight(layout.HOP_2_0)
ONES_32, ONES_64 = U64(0xFFFFFFFF), U64(0xFFFFFFFFFFFFFFFF)
LOW_16, LOW_24, TOP_32 = U64(0xFFFF), U64(0xFFFFFF), U64(1 << 31)
AT_DROP = U64(SLOTS + _DROP_SLOT)

(
    NODE_MOVE, INGRESS_PORT, EGRESS_PORT, LATENCY_MOVE, QUEUE_ID, QUEUE_MOVE, CONGESTION_ID, CONGESTION_MOVE,
    INGRESS_MOVE, EGRESS_MOVE, L2_INGRESS, L2_EGRESS, UTILIZATION_MOVE, BUFFER_ID, BUFFER_MOVE,
) = (
    U64(MOVES + MOVE * (HOP.names or ()).index(name))
    for name in (
        "node_id", "ingress_port", "egress_port", "hop_latency", "queue_id", "queue_occupancy",
        "congestion_queue_id", "queue_congestion", "ingress_time", "egress_time", "l2_ingress_port",
        "l2_egress_port", "tx_utilization", "buffer_id", "buffer_occupancy",
    )
)  # fmt: skip
"""Places of the moves in a plan."""
MAX_PORT, MAX_ID = U64(HOP_MAX["egress_port"]), U64(HOP_MAX["queue_id"])


@kernel
def words_of(table, rows, bits):
    """Number of words that the items of these bits take."""
    size = U64(0)
    for bit in range(16):
        if (bits >> U64(15 - bit)) & U64(1):
            size += U64(table[rows + U64(bit) * ITEM])
    return size >> U64(2)


@kernel
def defined(table, rows, bits):
    """These bits without the reserved ones."""
    for bit in range(16):
        if U64(table[rows + U64(bit) * ITEM + U64(1)]) == NO_BIT:
            bits &= ~(U64(0x8000) >> U64(bit))
    return bits


@kernel
def fill(plans, base, table, kind, bitmap, hop_words):
    """Make the plan of a bitmap, for the first of the dialect's alternatives that has the hop size, then of
    these without the reserved bits (for which a node may add nothing); if none has it, for the usual one.
    """
    usual = ITEMS + kind * KIND_ROWS
    rows, bits, found = usual, bitmap, hop_words == ANY_SIZE
    for attempt in range(4):
        these = usual + U64(attempt & 1) * ALTERNATIVE_ROWS
        taking = bitmap if attempt < 2 else defined(table, these, bitmap)
        if not found and words_of(table, these, taking) == hop_words:
            rows, bits, found = these, taking, True
    for column in range(COLUMNS):
        move = base + U64(MOVES) + U64(MOVE) * U64(column)
        plans[move] = U64(4)  # a column without a value: no bits of the first word
        plans[move + U64(1)] = U64(0)
        plans[move + U64(2)] = U64(0)
    at = U64(0)
    present = U64(0)
    odd = U64(0)
    count = U64(0)
    whole = U64(0)
    for bit in range(16):
        count += (bitmap >> U64(bit)) & U64(1)
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
            for part in range(U64(table[row + U64(3)])):
                where = row + U64(4) + U64(3) * U64(part)
                move = base + U64(MOVES) + U64(MOVE) * U64(table[where])
                plans[move] = at
                plans[move + U64(1)] = table[where + U64(1)]
                mask = ONES_64 >> (U64(64) - U64(table[where + U64(2)]))
                plans[move + U64(2)] = mask
                whole |= mask << U64(table[where + U64(1)])
            if not flags & USUAL:
                odd = U64(1)
    plans[base] = key(bitmap, hop_words)
    plans[base + U64(WORDS)] = at >> U64(2)
    plans[base + U64(INVERSE)] = U64(0x10000) // max(at >> U64(2), U64(1)) + U64(1)
    fill_order(plans, base, table, rows, bits)
    plans[base + U64(PRESENT)] = present
    plans[base + U64(BITS)] = bits
    plans[base + U64(ROWS)] = rows
    plans[base + U64(ODD)] = odd
    plans[base + U64(COUNT)] = count
    plans[base + U64(WHOLE)] = whole
    plans[base + U64(BOTTOM)] = TOP_32 if kind == U64(layout.INT_2015) else U64(0)


@kernel
def put_order(plans, base, to, place):
    """Record that byte `to` of a HOP is byte `place` of the shuffled bytes."""
    word, shift = base + U64(ORDER) + (to >> U64(3)), (to & U64(7)) << U64(3)
    plans[word] = (plans[word] | U64(0xFF) << shift) ^ (U64(0xFF) ^ place) << shift


@kernel
def fill_order(plans, base, table, rows, bits):
    """Find the place of each byte of a HOP among the 64 bytes that end with the hop, for `shuffle_hop`, if
    all values are whole bytes. Bytes by which values are wider than their columns go to the checksum
    complement, which such a hop lacks. If two items have the same value, the later one counts; only moves
    can do that.
    """
    for k in range(SHUFFLED // 8):
        plans[base + U64(ORDER + k)] = U64(0x8080808080808080)
    total = words_of(table, rows, bits) << U64(2)
    shuffles = total <= U64(SHUFFLED)
    suspect, excess, at, seen = U64(0), U64(0), U64(SHUFFLED) - total, U64(0)
    for bit in range(16):
        row = rows + U64(bit) * ITEM
        if not shuffles or not (bits >> U64(15 - bit)) & U64(1):
            continue
        at += U64(table[row])
        shuffles = U64(table[row + U64(1)]) != U64(15)
        for part in range(U64(table[row + U64(3)])):
            where = row + U64(4) + U64(3) * U64(part)
            column, shift, width = U64(table[where]), U64(table[where + U64(1)]), U64(table[where + U64(2)])
            room = COLUMN_BYTES[column]
            shuffles = shuffles and not (shift | width) & U64(7) and not (seen >> column) & U64(1)
            seen |= U64(1) << column
            for k in range(width >> U64(3)):
                to = COLUMN_AT[column] + U64(k)
                if U64(k) >= room:
                    to = EXCESS_AT + excess
                    excess += U64(1)
                    shuffles = shuffles and excess <= U64(4)
                if shuffles:
                    put_order(plans, base, to, at - U64(1) - (shift >> U64(3)) - U64(k))
            suspect |= U64(1) << (COLUMN_AT[column] + min(width >> U64(3), room) - U64(1))
    plans[base + U64(SHUFFLES)] = U64(shuffles)
    plans[base + U64(SUSPECT)] = suspect


@inlined
def key(bitmap, hop_words):
    """Key of the bitmap and hop size for which a plan was made; never 0."""
    return ((bitmap << U64(8)) | hop_words) + U64(1)


@inlined
def plan(plans, table, kind, bitmap, hop_words):
    """Index of the plan of a bitmap and hop size (words), which becomes its kind's latest."""
    base = latest(kind)
    if plans[base] != key(bitmap, hop_words):
        change(plans, base, table, U64(kind), bitmap, hop_words)
    return base


@inlined
def latest(kind):
    """Index of the latest plan of a kind."""
    return U64(kind) * U64(PLAN)


@kernel
def change(plans, base, table, kind, bitmap, hop_words):
    """Copy the plan of a bitmap and hop size to `base`; make it if it is not among the kept plans."""
    number = (bitmap ^ (bitmap >> U64(8)) ^ (bitmap >> U64(12)) ^ hop_words) & U64(KEPT - 1)
    kept = (U64(layout.KINDS) + kind * U64(KEPT) + number) * U64(PLAN)
    if plans[kept] != key(bitmap, hop_words):
        fill(plans, kept, table, kind, bitmap, hop_words)
    for k in range(PLAN):
        plans[base + U64(k)] = plans[kept + U64(k)]


@inlined
def read_hop(buf, at, size, plans, base, wide, hop):
    """Read the metadata at `at` into a HOP record; every field is written. `wide`: 64-bit timestamps."""
    present = plans[base + U64(PRESENT)]
    slot = base + U64(SLOTS)
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
    # a word of all ones plus 1 has bit 32 set: one test for all words; `nulls` then finds which ones
    full = (node + U64(1)) | (ports + U64(1)) | (latency + U64(1)) | (queue + U64(1)) | (utilization + U64(1))
    full |= (ingress >> U64(32)) + U64(1) | (egress >> U64(32)) + U64(1) | (l2 >> U64(32)) + U64(1)
    if not wide:
        full |= (ingress + U64(1)) | (egress + U64(1))
    null = U64(0)
    if full >> U64(32):
        null = nulls(buf, at, plans, slot, present, wide)
    hop.null = null | read_rest(buf, at, size, plans, slot, present, hop)


@inlined
def read_words(buf, at, present, node_at, ports_at, latency_at, queue_at, utilization_at, hop):
    """`read_hop` for a hop that has only values of WORDS_ONLY, at offsets that the caller keeps in registers:
    missing values are cleared in one operation, and a hop of the sink's four instructions takes 4 ns instead
    of 7.

    Returns whether a value is all ones; the caller must then set `null`.
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
def planned(buf, at, plans, slot, present):
    """Node, ports, latency and queue; the branches are the same for every hop of a bitmap, and so well
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
def planned_further(buf, at, plans, slot, present, wide):
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
def nulls(buf, at, plans, slot, present, wide):
    """Which values of the hop at `at`, except a checksum, are all ones; `wide`: 64-bit timestamps."""
    null = U64(0)
    for bit in range(10):
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
def time(buf, at, wide):
    """A timestamp of 4 or 8 bytes."""
    return be64(buf, at) if wide else be32(buf, at)


@inlined
def read_rest(buf, at, size, plans, slot, present, hop):
    """Read buffer, congestion and checksum complement, which few bitmaps name; returns their `null` bits."""
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


# ---------------------------------------------------------------------------------------- items of a dialect


@inlined
def moved(buf, before, plans, move):
    """The value that a move takes from a hop that begins 8 bytes after `before`: from the 8 bytes up to the
    end of its item, since bytes always precede a hop, but may not follow it.
    """
    return (be64(buf, before + plans[move]) >> plans[move + U64(1)]) & plans[move + U64(2)]


@inlined
def is_full(value, plans, move):
    """1 if all bits of a value are ones, or if it has no bits, else 0."""
    return U64(value == plans[move + U64(2)])


@inlined
def read_moved_hop(buf, at, size, plans, base, table, hop):
    """Read metadata with any items into a HOP record; every field is written. A value that is wider than its
    column saturates. `size` reaches to the end of the record, where the checksum complement is.

    If all items are interpreted one by one, a hop of eight values takes 30 ns.
    """
    clear(hop)
    present, before = plans[base + U64(PRESENT)], at - U64(8)
    full = plans[base + U64(BOTTOM)] & plans[base + U64(WHOLE)]
    if present & NODE:
        node = moved(buf, before, plans, base + NODE_MOVE)
        hop.node_id = min(node, ONES_32)
        full |= is_full(node, plans, base + NODE_MOVE)
    if present & PORTS:
        port = moved(buf, before, plans, base + INGRESS_PORT)
        hop.ingress_port = min(port, MAX_PORT)
        hop.egress_port = min(moved(buf, before, plans, base + EGRESS_PORT), MAX_PORT)
        full |= is_full(port, plans, base + INGRESS_PORT)
    if present & LATENCY:
        latency = moved(buf, before, plans, base + LATENCY_MOVE)
        hop.hop_latency = min(latency, ONES_32)
        full |= is_full(latency, plans, base + LATENCY_MOVE)
    if present & QUEUE:
        queue = moved(buf, before, plans, base + QUEUE_MOVE)
        hop.queue_occupancy = min(queue, ONES_32)
        hop.queue_id = min(moved(buf, before, plans, base + QUEUE_ID), MAX_ID)
        full |= is_full(queue, plans, base + QUEUE_MOVE)
    if present & INGRESS:
        ingress = moved(buf, before, plans, base + INGRESS_MOVE)
        hop.ingress_time = ingress
        full |= is_full(ingress, plans, base + INGRESS_MOVE)
    if present & EGRESS:
        egress = moved(buf, before, plans, base + EGRESS_MOVE)
        hop.egress_time = egress
        full |= is_full(egress, plans, base + EGRESS_MOVE)
    if present & L2:
        l2 = moved(buf, before, plans, base + L2_INGRESS)
        hop.l2_ingress_port = min(l2, ONES_32)
        hop.l2_egress_port = min(moved(buf, before, plans, base + L2_EGRESS), ONES_32)
        full |= is_full(l2, plans, base + L2_INGRESS)
    if present & UTILIZATION:
        utilization = moved(buf, before, plans, base + UTILIZATION_MOVE)
        hop.tx_utilization = min(utilization, ONES_32)
        full |= is_full(utilization, plans, base + UTILIZATION_MOVE)
    if present & (BUFFER | CONGESTION | CHECKSUM):
        buffer = moved(buf, before, plans, base + BUFFER_MOVE)
        hop.buffer_occupancy = min(buffer, ONES_32)
        hop.buffer_id = min(moved(buf, before, plans, base + BUFFER_ID), MAX_ID)
        full |= is_full(buffer, plans, base + BUFFER_MOVE) & (present >> U64(8))
        congestion = moved(buf, before, plans, base + CONGESTION_MOVE)
        hop.queue_congestion = min(congestion, ONES_32)
        hop.congestion_queue_id = min(moved(buf, before, plans, base + CONGESTION_ID), MAX_ID)
        full |= is_full(congestion, plans, base + CONGESTION_MOVE) & (present >> U64(9))
        if present & CHECKSUM:
            hop.checksum_complement = be32(buf, at + size - U64(4))
            full = U64(1)
    hop.present = present
    if full:
        hop.null = moved_nulls(buf, at, size, plans, base, table)


@inlined
def shuffle_hop(buf, at, before, size, plans, base, table, hop):
    """`read_moved_hop` for items whose values are whole bytes: shuffles the 64 bytes from `before` to the
    hop's end. Values that may be all ones, or too wide, are read again by moves. A hop of eight values
    takes 4 ns instead of 11.
    """
    full = shuffle_by(buf, before, plans, base + U64(ORDER), hop)
    hop.present = plans[base + U64(PRESENT)]
    if full & plans[base + U64(SUSPECT)] or hop.checksum_complement:
        move_hop(buf, at, size, plans, base, table, hop)


@kernel
def move_hop(buf, at, size, plans, base, table, hop):
    """`read_moved_hop`, not inlined, for places where it is rare."""
    read_moved_hop(buf, at, size, plans, base, table, hop)


@kernel
def moved_nulls(buf, at, size, plans, base, table):
    """Which values of the hop at `at` are all ones, by the items; a value in two items if both are."""
    bits, rows, bottom = plans[base + U64(BITS)], plans[base + U64(ROWS)], plans[base + U64(BOTTOM)]
    end = at + size
    known = U64(0)
    for bit in range(16):
        if not (bits >> U64(15 - bit)) & U64(1):
            continue
        row = rows + U64(bit) * ITEM
        width, have = U64(table[row]), U64(table[row + U64(1)])
        if have != NO_BIT:
            start = end - width if have == U64(15) else at
            long = width == U64(8)
            number = be64(buf, start) if long else be32(buf, start)
            if number | bottom != (ONES_64 if long else ONES_32):
                known |= U64(1) << have
        at += width
    return plans[base + U64(PRESENT)] & ~known
