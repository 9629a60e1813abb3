"""IFA 2.0 into rows, by offsets and `struct`: independent of `layout` and of the package's reader.

The offsets are those of draft-kumar-ippm-ifa-08, and of the AOS-CX and Junos guides for a hop.
"""

from __future__ import annotations

import struct

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
