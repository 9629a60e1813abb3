"""The sending side of a queue pair, compiled: verbs to packets, and what answers say (InfiniBand 9.7.5.2).

Packets are ROCE records in a ring, numbered from 0 for ever; a packet's place is its number modulo the ring's
length. Those that are reliable stay until they are acknowledged, their payload in a ring of bytes.
"""

from __future__ import annotations

from typing import Any

from ..jit import I64, U64, kernel
from ..wire.records import Opcode, RoceFlag
from .records import Access, Mark, Sender, SenderSetup, Service, Syndrome, Verb, VerbFlag

ACKED, NEXT, HIGHEST, TAIL = U64(Sender.ACKED), U64(Sender.NEXT), U64(Sender.HIGHEST), U64(Sender.TAIL)
PSN, BYTES, OFFSET, ATOMICS = U64(Sender.PSN), U64(Sender.BYTES), U64(Sender.OFFSET), U64(Sender.ATOMICS)
FAILED, RESULTS, WAIT, CNP = U64(Sender.FAILED), U64(Sender.RESULTS), U64(Sender.WAIT), U64(Sender.CNP)
VERBS, COMPLETED, REFUSED = U64(Sender.VERBS), U64(Sender.COMPLETED), U64(Sender.REFUSED)
PACKETS, RETRANSMITTED, ACKS = U64(Sender.PACKETS), U64(Sender.RETRANSMITTED), U64(Sender.ACKS)
SEQUENCE_NAKS, OTHER_NAKS, NOT_READY = (
    U64(Sender.SEQUENCE_NAKS),
    U64(Sender.OTHER_NAKS),
    U64(Sender.NOT_READY),
)
STALE, RESYNCS, ABANDONED, CNPS = (
    U64(Sender.STALE),
    U64(Sender.RESYNCS),
    U64(Sender.ABANDONED),
    U64(Sender.CNPS),
)
PEER_HI, PEER_LO, NUMBER = U64(SenderSetup.PEER_HI), U64(SenderSetup.PEER_LO), U64(SenderSetup.NUMBER)
PEER_NUMBER, PARTITION = U64(SenderSetup.PEER_NUMBER), U64(SenderSetup.PARTITION)
SERVICE, MTU, WINDOW = U64(SenderSetup.SERVICE), U64(SenderSetup.MTU), U64(SenderSetup.WINDOW)
MOST_ATOMICS, EVERY = U64(SenderSetup.ATOMICS), U64(SenderSetup.EVERY)
RELIABLE, WANTED = U64(SenderSetup.RELIABLE), U64(SenderSetup.RESULTS)
LAST, ATOMIC, ANSWERED = U64(Mark.LAST), U64(Mark.ATOMIC), U64(Mark.ANSWERED)
WRITE, FETCH_ADD, CMP_SWAP, SEND = U64(Verb.WRITE), U64(Verb.FETCH_ADD), U64(Verb.CMP_SWAP), U64(Verb.SEND)
IMMEDIATE = U64(VerbFlag.IMMEDIATE)
UC = U64(Service.UC)
ACK, ATOMIC_ACK, NOTIFICATION = U64(Opcode.RC_ACK), U64(Opcode.RC_ATOMIC_ACK), U64(Opcode.CNP)
SEQUENCE_ERROR, RNR = U64(Syndrome.SEQUENCE_ERROR), U64(Syndrome.NOT_READY)
PSN_MASK = U64(0xFFFFFF)


@kernel
def allowed(verb: Any, targets: Any, setup: Any) -> Any:
    """Whether the peer's memory takes the verb: what it would refuse would end the connection."""
    kind, target = U64(verb.kind), U64(verb.target)
    if kind == SEND:
        return U64(verb.length) <= U64(65_536)
    if kind < WRITE or kind > CMP_SWAP or target >= U64(len(targets)):
        return False
    remote = targets[target]
    at, size = U64(verb.address), U64(remote.length)
    length = U64(verb.length) if kind == WRITE else U64(8)
    if at > size or length > size - at or length > U64(1 << 31):
        return False
    if length > setup[MTU] and setup[SERVICE] != UC and not setup[RELIABLE]:
        return False  # the rest of a message that is cut by a loss would be a request that makes no sense
    if kind == WRITE:
        return U64(remote.access) & U64(Access.WRITE) != U64(0)
    return (
        setup[SERVICE] != UC
        and U64(remote.access) & U64(Access.ATOMIC) != U64(0)
        and (at | (U64(remote.base) + at)) & U64(7) == U64(0)
    )


@kernel
def place(state: Any, sent: Any, size: Any, length: Any) -> Any:
    """Where `length` bytes go in the ring of bytes, all behind each other, counted from 0 for ever; or none.

    None: `size`-th place beyond the tail, which is never a place.
    """
    tail = state[BYTES]
    if state[ACKED] == state[TAIL]:
        head = tail
    elif state[ACKED] == U64(0):
        head = U64(0)
    else:
        head = U64(sent[(state[ACKED] - U64(1)) % U64(len(sent))].end)
    at = tail
    if at % size + length > size:
        at += size - at % size
    return at if at + length - head <= size else tail + size + size


@kernel
def put_packet(ring: Any, sent: Any, state: Any, setup: Any, opcode: Any, verb: Any, last: Any) -> Any:
    """The packet at the tail, all but what is its own; its place."""
    slot = state[TAIL] % U64(len(ring))
    packet = ring[slot]
    packet.opcode = opcode + (setup[SERVICE] << U64(5))
    packet.source_hi, packet.source_lo = setup[PEER_HI], setup[PEER_LO]
    packet.queue_pair = setup[PEER_NUMBER]
    packet.partition = setup[PARTITION]
    packet.immediate = verb.immediate
    packet.address, packet.key, packet.length = U64(0), U64(0), U64(0)
    packet.payload_at, packet.payload_bytes = U64(0), U64(0)
    sent[slot].verb = state[VERBS]
    sent[slot].marks = LAST if last else U64(0)
    sent[slot].end = state[BYTES]
    state[TAIL] += U64(1)
    return slot


@kernel
def put_atomic(verb: Any, targets: Any, ring: Any, sent: Any, state: Any, setup: Any) -> None:
    """An atomic operation, and behind it the empty write that brings its immediate data; one at a time."""
    immediate = U64(verb.flags) & IMMEDIATE != U64(0)
    if state[OFFSET]:
        put_packet(ring, sent, state, setup, U64(0x0B), verb, True)
        state[OFFSET] = U64(0)
        return
    opcode = U64(Opcode.RC_FETCH_ADD) if U64(verb.kind) == FETCH_ADD else U64(Opcode.RC_CMP_SWAP)
    slot = put_packet(ring, sent, state, setup, opcode, verb, not immediate)
    sent[slot].marks = U64(sent[slot].marks) | ATOMIC
    remote = targets[U64(verb.target)]
    ring[slot].address, ring[slot].key = U64(remote.base) + U64(verb.address), remote.key
    ring[slot].value, ring[slot].compare = verb.value, verb.compare
    state[OFFSET] = U64(1) if immediate else U64(0)


@kernel
def put_part(verb: Any, payload: Any, targets: Any, ring: Any, sent: Any, memory: Any, state: Any,
             setup: Any) -> Any:  # fmt: skip
    """The next packet of a write or message; False where there is no room for its bytes."""
    done, length = state[OFFSET], U64(verb.length)
    part = min(length - done, setup[MTU])
    size = U64(len(memory))
    at = place(state, sent, size, part)
    if at > state[BYTES] + size:
        return False
    first, last, writes = done == U64(0), done + part == length, U64(verb.kind) == WRITE
    if first:
        opcode = U64(4) if last else U64(0)
    else:
        opcode = U64(2) if last else U64(1)
    if last and U64(verb.flags) & IMMEDIATE:
        opcode += U64(1)
    if writes:
        opcode += U64(6)
    state[BYTES] = at + part
    slot = put_packet(ring, sent, state, setup, opcode, verb, last)
    packet = ring[slot]
    if writes and first:
        remote = targets[U64(verb.target)]
        packet.address, packet.key = U64(remote.base) + U64(verb.address), remote.key
        packet.length = length
    packet.payload_at, packet.payload_bytes = at % size, part
    to, source = at % size, U64(verb.payload_at) + done
    for i in range(part):
        memory[to + i] = payload[source + i]
    state[OFFSET] = U64(0) if last else done + part
    return True


@kernel
def enqueue(verbs: Any, first: Any, count: Any, payload: Any, targets: Any, ring: Any, sent: Any,
            memory: Any, state: Any, setup: Any) -> Any:  # fmt: skip
    """Verbs `first` to `count` (excluded) to packets while there is room; the first that is not done.

    `verbs` VERB [n], `payload` uint8, `targets` REMOTE [targets], `ring` ROCE [packets], `sent` SENT
    [packets], `memory` uint8 [payload of all packets], `state` and `setup` as Sender and SenderSetup say.
    """
    row = U64(first)
    while row < U64(count):
        verb = verbs[row]
        if state[OFFSET] == U64(0) and not allowed(verb, targets, setup):
            state[REFUSED] += U64(1)
            state[VERBS] += U64(1)
            row += U64(1)
            continue
        if state[TAIL] - state[ACKED] >= U64(len(ring)):
            return I64(row)
        kind = U64(verb.kind)
        if kind == FETCH_ADD or kind == CMP_SWAP:
            put_atomic(verb, targets, ring, sent, state, setup)
        elif not put_part(verb, payload, targets, ring, sent, memory, state, setup):
            return I64(row)
        if state[OFFSET] == U64(0):
            state[VERBS] += U64(1)
            row += U64(1)
    return I64(row)


@kernel
def pick(ring: Any, sent: Any, state: Any, setup: Any, most: Any) -> Any:
    """Give numbers to the packets that may be sent now, up to `most`; how many, from the place of NEXT on.

    They lie behind each other: the ring's end ends them. Packets of an unreliable requester are forgotten.
    """
    begin, reliable = state[NEXT], setup[RELIABLE] != U64(0)
    end = min(state[TAIL], begin + U64(most))
    end = min(end, begin + U64(len(ring)) - begin % U64(len(ring)))
    if reliable:
        end = min(end, max(begin, state[ACKED] + setup[WINDOW]))
    at = begin
    while at < end:
        slot = at % U64(len(ring))
        packet = ring[slot]
        if reliable and U64(sent[slot].marks) & ATOMIC:
            if state[ATOMICS] >= setup[MOST_ATOMICS]:
                break
            state[ATOMICS] += U64(1)
        packet.psn = (state[PSN] + at) & PSN_MASK
        packet.flags = U64(RoceFlag.ACK_REQUEST) if reliable and (at + U64(1)) % setup[EVERY] == 0 else U64(0)
        at += U64(1)
    count = at - begin
    if count and reliable:
        ring[(at - U64(1)) % U64(len(ring))].flags = U64(RoceFlag.ACK_REQUEST)
    state[PACKETS] += count
    if begin < state[HIGHEST]:
        state[RETRANSMITTED] += min(at, state[HIGHEST]) - begin
    state[NEXT] = at
    state[HIGHEST] = max(state[HIGHEST], at)
    if not reliable:
        for i in range(begin, at):
            if U64(sent[i % U64(len(sent))].marks) & LAST:
                state[COMPLETED] += U64(1)
        state[ACKED] = at
    return I64(count)


@kernel
def go_back(state: Any) -> None:
    """Send again from the first packet that has not been acknowledged."""
    state[NEXT] = state[ACKED]
    state[ATOMICS] = U64(0)


@kernel
def release(sent: Any, state: Any, setup: Any, until: Any) -> Any:
    """Forget packets in front of `until`; False where it stops at an atomic whose result is still to come."""
    at = state[ACKED]
    while at < until:
        marks = U64(sent[at % U64(len(sent))].marks)
        if marks & ATOMIC:
            if setup[WANTED] and not marks & ANSWERED:
                break
            if at < state[NEXT] and state[ATOMICS]:
                state[ATOMICS] -= U64(1)
        if marks & LAST:
            state[COMPLETED] += U64(1)
        at += U64(1)
    state[ACKED] = at
    state[NEXT] = max(state[NEXT], at)
    return at == until


@kernel
def result(packet: Any, at: Any, sent: Any, state: Any, setup: Any, results: Any) -> None:
    """Keep what an atomic found."""
    slot = at % U64(len(sent))
    marks = U64(sent[slot].marks)
    if not marks & ATOMIC or marks & ANSWERED or not setup[WANTED] or state[RESULTS] >= U64(len(results)):
        return
    sent[slot].marks = marks | ANSWERED
    results[state[RESULTS]].verb = sent[slot].verb
    results[state[RESULTS]].value = packet.value
    state[RESULTS] += U64(1)


@kernel
def nak(syndrome: Any, state: Any) -> None:
    """What a NAK asks for, when the packets in front of its number are done."""
    if syndrome & U64(0xE0) == RNR:
        state[NOT_READY] += U64(1)
        state[WAIT] = U64(1) + (syndrome & U64(31))
        go_back(state)
    elif syndrome == SEQUENCE_ERROR:
        state[SEQUENCE_NAKS] += U64(1)
        go_back(state)
    else:
        state[OTHER_NAKS] += U64(1)
        state[FAILED] = syndrome


@kernel
def resynchronise(psn: Any, state: Any) -> None:
    """DTA 5.2: the next packet gets the number that the responder expects; what was lost stays lost."""
    psn = U64(psn) & PSN_MASK
    behind = (state[PSN] + state[NEXT] - psn) & PSN_MASK
    if behind < U64(0x800000):  # or an old answer came late
        state[ABANDONED] += behind
    state[PSN] = (psn - state[NEXT]) & PSN_MASK
    state[RESYNCS] += U64(1)


@kernel
def unasked(packet: Any, syndrome: Any, state: Any) -> None:
    """What a responder says to a requester that waits for nothing, and asks for no acknowledgments.

    A NAK names the number that is expected. An ACK comes only to what looks like a duplicate, when an old
    NAK was late: what is expected is behind it.
    """
    if syndrome == SEQUENCE_ERROR:
        state[SEQUENCE_NAKS] += U64(1)
        resynchronise(packet.psn, state)
    elif syndrome < RNR:
        state[ACKS] += U64(1)
        resynchronise(U64(packet.psn) + U64(1), state)
    else:
        nak(syndrome, state)


@kernel
def answers(records: Any, sent: Any, state: Any, setup: Any, results: Any) -> None:
    """Take the answers to this requester out of a batch of parsed packets; the others are left alone."""
    for i in range(len(records)):
        packet = records[U64(i)]
        opcode = U64(packet.opcode)
        if packet.reason or (opcode != ACK and opcode != ATOMIC_ACK and opcode != NOTIFICATION):
            continue
        if (
            U64(packet.queue_pair) != setup[NUMBER]
            or U64(packet.source_hi) != setup[PEER_HI]
            or U64(packet.source_lo) != setup[PEER_LO]
            or (U64(packet.partition) ^ setup[PARTITION]) & U64(0x7FFF)
        ):
            continue
        if opcode == NOTIFICATION:
            state[CNP] += U64(1)
            state[CNPS] += U64(1)
            continue
        syndrome = U64(packet.syndrome)
        if not setup[RELIABLE]:
            if setup[SERVICE] != UC and opcode == ACK:
                unasked(packet, syndrome, state)
            continue
        done = opcode == ATOMIC_ACK or syndrome < RNR  # up to and with its number, or only in front of it
        ahead = (U64(packet.psn) - state[PSN] - state[ACKED]) & PSN_MASK
        flying = state[HIGHEST] - state[ACKED]
        if ahead > flying or (done and ahead == flying):
            state[STALE] += U64(1)  # answered before, or a number that was never sent
            continue
        at = state[ACKED] + ahead
        if opcode == ATOMIC_ACK:
            result(packet, at, sent, state, setup, results)
        state[ACKS] += U64(1) if done else U64(0)
        if not release(sent, state, setup, at + U64(1) if done else at):
            go_back(state)
        elif not done:
            nak(syndrome, state)
