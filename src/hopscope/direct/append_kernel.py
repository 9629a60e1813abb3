"""Append in loops: entries into batches, batches into slots, slots into a reader's hands."""

from __future__ import annotations

from typing import Any

from ..jit import U8, U32, U64, few, inlined, kernel, load64, move, order_reads, store64
from ..rdma.records import COUNT, PAYLOAD, Verb, VerbFlag
from ..wire.reasons import DtaReason
from ..wire.records import DtaFlag
from . import layout as place

WRITE, TELL = U8(Verb.WRITE), U8(VerbFlag.IMMEDIATE)
IMMEDIATE = U64(DtaFlag.IMMEDIATE)
BAD_LIST, BAD_LENGTH = U8(DtaReason.BAD_LIST), U8(DtaReason.BAD_LENGTH)

ENTRIES = U64(12)
"""Where a slot's entries begin (`append_layout`)."""
WRITTEN = U64(0x80000000)
NUMBERS = U64(0x7FFFFFFF)
HALF = U64(0x40000000)
WORD = U64(0xFFFFFFFF)
UNKNOWN = U64(0xFFFFFFFF)
"""The generation of a tail that has not seen one."""

# places in the writer's state
TICK, WAITING, FULL, PARTIAL, AGED = range(5)
TOLD = U64(1) << U64(32)
"""Beside a list's tick: an entry that waits asks for a notification."""


@inlined
def slot_bytes(params: Any) -> Any:
    """Bytes of a slot."""
    return params[place.STRIDE] // params[place.BATCHES]


@inlined
def open_slot(pending: Any, at: Any, number: Any, first: Any, generation: Any) -> None:
    """Write the head of an empty batch into a list's image of its next slot."""
    store64(pending, at, WRITTEN | (number & NUMBERS) | (first << U64(32)))
    upper = load64(pending, at + U64(8)) & (WORD << U64(32))
    store64(pending, at + U64(8), upper | ((generation & U64(0xFFFFFF)) << U64(8)))


@inlined
def emit(
    number: Any, params: Any, targets: Any, pending: Any, marks: Any, verbs: Any, payload: Any, fill: Any
) -> None:
    """Append the write of list `number`'s batch, and open its next one."""
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
    verb["flags"] = TELL if marks[number] & TOLD else U8(0)
    verb["immediate"] = U32(number)
    fill[COUNT], fill[PAYLOAD] = row + U64(1), to + size
    open_slot(pending, at, batch + U64(1), (head >> U64(32)) + count, generation)


@kernel
def write(
    reports: Any, rows: Any, arena: Any, params: Any, targets: Any, pending: Any, marks: Any, state: Any,
    verbs: Any, payload: Any, fill: Any,
) -> None:  # fmt: skip
    """Put entries into their lists' batches; append the batches that are full."""
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
            marks[number] |= TOLD
        added += U64(1)
        pending[at + U64(8)] = U8(count + U64(1))
        if count + U64(1) == batch:
            emit(number, params, targets, pending, marks, verbs, payload, fill)
            state[WAITING] -= batch
            state[FULL] += U64(1)
    state[WAITING] += added


@kernel
def sweep(
    first: Any, before: Any, why: Any, params: Any, targets: Any, pending: Any, marks: Any, state: Any,
    verbs: Any, payload: Any, fill: Any,
) -> Any:  # fmt: skip
    """Append the batches of lists from `first` on whose oldest entry came before a tick.

    `why` is the counter. Returns the list to go on with, or the number of lists where none is left.
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
        state[U64(why)] += U64(1)
    return lists


@inlined
def stamp_at(memory: Any, at: Any, size: Any) -> Any:
    """Stamp at the start of a slot, and entries before it in the upper half; 0 where it is not whole."""
    end = load64(memory, at + size - U64(8)) >> U64(32)
    order_reads()
    head = load64(memory, at)
    if head & WORD != end or not head & WRITTEN:
        return U64(0)
    return head


@inlined
def kind_at(memory: Any, at: Any) -> Any:
    """Entries of a slot's batch, and its generation from bit 8 on."""
    return load64(memory, at + U64(8)) & WORD


@kernel
def newest(memory: Any, params: Any, number: Any) -> Any:
    """Where a list ends: (generation, next batch, entries before it); generation UNKNOWN: it is empty."""
    size, batches = slot_bytes(params), params[place.BATCHES]
    ring = U64(number) * params[place.STRIDE]
    head = stamp_at(memory, ring, size)
    if head == U64(0):
        return UNKNOWN, U64(0), U64(0)
    kind = kind_at(memory, ring)
    generation = kind >> U64(8)
    last, entries = head & NUMBERS, (head >> U64(32)) + (kind & U64(255))
    for i in range(U64(1), batches):
        at = ring + i * size
        head = stamp_at(memory, at, size)
        kind = kind_at(memory, at)
        if head == U64(0) or kind >> U64(8) != generation:
            continue
        if ((head & NUMBERS) - last) & NUMBERS < HALF:
            last, entries = head & NUMBERS, (head >> U64(32)) + (kind & U64(255))
    return generation, (last + U64(1)) & NUMBERS, entries & WORD


@kernel
def resume(
    memory: Any, params: Any, generation: Any, which: Any, collectors: Any, known: Any, pending: Any
) -> None:
    """Open the next slot of the lists of collector `which`: behind what its memory has, where `known`."""
    size = slot_bytes(params)
    for number in range(params[place.SLOTS]):
        if number % U64(collectors) != U64(which):
            continue
        begun, batch, entries = U64(generation), U64(0), U64(0)
        if known:
            found, batch, entries = newest(memory, params, number)
            if found != UNKNOWN:
                begun = found
        at = number * size
        count = pending[at + U64(8)]
        open_slot(pending, at, batch, entries, begun)
        pending[at + U64(8)] = count


@kernel
def start_tails(tails: Any, back: Any, memory: Any, params: Any) -> None:
    """Put tails `back` batches before the newest, or at the oldest that is there."""
    size, batches = slot_bytes(params), params[place.BATCHES]
    for i in range(tails.shape[0]):
        tail = tails[i]
        ring = U64(tail["list"]) * params[place.STRIDE]
        generation, batch, entries = newest(memory, params, U64(tail["list"]))
        tail["generation"], tail["number"], tail["entries"] = U32(generation), U32(batch), U32(entries)
        step = min(U64(back), batches)
        while step > U64(0):
            earlier = (batch - step) & NUMBERS
            at = ring + (earlier & (batches - U64(1))) * size
            head = stamp_at(memory, at, size)
            if head & WORD == earlier | WRITTEN and kind_at(memory, at) >> U64(8) == generation:
                tail["number"], tail["entries"] = U32(earlier), U32(head >> U64(32))
                break
            step -= U64(1)


@inlined
def renewed(tail: Any, memory: Any, ring: Any, size: Any) -> Any:
    """Whether the list has a new generation, which slot 0 tells; the tail is then at its start."""
    head = stamp_at(memory, ring, size)
    generation = kind_at(memory, ring) >> U64(8)
    order_reads()
    if head == U64(0) or stamp_at(memory, ring, size) != head or generation == U64(tail["generation"]):
        return False
    if U64(tail["generation"]) != UNKNOWN:
        tail["restarts"] += U32(1)
    tail["generation"], tail["number"], tail["entries"] = U32(generation), U32(0), U32(0)
    return True


@kernel
def poll(tails: Any, start: Any, memory: Any, params: Any, out: Any, lists: Any) -> Any:
    """Copy new entries of lists, from tail `start` on, into `out` [entries * data_bytes] while a batch fits.

    `lists` [entries] says of which list each is. Returns entries, and the tail to begin with next time.
    """
    size, batches, width = slot_bytes(params), params[place.BATCHES], params[place.DATA_BYTES]
    room, count = U64(lists.shape[0]), U64(0)
    turns = U64(tails.shape[0])
    for turn in range(turns):
        which = (U64(start) + turn) % turns
        tail = tails[which]
        ring = U64(tail["list"]) * params[place.STRIDE]
        for _ in range(batches * U64(2) + U64(4)):  # a walk to the oldest, then every slot once
            if count + params[place.BATCH] > room:
                return count, which
            at = ring + (U64(tail["number"]) & (batches - U64(1))) * size
            head = stamp_at(memory, at, size)
            kind = kind_at(memory, at)
            ahead = ((head & NUMBERS) - U64(tail["number"])) & NUMBERS
            if head == U64(0) or kind >> U64(8) != U64(tail["generation"]) or ahead >= HALF:
                if renewed(tail, memory, ring, size):
                    continue
                break
            if ahead:
                tail["number"] = U32(((head & NUMBERS) + U64(1) - batches) & NUMBERS)
                continue
            entries = min(kind & U64(255), params[place.BATCH])
            move(out, count * width, memory, at + ENTRIES, entries * width)
            order_reads()
            if load64(memory, at) != head or stamp_at(memory, at, size) != head:
                break
            tail["lost"] += ((head >> U64(32)) - U64(tail["entries"])) & WORD
            tail["entries"] = U32((head >> U64(32)) + entries)
            tail["number"] = U32(((head & NUMBERS) + U64(1)) & NUMBERS)
            for i in range(entries):
                lists[count + i] = tail["list"]
            count += entries
    return count, U64(start)
