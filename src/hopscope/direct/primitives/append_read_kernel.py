"""Reading Append's lists: slots to entries.

Parameters: `memory`: uint8, a store's memory; `params`: its header; `ring`: offset of a list; `size`: bytes
of a slot; `tails`: TAIL [lists] of a reader."""

from ...base.kernels.jit import U32, U64, inlined, kernel, load64, move, order_reads
from ..stores import params as place

ENTRIES = U64(12)
"""Offset of a slot's entries (`append_layout`)."""
WRITTEN = U64(0x80000000)
NUMBERS = U64(0x7FFFFFFF)
HALF = U64(0x40000000)
WORD = U64(0xFFFFFFFF)
UNKNOWN = U64(0xFFFFFFFF)
"""Generation of a tail that has not seen one."""


@inlined
def slot_bytes(params):
    """Bytes of a slot."""
    return params[place.STRIDE] // params[place.BATCHES]


@inlined
def stamp_at(memory, at, size):
    """Stamp of a slot, with the entries before it in the upper half; 0 if the slot is incomplete."""
    end = load64(memory, at + size - U64(8)) >> U64(32)
    order_reads()
    head = load64(memory, at)
    if head & WORD != end or not head & WRITTEN:
        return U64(0)
    return head


@inlined
def kind_at(memory, at):
    """Entries of a slot's batch, and its generation from bit 8 on."""
    return load64(memory, at + U64(8)) & WORD


@inlined
def batch_at(memory, ring, batch, generation, params):
    """`stamp_at` of a batch's slot if it holds exactly this batch; 0 otherwise."""
    size = slot_bytes(params)
    at = ring + (batch & (params[place.BATCHES] - U64(1))) * size
    head = stamp_at(memory, at, size)
    if head & WORD != (batch & NUMBERS) | WRITTEN or kind_at(memory, at) >> U64(8) != generation:
        return U64(0)
    return head


@kernel
def newest(memory, params, number, every):
    """The end of a list:

    (generation, next batch, entries before it); generation UNKNOWN: the list is empty. `every`: inspect every
    slot. Otherwise a binary search finds the end; if writes were lost, it may find the end of the entries
    before them.
    """
    size, batches = slot_bytes(params), params[place.BATCHES]
    ring = U64(number) * params[place.STRIDE]
    head = stamp_at(memory, ring, size)
    if head == U64(0):
        return UNKNOWN, U64(0), U64(0)
    first, generation = head & NUMBERS, kind_at(memory, ring) >> U64(8)
    low, high = U64(0), batches
    while not every and high - low > U64(1):
        middle = (low + high) >> U64(1)
        if batch_at(memory, ring, first + middle, generation, params):
            low = middle
        else:
            high = middle
    for slot in range(U64(1), batches if every else U64(0)):
        if batch_at(memory, ring, first + slot, generation, params):
            low = U64(slot)
    at = ring + low * size
    entries = (load64(memory, at) >> U64(32)) + (kind_at(memory, at) & U64(255))
    return generation, (first + low + U64(1)) & NUMBERS, entries & WORD


@kernel
def start_tails(tails, back, memory, params):
    """Set tails `back` batches before the newest, or to the oldest available."""
    batches = params[place.BATCHES]
    for i in range(tails.shape[0]):
        tail = tails[i]
        ring = U64(tail["list"]) * params[place.STRIDE]
        generation, batch, entries = newest(memory, params, U64(tail["list"]), False)
        tail["generation"], tail["number"], tail["entries"] = U32(generation), U32(batch), U32(entries)
        step = min(U64(back), batches)
        if not batch_at(memory, ring, batch - batches, generation, params):  # the ring has not wrapped yet
            step = min(step, ((batch - U64(1)) & (batches - U64(1))) + U64(1)) if batch else U64(0)
        while step > U64(0):
            head = batch_at(memory, ring, batch - step, generation, params)
            if head:
                tail["number"], tail["entries"] = U32((batch - step) & NUMBERS), U32(head >> U64(32))
                break
            step -= U64(1)


@inlined
def renewed(tail, memory, ring, size):
    """Whether slot 0 has a new generation; the tail is then set to its start."""
    head = stamp_at(memory, ring, size)
    generation = kind_at(memory, ring) >> U64(8)
    order_reads()
    if head == U64(0) or stamp_at(memory, ring, size) != head or generation == U64(tail["generation"]):
        return False
    if U64(tail["generation"]) != UNKNOWN:
        tail["restarts"] += U32(1)
    tail["generation"], tail["number"], tail["entries"] = U32(generation), U32(0), U32(0)
    return True


@inlined
def skip_gap(tail, memory, ring, params):
    """Whether the next batch was lost, since a later one exists; the tail is then set after the gap.

    Looks 1, 2, 4 … batches ahead, so a gap is detected once it is followed by as many batches as it has.
    """
    batches, number = params[place.BATCHES], U64(tail["number"])
    generation = U64(tail["generation"])
    ahead = U64(1)
    while ahead < batches:
        if batch_at(memory, ring, number + ahead, generation, params):
            for step in range(U64(1), ahead + U64(1)):
                if batch_at(memory, ring, number + step, generation, params):
                    tail["number"] = U32((number + step) & NUMBERS)
                    return True
        ahead <<= U64(1)
    return False


@kernel
def poll(tails, start, memory, params, out, lists):
    """Copy new entries of lists, from tail `start` on, into `out` [entries * data_bytes] while a batch fits.

    `lists` [entries] gets the list of each. Returns the number of entries, and the tail to start with next
    time.
    """
    size, batches, width = slot_bytes(params), params[place.BATCHES], params[place.DATA_BYTES]
    room, count = U64(lists.shape[0]), U64(0)
    turns = U64(tails.shape[0])
    for turn in range(turns):
        which = (U64(start) + turn) % turns
        tail = tails[which]
        ring = U64(tail["list"]) * params[place.STRIDE]
        for _ in range(batches * U64(2) + U64(4)):  # a walk to the oldest slot, then every slot once
            if count + params[place.BATCH] > room:
                return count, which
            at = ring + (U64(tail["number"]) & (batches - U64(1))) * size
            head = stamp_at(memory, at, size)
            kind = kind_at(memory, at)
            ahead = ((head & NUMBERS) - U64(tail["number"])) & NUMBERS
            if head == U64(0) or kind >> U64(8) != U64(tail["generation"]) or ahead >= HALF:
                if renewed(tail, memory, ring, size):
                    continue
                tail["idle"] += U32(1)
                if tail["idle"] & U32(15) == U32(0) and skip_gap(tail, memory, ring, params):
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
