"""IFA 2.0 into rows, and into packets, by offsets and `struct`: independent of `layout` and of the package's
reader.

The offsets are those of draft-kumar-ippm-ifa-08, and of the AOS-CX and Junos guides for a hop.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from hopscope.wire.buffer import Buffer
from hopscope.wire.errors import WireError
from hopscope.wire.reasons import Place, Reason
from hopscope.wire.records import Carrier, Have, Hop, IntFlag, Mode

from .row import Row

_TCP, _UDP = 6, 17
_PLACE = Place.IFA


def is_ifa(buf: Buffer) -> bool:
    """Whether the bytes after an IP header of protocol 253 are IFA 2.0 before TCP or UDP."""
    return buf.left >= 4 and buf.raw[buf.at] >> 4 == 2 and buf.raw[buf.at + 1] in (_TCP, _UDP)


def read_ifa(buf: Buffer, row: Row) -> None:
    """The IFA header at the position of `buf`, the ports and the stack, into the row. Raises WireError."""
    raw, start = buf.raw, buf.at
    first, protocol, flags, _ = raw[start : start + 4]
    if first & 15 != 15:
        raise WireError(Reason.UNKNOWN_TYPE, _PLACE, start, "namespace")
    if flags & 0b00011001:
        raise WireError(Reason.UNSUPPORTED, _PLACE, start, "flags")
    buf.at += 4
    row.set(proto=protocol)
    buf.need(4, _PLACE, "ports")
    sport, dport = struct.unpack_from("!HH", raw, buf.at)
    row.set(sport=sport, dport=dport)
    row.carry(64)
    size = 8
    if protocol == _TCP:
        buf.need(20, _PLACE, "TCP")
        size = raw[buf.at + 12] >> 4 << 2
        if size < 20:
            raise WireError(Reason.BAD_LENGTH, _PLACE, buf.at, "TCP")
    buf.skip(size, _PLACE, "TCP or UDP")
    buf.need(4, _PLACE, "metadata header")
    at = buf.at
    request, _, limit, words = raw[at : at + 4]
    row.set(int_version=92, int_mode=Mode.IFA, carrier=Carrier.IP_PROTOCOL, int_at=at, instructions=request,
            remaining_hops=limit, hop_words=8, int_flags=0 if flags & 4 else IntFlag.COPY)  # fmt: skip
    if words % 8:
        raise WireError(Reason.BAD_HOP_SIZE, _PLACE, at, "words")
    if at + 4 + 4 * words > buf.end:
        raise WireError(Reason.TRUNCATED, _PLACE, at, "stack")
    if at + 4 + 4 * words > buf.limit:
        raise WireError(Reason.BAD_LENGTH, _PLACE, at, "stack")
    row.hops = [_hop(raw[at + 4 + 32 * k : at + 36 + 32 * k]) for k in reversed(range(words // 8))]
    buf.at = at + 4 + 4 * words


def _hop(raw: bytes) -> Hop:
    one, two, egress, ingress, nanoseconds, residence, *rest = struct.unpack("!IIHHII3I", raw)
    hop = Hop(
        node_id=one >> 8 & 0xFFFFF, ingress_port=ingress, egress_port=egress, queue_id=two >> 20 & 0x3F,
        queue_occupancy=rest[1] & 0xFFFF, ingress_time=(two & 0xFFFFF) * 10**9 + nanoseconds,
        hop_latency=residence if residence < 10**9 else residence - 10**9,
    )  # fmt: skip
    hop.present = Have.NODE_ID | Have.PORTS | Have.HOP_LATENCY | Have.INGRESS_TIME
    if any(rest):
        hop.present |= Have.QUEUE_OCCUPANCY
    return hop


@dataclass(frozen=True)
class IfaForm:
    """How a source puts IFA into a packet."""

    nodes: int = 2
    udp_length: bool = False
    """The length of UDP counts the stack; switches leave it."""
    checksum: bool = False
    """The checksum of TCP and UDP is right with the stack; switches leave it."""
    inband: bool = True
    protocol: int = 253


def node(number: int) -> bytes:
    """What a node writes."""
    queue = (9000 + number, 70 + number, 4000)
    return struct.pack(
        "!IIHHII3I", 1 << 28 | number << 8 | 64, 4 << 28 | 5 << 20 | 100, 7, 8, number, 600 + number, *queue
    )


def insert_ifa(frame: bytes, form: IfaForm, at: int = 14) -> bytes:
    """The frame with IFA around the TCP or UDP header of its IP packet at `at`: IP protocol, length, and
    checksum of IPv4 are those of the packet that goes out.
    """
    four = frame[at] >> 4 == 4
    named, l4 = (at + 9, at + 4 * (frame[at] & 15)) if four else (at + 6, at + 40)
    while not four and frame[named] == 60:  # destination options
        named, l4 = l4, l4 + 8 * (frame[l4 + 1] + 1)
    protocol = frame[named]
    body = l4 + (8 if protocol == _UDP else frame[l4 + 12] >> 4 << 2)
    stack = b"".join(map(node, reversed(range(form.nodes))))
    metadata = bytes([255, 0, 30, len(stack) // 4]) + stack
    segment = bytearray(frame[l4:body] + metadata + frame[body:])
    header = bytearray(frame[:l4])
    header[named] = form.protocol
    length_at = at + (2 if four else 4)
    _add(header, length_at, 4 + len(metadata))
    if form.udp_length and protocol == _UDP:
        _add(segment, 4, len(metadata))
    if four:
        header[at + 10 : at + 12] = bytes(2)
        header[at + 10 : at + 12] = _checksum(bytes(header[at:l4]))
    check = 6 if protocol == _UDP else 16
    if form.checksum and segment[check : check + 2] != bytes(2):
        size = int.from_bytes(frame[length_at : length_at + 2], "big") + len(metadata)
        size -= (l4 - at) if four else (l4 - at - 40)  # without what is behind the packet
        if protocol == _UDP:
            size = int.from_bytes(segment[4:6], "big")
        segment[check : check + 2] = bytes(2)
        addresses = frame[at + 12 : at + 20] if four else frame[at + 8 : at + 40]
        pseudo = addresses + struct.pack("!IHBB", size, 0, 0, protocol)
        value = _checksum(pseudo + bytes(segment[:size]))
        segment[check : check + 2] = b"\xff\xff" if protocol == _UDP and value == bytes(2) else value
    flags = 4 if form.inband else 0
    return bytes(header) + bytes([0x2F, protocol, flags, 255]) + bytes(segment)


def _add(octets: bytearray, at: int, more: int) -> None:
    octets[at : at + 2] = (int.from_bytes(octets[at : at + 2], "big") + more).to_bytes(2, "big")


def _checksum(octets: bytes) -> bytes:
    """RFC 1071, as it stands there."""
    octets += bytes(len(octets) % 2)
    total = sum(struct.unpack(f"!{len(octets) // 2}H", octets))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return struct.pack("!H", 0xFFFF - total)
