"""The sending side of a queue pair: chooses packets to send, and processes answers (InfiniBand 9.7.5.2).

Reliable packets stay in the ring of `packets_kernel` until they are acknowledged; its parameters apply here,
too.
"""

from ..base.kernels.jit import I64, U64, kernel
from ..wire.roce.records import Opcode, RoceFlag
from .packets_kernel import ACKED, ATOMIC, LAST, PARTITION, PEER_HI, PEER_LO, RELIABLE, SERVICE, TAIL, UC
from .records import Sender, SenderSetup, Syndrome

NEXT = U64(Sender.NEXT)
HIGHEST = U64(Sender.HIGHEST)
PSN = U64(Sender.PSN)
ATOMICS = U64(Sender.ATOMICS)
FAILED = U64(Sender.FAILED)
WAIT = U64(Sender.WAIT)
CNP = U64(Sender.CNP)
COMPLETED = U64(Sender.COMPLETED)
PACKETS = U64(Sender.PACKETS)
RETRANSMITTED = U64(Sender.RETRANSMITTED)
ACKS = U64(Sender.ACKS)
SEQUENCE_NAKS = U64(Sender.SEQUENCE_NAKS)
OTHER_NAKS = U64(Sender.OTHER_NAKS)
NOT_READY = U64(Sender.NOT_READY)
STALE = U64(Sender.STALE)
RESYNCS = U64(Sender.RESYNCS)
ABANDONED = U64(Sender.ABANDONED)
CNPS = U64(Sender.CNPS)
NUMBER = U64(SenderSetup.NUMBER)
WINDOW = U64(SenderSetup.WINDOW)
MAX_ATOMICS = U64(SenderSetup.ATOMICS)
EVERY = U64(SenderSetup.EVERY)
ACK = U64(Opcode.RC_ACK)
ATOMIC_ACK = U64(Opcode.RC_ATOMIC_ACK)
NOTIFICATION = U64(Opcode.CNP)
SEQUENCE_ERROR = U64(Syndrome.SEQUENCE_ERROR)
RNR = U64(Syndrome.NOT_READY)
PSN_MASK = U64(0xFFFFFF)


@kernel
def pick(ring, sent, state, setup, most):
    """Number the packets that may be sent now, up to `most`; returns their count, from the row of NEXT on.

    They are contiguous up to the ring's end. Packets of an unreliable requester are released at once.
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
            if state[ATOMICS] >= setup[MAX_ATOMICS]:
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
def go_back(state):
    """Restart sending at the first unacknowledged packet."""
    state[NEXT] = state[ACKED]
    state[ATOMICS] = U64(0)


@kernel
def release(sent, state, until):
    """Release packets before `until`."""
    at = state[ACKED]
    while at < until:
        marks = U64(sent[at % U64(len(sent))].marks)
        if marks & ATOMIC and at < state[NEXT] and state[ATOMICS]:
            state[ATOMICS] -= U64(1)
        if marks & LAST:
            state[COMPLETED] += U64(1)
        at += U64(1)
    state[ACKED] = at
    state[NEXT] = max(state[NEXT], at)


@kernel
def nak(syndrome, state):
    """Process a NAK, after the packets before its number are released."""
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
def resynchronise(psn, state):
    """DTA 5.2: the next packet gets the number that the responder expects; lost packets stay lost."""
    psn = U64(psn) & PSN_MASK
    skipped = (state[PSN] + state[NEXT] - psn) & PSN_MASK
    if skipped < U64(0x800000):  # otherwise an old answer arrived late
        state[ABANDONED] += skipped
    state[PSN] = (psn - state[NEXT]) & PSN_MASK
    state[RESYNCS] += U64(1)


@kernel
def unsolicited(packet, syndrome, state):
    """Process an answer to a requester that does not request acknowledgments.

    A NAK has the expected number. An ACK answers an apparent duplicate, caused by an old NAK that came late:
    the number after it is expected.
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
def answers(records, sent, state, setup):
    """Process the answers to this requester in a batch of parsed packets; other packets are ignored."""
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
                unsolicited(packet, syndrome, state)
            continue
        done = opcode == ATOMIC_ACK or syndrome < RNR  # acknowledged including its number, or only before it
        ahead = (U64(packet.psn) - state[PSN] - state[ACKED]) & PSN_MASK
        flying = state[HIGHEST] - state[ACKED]
        if ahead > flying or (done and ahead == flying):
            state[STALE] += U64(1)  # already answered, or never sent
            continue
        at = state[ACKED] + ahead
        state[ACKS] += U64(1) if done else U64(0)
        release(sent, state, at + U64(1) if done else at)
        if not done:
            nak(syndrome, state)
