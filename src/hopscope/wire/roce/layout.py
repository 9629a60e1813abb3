"""Headers of RoCEv2: the Base Transport Header, the headers after it, and which of them each opcode has."""

from __future__ import annotations

from dataclasses import dataclass

from ..fields import bits, declare, header


@dataclass(slots=True, kw_only=True)
class Bth:
    """Base Transport Header."""

    opcode: int = bits(8)
    solicited: int = bits(1)
    migration: int = bits(1)
    pad: int = bits(2, "bytes", compare=False)
    """Pad of the payload; set when the packet is written."""
    version: int = bits(4)
    partition: int = bits(16, default=0xFFFF)
    fecn: int = bits(1)
    becn: int = bits(1)
    queue_pair: int = bits(24, skip=6)
    ack_request: int = bits(1)
    psn: int = bits(24, skip=7)


BTH = declare(Bth, "Base Transport Header", "InfiniBand 9.2")


@dataclass(slots=True)
class Reth:
    """Start and length of a write or read."""

    address: int = bits(64)
    key: int = bits(32)
    length: int = bits(32, "bytes")


RETH = declare(Reth, "RDMA header", "InfiniBand 9.3.1")


@dataclass(slots=True)
class AtomicEth:
    """The 8 bytes that an atomic operation changes, and how."""

    address: int = bits(64)
    key: int = bits(32)
    value: int = bits(64, doc="to add, or to swap in")
    compare: int = bits(64)


ATOMIC_ETH = declare(AtomicEth, "Atomic header", "InfiniBand 9.3.2")


@dataclass(slots=True)
class Aeth:
    """Acknowledgment: syndrome, and the number of completed messages."""

    syndrome: int = bits(8)
    message: int = bits(24)


AETH = declare(Aeth, "Acknowledgment header", "InfiniBand 9.3.5")
ATOMIC_ACK_ETH = header("Atomic acknowledgment", "InfiniBand 9.3.5.3", ("original", 64))
IMMEDIATE = header("Immediate data", "InfiniBand 9.3.6", ("immediate", 32))


@dataclass(slots=True)
class Deth:
    """Header of a datagram: the sender's queue pair, and the key that the receiver's queue pair requires."""

    queue_key: int = bits(32)
    source_queue_pair: int = bits(24, skip=8)


DETH = declare(Deth, "Datagram header", "InfiniBand 9.3.4")
ROCE_PORT = 4791
ICRC_SIZE = 4
HAS_RETH, HAS_ATOMIC, HAS_AETH, HAS_ATOMIC_ACK, HAS_IMMEDIATE, HAS_DETH, HAS_PAYLOAD, HAS_BTH = (
    1 << bit for bit in range(8)
)
_OPERATIONS = (
    *(HAS_PAYLOAD,) * 3, HAS_IMMEDIATE | HAS_PAYLOAD, HAS_PAYLOAD, HAS_IMMEDIATE | HAS_PAYLOAD,
    HAS_RETH | HAS_PAYLOAD, HAS_PAYLOAD, HAS_PAYLOAD, HAS_IMMEDIATE | HAS_PAYLOAD,
    HAS_RETH | HAS_PAYLOAD, HAS_RETH | HAS_IMMEDIATE | HAS_PAYLOAD, HAS_RETH,
    HAS_AETH | HAS_PAYLOAD, HAS_PAYLOAD, HAS_AETH | HAS_PAYLOAD, HAS_AETH | HAS_PAYLOAD,
    HAS_AETH, HAS_AETH | HAS_ATOMIC_ACK, HAS_ATOMIC, HAS_ATOMIC,
)  # fmt: skip
"""Headers after the BTH, by operation (the lower 5 bits of the opcode): InfiniBand, table 38."""


def _roce_headers(opcode: int) -> int:
    service, operation = opcode >> 5, opcode & 31
    if service in (0, 1) and operation < (len(_OPERATIONS), 12)[service]:
        return HAS_BTH | _OPERATIONS[operation]
    if opcode in (0x64, 0x65):
        return HAS_BTH | HAS_DETH | _OPERATIONS[operation]
    return HAS_BTH | HAS_PAYLOAD if opcode == 0x81 else 0


ROCE_HEADERS = tuple(_roce_headers(opcode) for opcode in range(256))
"""Which headers a packet has, by opcode, in the order RETH, ATOMIC_ETH, AETH, ATOMIC_ACK_ETH, DETH,
IMMEDIATE, payload; 0: an opcode that is not read. A CNP's payload is 16 reserved bytes.
"""
