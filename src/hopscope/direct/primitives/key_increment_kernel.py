"""Key-Increment: reports to fetch-and-adds, and keys to counters."""

from ...base.kernels.jit import U8, U32, U64, kernel, load64, prefetch_read
from ...rdma.records import COUNT, Verb, VerbFlag
from ...wire.dta.records import DtaFlag
from ...wire.reasons import DtaReason
from ..hashing_kernel import begin, collector, slot
from ..stores import params as place

FETCH_ADD = U8(Verb.FETCH_ADD)
IMMEDIATE, NOTIFY = U8(DtaFlag.IMMEDIATE), U8(VerbFlag.IMMEDIATE)
TRUNCATED = U8(DtaReason.TRUNCATED)
BAD_REDUNDANCY, BAD_LENGTH = U8(DtaReason.BAD_REDUNDANCY), U8(DtaReason.BAD_LENGTH)
EIGHT = U64(8)
ALL_ONES = U64(0xFFFFFFFFFFFFFFFF)
AHEAD = U64(32)
"""Keys ahead of the current one whose counters are prefetched."""


@kernel
def write(reports, rows, arena, params, tables, targets, verbs, fill):
    """Append one FETCH_ADD per copy of every report in `rows`, but only one per distinct slot."""
    mode, seed, slots = params[place.HASHING], params[place.SEED], params[place.SLOTS]
    max_copies, collectors = params[place.COPIES], U64(targets.shape[0])
    count = fill[COUNT]
    for i in range(rows.shape[0]):
        report = reports[U64(rows[i])]
        copies = U64(report["redundancy"])
        if copies == U64(0) or copies > max_copies:
            report["reason"] = BAD_REDUNDANCY
            continue
        key_at, key_bytes = U64(report["key_at"]), U64(report["key_bytes"])
        if U64(report["data_bytes"]) != EIGHT or key_bytes == U64(0):
            report["reason"] = BAD_LENGTH
            continue
        if key_at + key_bytes > U64(arena.shape[0]):
            report["reason"] = TRUNCATED
            continue
        h = begin(mode, arena, key_at, key_bytes, seed)
        owner = U64(0)
        if collectors > U64(1):
            owner = collector(mode, tables, h, arena, key_at, key_bytes, collectors)
        first = count
        for copy in range(copies):
            address = slot(mode, tables, h, arena, key_at, key_bytes, copy, slots) * EIGHT
            again = False
            for other in range(first, count):
                again |= verbs[other]["address"] == address
            if again:
                continue
            verb = verbs[count]
            verb["address"] = address
            verb["value"] = report["counter"]
            verb["length"] = U32(8)
            verb["target"] = targets[owner]
            verb["kind"] = FETCH_ADD
            verb["flags"] = U8(0)
            if report["flags"] & IMMEDIATE and copy == U64(0):
                verb["flags"] = NOTIFY
                verb["immediate"] = U32(report["counter"] & U64(0xFFFFFFFF))
            count += U64(1)
    fill[COUNT] = count


@kernel
def minimum(keys, key_bytes, copies, memory, params, tables, counters):
    """Counters of consecutive keys: the minimum of their slots, each read atomically.

    Each key is hashed twice: `AHEAD` keys in advance, to prefetch its slots, and when it is processed.
    """
    mode, seed, slots = params[place.HASHING], params[place.SEED], params[place.SLOTS]
    count = U64(counters.shape[0])
    for i in range(count + AHEAD):
        if i < count:
            at = i * key_bytes
            h = begin(mode, keys, at, key_bytes, seed)
            for copy in range(U64(copies)):
                prefetch_read(memory, slot(mode, tables, h, keys, at, key_bytes, copy, slots) * EIGHT, U64(0))
        if i < AHEAD:
            continue
        at = (i - AHEAD) * key_bytes
        h = begin(mode, keys, at, key_bytes, seed)
        low = ALL_ONES
        for copy in range(U64(copies)):
            here = slot(mode, tables, h, keys, at, key_bytes, copy, slots) * EIGHT
            low = min(low, load64(memory, here))
        counters[i - AHEAD] = low
