"""Append: entries into batches, batches into slots.

Parameters: `pending`: uint8 [lists * slot bytes], each list's batch as the image of its slot; `marks`: uint64
[lists], tick of a batch's oldest entry and NOTIFIED; `state`: uint64 [8], tick and counters; `verbs`,
`payload`, `fill`: a VerbBlock."""

from ...base.kernels.jit import U8, U32, U64, few, inlined, kernel, load64, move, store64
from ...rdma.records import COUNT, PAYLOAD, Verb, VerbFlag
from ...wire.dta.records import DtaFlag
from ...wire.reasons import DtaReason
from ..stores import params as place
from .append_read_kernel import ENTRIES, NUMBERS, UNKNOWN, WORD, WRITTEN, newest, slot_bytes

WRITE, NOTIFY = U8(Verb.WRITE), U8(VerbFlag.IMMEDIATE)
IMMEDIATE = U64(DtaFlag.IMMEDIATE)
BAD_LIST, BAD_LENGTH = U8(DtaReason.BAD_LIST), U8(DtaReason.BAD_LENGTH)

# indices into the writer's state
TICK, WAITING, FULL, PARTIAL, AGED = range(5)
NOTIFIED = U64(1) << U64(32)
"""Flag in `marks`: a waiting entry requests a notification."""


@inlined
def open_slot(pending, at, number, first, generation):
    """Write the head of an empty batch into the image of a list's next slot."""
    store64(pending, at, WRITTEN | (number & NUMBERS) | (first << U64(32)))
    upper = load64(pending, at + U64(8)) & (WORD << U64(32))
    store64(pending, at + U64(8), upper | ((generation & U64(0xFFFFFF)) << U64(8)))


@inlined
def emit(number, params, targets, pending, marks, verbs, payload, fill):
    """Append the write of a list's batch, and open its next batch."""
    size = slot_bytes(params)
    at, to = number * size, fill[PAYLOAD]
    head, count = load64(pending, at), U64(pending[at + U64(8)])
    generation = (load64(pending, at + U64(8)) >> U64(8)) & U64(0xFFFFFF)
    last = at + size - U64(8)  # the entries may have run into the last four bytes
    store64(pending, last, (load64(pending, last) & WORD) | (head << U64(32)))
    move(payload, to, pending, at, size)
    batch = head & NUMBERS
    row = fill[COUNT]
    verb = verbs[row]
    verb["address"] = number * params[place.STRIDE] + (batch & (params[place.BATCHES] - U64(1))) * size
    verb["payload_at"] = U32(to)
    verb["length"] = U32(size)
    verb["target"] = targets[number % U64(targets.shape[0])]
    verb["kind"] = WRITE
    verb["flags"] = NOTIFY if marks[number] & NOTIFIED else U8(0)
    verb["immediate"] = U32(number)
    fill[COUNT], fill[PAYLOAD] = row + U64(1), to + size
    open_slot(pending, at, batch + U64(1), (head >> U64(32)) + count, generation)


@kernel
def write(reports, rows, arena, params, targets, pending, marks, state, verbs, payload, fill):
    """Put entries into their lists' batches; append the full batches.

    A batch waits as the complete image of its slot, so an entry touches one place, and a full batch is copied
    once: 4 ns per entry for one list, 5 for 1,000 (parsing: 4, executing: 2), on a busy machine.
    """
    lists, batch, width = params[place.SLOTS], params[place.BATCH], params[place.DATA_BYTES]
    size = slot_bytes(params)
    tick = state[TICK]
    added = U64(0)
    for i in range(rows.shape[0]):
        row = U64(rows[i])
        report = reports[row]
        number = U64(report["list"])
        if number >= lists:
            reports[row]["reason"] = BAD_LIST
            continue
        if U64(report["data_bytes"]) != width:
            reports[row]["reason"] = BAD_LENGTH
            continue
        at = number * size
        count = U64(pending[at + U64(8)])
        to, source = at + ENTRIES + count * width, U64(report["data_at"])
        if width >= U64(4) and width <= U64(8):
            store64(pending, to, few(arena, source, width))
        else:
            move(pending, to, arena, source, width)
        if count == U64(0):
            marks[number] = tick
        if U64(report["flags"]) & IMMEDIATE:
            marks[number] |= NOTIFIED
        added += U64(1)
        pending[at + U64(8)] = U8(count + U64(1))
        if count + U64(1) == batch:
            emit(number, params, targets, pending, marks, verbs, payload, fill)
            state[WAITING] -= batch
            state[FULL] += U64(1)
    state[WAITING] += added


@kernel
def sweep(first, before, counter, params, targets, pending, marks, state, verbs, payload, fill):
    """Append the batches of lists from `first` on whose oldest entry is older than tick `before`.

    `counter` is the index of the counter. Returns the list to continue with, or the number of lists when
    done.
    """
    size, lists = slot_bytes(params), params[place.SLOTS]
    for number in range(U64(first), lists):
        count = U64(pending[number * size + U64(8)])
        if count == U64(0) or marks[number] & WORD >= U64(before):
            continue
        if fill[COUNT] >= U64(verbs.shape[0]) or fill[PAYLOAD] + size > U64(payload.shape[0]):
            return number
        emit(number, params, targets, pending, marks, verbs, payload, fill)
        state[WAITING] -= count
        state[U64(counter)] += U64(1)
    return lists


@kernel
def ends(memory, params, out):
    """Write the ends of the nonempty lists in a memory to `out`, LIST_END; returns their number."""
    count = U64(0)
    for number in range(params[place.SLOTS]):
        generation, batch, entries = newest(memory, params, number, True)
        if generation != UNKNOWN:
            end = out[count]
            end["list"], end["batch"] = U32(number), U32(batch)
            end["entries"], end["generation"] = U32(entries), U32(generation)
            count += U64(1)
    return count


@kernel
def resume(ends, params, generation, which, collectors, pending):
    """Open the next slot of the lists of collector `which`: after its end in `ends`, LIST_END [lists], sorted
    by list, or a new generation's first.
    """
    size, at_end = slot_bytes(params), U64(0)
    for number in range(U64(which), params[place.SLOTS], U64(collectors)):
        begun, batch, entries = U64(generation), U64(0), U64(0)
        at = U64(number) * size
        if at_end < U64(ends.shape[0]) and U64(ends[at_end]["list"]) == U64(number):
            end = ends[at_end]
            at_end += U64(1)
            begun, batch, entries = U64(end["generation"]), U64(end["batch"]), U64(end["entries"])
            numbered = load64(pending, at) >> U64(32)
            same = (load64(pending, at + U64(8)) >> U64(8)) & U64(0xFFFFFF) == begun
            if same and (numbered - entries) & WORD < U64(0x80000000):
                entries = numbered  # the entries between were lost with a connection
        count = pending[at + U64(8)]
        open_slot(pending, at, batch, entries, begun)
        pending[at + U64(8)] = count
