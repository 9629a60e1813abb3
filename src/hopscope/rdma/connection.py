"""What a connection is, to its owner and to the machine that makes and ends it (`handshake`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from ..wire import layout
from ..wire.roce.cm import MTUS, CmReject, Message, Request, pull_addresses

MILLISECOND = 1_000_000


class State(Enum):
    """Where a connection is."""

    REQUESTED = "requested"
    """Active: the REQ is out."""
    REPLIED = "replied"
    """Passive: the REP is out; the peer may send already, and `confirm` is then as good as its RTU."""
    ESTABLISHED = "established"
    DISCONNECTING = "disconnecting"
    """The DREQ is out; nothing is to be sent any more."""
    CLOSED = "closed"
    """Ended, or never begun: `why` says it."""


@dataclass(slots=True)
class Connection:
    """One connection, as both machines of it see it."""

    peer: int
    """Address, 128 bits, IPv4 as ::ffff:a.b.c.d."""
    service: int
    """Service id; `service_of` makes it from a port."""
    reliable: bool = True
    """RC, else UC."""
    path_mtu: int = 1024
    """Most bytes of payload of one packet."""
    queue_pair: int = 0
    """Own."""
    psn: int = 0
    """Of the first packet that is sent."""
    remote_queue_pair: int = 0
    remote_psn: int = 0
    """Of the first packet that comes."""
    atomics: int = 16
    """Atomic operations (and reads) that the requester may have under way."""
    active: bool = False
    state: State = State.REQUESTED
    why: str = ""
    private: bytes = b""
    """What the peer's consumer said in its REQ or REP."""
    local_id: int = 0
    remote_id: int = 0
    transaction: int = 0
    message: Message | None = None
    """What is repeated, or answers a duplicate."""
    due_ns: int = 0
    tries: int = 0


@dataclass(frozen=True, slots=True)
class Accept:
    """What the passive side answers to a request that it takes."""

    queue_pair: int
    psn: int
    private: bytes = b""
    """At most 196 bytes."""


Acceptor = Callable[[Connection], Accept | CmReject]
"""Asked once for each new request, whose `private`, `peer` and `remote_*` are known."""


@dataclass(slots=True)
class CmCounters:
    """What happened to messages of connection management."""

    established: int = 0
    closed: int = 0
    """Connections that ended or never began."""
    rejected: int = 0
    """Requests that were answered with a REJ."""
    repeated: int = 0
    """Messages sent again."""
    duplicates: int = 0
    """Messages that had come before."""
    strangers: int = 0
    """Messages of connections that are not known."""
    damaged: int = 0
    """Datagrams to queue pair 1 that are no such message."""
    timeouts: int = 0
    """Connections whose peer did not answer."""


def service_of(port: int) -> int:
    """Service id of a port of RDMA-CM."""
    return layout.RDMA_CM_SERVICE + port


@dataclass(slots=True)
class Limits:
    """How patient a side is, and how much it takes upon itself."""

    timeout_ns: int = 200 * MILLISECOND
    """Until a message is first repeated; doubled each time, up to 2 s."""
    repeats: int = 7
    """Of one message, before the peer is held for dead."""
    half_open: int = 64
    """Connections that wait for an RTU; more are refused."""
    connections: int = 1024
    path_mtu: int = 4096
    """Most that is accepted, bytes."""


def refusal(message: Request, served: bool, limits: Limits) -> CmReject | None:
    """Why this request cannot be taken, whoever is asked; `served`: its service is there."""
    addresses, _ = pull_addresses(message.private)
    if message.class_version != layout.CM_CLASS_VERSION:
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
