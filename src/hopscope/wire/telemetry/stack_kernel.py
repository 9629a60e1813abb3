"""Stacks of hop metadata, for the batch decoder: newest hop on the wire first, in path order in `hops`.

Parameters: `plans` and `base` as in `metadata_kernel`, `table` of the dialect, `hops` HOP records.
"""

from __future__ import annotations

from typing import Any

from ...base.jit import CAN_SHUFFLE, SHUFFLED, U64, be32, inlined, kernel
from ..headers.packet_kernel import NONE
from . import metadata_kernel as metadata


@kernel
def read_report_metadata(buf: Any, at: Any, plans: Any, kind: Any, table: Any, wide: Any, hop: Any) -> None:
    """Read report metadata, whose plan is the latest of its kind, into a HOP record."""
    base = metadata.latest(kind)
    if plans[base + U64(metadata.ODD)]:
        size = plans[base + U64(metadata.WORDS)] << U64(2)
        metadata.read_moved_hop(buf, at, size, plans, base, table, hop)
    else:
        metadata.read_hop(buf, at, NONE, plans, base, wide, hop)


@inlined
def read_moved_stack(
    buf: Any, at: Any, size: Any, count: Any, plans: Any, base: Any, table: Any, hops: Any, first: Any
) -> None:
    """Read a stack of `count` hops, newest first, into `hops` from row `first` on, newest last."""
    end = at + (plans[base + U64(metadata.WORDS)] << U64(2))
    if CAN_SHUFFLE and plans[base + U64(metadata.SHUFFLES)] and end >= U64(SHUFFLED):
        shuffle_stack(buf, at, end - U64(SHUFFLED), size, count, plans, base, table, hops, first)
    else:
        move_stack(buf, at, size, count, plans, base, table, hops, first)


@kernel
def shuffle_stack(
    buf: Any, at: Any, before: Any, size: Any, count: Any, plans: Any, base: Any, table: Any, hops: Any,
    first: Any,
) -> None:  # fmt: skip
    """By shuffles of the 64 bytes that end with each hop; those of the newest begin at `before`."""
    row = first + count
    for _ in range(count):
        row -= U64(1)
        metadata.shuffle_hop(buf, at, before, size, plans, base, table, hops[row])
        at += size
        before += size


@kernel
def move_stack(
    buf: Any, at: Any, size: Any, count: Any, plans: Any, base: Any, table: Any, hops: Any, first: Any
) -> None:
    """By a move for each value."""
    row = first + count
    for _ in range(count):
        row -= U64(1)
        metadata.read_moved_hop(buf, at, size, plans, base, table, hops[row])
        at += size


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
    if wide and present == metadata.FIRST_EIGHT:
        before = at - U64(SHUFFLED) + metadata.SIZE_OF_EIGHT
        for _ in range(count):
            row -= U64(1)
            hop = hops[row]
            if metadata.shuffle_eight(buf, before, hop) & metadata.WORDS_OF_EIGHT:
                hop.null = metadata.nulls(buf, at, plans, slot, present, True)
            at += size
            before += size
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
    if at == end:
        return end
    above, last = U64(0), end - U64(4)
    for k in range((last - at) >> U64(2)):
        above |= U64(buf[at + (U64(k) << U64(2))])
    if above < U64(128) and buf[last] >= 128:
        return end
    while at < last and buf[at] < 128:
        at += U64(4)
    return at
