"""What DTA's reports are compared with: a cuckoo hash table, an indexed log, and stores alone."""

from hopscope.base.kernels.jit import U8, U32, U64, kernel, mix64, prefetch, store64

NONE = U8(0)
EMPTY = U64(0xFFFFFFFFFFFFFFFF)
WAYS = U64(8)
"""Entries of a bucket: one cache line."""
HOPS = 64
"""Entries moved before a report is given up."""


@kernel
def key_of(arena, at):
    """Key of 4 bytes."""
    return (
        (U64(arena[at]) << U64(24))
        | (U64(arena[at + U64(1)]) << U64(16))
        | (U64(arena[at + U64(2)]) << U64(8))
        | U64(arena[at + U64(3)])
    )


@kernel
def reduce(h, count):
    """A number below `count`, at most 2^32, from the upper half of `h`."""
    return ((h >> U64(32)) * count) >> U64(32)


@kernel
def cuckoo(reports, arena, table, counts):
    """Reports into a table of uint64 (key in the upper half, data in the lower), two buckets for each key.

    `table` [buckets * 8] begins with ones; counts [writes, given up]. Both buckets are asked for in a first
    pass.
    """
    buckets = U64(table.shape[0]) // WAYS
    for i in range(reports.shape[0]):
        key = key_of(arena, U64(reports[i]["key_at"]))
        prefetch(table, reduce(mix64(key), buckets) * WAYS, U64(0))
        prefetch(table, reduce(mix64(key + U64(1) << U64(32)), buckets) * WAYS, U64(0))
    for i in range(reports.shape[0]):
        key = key_of(arena, U64(reports[i]["key_at"]))
        entry = (key << U64(32)) | key_of(arena, U64(reports[i]["data_at"]))
        one = reduce(mix64(key), buckets) * WAYS
        two = reduce(mix64(key + U64(1) << U64(32)), buckets) * WAYS
        if _update(table, one, entry) or _update(table, two, entry):
            counts[0] += U64(1)
            continue
        at = one
        for hop in range(HOPS):
            counts[0] += U64(1)
            if _insert(table, at, entry):
                break
            victim = at + (mix64(entry + U64(hop)) & (WAYS - U64(1)))
            out = table[victim]
            table[victim] = entry
            entry = out
            key = entry >> U64(32)
            one = reduce(mix64(key), buckets) * WAYS
            at = reduce(mix64(key + U64(1) << U64(32)), buckets) * WAYS if at == one else one
        else:
            counts[1] += U64(1)


@kernel
def _update(table, at, entry):
    for way in range(WAYS):
        if table[at + way] >> U64(32) == entry >> U64(32) and table[at + way] != EMPTY:
            table[at + way] = entry
            return True
    return False


@kernel
def _insert(table, at, entry):
    for way in range(WAYS):
        if table[at + way] == EMPTY:
            table[at + way] = entry
            return True
    return False


@kernel
def indexed_log(reports, arena, log, heads, counts):
    """Reports appended to a log, each with the place of the one before it in its key's chain.

    `log` is uint64 [2 * entries]: key and data, then the place of the previous entry and a number; `heads`
    uint32 [chains], a power of two. counts [writes, entries].
    """
    mask = U64(heads.shape[0] - 1)
    entries = U64(log.shape[0] >> 1)
    for i in range(reports.shape[0]):
        prefetch(heads, mix64(key_of(arena, U64(reports[i]["key_at"]))) & mask, U64(0))
    for i in range(reports.shape[0]):
        key = key_of(arena, U64(reports[i]["key_at"]))
        chain = mix64(key) & mask
        number = counts[1]
        at = number % entries
        log[at * U64(2)] = (key << U64(32)) | key_of(arena, U64(reports[i]["data_at"]))
        log[at * U64(2) + U64(1)] = (U64(heads[chain]) << U64(32)) | (number & U64(0xFFFFFFFF))
        heads[chain] = U32(at)
        counts[0] += U64(3)
        counts[1] += U64(1)


@kernel
def stores(memory, first, count):
    """`count` stores of 8 bytes at random: what memory allows."""
    slots = U64(memory.shape[0]) >> U64(3)
    for i in range(U64(first), U64(first) + U64(count)):
        store64(memory, reduce(mix64(U64(i)), slots) << U64(3), U64(i))
