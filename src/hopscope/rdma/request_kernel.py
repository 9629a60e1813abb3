"""Execution of expected requests: SEND, WRITE and atomic operations become verbs, answers and notices, or a
reject reason. `responder_kernel` checks packet numbers, and calls `request` for the expected packet.

Parameters: `record`: ROCE row; `pair`: QUEUE_PAIR row, `where` its index; `regions`: MEMORY_REGION; `replay`:
REPLAY [pairs * REPLAYS]; `verbs`: VERB; `answers`: ROCE; `notices`: NOTICE; `received`: uint32 [packets, 2];
`fill`: uint64, used rows of each.
"""

from ..base.kernels.jit import U8, U64, kernel
from ..wire.reasons import RoceReason
from ..wire.roce.records import Opcode, RoceFlag
from .records import NO_TARGET, REPLAYS, Access, Due, NoticeFlag, Progress, Service, Syndrome, Verb

VERBS, ANSWERS, NOTICES, RECEIVED, DIRTY = U64(0), U64(1), U64(2), U64(3), U64(4)
"""Indices into `fill`: used rows of each."""
PSN_MASK = U64(0xFFFFFF)
UC = U64(Service.UC)
IDLE, IN_WRITE, IN_SEND = U64(Progress.NONE), U64(Progress.WRITE), U64(Progress.SEND)
YES, ANSWERED = U64(Due.YES), U64(Due.ANSWERED)
GOOD, UNKNOWN_OPCODE = U64(RoceReason.NONE), U64(RoceReason.UNKNOWN_OPCODE)
BAD_KEY, OUTSIDE, NO_ACCESS = (
    U64(RoceReason.BAD_KEY),
    U64(RoceReason.OUT_OF_BOUNDS),
    U64(RoceReason.NO_ACCESS),
)
MISALIGNED, BAD_LENGTH = U64(RoceReason.MISALIGNED), U64(RoceReason.BAD_LENGTH)
BAD_SEQUENCE, NOT_READY = U64(RoceReason.BAD_SEQUENCE), U64(RoceReason.NOT_READY)
ATOMIC_ACK, READ_REQUEST, FETCH_ADD = (
    U64(Opcode.RC_ATOMIC_ACK),
    U64(Opcode.RC_READ_REQUEST),
    U64(Opcode.RC_FETCH_ADD),
)
LONGEST = U64(1 << 31)
RECEIVE_BYTES = U64(65_536)
"""Longest message that fits into a posted buffer."""
FIRST, LAST, IMMEDIATE, SEND = U64(1), U64(2), U64(4), U64(8)
"""Bits of `shape`: position of a SEND or WRITE packet; ONLY is both first and last."""


@kernel
def shape(operation):
    """Bits of a SEND (0 to 5) or WRITE (6 to 11): FIRST, MIDDLE, LAST, LAST_IMM, ONLY, ONLY_IMM."""
    place = operation if operation < U64(6) else operation - U64(6)
    bits = SEND if operation < U64(6) else U64(0)
    if place == U64(0) or place >= U64(4):
        bits |= FIRST
    if place >= U64(2):
        bits |= LAST
    if place == U64(3) or place == U64(5):
        bits |= IMMEDIATE
    return bits


@kernel
def in_message(pair, operation):
    """Check the sequence of FIRST, MIDDLE, LAST and ONLY (9.7.4.1.2)."""
    if operation >= READ_REQUEST:
        return GOOD if U64(pair.progress) == IDLE else BAD_SEQUENCE
    bits = shape(operation)
    if bits & FIRST:
        if U64(pair.service) == UC:
            pair.progress = IDLE  # the previous message was cut short
        return GOOD if U64(pair.progress) == IDLE else BAD_SEQUENCE
    return GOOD if U64(pair.progress) == (IN_SEND if bits & SEND else IN_WRITE) else BAD_SEQUENCE


@kernel
def region_of(record, regions, length, access):
    """Row of the memory region for `length` bytes at the packet's address, and the reason."""
    row = U64(record.key) & U64(len(regions) - 1)
    region = regions[row]
    if not region.used or U64(region.key) != U64(record.key):
        return row, BAD_KEY
    # no overflow: addresses below the base wrap to offsets beyond any length
    offset = U64(record.address) - U64(region.base)
    if offset > U64(region.length) or length > U64(region.length) - offset:
        return row, OUTSIDE
    if not U64(region.access) & access:
        return row, NO_ACCESS
    return row, GOOD


@kernel
def put_verb(verbs, fill, kind, target, address, length, payload_at):
    """Append one memory operation; returns its row."""
    row = fill[VERBS]
    verb = verbs[row]
    verb.kind = kind
    verb.target = target
    verb.address = address
    verb.length = length
    verb.payload_at = payload_at
    verb.flags = 0
    verb.result = 0
    fill[VERBS] = row + U64(1)
    return row


@kernel
def put_answer(answers, fill, pair, opcode, syndrome, psn):
    """Append one answer to the peer of a queue pair; returns its row."""
    row = fill[ANSWERS]
    answer = answers[row]
    answer.opcode = opcode
    answer.syndrome = syndrome
    answer.psn = psn & PSN_MASK
    answer.message = pair.message
    answer.source_hi = pair.peer_hi
    answer.source_lo = pair.peer_lo
    answer.queue_pair = pair.peer_number
    answer.partition = pair.partition
    answer.address = 0
    answer.compare = 0
    answer.value = 0
    answer.payload_bytes = 0
    answer.flags = 0
    answer.reason = 0
    fill[ANSWERS] = row + U64(1)
    if U64(pair.due) == YES:
        pair.due = ANSWERED  # every answer implies the earlier ones
    return row


@kernel
def write(record, pair, regions, bits, verbs, fill):
    """Turn a WRITE packet into a verb; returns the reason (9.7.4.1.3 to 9.7.4.1.6)."""
    payload, mtu = U64(record.payload_bytes), U64(pair.mtu)
    if payload > mtu or (not bits & LAST and payload != mtu):
        return BAD_LENGTH
    if bits & FIRST:
        length = U64(record.length)
        if length > LONGEST or (length != payload if bits & LAST else length <= payload):
            return BAD_LENGTH
        target, offset = U64(NO_TARGET), U64(0)
        if length:  # an empty write has no memory, and its key is ignored
            row, reason = region_of(record, regions, length, U64(Access.WRITE))
            if reason != GOOD:
                return reason
            target, offset = U64(regions[row].target), U64(record.address) - U64(regions[row].base)
        pair.target, pair.offset, pair.begin = target, offset, offset
        pair.length = pair.remaining = length
    elif payload != U64(pair.remaining) if bits & LAST else payload >= U64(pair.remaining):
        return BAD_LENGTH
    if payload:
        put_verb(verbs, fill, U8(Verb.WRITE), pair.target, pair.offset, payload, record.payload_at)
    pair.offset = U64(pair.offset) + payload
    pair.remaining = U64(pair.remaining) - payload
    pair.progress = IDLE if bits & LAST else IN_WRITE
    return GOOD


@kernel
def send(record, row, pair, where, bits, received, fill):
    """Put a SEND packet into a posted buffer; returns the reason."""
    payload, mtu = U64(record.payload_bytes), U64(pair.mtu)
    if bits & FIRST:
        if not pair.receives:
            return NOT_READY
        pair.remaining = RECEIVE_BYTES
    if payload > mtu or (not bits & LAST and payload != mtu) or payload > U64(pair.remaining):
        return BAD_LENGTH
    if bits & FIRST:
        pair.receives = U64(pair.receives) - U64(1)
    pair.remaining = U64(pair.remaining) - payload
    pair.progress = IDLE if bits & LAST else IN_SEND
    received[fill[RECEIVED], 0] = row
    received[fill[RECEIVED], 1] = where
    fill[RECEIVED] += U64(1)
    return GOOD


@kernel
def atomic(record, pair, where, operation, regions, replay, verbs, answers, fill):
    """Turn an atomic operation into a verb, and an answer whose value `finish` sets; returns the reason
    (9.7.4.1.7).
    """
    if record.payload_bytes:
        return BAD_LENGTH
    row, reason = region_of(record, regions, U64(8), U64(Access.ATOMIC))
    if reason != GOOD:
        return reason
    offset = U64(record.address) - U64(regions[row].base)
    # checks the address on the wire, as the specification requires, and the offset in memory, since the
    # operation works on one word of 8 bytes
    if (U64(record.address) | offset) & U64(7):
        return MISALIGNED
    kind = U8(Verb.FETCH_ADD) if operation == FETCH_ADD else U8(Verb.CMP_SWAP)
    done = put_verb(verbs, fill, kind, regions[row].target, offset, U64(8), U64(0))
    verbs[done].value = record.value
    verbs[done].compare = record.compare
    pair.message = (U64(pair.message) + U64(1)) & PSN_MASK
    slot = where * U64(REPLAYS) + U64(pair.atomics) % U64(REPLAYS)
    pair.atomics = U64(pair.atomics) + U64(1)
    replay[slot].psn = record.psn
    replay[slot].used = 1
    answer = put_answer(answers, fill, pair, ATOMIC_ACK, U64(Syndrome.ACK), U64(record.psn))
    answers[answer].address = slot
    answers[answer].compare = done + U64(1)
    return GOOD


@kernel
def notice(record, pair, bits, notices, fill, now_ns):
    """Append a notice about a write with immediate data, or a solicited one."""
    row = fill[NOTICES]
    notices[row].time_ns = now_ns
    notices[row].address = pair.begin
    notices[row].length = pair.length
    notices[row].immediate = U64(record.immediate) if bits & IMMEDIATE else U64(0)
    notices[row].queue_pair = pair.number
    notices[row].target = pair.target
    flags = U64(NoticeFlag.IMMEDIATE) if bits & IMMEDIATE else U64(0)
    if record.flags & U8(RoceFlag.SOLICITED):
        flags |= U64(NoticeFlag.SOLICITED)
    notices[row].flags = flags
    notices[row].spare = 0
    fill[NOTICES] += U64(1)


@kernel
def request(
    record, row, pair, where, operation, regions, replay, verbs, answers, notices, received, fill, now_ns
):
    """Process the expected request; returns the reason."""
    if operation == READ_REQUEST or operation > FETCH_ADD:
        return UNKNOWN_OPCODE
    reason = in_message(pair, operation)
    if reason != GOOD:
        return reason
    if operation >= READ_REQUEST:
        return atomic(record, pair, where, operation, regions, replay, verbs, answers, fill)
    bits = shape(operation)
    if bits & SEND:
        reason = send(record, row, pair, where, bits, received, fill)
    else:
        reason = write(record, pair, regions, bits, verbs, fill)
    if reason == GOOD and bits & LAST:
        pair.message = (U64(pair.message) + U64(1)) & PSN_MASK
        if not bits & SEND and (bits & IMMEDIATE or record.flags & U8(RoceFlag.SOLICITED)):
            notice(record, pair, bits, notices, fill, now_ns)
    return reason
