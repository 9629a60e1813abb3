"""The sending side of a queue pair: verbs in, packets out, answers in (InfiniBand 9.7.5.2, DTA 5.2)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from ..wire.records import Records
from ..wire.roce.records import ROCE
from .counters import SENDER_INDEX
from .queue_pair import DEFAULT_PARTITION, PSN_MASK
from .records import (
    REMOTE,
    SENDER_SETUP,
    SENDER_SLOTS,
    SENT_PACKET,
    Sender,
    SenderSetup,
    Service,
    Verb,
    VerbBlock,
)

BURST = 1024
"""Maximum packets of one call of `packets`."""
_NOT_READY_US = (
    655_360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1_280, 1_920, 2_560, 3_840, 5_120,
    7_680, 10_240, 15_360, 20_480, 30_720, 40_960, 61_440, 81_920, 122_880, 163_840, 245_760, 327_680,
    491_520,
)  # fmt: skip
"""Time to wait by the timer of an RNR NAK, us (InfiniBand, table 45)."""
_MAX_BACK_OFF = 9
_MIN_WINDOW, _PROBE = 128, 32


class LossMode(IntEnum):
    """Treatment of losses."""

    RELIABLE = 0
    """RC: packets are kept until they are acknowledged, and retransmitted in order."""
    RESYNC = 1
    """RC as in DTA 5.2: no packets are kept; a NAK sets the packet number, and the next verbs are dropped.

    Only verbs of one packet are possible, since a message that is cut by a loss would end the connection.
    """
    UNRELIABLE = 2
    """UC: no acknowledgments."""


@dataclass(frozen=True, slots=True)
class PeerLink:
    """Parameters of an established connection: the peer, and the first packet's number."""

    number: int
    """Own queue pair."""
    peer: tuple[int, int]
    """Address, IPv4 as ::ffff:a.b.c.d, in two halves."""
    peer_number: int
    first_psn: int = 0
    mtu: int = 1024
    """Path MTU: maximum payload bytes of a packet."""
    partition: int = DEFAULT_PARTITION


class Requester:
    """Sends verbs over one connection to the memory regions of its peer, which are its targets.

    Reliable: up to `window` packets, and `atomics` atomic operations, are in flight; an acknowledgment is
    requested every `every` packets and with the last of a burst. A congestion notification halves the window,
    a loss reduces it by an eighth, and acknowledgments open it again. Unacknowledged packets are
    retransmitted `timeout_ns` after the last progress, then after twice the time. After `retries`
    retransmissions, or an error NAK, the connection is lost: `failed` has the reason, and accepted verbs are
    given up and counted, since it is unknown which were executed. A new connection needs a new Requester.

    The result of an atomic operation is not read: it is complete when any later packet is acknowledged, and
    lost answers do not matter.
    """

    def __init__(
        self,
        link: PeerLink,
        *,
        mode: LossMode = LossMode.RELIABLE,
        window: int = 2048,
        atomics: int = 255,
        every: int = 64,
        timeout_ns: int = 4_200_000,
        retries: int = 10,
        resync_drop: int = 100_000,
        packets: int = 16384,
        payload_bytes: int = 2 << 20,
    ) -> None:
        self.link = link
        self.mode = mode
        self.failed = ""
        """Reason for which the connection is lost; empty while it is up."""
        self.dropped = 0
        """Verbs dropped after a resynchronisation."""
        self.timeouts = 0
        self._targets: Records = np.zeros(0, REMOTE)
        self._ring: Records = np.zeros(packets, ROCE)
        self._sent: Records = np.zeros(packets, SENT_PACKET)
        self._memory = np.zeros(max(payload_bytes, 2 * link.mtu), np.uint8)
        self._state = np.zeros(SENDER_SLOTS, np.uint64)
        self._state[Sender.PSN] = link.first_psn & PSN_MASK
        self._setup = np.zeros(SENDER_SETUP, np.uint64)
        for place, value in {
            SenderSetup.PEER_HI: link.peer[0],
            SenderSetup.PEER_LO: link.peer[1],
            SenderSetup.NUMBER: link.number,
            SenderSetup.PEER_NUMBER: link.peer_number,
            SenderSetup.PARTITION: link.partition,
            SenderSetup.SERVICE: Service.UC if mode is LossMode.UNRELIABLE else Service.RC,
            SenderSetup.MTU: link.mtu,
            SenderSetup.WINDOW: window,
            SenderSetup.ATOMICS: atomics,
            SenderSetup.EVERY: every,
            SenderSetup.RELIABLE: mode is LossMode.RELIABLE,
        }.items():
            self._setup[place] = value
        self._window = self._present = window
        self._probing = False
        self._timeout_ns = timeout_ns
        self._retries = retries
        self._tried = 0
        self._deadline_ns = 0
        self._resume_ns = 0
        self._resync_drop = resync_drop
        self._drop = 0
        self._given_up = 0
        self._waiting: deque[tuple[VerbBlock, int]] = deque()

    def add_target(self, base: int, length: int, key: int, access: int = 3) -> int:
        """Add an advertised memory region of the peer; returns its number, the `target` of verbs."""
        self._targets = np.append(self._targets, np.array([(base, length, key, access)], REMOTE))
        return len(self._targets) - 1

    def retarget(self, number: int, base: int, key: int) -> None:
        """Map a target to another region of the same length; waiting verbs still go to the old region."""
        spare = len(self._targets) // 2 + number
        self._targets[spare] = self._targets[number]
        for block, _ in self._waiting:
            targets = block.verbs["target"]
            targets[targets == number] = spare
        self._targets["base"][number], self._targets["key"][number] = base, key

    def add_spares(self) -> None:
        """Double the number of targets, so that each can be mapped to another region (`retarget`)."""
        self._targets = np.concatenate([self._targets, self._targets])

    @property
    def next_psn(self) -> int:
        """PSN of the next new packet."""
        return int(self._state[Sender.PSN] + self._state[Sender.TAIL]) & PSN_MASK

    def room(self) -> int:
        """Number of verbs, of one or two packets each, that it accepts now; 0 if the connection is busy or
        lost.
        """
        if self.failed or self._waiting:
            return 0
        state = self._state
        return (len(self._ring) - int(state[Sender.TAIL] - state[Sender.ACKED])) // 2

    def submit(self, block: VerbBlock) -> None:
        """Accept all verbs of the block; those without room are copied, and wait."""
        if self.failed:
            self._given_up += len(block)
            return
        skip = min(self._drop, len(block))
        self._drop -= skip
        self.dropped += skip
        done = skip if self._waiting else self._enqueue(block, skip)
        if done < len(block):
            rest = VerbBlock.of(0, 0)
            rest.verbs, rest.payload = block.filled[done:].copy(), block.payload.copy()
            rest.fill[0] = len(rest.verbs)
            self._waiting.append((rest, 0))

    def send(self, message: bytes) -> None:
        """Send a message into a buffer that the peer has posted (SEND)."""
        block = VerbBlock.of(1, len(message))
        block.payload[:] = np.frombuffer(message, np.uint8)
        block.verbs[0]["kind"], block.verbs[0]["length"] = Verb.SEND, len(message)
        block.fill[:] = 1, len(message)
        self.submit(block)

    @property
    def idle(self) -> bool:
        """Whether nothing waits to be sent or acknowledged."""
        return not self._waiting and self._state[Sender.ACKED] == self._state[Sender.TAIL]

    @property
    def in_flight(self) -> int:
        """Number of unacknowledged packets."""
        return int(self._state[Sender.NEXT] - self._state[Sender.ACKED])

    def packets(self, now_ns: int) -> tuple[Records, npt.NDArray[np.uint8]] | None:
        """Packets to send now, ROCE, and the payload to which they refer; None: no packets.

        Valid until the next call of any method. `now_ns`: monotonic. Call this until it returns None, then
        after every `receive`, and every millisecond.
        """
        from ..base.kernels.jit import readonly
        from .requester_kernel import pick

        if self.failed:
            return None
        self._refill()
        state = self._state
        if now_ns < self._resume_ns:
            return None
        waits = state[Sender.NEXT] > state[Sender.ACKED]
        if waits and now_ns >= self._deadline_ns and not self._timed_out(now_ns):
            return None
        begin = int(state[Sender.NEXT]) % len(self._ring)
        count = int(pick(self._ring, self._sent, state, self._setup, np.uint64(BURST)))
        if not count:
            return None
        if not waits:
            self._deadline_ns = now_ns + (self._timeout_ns << min(self._tried, _MAX_BACK_OFF))
        return readonly(self._ring[begin : begin + count]), readonly(self._memory)

    def receive(self, records: Records, now_ns: int) -> None:
        """Process the answers to this connection in a batch of parsed packets (`wire.roce.frames`)."""
        from ..base.kernels.jit import readonly
        from .requester_kernel import answers

        if self.failed:
            return
        state = self._state
        before, resyncs, naks = state[Sender.ACKED], state[Sender.RESYNCS], state[Sender.SEQUENCE_NAKS]
        answers(readonly(records), self._sent, state, self._setup)
        if state[Sender.ACKED] != before:
            self._tried = 0
            self._deadline_ns = now_ns + self._timeout_ns
            self._probing = False
            self._open(int(state[Sender.ACKED] - before) // 4)
        if state[Sender.RESYNCS] != resyncs:
            self._drop = self._resync_drop
        if state[Sender.WAIT]:
            self._resume_ns = now_ns + 1000 * _NOT_READY_US[int(state[Sender.WAIT]) - 1]
            state[Sender.WAIT] = 0
        if state[Sender.CNP]:
            state[Sender.CNP] = 0
            self._open(-self._present // 2)
        elif state[Sender.SEQUENCE_NAKS] != naks:  # converges to twice the packets between two losses
            self._open(-self._present // 8)
        if state[Sender.FAILED]:
            self._fail(f"the peer rejected a request (NAK {int(state[Sender.FAILED]):#04x})")
        self._refill()

    def _open(self, packets: int) -> None:
        """Change the window by a number of packets. After a timeout only a few packets are sent until one is
        answered, since the peer may just be slow and have received the others.
        """
        self._present = min(max(self._present + packets, _MIN_WINDOW), self._window)
        self._setup[SenderSetup.WINDOW] = min(self._present, _PROBE) if self._probing else self._present

    def counts(self) -> dict[str, int]:
        """Counters by key of `counters.COUNTERS`."""
        own = {
            "timeouts_total": self.timeouts,
            "dropped_verbs_total": self.dropped,
            "given_up_verbs_total": self._given_up,
        }
        places = {key: int(self._state[place]) for key, place in SENDER_INDEX.items()}
        return {**places, **own}

    def give_up(self, why: str) -> None:
        """Mark the connection as lost for an external reason."""
        if not self.failed:
            self._fail(why)

    def _enqueue(self, block: VerbBlock, first: int) -> int:
        """Turn verbs from `first` on into packets; returns the first verb that must wait."""
        from ..base.kernels.jit import readonly
        from .packets_kernel import enqueue

        done = enqueue(
            readonly(block.verbs), np.uint64(first), np.uint64(len(block)), readonly(block.payload),
            readonly(self._targets), self._ring, self._sent, self._memory, self._state, self._setup,
        )  # fmt: skip
        return int(done)

    def _refill(self) -> None:
        """Enqueue waiting verbs while there is room."""
        while self._waiting:
            block, first = self._waiting[0]
            done = self._enqueue(block, first)
            if done < len(block):
                self._waiting[0] = (block, done)
                return
            self._waiting.popleft()

    def _timed_out(self, now_ns: int) -> bool:
        """Go back to the first unacknowledged packet; False after too many retries."""
        from .requester_kernel import go_back

        self.timeouts += 1
        self._tried += 1
        if self._tried > self._retries:
            self._fail(f"no answer, {self._retries} times")
            return False
        go_back(self._state)
        self._probing = True
        self._open(0)
        self._deadline_ns = now_ns + (self._timeout_ns << min(self._tried, _MAX_BACK_OFF))
        return True

    def _fail(self, why: str) -> None:
        self.failed = why
        state = self._state
        waiting = sum(len(block) - first for block, first in self._waiting)
        taken = int(state[Sender.VERBS] - state[Sender.REJECTED] - state[Sender.COMPLETED])
        # a verb counts as accepted with its last packet: a partly sent one is the first that waits
        self._given_up += taken + waiting
        self._waiting.clear()
        state[Sender.TAIL] = state[Sender.NEXT] = state[Sender.HIGHEST] = state[Sender.ACKED]
