"""Key-Write: reports to memory operations.

Parameters: `reports`: DTA [reports]; `rows`: uint32, the rows to write; `arena`: uint8, keys and data;
`params`: a store's header; `tables`: CRC tables; `targets`: uint16 [collectors]; `verbs`, `payload`, `fill`:
a VerbBlock."""

from ...base.kernels.jit import U8, U32, U64, few, inlined, kernel, load64, move, store64
from ...rdma.records import COUNT, PAYLOAD, Verb, VerbFlag
from ...wire.dta.records import DtaFlag
from ...wire.reasons import DtaReason
from ..hashing_kernel import begin, checksum, collector, slot
from ..stores import params as place

WRITE, CMP_SWAP = U8(Verb.WRITE), U8(Verb.CMP_SWAP)
IMMEDIATE = U8(DtaFlag.IMMEDIATE)
NOTIFY = U8(VerbFlag.IMMEDIATE)
TRUNCATED = U8(DtaReason.TRUNCATED)
BAD_REDUNDANCY, BAD_LENGTH = U8(DtaReason.BAD_REDUNDANCY), U8(DtaReason.BAD_LENGTH)
SWAP = U64(1)
EIGHT = U64(8)


@inlined
def entry(payload, at, check, check_bytes, arena, data_at, width):
    """Write a slot's content, checksum and data, at `at`; overwrites up to 16 bytes after it."""
    store64(payload, at, check)
    if width > EIGHT:
        move(payload, at + check_bytes, arena, data_at, width)
    else:
        store64(payload, at + check_bytes, few(arena, data_at, width))


@kernel
def write(reports, rows, arena, params, tables, targets, copies_now, seen, verbs, payload, fill):
    """Append one WRITE per copy of every report in `rows`; of variant SWAP a CMP_SWAP for the second.

    First slots are marked in `seen`, uint8 [observed slots], for `AdaptiveCopies`.

    A report of one copy takes 8.9 ns; 9.4 ns if verbs are written as 64-bit words instead of by field.
    """
    mode, seed, slots, stride = (
        params[place.HASHING],
        params[place.SEED],
        params[place.SLOTS],
        params[place.STRIDE],
    )
    bits, width, max_copies = params[place.CHECKSUM_BITS], params[place.DATA_BYTES], params[place.COPIES]
    swap, spread = params[place.VARIANT] == SWAP, params[place.SPREAD] != U64(0)
    check_bytes = (bits + U64(7)) >> U64(3)
    collectors, size = U64(targets.shape[0]), U64(arena.shape[0])
    count, at = fill[COUNT], fill[PAYLOAD]
    for i in range(rows.shape[0]):
        report = reports[U64(rows[i])]
        copies = U64(report["redundancy"])
        if copies == U64(0) or copies > max_copies:
            report["reason"] = BAD_REDUNDANCY
            continue
        key_at, key_bytes = U64(report["key_at"]), U64(report["key_bytes"])
        if U64(report["data_bytes"]) != width or key_bytes == U64(0):
            report["reason"] = BAD_LENGTH
            continue
        if key_at + key_bytes > size or U64(report["data_at"]) + width > size:
            report["reason"] = TRUNCATED
            continue
        copies = min(copies, U64(copies_now))
        h = begin(mode, arena, key_at, key_bytes, seed)
        check = checksum(mode, tables, h, arena, key_at, key_bytes, bits)
        entry(payload, at, check, check_bytes, arena, U64(report["data_at"]), width)
        owner = U64(0)
        if collectors > U64(1):
            owner = collector(mode, tables, h, arena, key_at, key_bytes, collectors)
        for copy in range(copies):
            verb = verbs[count]
            number = slot(mode, tables, h, arena, key_at, key_bytes, copy, slots)
            if copy == U64(0) and number < U64(seen.shape[0]):
                seen[number] = U8(1)
            verb["address"] = number * stride
            verb["payload_at"] = U32(at)
            verb["length"] = U32(stride)
            verb["target"] = targets[owner]
            verb["kind"] = WRITE
            verb["flags"] = U8(0)
            if report["flags"] & IMMEDIATE and copy == U64(0):
                verb["flags"] = NOTIFY
                verb["immediate"] = U32(check & U64(0xFFFFFFFF))
            if swap and copy == U64(1):
                verb["kind"] = CMP_SWAP
                verb["compare"] = U64(0)
                verb["value"] = load64(payload, at)
            count += U64(1)
            if spread:
                owner = owner + U64(1) if owner + U64(1) < collectors else U64(0)
        at += stride
    fill[COUNT], fill[PAYLOAD] = count, at
