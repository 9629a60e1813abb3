"""Cardinality: elements to registers, and registers from memory."""

from ...base.kernels.jit import U8, U32, U64, be32, kernel
from ...rdma.records import COUNT, PAYLOAD, Verb, VerbFlag
from ...wire.dta.records import DtaFlag
from ...wire.reasons import DtaReason
from ..hashing_kernel import key_hash
from ..stores import params as place

WRITE, NOTIFY = U8(Verb.WRITE), U8(VerbFlag.IMMEDIATE)
IMMEDIATE = U8(DtaFlag.IMMEDIATE)
BAD_LIST, BAD_LENGTH = U8(DtaReason.BAD_LIST), U8(DtaReason.BAD_LENGTH)
RANKS = U64(32)
"""Bytes of a register: one for each rank."""
SENT, FILTERED = range(2)
"""Indices into the writer's counters."""


@kernel
def write(reports, rows, arena, params, targets, highest, counters, verbs, payload, fill):
    """Append a write for every element that raises its register in `highest` [sketches * registers]."""
    precision, sketches = params[place.VARIANT], params[place.SLOTS]
    count, at = fill[COUNT], fill[PAYLOAD]
    payload[at] = U8(1)
    for i in range(rows.shape[0]):
        row = U64(rows[i])
        report = reports[row]
        size = U64(report["data_bytes"])
        if report["key_bytes"] != U8(4) or size == U64(0) or size > U64(64):
            reports[row]["reason"] = BAD_LENGTH
            continue
        sketch = be32(arena, U64(report["key_at"]))
        if sketch >= sketches:
            reports[row]["reason"] = BAD_LIST
            continue
        h = key_hash(arena, U64(report["data_at"]), size, params[place.SEED])
        register = (sketch << precision) | (h >> (U64(64) - precision))
        rest = h << precision
        rank = U64(1)
        while rank < RANKS and not rest >> U64(63):
            rest <<= U64(1)
            rank += U64(1)
        if rank <= U64(highest[register]):
            counters[FILTERED] += U64(1)
            continue
        highest[register] = U8(rank)
        counters[SENT] += U64(1)
        verb = verbs[count]
        verb["address"] = register * RANKS + rank - U64(1)
        verb["payload_at"] = U32(at)
        verb["length"] = U32(1)
        verb["target"] = targets[sketch % U64(targets.shape[0])]
        verb["kind"] = WRITE
        verb["flags"] = NOTIFY if report["flags"] & IMMEDIATE else U8(0)
        verb["immediate"] = U32(sketch)
        count += U64(1)
    fill[COUNT], fill[PAYLOAD] = count, at + U64(1)


@kernel
def read(memory, first, values):
    """Values of registers from number `first` on, uint8 [registers]: the position of the last nonzero
    byte.
    """
    for i in range(values.shape[0]):
        at = (U64(first) + U64(i)) * RANKS
        rank = RANKS
        while rank > U64(0) and memory[at + rank - U64(1)] == U8(0):
            rank -= U64(1)
        values[i] = U8(rank)
