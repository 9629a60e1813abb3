"""Combines fetch-and-adds: additions to one counter within some time become one operation.

===================== ==========================================================================
`verbs`, `fill`       VERB [room], uint64 [2], see `rdma.records.VerbBlock`
`held`, `sums`        uint64 [power of two]: a counter, see `number_of`, or 0; the sum to add to it
`state`               uint64 [2]: COMBINED, WAITING
===================== ==========================================================================
"""

from ...base.kernels.jit import U8, U16, U32, U64, inlined, kernel, mix64
from ...rdma.records import COUNT, Verb

FETCH_ADD = U8(Verb.FETCH_ADD)
COMBINED, WAITING = range(2)
"""Indices into `state`: additions that needed no operation, and counters that wait."""
TARGET = U64(40)
"""First bit of the target in a counter's number; the bits below are its place, from 1."""


@inlined
def number_of(verb):
    """Number of a verb's counter."""
    return ((U64(verb["address"]) >> U64(3)) + U64(1)) | U64(verb["target"]) << TARGET


@inlined
def put(verb, number, total):
    """Fill a verb with the addition to a counter."""
    verb["address"] = ((number & ((U64(1) << TARGET) - U64(1))) - U64(1)) << U64(3)
    verb["value"] = total
    verb["length"] = U32(8)
    verb["target"] = U16(number >> TARGET)
    verb["kind"] = FETCH_ADD
    verb["flags"] = U8(0)


@kernel
def combine(first, held, sums, state, verbs, fill):
    """Hold the additions of the verbs from `first` on. Verbs with a notice, and sums of counters whose row
    was taken by another counter, remain in the block.
    """
    mask = U64(held.shape[0]) - U64(1)
    count = U64(first)
    for i in range(U64(first), fill[COUNT]):
        verb = verbs[i]
        if verb["flags"] != U8(0):
            verbs[count] = verb
            count += U64(1)
            continue
        number, value = number_of(verb), U64(verb["value"])
        at = mix64(number) & mask
        before, total = held[at], sums[at]
        if before == number:
            sums[at] = total + value
            state[COMBINED] += U64(1)
            continue
        held[at], sums[at] = number, value
        if before == U64(0):
            state[WAITING] += U64(1)
        else:
            put(verbs[count], before, total)
            count += U64(1)
    fill[COUNT] = count


@kernel
def release(first, held, sums, state, verbs, fill):
    """Append waiting sums from row `first` on. Returns the row to continue with, or the number of rows."""
    rows = U64(held.shape[0])
    for row in range(U64(first), rows):
        if held[row] == U64(0):
            continue
        if fill[COUNT] >= U64(verbs.shape[0]):
            return row
        put(verbs[fill[COUNT]], held[row], sums[row])
        fill[COUNT] += U64(1)
        held[row] = U64(0)
        state[WAITING] -= U64(1)
    return rows
