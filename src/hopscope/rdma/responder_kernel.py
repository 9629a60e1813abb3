"""The receiving side of queue pairs: requests to verbs and answers (InfiniBand 9.6, 9.7.4, 9.7.5).

A batch takes three passes: `check` makes verbs and answers, `apply_kernel` executes the verbs, and `finish`
puts the results of atomic operations into their answers. A rejected request changes no memory.
"""

from ..base.kernels.jit import U8, U64, kernel
from ..wire.reasons import RoceReason
from ..wire.roce.records import Opcode, RoceFlag
from . import request_kernel
from .records import GAP_PACKETS, REPLAYS, Due, PairState, Syndrome

HALF = U64(0x800000)
READY, ERROR, NO = U64(PairState.READY), U64(PairState.ERROR), U64(Due.NO)
DUPLICATE, GAP = U64(RoceReason.DUPLICATE), U64(RoceReason.PSN_GAP)
UNKNOWN_PAIR, BAD_PARTITION = U64(RoceReason.UNKNOWN_QUEUE_PAIR), U64(RoceReason.BAD_PARTITION)
ACK, CMP_SWAP = U64(Opcode.RC_ACK), U64(Opcode.RC_CMP_SWAP)


@kernel
def known(record, pair):
    """Whether the packet is for this queue pair, from its peer, of its partition and service."""
    if (
        U64(pair.number) != U64(record.queue_pair)
        or U64(pair.state) != READY
        or U64(record.source_hi) != U64(pair.peer_hi)
        or U64(record.source_lo) != U64(pair.peer_lo)
    ):
        return UNKNOWN_PAIR
    mine, its = U64(pair.partition), U64(record.partition)
    # the upper bit is full membership: two limited members may not talk (InfiniBand 10.9.3)
    if (mine ^ its) & U64(0x7FFF) or not (mine | its) & U64(0x8000):
        return BAD_PARTITION
    if U64(record.opcode) >> U64(5) != U64(pair.service):
        return request_kernel.UNKNOWN_OPCODE
    return request_kernel.GOOD


@kernel
def in_turn(record, pair, operation):
    """Whether this is the expected packet: by 9.7.1 for RC; UC continues after a gap with a new message."""
    psn = U64(record.psn) & request_kernel.PSN_MASK
    ahead = (psn - U64(pair.expected_psn)) & request_kernel.PSN_MASK
    if ahead == U64(0):
        return request_kernel.GOOD
    if U64(pair.service) != request_kernel.UC:
        return GAP if ahead < HALF else DUPLICATE
    pair.progress = request_kernel.IDLE
    pair.expected_psn = psn
    return (
        request_kernel.GOOD
        if operation < request_kernel.READ_REQUEST and request_kernel.shape(operation) & request_kernel.FIRST
        else GAP
    )


@kernel
def acknowledge(pair, where, dirty, fill):
    """Schedule an acknowledgment at the end of the batch, one for all requests until then."""
    if U64(pair.due) == NO:
        dirty[fill[request_kernel.DIRTY]] = where
        fill[request_kernel.DIRTY] += U64(1)
    pair.due = request_kernel.YES


@kernel
def replayed(record, pair, where, replay, answers, fill):
    """Answer a duplicate of an atomic operation with its stored result; a duplicate that is too old gets no
    answer.
    """
    first, newest = where * U64(REPLAYS), U64(pair.atomics) + U64(REPLAYS - 1)
    for back in range(U64(REPLAYS)):  # numbers wrap, so the newest comes first
        slot = first + (newest - back) % U64(REPLAYS)
        if replay[slot].used and U64(replay[slot].psn) == U64(record.psn):
            answer = request_kernel.put_answer(
                answers, fill, pair, request_kernel.ATOMIC_ACK, U64(Syndrome.ACK), U64(record.psn)
            )
            answers[answer].address = slot
            return


@kernel
def reject(record, pair, where, operation, reason, replay, answers, dirty, fill):
    """Answer a request that is not executed (9.7.5.1, 9.9.3)."""
    if U64(pair.service) == request_kernel.UC:
        pair.progress = request_kernel.IDLE
        pair.expected_psn = (U64(record.psn) + U64(1)) & request_kernel.PSN_MASK
    elif reason == DUPLICATE:
        if operation == CMP_SWAP or operation == request_kernel.FETCH_ADD:
            replayed(record, pair, where, replay, answers, fill)
        else:
            acknowledge(pair, where, dirty, fill)
    elif reason == GAP:
        if U64(pair.after_gap) % U64(GAP_PACKETS) == U64(0):
            request_kernel.put_answer(
                answers, fill, pair, ACK, U64(Syndrome.SEQUENCE_ERROR), U64(pair.expected_psn)
            )
        pair.after_gap = (U64(pair.after_gap) + U64(1)) & U64(0xFFFF)
    elif reason == request_kernel.NOT_READY:
        request_kernel.put_answer(answers, fill, pair, ACK, U64(Syndrome.NOT_READY), U64(pair.expected_psn))
    else:
        denied = (
            reason == request_kernel.BAD_KEY
            or reason == request_kernel.OUTSIDE
            or reason == request_kernel.NO_ACCESS
        )
        code = U64(Syndrome.ACCESS_ERROR) if denied else U64(Syndrome.INVALID_REQUEST)
        request_kernel.put_answer(answers, fill, pair, ACK, code, U64(pair.expected_psn))
        pair.state = ERROR


@kernel
def check(records, pairs, regions, replay, verbs, answers, notices, received, dirty, fill, counts, now_ns):
    """Turn the requests of a batch, in order, into verbs, answers, notices and messages; sets `reason` of
    rejected ones.

    `counts`: uint64 by RoceReason, executed requests at NONE. Rows that are not requests of a connection
    (answers, CNP, datagrams) are skipped; rows with a reason are only counted. The outputs must have room for
    one record per row; `answers` for one more per row of `dirty`, which has as many rows as `pairs`.
    """
    for i in range(len(records)):
        row = U64(i)
        record = records[row]
        if record.reason:
            counts[U64(record.reason)] += U64(1)
            continue
        opcode = U64(record.opcode)
        operation = opcode & U64(31)
        if opcode >= U64(64) or request_kernel.READ_REQUEST < operation <= request_kernel.ATOMIC_ACK:
            continue
        where = U64(record.queue_pair) & U64(len(pairs) - 1)
        pair = pairs[where]
        reason = known(record, pair)
        if reason == request_kernel.GOOD:
            reason = in_turn(record, pair, operation)
            if reason == request_kernel.GOOD:
                reason = request_kernel.request(
                    record, row, pair, where, operation, regions, replay, verbs, answers, notices, received,
                    fill, now_ns,
                )  # fmt: skip
            if reason == request_kernel.GOOD:
                pair.expected_psn = (U64(record.psn) + U64(1)) & request_kernel.PSN_MASK
                pair.after_gap = 0
                if record.flags & U8(RoceFlag.ACK_REQUEST) and operation < request_kernel.READ_REQUEST:
                    if U64(pair.service) != request_kernel.UC:
                        acknowledge(pair, where, dirty, fill)
            else:
                reject(record, pair, where, operation, reason, replay, answers, dirty, fill)
        record.reason = reason
        counts[reason] += U64(1)
    for i in range(fill[request_kernel.DIRTY]):
        pair = pairs[U64(dirty[U64(i)])]
        if U64(pair.due) == request_kernel.YES:
            request_kernel.put_answer(
                answers, fill, pair, ACK, U64(Syndrome.ACK), U64(pair.expected_psn) - U64(1)
            )
        pair.due = NO


@kernel
def finish(answers, fill, verbs, replay):
    """Put the results of atomic operations into their answers, and store them for duplicates; in order."""
    for i in range(fill[request_kernel.ANSWERS]):
        answer = answers[U64(i)]
        if U64(answer.opcode) != request_kernel.ATOMIC_ACK:
            continue
        slot = U64(answer.address)
        if answer.compare:
            replay[slot].value = verbs[U64(answer.compare) - U64(1)].result
        answer.value = replay[slot].value
        answer.address = 0
        answer.compare = 0
