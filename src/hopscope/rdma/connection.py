"""State of a connection, shared by its owner and the state machine in `handshake`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from ..wire.roce.cm import CM_CLASS_VERSION, MTUS, RDMA_CM_SERVICE, CmReject, Message, Request, pull_addresses

MILLISECOND = 1_000_000


class ConnectionState(Enum):
    """Phase of a connection."""

    REQUESTED = "requested"
    """Active: the REQ was sent."""
    REPLIED = "replied"
    """Passive: the REP was sent. The peer may send already; then `confirm` replaces its RTU."""
    ESTABLISHED = "established"
    DISCONNECTING = "disconnecting"
    """The DREQ was sent; no more packets may be sent."""
    CLOSED = "closed"
    """Ended, or never established; see `why`."""


@dataclass(slots=True)
class Connection:
    """One connection, active or passive."""

    peer: int
    """Address, 128 bits, IPv4 as ::ffff:a.b.c.d."""
    service: int
    """Service id; `service_of` derives it from a port."""
    reliable: bool = True
    """True: RC; False: UC."""
    path_mtu: int = 1024
    """Maximum payload bytes of a packet."""
    queue_pair: int = 0
    """Own queue pair number."""
    psn: int = 0
    """PSN of the first packet to send."""
    remote_queue_pair: int = 0
    remote_psn: int = 0
    """PSN of the first packet to receive."""
    atomics: int = 16
    """Atomic operations (and reads) that the requester may have in flight."""
    active: bool = False
    state: ConnectionState = ConnectionState.REQUESTED
    why: str = ""
    private: bytes = b""
    """Private data of the peer's REQ or REP."""
    local_id: int = 0
    remote_id: int = 0
    transaction: int = 0
    message: Message | None = None
    """Last message, for retransmission and for answers to duplicates."""
    due_ns: int = 0
    tries: int = 0
    begun_ns: int = 0
    """Passive: time at which its request arrived."""


@dataclass(frozen=True, slots=True)
class Accept:
    """The passive side's answer to an accepted request."""

    queue_pair: int
    psn: int
    private: bytes = b""
    """At most 196 bytes."""


Acceptor = Callable[[Connection], Accept | CmReject]
"""Called once for each new request, whose `private`, `peer` and `remote_*` are set."""


@dataclass(slots=True)
class CmCounters:
    """Counters of connection management."""

    established: int = 0
    closed: int = 0
    """Connections that ended or were never established."""
    rejected: int = 0
    """Requests answered with a REJ."""
    repeated: int = 0
    """Retransmitted messages."""
    duplicates: int = 0
    """Duplicate messages."""
    unknown: int = 0
    """Messages of unknown connections."""
    damaged: int = 0
    """Datagrams to queue pair 1 that are not valid messages."""
    timeouts: int = 0
    """Connections whose peer did not answer."""


def service_of(port: int) -> int:
    """Service id of a port of RDMA-CM."""
    return RDMA_CM_SERVICE + port


@dataclass(slots=True)
class HandshakeLimits:
    """Timeouts and limits of one side."""

    timeout_ns: int = 200 * MILLISECOND
    """Time until a message is first retransmitted; doubled each time, up to 2 s."""
    repeats: int = 7
    """Retransmissions of a message before the connection is closed."""
    half_open: int = 64
    """Maximum connections waiting for an RTU; a further one replaces another, or is rejected."""
    half_open_ns: int = 50 * MILLISECOND
    """Time for which a connection that waits for an RTU is not replaced."""
    connections: int = 1024
    path_mtu: int = 4096
    """Maximum accepted path MTU, bytes."""


def reject_reason(message: Request, served: bool, limits: HandshakeLimits) -> CmReject | None:
    """The reason to reject a request regardless of its service's acceptor; `served`: the service exists."""
    addresses, _ = pull_addresses(message.private)
    if message.class_version != CM_CLASS_VERSION:
        return CmReject.UNSUPPORTED_CLASS_VERSION
    if not served:
        return CmReject.INVALID_SERVICE
    if message.service_type not in (0, 1) or message.extended_type:
        return CmReject.INVALID_SERVICE_TYPE
    if addresses.major or addresses.ip_version not in (4, 6) or message.queue_pair < 2:
        return CmReject.UNSUPPORTED_REQUEST
    if not 0 < MTUS.get(message.path_mtu, 0) <= limits.path_mtu:
        return CmReject.INVALID_MTU
    return None
