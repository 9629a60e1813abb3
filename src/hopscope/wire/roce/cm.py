"""Messages of InfiniBand's connection management (chapter 12), as used by RDMA-CM: management datagrams of
256 bytes, sent as UD SEND_ONLY from queue pair 1 to queue pair 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

from ..fields import Header, bits, declare, header
from ..reasons import RoceReason

MAD = header(
    "Management datagram", "InfiniBand 13.4.2",
    ("base_version", 8), ("management_class", 8), ("class_version", 8), ("method", 8), ("status", 16),
    ("class_specific", 16), ("transaction", 64), ("attribute", 16), ("reserved", 16), ("modifier", 32),
)  # fmt: skip
MAD_SIZE = 256
CM_CLASS, CM_CLASS_VERSION, MAD_BASE_VERSION, MAD_SEND = 0x07, 2, 1, 0x03
CM_QUEUE_PAIR, CM_QUEUE_KEY = 1, 0x80010000
RDMA_CM_SERVICE = 0x0000000001060000
"""Service id of port 0 in RDMA-CM's TCP port space: the port is added."""
_TIMEOUT = "4.096 us * 2^n"
MTUS = {code: 128 << code for code in range(1, 6)}
"""Path MTUs in bytes, by code."""


class RoceError(ValueError):
    """Bytes that are not an intact RoCE packet or message, with reason and finding."""

    def __init__(self, reason: RoceReason, detail: str) -> None:
        super().__init__(f"{reason.label}: {detail}")
        self.reason = reason
        self.detail = detail


class CmReject(IntEnum):
    """Why a connection was rejected (InfiniBand, table 108)."""

    NO_QUEUE_PAIR = 1
    NO_RESOURCES = 3
    TIMEOUT = 4
    UNSUPPORTED_REQUEST = 5
    INVALID_ID = 6
    INVALID_INSTANCE = 7
    INVALID_SERVICE = 8
    INVALID_SERVICE_TYPE = 9
    STALE_CONNECTION = 10
    INVALID_MTU = 26
    INSUFFICIENT_RESPONDER_RESOURCES = 27
    CONSUMER = 28
    DUPLICATE_ID = 30
    UNSUPPORTED_CLASS_VERSION = 31

    @property
    def label(self) -> str:
        """Lower-case words."""
        return self.name.lower().replace("_", " ")


def reject_label(reason: int) -> str:
    """The reason in words; the number if it has no name."""
    return CmReject(reason).label if reason in tuple(CmReject) else f"reason {reason}"


@dataclass(slots=True, kw_only=True)
class Message:
    """Fields of all messages."""

    header: ClassVar[Header]
    attribute: ClassVar[int]
    transaction: int = 0
    """Transaction id, the same in the answers to a request."""
    class_version: int = CM_CLASS_VERSION
    private: bytes = b""
    """Private data; when read, without trailing zeros."""
    local_id: int = bits(32)
    """The sender's number of the connection."""


@dataclass(slots=True, kw_only=True)
class Request(Message):
    """REQ: the active side asks for a connection."""

    attribute = 0x10
    service: int = bits(64, skip=32)
    ca_guid: int = bits(64)
    queue_key: int = bits(32, skip=32)
    queue_pair: int = bits(24)
    responder_resources: int = bits(8)
    ee_context: int = bits(24)
    initiator_depth: int = bits(8)
    remote_ee_context: int = bits(24)
    remote_timeout: int = bits(5, _TIMEOUT)
    service_type: int = bits(2, doc="0 RC, 1 UC, 2 RD")
    flow_control: int = bits(1)
    psn: int = bits(24)
    local_timeout: int = bits(5, _TIMEOUT)
    retries: int = bits(3)
    partition: int = bits(16, default=0xFFFF)
    path_mtu: int = bits(4, doc="1 to 5: 256, 512 … 4096 bytes", default=3)
    rdc: int = bits(1)
    not_ready_retries: int = bits(3)
    cm_retries: int = bits(4)
    shared_receive_queue: int = bits(1)
    extended_type: int = bits(3)
    primary_local_lid: int = bits(16, default=0xFFFF)
    """RoCE has no LIDs; 0xFFFF is what RDMA-CM writes."""
    primary_remote_lid: int = bits(16, default=0xFFFF)
    primary_local_gid: int = bits(128)
    primary_remote_gid: int = bits(128)
    primary_flow_label: int = bits(20)
    primary_packet_rate: int = bits(6, skip=6)
    primary_traffic_class: int = bits(8)
    primary_hop_limit: int = bits(8, default=64)
    primary_service_level: int = bits(4)
    primary_subnet_local: int = bits(1)
    primary_ack_timeout: int = bits(5, _TIMEOUT, skip=3)
    alternate_local_lid: int = bits(16, skip=3)
    alternate_remote_lid: int = bits(16)
    alternate_local_gid: int = bits(128)
    alternate_remote_gid: int = bits(128)
    alternate_flow_label: int = bits(20)
    alternate_packet_rate: int = bits(6, skip=6)
    alternate_traffic_class: int = bits(8)
    alternate_hop_limit: int = bits(8)
    alternate_service_level: int = bits(4)
    alternate_subnet_local: int = bits(1)
    alternate_ack_timeout: int = bits(5, _TIMEOUT, skip=3)


@dataclass(slots=True, kw_only=True)
class Reply(Message):
    """REP: the passive side agrees."""

    attribute = 0x13
    remote_id: int = bits(32)
    queue_key: int = bits(32)
    queue_pair: int = bits(24)
    ee_context: int = bits(24, skip=8)
    psn: int = bits(24, skip=8)
    responder_resources: int = bits(8, skip=8)
    initiator_depth: int = bits(8)
    ack_delay: int = bits(5, _TIMEOUT)
    failover: int = bits(2)
    flow_control: int = bits(1)
    not_ready_retries: int = bits(3)
    shared_receive_queue: int = bits(1)
    ca_guid: int = bits(64, skip=4)


@dataclass(slots=True, kw_only=True)
class Ready(Message):
    """RTU: the active side has received the reply."""

    attribute = 0x14
    remote_id: int = bits(32)


@dataclass(slots=True, kw_only=True)
class Reject(Message):
    """REJ: no connection, and why."""

    attribute = 0x12
    remote_id: int = bits(32)
    rejected: int = bits(2, doc="0 REQ, 1 REP, 2 none of them")
    info_length: int = bits(7, "bytes", skip=6)
    reason: int = bits(16, skip=1)
    info: int = bits(576)
    """Additional information, left-aligned."""


@dataclass(slots=True, kw_only=True)
class Disconnect(Message):
    """DREQ: a side ends the connection."""

    attribute = 0x15
    remote_id: int = bits(32)
    queue_pair: int = bits(24, doc="the receiver's")


@dataclass(slots=True, kw_only=True)
class Disconnected(Message):
    """DREP: the other side has received the disconnection request."""

    attribute = 0x16
    remote_id: int = bits(32)


CM_REQ = Request.header = declare(Request, "CM request (REQ)", "InfiniBand 12.6.5", skip=3)
CM_REP = Reply.header = declare(Reply, "CM reply (REP)", "InfiniBand 12.6.8")
CM_RTU = Ready.header = declare(Ready, "CM ready to use (RTU)", "InfiniBand 12.6.9")
CM_REJ = Reject.header = declare(Reject, "CM reject (REJ)", "InfiniBand 12.6.7")
CM_DREQ = Disconnect.header = declare(
    Disconnect, "CM disconnection request (DREQ)", "InfiniBand 12.6.10", skip=8
)
CM_DREP = Disconnected.header = declare(Disconnected, "CM disconnection reply (DREP)", "InfiniBand 12.6.11")
MESSAGES: dict[int, type[Message]] = {
    kind.attribute: kind for kind in (Request, Reject, Reply, Ready, Disconnect, Disconnected)
}


@dataclass(slots=True, kw_only=True)
class Addresses:
    """RDMA-CM's part of a REQ's private data: IP addresses of both sides."""

    major: int = bits(4)
    minor: int = bits(4)
    ip_version: int = bits(4, default=4)
    source_port: int = bits(16, skip=4)
    source: int = bits(128)
    """IPv4 in the last 32 bits."""
    destination: int = bits(128, doc="IPv4 in the last 4 bytes")


CM_IP = declare(Addresses, "RDMA-CM addresses, in a REQ's private data", "InfiniBand annex A11")


def pull_message(raw: bytes) -> Message:
    """Read a management datagram (256 bytes). Raises RoceError: BAD_LENGTH for another size, UNKNOWN_OPCODE
    for another class or an unknown message. The class version is not checked.
    """
    if len(raw) != MAD_SIZE:
        raise RoceError(RoceReason.BAD_LENGTH, f"a management datagram of {len(raw)} bytes, expected 256")
    head = MAD.unpack(raw)
    kind = MESSAGES.get(head["attribute"])
    known = head["base_version"] == MAD_BASE_VERSION and head["management_class"] == CM_CLASS
    if not known or head["method"] != MAD_SEND or kind is None:
        raise RoceError(
            RoceReason.UNKNOWN_OPCODE,
            f"management class {head['management_class']:#04x}, method {head['method']:#04x}, attribute"
            f" {head['attribute']:#06x} is not a known message of connection management",
        )
    private = raw[MAD.size + kind.header.size :].rstrip(b"\0")
    return kind(
        transaction=head["transaction"], class_version=head["class_version"], private=private,
        **kind.header.unpack(raw, MAD.size),
    )  # fmt: skip


def push_message(message: Message) -> bytes:
    """The management datagram, 256 bytes. Raises ValueError for too long private data or too wide values."""
    head = MAD.pack({
        "base_version": MAD_BASE_VERSION, "management_class": CM_CLASS,
        "class_version": message.class_version, "method": MAD_SEND,
        "transaction": message.transaction, "attribute": message.attribute,
    })  # fmt: skip
    out = head + message.header.pack_object(message)
    room = MAD_SIZE - len(out)
    if len(message.private) > room:
        raise ValueError(f"{message.header.name}: {len(message.private)} bytes of private data, {room} fit")
    return out + message.private.ljust(room, b"\0")


def pull_addresses(private: bytes) -> tuple[Addresses, bytes]:
    """RDMA-CM's addresses, and the consumer's own private data after them; short data is zero-padded."""
    raw = private.ljust(CM_IP.size, b"\0")
    return Addresses(**CM_IP.unpack(raw)), raw[CM_IP.size :]


def push_addresses(addresses: Addresses, private: bytes = b"") -> bytes:
    """Private data of a REQ: the addresses, and the consumer's own (56 bytes at most)."""
    return CM_IP.pack_object(addresses) + private
