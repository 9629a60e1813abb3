"""Stacks of hop metadata, for the batch decoder: newest hop on the wire first, in path order in `hops`.

Parameters: `plans` and `base` as in `metadata_kernel`, `table` of the dialect, `hops` HOP records.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.jit import U64, be32, be64, clear, inlined, kernel, set_field
from ..headers.packet_kernel import NONE
from ..records import HOP, HOP_MAX
from . import metadata_kernel as metadata

MAX = np.array([HOP_MAX.get(name, 0) for name in HOP.names or ()], np.uint64)
"""Maximum of each field of HOP, by its number."""
BOTTOM = U64(1 << 31)


@kernel
def read_odd_hop(
    buf: Any, at: Any, size: Any, plans: Any, base: Any, table: Any, bottom: Any, hop: Any
) -> None:
    """Read metadata with items of a dialect into a HOP record; every field is written. A value that is wider
    than its column saturates.

    `size` counts to the end of the record, where the checksum complement is; `bottom`: the most significant
    bit of each word is not part of its value.
    """
    clear(hop)
    bits, rows = plans[base + U64(metadata.BITS)], plans[base + U64(metadata.ROWS)]
    end = at + size
    present, known = U64(0), U64(0)
    for bit in range(16):
        if not (bits >> U64(15 - bit)) & U64(1):
            continue
        row = rows + U64(bit) * metadata.ITEM
        width, have = U64(table[row]), U64(table[row + U64(1)])
        if have != metadata.NO_BIT:
            start = end - width if have == U64(15) else at
            long = width == U64(8)
            number = be64(buf, start) if long else be32(buf, start)
            present |= U64(1) << have
            if (number | BOTTOM if bottom else number) != (metadata.ONES_64 if long else metadata.ONES_32):
                known |= U64(1) << have
            for part in range(U64(table[row + U64(3)])):
                where = row + U64(4) + U64(3) * U64(part)
                mask = metadata.ONES_64 >> (U64(64) - U64(table[where + U64(2)]))
                field = U64(table[where])
                set_field(hop, field, min((number >> U64(table[where + U64(1)])) & mask, MAX[field]))
        at += width
    hop.present = present
    hop.null = present & ~known


@kernel
def read_report_metadata(buf: Any, at: Any, plans: Any, kind: Any, table: Any, wide: Any, hop: Any) -> None:
    """Read report metadata, whose plan is the last of its kind, into a HOP record."""
    base = U64(kind) * U64(metadata.PLAN)
    if plans[base + U64(metadata.ODD)]:
        read_odd_hop(buf, at, plans[base + U64(metadata.WORDS)] << U64(2), plans, base, table, False, hop)
    else:
        metadata.read_hop(buf, at, NONE, plans, base, wide, hop)


@kernel
def read_odd_stack(
    buf: Any, at: Any, size: Any, count: Any, plans: Any, base: Any, table: Any, bottom: Any, hops: Any,
    first: Any,
) -> None:  # fmt: skip
    """Read a stack of `count` hops, newest first, into `hops` from row `first` on, newest last."""
    last = first + count - U64(1)
    for i in range(count):
        read_odd_hop(buf, at + U64(i) * size, size, plans, base, table, bottom, hops[last - U64(i)])


@inlined
def read_stack(
    buf: Any, at: Any, size: Any, count: Any, plans: Any, base: Any, wide: Any, hops: Any, first: Any
) -> None:
    """The same for items that are all the specification's. `wide`: 64-bit timestamps."""
    row = first + count
    present, slot = plans[base + U64(metadata.PRESENT)], base + U64(metadata.SLOTS)
    if present & ~metadata.WORDS_ONLY == NONE:
        node, ports, latency = plans[slot], plans[slot + U64(1)], plans[slot + U64(2)]
        queue, utilization = plans[slot + U64(3)], plans[slot + U64(7)]
        for _ in range(count):
            row -= U64(1)
            hop = hops[row]
            if metadata.read_words(buf, at, present, node, ports, latency, queue, utilization, hop):
                hop.null = metadata.nulls(buf, at, plans, slot, present, False)
            at += size
        return
    for _ in range(count):
        row -= U64(1)
        metadata.read_hop(buf, at, size, plans, base, wide, hops[row])
        at += size


@kernel
def read_last_word(buf: Any, at: Any, plans: Any, base: Any, count: Any, hops: Any, first: Any) -> None:
    """Read the source's checksum complement, which follows metadata that only the source adds."""
    if count == NONE or plans[base + U64(metadata.PRESENT)] & metadata.CHECKSUM == NONE:
        return
    hop = hops[first]
    checksum = be32(buf, at)
    hop.checksum_complement = checksum
    others = U64(hop.null) & ~metadata.CHECKSUM
    hop.null = others | (metadata.CHECKSUM if checksum == metadata.ONES_32 else NONE)


@kernel
def misplaced_bottom(buf: Any, at: Any, end: Any) -> Any:
    """The first word of a stack of 2015 whose bottom-of-stack bit is wrong; `end` without one."""
    while at < end:
        if (buf[at] >= 128) != (at + U64(4) == end):
            return at
        at += U64(4)
    return end
