"""Key-Write in loops: reports to writes, and keys to answers."""

from __future__ import annotations

from typing import Any

from ..jit import U8, U32, U64, kernel
from ..rdma.records import COUNT, PAYLOAD, Verb, VerbFlag
from ..wire.reasons import DtaReason
from ..wire.records import DtaFlag
from . import layout as place
from .hashing_kernel import begin, checksum, collector, slot

WRITE = U8(Verb.WRITE)
IMMEDIATE = U8(DtaFlag.IMMEDIATE)
TELL = U8(VerbFlag.IMMEDIATE)
BAD_REDUNDANCY, BAD_LENGTH = U8(DtaReason.BAD_REDUNDANCY), U8(DtaReason.BAD_LENGTH)
EMPTY, FOUND, CONFLICT = U8(0), U8(1), U8(2)


@kernel
def write(
    reports: Any,
    rows: Any,
    arena: Any,
    params: Any,
    tables: Any,
    targets: Any,
    verbs: Any,
    payload: Any,
    fill: Any,
) -> None:
    """Append one WRITE per copy of every report in `rows`: checksum, then data."""
    mode, seed, slots, stride = (
        params[place.HASHING],
        params[place.SEED],
        params[place.SLOTS],
        params[place.STRIDE],
    )
    bits, width = params[place.CHECKSUM_BITS], params[place.DATA_BYTES]
    check_bytes = (bits + U64(7)) >> U64(3)
    collectors = U64(targets.shape[0])
    count, at = fill[COUNT], fill[PAYLOAD]
    for i in range(rows.shape[0]):
        row = U64(rows[i])
        report = reports[row]
        copies = U64(report["redundancy"])
        if copies == U64(0) or copies > params[place.COPIES]:
            reports[row]["reason"] = BAD_REDUNDANCY
            continue
        if U64(report["data_bytes"]) != width or report["key_bytes"] == U8(0):
            reports[row]["reason"] = BAD_LENGTH
            continue
        key_at, key_bytes, data_at = U64(report["key_at"]), U64(report["key_bytes"]), U64(report["data_at"])
        h = begin(mode, arena, key_at, key_bytes, seed)
        check = checksum(mode, tables, h, arena, key_at, key_bytes, bits)
        for j in range(check_bytes):
            payload[at + j] = U8((check >> (j * U64(8))) & U64(255))
        for j in range(width):
            payload[at + check_bytes + j] = arena[data_at + j]
        target = targets[0]
        if collectors > U64(1):
            target = targets[collector(mode, tables, h, arena, key_at, key_bytes, collectors)]
        for copy in range(copies):
            verb = verbs[count]
            verb["address"] = slot(mode, tables, h, arena, key_at, key_bytes, copy, slots) * stride
            verb["payload_at"] = U32(at)
            verb["length"] = U32(check_bytes + width)
            verb["target"] = target
            verb["kind"] = WRITE
            verb["flags"] = U8(0)
            if report["flags"] & IMMEDIATE and copy == U64(0):
                verb["flags"] = TELL
                verb["immediate"] = U32(check & U64(0xFFFFFFFF))
            count += U64(1)
        at += check_bytes + width
    fill[COUNT], fill[PAYLOAD] = count, at


@kernel
def query(
    keys: Any, key_bytes: Any, copies: Any, consensus: Any, memory: Any, params: Any, tables: Any,
    status: Any, data: Any, votes: Any,
) -> None:  # fmt: skip
    """Plurality vote: the value that most of a key's slots hold, if `consensus` of them do."""
    mode, seed, slots, stride = (
        params[place.HASHING],
        params[place.SEED],
        params[place.SLOTS],
        params[place.STRIDE],
    )
    bits, width = params[place.CHECKSUM_BITS], params[place.DATA_BYTES]
    check_bytes = (bits + U64(7)) >> U64(3)
    key_bytes = U64(key_bytes)
    for i in range(status.shape[0]):
        key_at = U64(i) * key_bytes
        h = begin(mode, keys, key_at, key_bytes, seed)
        check = checksum(mode, tables, h, keys, key_at, key_bytes, bits)
        best, best_at, tied = U64(0), U64(0), False
        for copy in range(U64(copies)):
            here = slot(mode, tables, h, keys, key_at, key_bytes, copy, slots) * stride
            if not _holds(memory, here, check, check_bytes):
                continue
            same = U64(0)
            for other in range(U64(copies)):
                there = slot(mode, tables, h, keys, key_at, key_bytes, other, slots) * stride
                if _holds(memory, there, check, check_bytes) and _equal(
                    memory, here + check_bytes, there + check_bytes, width
                ):
                    same += U64(1)
            if same > best:
                best, best_at, tied = same, here + check_bytes, False
            elif same == best and not _equal(memory, best_at, here + check_bytes, width):
                tied = True
        status[i] = CONFLICT if tied else FOUND if best >= U64(consensus) and best > U64(0) else EMPTY
        votes[i] = U8(best)
        if status[i] == FOUND:
            for j in range(width):
                data[U64(i) * width + j] = memory[best_at + j]


@kernel
def _holds(memory: Any, at: Any, check: Any, check_bytes: Any) -> Any:
    """Whether the slot at `at` begins with this checksum."""
    for j in range(check_bytes):
        if U64(memory[at + j]) != (check >> (j * U64(8))) & U64(255):
            return False
    return True


@kernel
def _equal(memory: Any, one: Any, other: Any, width: Any) -> Any:
    """Whether two slots hold the same data."""
    for j in range(width):
        if memory[one + j] != memory[other + j]:
            return False
    return True
