"""Stacks of hop metadata, for the batch decoder: the newest hop first on the wire, in path order in `hops`.

Parameters: `plans` and `base` as in `metadata_kernel`, `table` of the dialect, `hops` HOP records.
"""

from ...base.kernels.jit import CAN_SHUFFLE, SHUFFLED, U64, be32, inlined, kernel
from ..headers.packet_kernel import NONE
from . import metadata_kernel as metadata

TWO, ONE, OLDER = 2, 1, 0
"""Versions of INT, for `read_eight`."""


@kernel
def read_report_metadata(buf, at, plans, kind, table, wide, hop):
    """Read report metadata, whose plan is the latest of its kind, into a HOP record."""
    base = metadata.latest(kind)
    if plans[base + U64(metadata.ODD)]:
        size = plans[base + U64(metadata.WORDS)] << U64(2)
        metadata.read_moved_hop(buf, at, size, plans, base, table, hop)
    else:
        metadata.read_hop(buf, at, NONE, plans, base, wide, hop)


@inlined
def read_stack(buf, at, size, count, plans, base, wide, table, hops, first):
    """Read a stack of `count` hops, newest first, into `hops` from row `first` on, newest last.

    `wide`: 64-bit timestamps.
    """
    present, odd = plans[base + U64(metadata.PRESENT)], plans[base + U64(metadata.ODD)]
    end = at + (plans[base + U64(metadata.WORDS)] << U64(2))
    if not odd and present & ~metadata.WORDS_ONLY == NONE:
        read_words(buf, at, size, count, plans, base, hops, first)
    elif not odd and wide and present == metadata.EIGHT_2_0:
        read_eight(buf, at, size, count, plans, base, TWO, hops, first)
    elif not odd and not wide and present == metadata.EIGHT_1_0:
        read_eight(buf, at, size, count, plans, base, ONE, hops, first)
    elif not odd and not wide and present == metadata.EIGHT_0_5:
        read_eight(buf, at, size, count, plans, base, OLDER, hops, first)
    elif CAN_SHUFFLE and plans[base + U64(metadata.SHUFFLES)] and end >= U64(SHUFFLED):
        shuffle_stack(buf, at, end - U64(SHUFFLED), size, count, plans, base, table, hops, first)
    elif odd:
        move_stack(buf, at, size, count, plans, base, table, hops, first)
    else:
        row = first + count
        for _ in range(count):
            row -= U64(1)
            metadata.read_hop(buf, at, size, plans, base, wide, hops[row])
            at += size


@inlined
def read_words(buf, at, size, count, plans, base, hops, first):
    """Read values that are one word in every version."""
    row, slot, present = first + count, base + U64(metadata.SLOTS), plans[base + U64(metadata.PRESENT)]
    node, ports, latency = plans[slot], plans[slot + U64(1)], plans[slot + U64(2)]
    queue, utilization = plans[slot + U64(3)], plans[slot + U64(7)]
    for _ in range(count):
        row -= U64(1)
        hop = hops[row]
        if metadata.read_words(buf, at, present, node, ports, latency, queue, utilization, hop):
            hop.null = metadata.nulls(buf, at, plans, slot, present, False)
        at += size


@inlined
def read_eight(buf, at, size, count, plans, base, version, hops, first):
    """Read the first eight values of a version, a constant: a hop takes one shuffle with constant places."""
    row = first + count
    for _ in range(count):
        row -= U64(1)
        hop = hops[row]
        if version == TWO:
            full = metadata.shuffle_2_0(buf, at - metadata.BEFORE_2_0, hop) & metadata.FULL_2_0
        elif version == ONE:
            full = metadata.shuffle_1_0(buf, at - metadata.BEFORE_1_0, hop) & metadata.FULL_1_0
        else:
            full = metadata.shuffle_0_5(buf, at - metadata.BEFORE_0_5, hop) & metadata.FULL_0_5
        if full:
            slot, present = base + U64(metadata.SLOTS), plans[base + U64(metadata.PRESENT)]
            hop.null = metadata.nulls(buf, at, plans, slot, present, version == TWO)
        at += size


@inlined
def shuffle_stack(buf, at, before, size, count, plans, base, table, hops, first):
    """Read hops by shuffling the 64 bytes that end with each; those of the newest hop begin at `before`."""
    row = first + count
    for _ in range(count):
        row -= U64(1)
        metadata.shuffle_hop(buf, at, before, size, plans, base, table, hops[row])
        at += size
        before += size


@kernel
def move_stack(buf, at, size, count, plans, base, table, hops, first):
    """Read hops with a move for each value."""
    row = first + count
    for _ in range(count):
        row -= U64(1)
        metadata.read_moved_hop(buf, at, size, plans, base, table, hops[row])
        at += size


@kernel
def read_last_word(buf, at, plans, base, count, hops, first):
    """Read the source's checksum complement, which comes after metadata that only the source adds."""
    if count == NONE or plans[base + U64(metadata.PRESENT)] & metadata.CHECKSUM == NONE:
        return
    hop = hops[first]
    checksum = be32(buf, at)
    hop.checksum_complement = checksum
    others = U64(hop.null) & ~metadata.CHECKSUM
    hop.null = others | (metadata.CHECKSUM if checksum == metadata.ONES_32 else NONE)


@kernel
def misplaced_bottom(buf, at, end):
    """Offset of the first word of a stack of 2015 whose bottom-of-stack bit is wrong; `end`: none."""
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
