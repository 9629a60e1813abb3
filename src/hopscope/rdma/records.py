"""Records of memory operations (verbs), queue pairs and memory regions."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from ..wire.records import Records


class Verb(IntEnum):
    """Kind of memory operation."""

    WRITE = 1
    FETCH_ADD = 2
    """Adds `value` to 8 bytes, little-endian; `result` is the old value."""
    CMP_SWAP = 3
    """Writes `value` into 8 bytes if they equal `compare`; `result` is the old value."""
    SEND = 4
    """A message into a buffer that the peer has posted; only requesters support it."""


class VerbFlag(IntEnum):
    """Bits of `flags` in VERB."""

    IMMEDIATE = 1
    """Notifies the owner of the memory, with `immediate` (for an atomic: with an empty write after it)."""
    REJECTED = 2
    """Not executed: outside its memory, or an unaligned atomic."""


VERB = np.dtype(
    [
        ("address", "<u8"),  # bytes from the start of the target's memory
        ("value", "<u8"),
        ("compare", "<u8"),
        ("result", "<u8"),
        ("payload_at", "<u4"),  # WRITE: its bytes in the block's payload
        ("length", "<u4"),
        ("immediate", "<u4"),
        ("target", "<u2"),  # memory: an index into the transport's table
        ("kind", "u1"),
        ("flags", "u1"),
    ]
)
"""One memory operation, 48 bytes."""

COUNT, PAYLOAD = 0, 1
"""Indices into `fill` of a block."""


@dataclass(slots=True)
class VerbBlock:
    """Memory operations in execution order, and the bytes that they write.

    It is allocated once; writers append, a transport executes, `clear` empties it.
    """

    verbs: Records
    """VERB [room]."""
    payload: npt.NDArray[np.uint8]
    """uint8 [room]."""
    fill: npt.NDArray[np.uint64] = field(default_factory=lambda: np.zeros(2, np.uint64))
    """Used verbs and payload bytes, uint64 [2]; kernels update it."""

    @classmethod
    def of(cls, verbs: int, payload: int) -> VerbBlock:
        """An empty block with room for `verbs` verbs and `payload` bytes."""
        return cls(np.zeros(verbs, VERB), np.zeros(payload, np.uint8))

    def __len__(self) -> int:
        return self.fill.item(COUNT)

    @property
    def filled(self) -> Records:
        """The used rows of `verbs`, a view."""
        return self.verbs[: len(self)]

    def clear(self) -> None:
        """Empty the block; its memory is reused."""
        self.fill.fill(0)


class Service(IntEnum):
    """Kind of a queue pair; the upper 3 bits of its opcodes (InfiniBand 9.2.1)."""

    RC = 0
    """Reliable connection: acknowledged, in order, executed once."""
    UC = 1
    """Unreliable connection: lost packets stay lost; no atomics."""


class PairState(IntEnum):
    """State of a queue pair."""

    CLOSED = 0
    READY = 1
    ERROR = 2
    """After a rejected request: all packets are dropped until a new connection is made."""


class Access(IntEnum):
    """Access rights of a memory region (InfiniBand 10.6.3.1)."""

    WRITE = 1
    ATOMIC = 2


class Syndrome(IntEnum):
    """Syndrome of an acknowledgment header (InfiniBand, tables 44 to 46)."""

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
        ("peer_hi", "<u8"),  # address of the peer, IPv4 as ::ffff:a.b.c.d
        ("peer_lo", "<u8"),
        ("offset", "<u8"),  # message in progress: offset of the next packet's bytes in its target
        ("begin", "<u8"),  # offset of its first packet's bytes
        ("remaining", "<u4"),  # its remaining bytes; SEND: free bytes of the buffer
        ("length", "<u4"),  # its total bytes
        ("number", "<u4"),
        ("peer_number", "<u4"),
        ("expected_psn", "<u4"),
        ("message", "<u4"),  # MSN: messages completed, modulo 2^24
        ("receives", "<u4"),  # buffers posted for SENDs
        ("atomics", "<u4"),  # executed; index of the next in the replay cache
        ("partition", "<u2"),
        ("mtu", "<u2"),  # path MTU, bytes of payload
        ("target", "<u2"),  # of the message in progress
        ("service", "u1"),
        ("state", "u1"),
        ("progress", "u1"),  # Progress
        ("due", "u1"),  # Due
        ("after_gap", "<u2"),  # packets dropped after the current gap
    ]
)
"""One queue pair, its receiving side, 76 bytes."""


GAP_PACKETS = 1024
"""A gap is answered with a NAK, and with another one after this many packets, since the first may be lost."""


class Progress(IntEnum):
    """Kind of the multi-packet message in progress."""

    NONE = 0
    WRITE = 1
    SEND = 2


class Due(IntEnum):
    """Acknowledgment due at the end of a batch."""

    NO = 0
    YES = 1
    ANSWERED = 2
    """It was due, but another answer implies it."""


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
"""One memory region; the lower bits of its key are its row."""

NOTICE = np.dtype(
    [
        ("time_ns", "<i8"),  # arrival of its batch, ns since the Unix epoch
        ("address", "<u8"),  # start of the write, bytes from the start of the target's memory
        ("length", "<u4"),  # bytes written; 0 after an atomic operation
        ("immediate", "<u4"),
        ("queue_pair", "<u4"),
        ("target", "<u2"),  # store, counted from 0; 65535: an empty write without a region
        ("flags", "u1"),  # bits of NoticeFlag
        ("spare", "u1"),
    ]
)
"""Notice to the owner of a memory, 32 bytes; in a ring (`memory.ring`)."""
NOTICE_VERSION = 1
NO_TARGET = 0xFFFF


class NoticeFlag(IntEnum):
    """Bits of `flags` in NOTICE."""

    IMMEDIATE = 1
    SOLICITED = 2


REMOTE = np.dtype([("base", "<u8"), ("length", "<u8"), ("key", "<u4"), ("access", "<u4")])
"""A memory region of the peer, as it was advertised."""

SENT_PACKET = np.dtype([("end", "<u8"), ("marks", "<u8")])
"""State of a kept packet: the end of its payload in the ring of bytes, bits of Mark."""


class Mark(IntEnum):
    """Bits of `marks` in SENT_PACKET."""

    LAST = 1
    """The verb's last packet."""
    ATOMIC = 2


class Sender(IntEnum):
    """Indices into the state of a requester, uint64. Packets are numbered from 0: ACKED <= NEXT <= TAIL."""

    ACKED = 0
    """First unacknowledged packet."""
    NEXT = 1
    """Next packet to send."""
    HIGHEST = 2
    """First packet that was never sent."""
    TAIL = 3
    """Next packet to create."""
    PSN = 4
    """PSN of packet 0; a resynchronisation changes it."""
    BYTES = 5
    """Bytes of the payload ring used since the start, including gaps at its end."""
    OFFSET = 6
    """Bytes of the first incomplete verb that are already in packets (an atomic: 1)."""
    ATOMICS = 7
    """Unacknowledged atomics in flight."""
    FAILED = 8
    """Syndrome of the NAK that ended the connection."""
    WAIT = 9
    """1 + timer of the last RNR NAK."""
    CNP = 10
    """Congestion notifications since the last check."""
    # from here on: counters, rdma.counters
    VERBS = 16
    COMPLETED = 17
    REJECTED = 18
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
    """Indices into the parameters of a requester's kernels, uint64."""

    PEER_HI = 0
    PEER_LO = 1
    NUMBER = 2
    """Own queue pair, the destination of answers."""
    PEER_NUMBER = 3
    PARTITION = 4
    SERVICE = 5
    MTU = 6
    WINDOW = 7
    ATOMICS = 8
    """Maximum atomics in flight."""
    EVERY = 9
    """An acknowledgment is requested once per this many packets, and with the last of a burst."""
    RELIABLE = 10
    """Packets are kept until they are acknowledged."""


SENDER_SETUP = 11
