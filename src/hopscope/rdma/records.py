"""Memory operations (verbs): what a translator asks for, a packet carries, and a NIC executes."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from ..wire.records import Records


class Verb(IntEnum):
    """What is done to memory."""

    WRITE = 1
    FETCH_ADD = 2
    """Adds `value` to 8 bytes, little-endian; `result` is what was there."""
    CMP_SWAP = 3
    """Writes `value` into 8 bytes where they are `compare`; `result` is what was there."""
    SEND = 4
    """A message into a buffer that the peer has posted; only a requester takes it, no memory."""


class VerbFlag(IntEnum):
    """Bits of `flags` in VERB."""

    IMMEDIATE = 1
    """The owner of the memory is told, with `immediate` (an atomic: by an empty write behind it)."""
    REFUSED = 2
    """Outside its memory, or an atomic that is not aligned: nothing was done."""


VERB = np.dtype(
    [
        ("address", "<u8"),  # bytes from the start of the target's memory
        ("value", "<u8"),
        ("compare", "<u8"),
        ("result", "<u8"),
        ("payload_at", "<u4"),  # WRITE: its bytes in the block's payload
        ("length", "<u4"),
        ("immediate", "<u4"),
        ("target", "<u2"),  # which memory: an index into the transport's table
        ("kind", "u1"),
        ("flags", "u1"),
    ]
)
"""One memory operation, 48 bytes."""

COUNT, PAYLOAD = 0, 1
"""Places in `fill` of a block."""


@dataclass(slots=True)
class VerbBlock:
    """Memory operations in the order in which they are to be done, and the bytes that they write.

    It is allocated once; writers append, a transport takes what is there, `clear` empties it.
    """

    verbs: Records
    """VERB [room]."""
    payload: npt.NDArray[np.uint8]
    """uint8 [room]."""
    fill: npt.NDArray[np.uint64] = field(default_factory=lambda: np.zeros(2, np.uint64))
    """Verbs, and bytes of payload, that are there: uint64 [2]; kernels raise it."""

    @classmethod
    def of(cls, verbs: int, payload: int) -> VerbBlock:
        """An empty block with room for so many verbs and bytes."""
        return cls(np.zeros(verbs, VERB), np.zeros(payload, np.uint8))

    def __len__(self) -> int:
        return int(self.fill[COUNT])

    @property
    def filled(self) -> Records:
        """VERB [verbs that are there], a view."""
        return self.verbs[: len(self)]

    def clear(self) -> None:
        """Forget what is there; the memory is used again."""
        self.fill[:] = 0


class Service(IntEnum):
    """Kind of a queue pair; the upper 3 bits of its opcodes (InfiniBand 9.2.1)."""

    RC = 0
    """Reliable connection: acknowledged, in order, executed once."""
    UC = 1
    """Unreliable connection: what is lost stays lost; no atomics."""


class PairState(IntEnum):
    """What a queue pair does with packets."""

    CLOSED = 0
    READY = 1
    ERROR = 2
    """After a request that was refused: everything is dropped until a new connection is made."""


class Access(IntEnum):
    """Bits of what a memory region allows (InfiniBand 10.6.3.1)."""

    WRITE = 1
    ATOMIC = 2


class Syndrome(IntEnum):
    """Of an acknowledgment header (InfiniBand, tables 44 to 46)."""

    ACK = 0x1F
    """No information about credits."""
    NOT_READY = 0x20
    """Receiver not ready; the lower 5 bits are the time to wait."""
    SEQUENCE_ERROR = 0x60
    INVALID_REQUEST = 0x61
    ACCESS_ERROR = 0x62
    OPERATION_ERROR = 0x63


QUEUE_PAIR = np.dtype(
    [
        ("peer_hi", "<u8"),  # address of the other end, IPv4 as ::ffff:a.b.c.d
        ("peer_lo", "<u8"),
        ("offset", "<u8"),  # message in progress: where in its target the next packet's bytes go
        ("begin", "<u8"),  # where its first packet's went
        ("lost", "<u8"),  # UC: packets missing by their numbers
        ("remaining", "<u4"),  # bytes of it that are to come; SEND: that the buffer still takes
        ("length", "<u4"),  # bytes of all of it
        ("number", "<u4"),
        ("peer_number", "<u4"),
        ("expected_psn", "<u4"),
        ("message", "<u4"),  # MSN: messages completed, modulo 2^24
        ("receives", "<u4"),  # buffers posted for SENDs
        ("atomics", "<u4"),  # executed; the place of the next in the replay cache
        ("partition", "<u2"),
        ("mtu", "<u2"),  # path MTU, bytes of payload
        ("target", "<u2"),  # of the message in progress
        ("service", "u1"),
        ("state", "u1"),
        ("progress", "u1"),  # Progress
        ("due", "u1"),  # Due
        ("behind", "<u2"),  # packets dropped behind the present gap
    ]
)
"""One queue pair, its receiving side, 88 bytes."""


GAP_PACKETS = 1024
"""A gap is told by one NAK, and by one more after so many packets, since the first may be lost."""


class Progress(IntEnum):
    """Which message of several packets a queue pair is in."""

    NONE = 0
    WRITE = 1
    SEND = 2


class Due(IntEnum):
    """Whether an acknowledgment is due at the end of a batch."""

    NO = 0
    YES = 1
    ANSWERED = 2
    """It was, but an answer that was sent meanwhile said as much."""


REPLAY = np.dtype([("value", "<u8"), ("psn", "<u4"), ("used", "<u4")])
"""Result of one atomic operation, for a duplicate of its request."""
REPLAYS = 256
"""Results kept for a queue pair: more than the 255 outstanding requests that RDMA-CM can grant."""

MEMORY_REGION = np.dtype(
    [
        ("base", "<u8"),  # virtual address of its first byte
        ("length", "<u8"),
        ("key", "<u4"),
        ("target", "<u2"),
        ("access", "u1"),  # bits of Access
        ("used", "u1"),
    ]
)
"""One memory region, in the row that the lower bits of its key say."""

NOTICE = np.dtype(
    [
        ("time_ns", "<i8"),  # when the batch came in which it was, ns since the Unix epoch
        ("address", "<u8"),  # where the write began, bytes from the start of the target's memory
        ("length", "<u4"),  # bytes written; 0 behind an atomic operation
        ("immediate", "<u4"),
        ("queue_pair", "<u4"),
        ("target", "<u2"),  # 65535: an empty write without a region
        ("flags", "u1"),  # bits of NoticeFlag
        ("spare", "u1"),
    ]
)
"""What the owner of a memory is told, 32 bytes; in a ring (`memory.ring`)."""
NOTICE_VERSION = 1
NO_TARGET = 0xFFFF


class NoticeFlag(IntEnum):
    """Bits of `flags` in NOTICE."""

    IMMEDIATE = 1
    SOLICITED = 2


REMOTE = np.dtype([("base", "<u8"), ("length", "<u8"), ("key", "<u4"), ("access", "<u4")])
"""A memory region of the peer, as it was advertised."""

RESULT = np.dtype([("verb", "<u8"), ("value", "<u8")])
"""What an atomic operation found; `verb` is its number in the order of `submit`, from 0."""

SENT = np.dtype([("verb", "<u8"), ("end", "<u8"), ("marks", "<u8")])
"""Beside each packet that is kept: its verb, where its payload ends in the ring of bytes, bits of Mark."""


class Mark(IntEnum):
    """Bits of `marks` in SENT."""

    LAST = 1
    """The verb's last packet."""
    ATOMIC = 2
    ANSWERED = 4
    """Its ATOMIC_ACK has come."""


class Sender(IntEnum):
    """Places in the state of a requester, uint64. Packets are numbered from 0: ACKED <= NEXT <= TAIL."""

    ACKED = 0
    """The first packet that has not been acknowledged."""
    NEXT = 1
    """The next to be sent."""
    HIGHEST = 2
    """The first that has never been sent."""
    TAIL = 3
    """The next that is made."""
    PSN = 4
    """PSN of packet 0; a resynchronisation changes it."""
    BYTES = 5
    """Bytes of the payload ring used, from 0 on; places that were left over at its end count too."""
    OFFSET = 6
    """Bytes of the first verb that is not taken which are in packets already (an atomic: 1)."""
    ATOMICS = 7
    """Atomics sent and not acknowledged."""
    FAILED = 8
    """Syndrome of the NAK that ended the connection."""
    RESULTS = 9
    """Results that wait to be taken."""
    WAIT = 10
    """1 + timer of the last RNR NAK."""
    CNP = 11
    """Congestion notifications since they were last looked at."""
    # from here on: counters, rdma.counters
    VERBS = 16
    COMPLETED = 17
    REFUSED = 18
    PACKETS = 19
    RETRANSMITTED = 20
    ACKS = 21
    SEQUENCE_NAKS = 22
    OTHER_NAKS = 23
    NOT_READY = 24
    STALE = 25
    RESYNCS = 26
    ABANDONED = 27
    CNPS = 28


SENDER_SLOTS = 32


class SenderSetup(IntEnum):
    """Places in what a requester's kernels are told, uint64."""

    PEER_HI = 0
    PEER_LO = 1
    NUMBER = 2
    """Own queue pair: where answers go."""
    PEER_NUMBER = 3
    PARTITION = 4
    SERVICE = 5
    MTU = 6
    WINDOW = 7
    ATOMICS = 8
    """Most atomics in flight."""
    EVERY = 9
    """An answer is asked for with every so many packets, and with the last of a burst."""
    RELIABLE = 10
    """Packets are kept until they are acknowledged."""
    RESULTS = 11
    """Results of atomics are waited for."""


SENDER_SETUP = 12
