"""Verbs to packets (InfiniBand 9.7.2), which a requester keeps until they are acknowledged. Packets are ROCE
records in a ring, numbered from 0; a packet's row is its number modulo the ring's length. Their payload is in
a ring of bytes.

Parameters: `verbs`: VERB; `payload`: uint8, payload of verbs; `targets`: REMOTE; `ring`: ROCE [packets];
`sent`: SENT [packets]; `memory`: uint8, payload of all packets; `state`, `setup`: uint64, indexed by Sender
and SenderSetup.
"""

from ..base.kernels.jit import I64, U64, kernel
from ..wire.roce.records import Opcode
from .records import Access, Mark, Sender, SenderSetup, Service, Verb, VerbFlag

ACKED = U64(Sender.ACKED)
TAIL = U64(Sender.TAIL)
BYTES = U64(Sender.BYTES)
OFFSET = U64(Sender.OFFSET)
VERBS = U64(Sender.VERBS)
REJECTED = U64(Sender.REJECTED)
PEER_HI = U64(SenderSetup.PEER_HI)
PEER_LO = U64(SenderSetup.PEER_LO)
PEER_NUMBER = U64(SenderSetup.PEER_NUMBER)
PARTITION = U64(SenderSetup.PARTITION)
SERVICE = U64(SenderSetup.SERVICE)
MTU = U64(SenderSetup.MTU)
RELIABLE = U64(SenderSetup.RELIABLE)
LAST = U64(Mark.LAST)
ATOMIC = U64(Mark.ATOMIC)
WRITE = U64(Verb.WRITE)
FETCH_ADD = U64(Verb.FETCH_ADD)
CMP_SWAP = U64(Verb.CMP_SWAP)
SEND = U64(Verb.SEND)
IMMEDIATE = U64(VerbFlag.IMMEDIATE)
UC = U64(Service.UC)


@kernel
def allowed(verb, targets, setup):
    """Whether the peer's memory accepts the verb: a rejected verb would end the connection."""
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
        return False  # the rest of a message that is cut by a loss would be an invalid request
    if kind == WRITE:
        return U64(remote.access) & U64(Access.WRITE) != U64(0)
    return (
        setup[SERVICE] != UC
        and U64(remote.access) & U64(Access.ATOMIC) != U64(0)
        and (at | (U64(remote.base) + at)) & U64(7) == U64(0)
    )


@kernel
def place(state, sent, size, length):
    """Position of `length` contiguous bytes in the ring of bytes, counted from 0.

    Without room: a position beyond tail + `size`, which is never valid.
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
def put_packet(ring, sent, state, setup, opcode, verb, last):
    """Write the common fields of the packet at the tail; returns its row."""
    slot = state[TAIL] % U64(len(ring))
    packet = ring[slot]
    packet.opcode = opcode + (setup[SERVICE] << U64(5))
    packet.source_hi, packet.source_lo = setup[PEER_HI], setup[PEER_LO]
    packet.queue_pair = setup[PEER_NUMBER]
    packet.partition = setup[PARTITION]
    packet.immediate = verb.immediate
    packet.address, packet.key, packet.length = U64(0), U64(0), U64(0)
    packet.payload_at, packet.payload_bytes = U64(0), U64(0)
    sent[slot].marks = LAST if last else U64(0)
    sent[slot].end = state[BYTES]
    state[TAIL] += U64(1)
    return slot


@kernel
def put_atomic(verb, targets, ring, sent, state, setup):
    """Write the packet of an atomic operation, or of the empty write after it that carries its immediate
    data.
    """
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
def put_part(verb, payload, targets, ring, sent, memory, state, setup):
    """Write the next packet of a write or message; False if there is no room for its bytes."""
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
def enqueue(verbs, first, count, payload, targets, ring, sent, memory, state, setup):
    """Turn verbs `first` to `count` (excluded) into packets while there is room; returns the first remaining
    verb.
    """
    row = U64(first)
    while row < U64(count):
        verb = verbs[row]
        if state[OFFSET] == U64(0) and not allowed(verb, targets, setup):
            state[REJECTED] += U64(1)
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
