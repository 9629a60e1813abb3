"""Kernel that takes postcards of flows that other members own out of a batch.

===================== ==========================================================================
`reports`, `hops`     REPORT [n], HOP [m]: a batch; postcards that are given away get Flag.HELD
`keys`                uint64 [KEYS]: keys of the hash of a flow, the same at all members
`mine`                uint8 [SLOTS, a power of two]: 1: this member owns the flows of this slot
`rows`, `row_hops`    REPORT [n], HOP [n]: postcards that are given away, each with its hop
===================== ==========================================================================
"""

from ...base.kernels.jit import U8, U16, U32, U64, kernel
from ...wire.records import Carried, Flag, Spare
from ..flows.event_kernel import hash_report
from .join_kernel import is_postcard

HELD = U8(Flag.HELD)
OWN_HOP = U8(Carried.OWN_HOP)
ELSEWHERE = U8(Spare.ELSEWHERE)


@kernel
def share_kernel(reports, hops, keys, mine, rows, row_hops):
    """Copy the postcards of other members' flows to `rows`, with their slots in `packet`. Returns their
    number.
    """
    n = U64(0)
    mask = U64(len(mine)) - U64(1)
    for k in range(len(reports)):
        i = U64(k)
        r = reports[i]
        if not is_postcard(r):
            continue
        slot = hash_report(reports, i, keys) & mask
        if mine[slot] != 0:
            continue
        rows[n] = reports[i]
        row = rows[n]
        row_hops[n] = hops[U64(r.first_hop)]
        row.first_hop = U32(n)
        row.packet = U32(slot)
        row.hop_count = U16(0)  # the metadata after an MX header becomes the report's own hop
        row.carried |= OWN_HOP
        row.spare = ELSEWHERE
        r.flags |= HELD
        n += U64(1)
    return n
