"""Messages of InfiniBand's connection management (chapter 12), as RDMA-CM uses them: management datagrams of
256 bytes that go as UD SEND_ONLY from queue pair 1 to queue pair 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

from .. import layout
from ..buffer import push
from ..layout import Header
from ..reasons import RoceReason
from .codec import RoceError

MTUS = {code: 128 << code for code in range(1, 6)}
"""Code of a path MTU to bytes."""


class CmReject(IntEnum):
    """Why a connection was refused (InfiniBand, table 108)."""

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
    """The reason as words; a number that has no name as such."""
    return CmReject(reason).label if reason in tuple(CmReject) else f"reason {reason}"


@dataclass(slots=True, kw_only=True)
class Message:
    """What all messages have; fields of subclasses are those of their header in `layout`."""

    header: ClassVar[Header]
    attribute: ClassVar[int]
    transaction: int = 0
    """The same in the answers to a request."""
    class_version: int = layout.CM_CLASS_VERSION
    local_id: int = 0
    """The sender's number of the connection."""
    private: bytes = b""
    """Private data, without the zeros at its end where it was read."""


@dataclass(slots=True, kw_only=True)
class Request(Message):
    """REQ: the active side asks for a connection."""

    header = layout.CM_REQ
    attribute = 0x10
    service: int = 0
    ca_guid: int = 0
    queue_key: int = 0
    queue_pair: int = 0
    responder_resources: int = 0
    ee_context: int = 0
    initiator_depth: int = 0
    remote_ee_context: int = 0
    remote_timeout: int = 0
    service_type: int = 0
    flow_control: int = 0
    psn: int = 0
    local_timeout: int = 0
    retries: int = 0
    partition: int = 0xFFFF
    path_mtu: int = 3
    rdc: int = 0
    not_ready_retries: int = 0
    cm_retries: int = 0
    shared_receive_queue: int = 0
    extended_type: int = 0
    primary_local_lid: int = 0xFFFF
    """RoCE has no LIDs; 0xFFFF is what RDMA-CM writes."""
    primary_remote_lid: int = 0xFFFF
    primary_local_gid: int = 0
    primary_remote_gid: int = 0
    primary_flow_label: int = 0
    primary_packet_rate: int = 0
    primary_traffic_class: int = 0
    primary_hop_limit: int = 64
    primary_service_level: int = 0
    primary_subnet_local: int = 0
    primary_ack_timeout: int = 0
    alternate_local_lid: int = 0
    alternate_remote_lid: int = 0
    alternate_local_gid: int = 0
    alternate_remote_gid: int = 0
    alternate_flow_label: int = 0
    alternate_packet_rate: int = 0
    alternate_traffic_class: int = 0
    alternate_hop_limit: int = 0
    alternate_service_level: int = 0
    alternate_subnet_local: int = 0
    alternate_ack_timeout: int = 0


@dataclass(slots=True, kw_only=True)
class Reply(Message):
    """REP: the passive side agrees."""

    header = layout.CM_REP
    attribute = 0x13
    remote_id: int = 0
    queue_key: int = 0
    queue_pair: int = 0
    ee_context: int = 0
    psn: int = 0
    responder_resources: int = 0
    initiator_depth: int = 0
    ack_delay: int = 0
    failover: int = 0
    flow_control: int = 0
    not_ready_retries: int = 0
    shared_receive_queue: int = 0
    ca_guid: int = 0


@dataclass(slots=True, kw_only=True)
class Ready(Message):
    """RTU: the active side has heard that."""

    header = layout.CM_RTU
    attribute = 0x14
    remote_id: int = 0


@dataclass(slots=True, kw_only=True)
class Reject(Message):
    """REJ: no connection, and why."""

    header = layout.CM_REJ
    attribute = 0x12
    remote_id: int = 0
    rejected: int = 0
    info_length: int = 0
    reason: int = 0
    info: int = 0
    """Additional information, left-aligned in 576 bits."""


@dataclass(slots=True, kw_only=True)
class Disconnect(Message):
    """DREQ: a side ends the connection."""

    header = layout.CM_DREQ
    attribute = 0x15
    remote_id: int = 0
    queue_pair: int = 0


@dataclass(slots=True, kw_only=True)
class Disconnected(Message):
    """DREP: the other side has heard that."""

    header = layout.CM_DREP
    attribute = 0x16
    remote_id: int = 0


MESSAGES: dict[int, type[Message]] = {
    kind.attribute: kind for kind in (Request, Reject, Reply, Ready, Disconnect, Disconnected)
}


@dataclass(slots=True, kw_only=True)
class Addresses:
    """RDMA-CM's part of a REQ's private data: who connects to whom, by IP."""

    major: int = 0
    minor: int = 0
    ip_version: int = 4
    source_port: int = 0
    source: int = 0
    """128 bits; of IPv4 only the last 32 are set."""
    destination: int = 0


def pull_header(raw: bytes, at: int, header: Header) -> dict[str, int]:
    """Fields of a header, which is there."""
    number = int.from_bytes(raw[at : at + header.size], "big")
    return {name: number >> shift & mask for name, shift, mask in header.shifts}


def pull_message(raw: bytes) -> Message:
    """A management datagram (256 bytes). Raises RoceError: BAD_LENGTH for another size, UNKNOWN_OPCODE for
    another class or a message that is not known. The class version is not judged.
    """
    if len(raw) != layout.MAD_SIZE:
        raise RoceError(RoceReason.BAD_LENGTH, f"a management datagram of {len(raw)} bytes, 256 are due")
    head = pull_header(raw, 0, layout.MAD)
    kind = MESSAGES.get(head["attribute"])
    known = head["base_version"] == layout.MAD_BASE_VERSION and head["management_class"] == layout.CM_CLASS
    if not known or head["method"] != layout.MAD_SEND or kind is None:
        raise RoceError(
            RoceReason.UNKNOWN_OPCODE,
            f"management class {head['management_class']:#04x}, method {head['method']:#04x}, attribute"
            f" {head['attribute']:#06x} is no message of connection management that is known",
        )
    start = layout.MAD.size
    fields = pull_header(raw, start, kind.header)
    private = raw[start + kind.header.size :].rstrip(b"\0")
    return kind(
        transaction=head["transaction"], class_version=head["class_version"], private=private, **fields
    )


def push_message(message: Message) -> bytes:
    """The management datagram, 256 bytes. ValueError where private data are too long or a value too wide."""
    out = bytearray()
    push(out, layout.MAD, {
        "base_version": layout.MAD_BASE_VERSION, "management_class": layout.CM_CLASS,
        "class_version": message.class_version, "method": layout.MAD_SEND,
        "transaction": message.transaction, "attribute": message.attribute,
    })  # fmt: skip
    push(out, message.header, {name: getattr(message, name) for name, _, _ in message.header.shifts})
    room = layout.MAD_SIZE - len(out)
    if len(message.private) > room:
        raise ValueError(f"{message.header.name}: {len(message.private)} bytes of private data, {room} fit")
    return bytes(out) + message.private.ljust(room, b"\0")


def pull_addresses(private: bytes) -> tuple[Addresses, bytes]:
    """RDMA-CM's addresses, and the consumer's own private data behind them; never fails: zeros are added."""
    raw = private.ljust(layout.CM_IP.size, b"\0")
    return Addresses(**pull_header(raw, 0, layout.CM_IP)), raw[layout.CM_IP.size :]


def push_addresses(addresses: Addresses, own: bytes = b"") -> bytes:
    """Private data of a REQ: the addresses, and the consumer's own (56 bytes at most)."""
    out = bytearray()
    push(out, layout.CM_IP, {name: getattr(addresses, name) for name in Addresses.__slots__})
    return bytes(out) + own
