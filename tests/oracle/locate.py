"""The way into a packet with where its headers are, and what of these headers is changed with what is inside:
for INT that is taken out of packets, or put in.
"""

from __future__ import annotations

from dataclasses import dataclass

from hopscope.wire import layout
from hopscope.wire.buffer import Buffer
from hopscope.wire.dialect import Dialect
from hopscope.wire.headers import ethernet
from hopscope.wire.headers.ethernet import Ip
from hopscope.wire.records import Carrier, Hop
from hopscope.wire.rules import Next
from hopscope.wire.telemetry.hop_stack import Tail
from hopscope.wire.telemetry.int_header import Md, Shim

from .inner import Walk
from .row import Row

IPS = (Next.IPV4, Next.IPV6)
UDP_LENGTH = 4
_CHECKSUM_AT = {layout.PROTOCOL_TCP: 16, layout.PROTOCOL_UDP: 6}
_NO_LIMIT = 1 << 62


@dataclass(slots=True)
class Header:
    """A header in front of the INT, or around it."""

    kind: Next
    at: int
    limit: int
    """Where the packet ends, by the IP header that is this one or around it; perhaps behind the frame."""
    ip: Ip
    """This IP header, or the one around it."""


class Way(Walk):
    """The way into a packet, with what is passed until its INT was read."""

    def __init__(self, buf: Buffer, row: Row, dialect: Dialect) -> None:
        super().__init__(buf, row, dialect)
        self.headers: list[Header] = []
        """Outermost first; the last is the one that carries the INT."""
        self.shim = Shim(False)
        self.tail: Tail | None = None
        self.shim_at = 0
        self.behind = 0
        """Where the INT ends."""
        self._limit = _NO_LIMIT

    def step(self, here: Next) -> Next:
        """Read the header at this position; returns what follows."""
        header = Header(here, self.buf.at, self._limit, self.ip)
        if not self.complete:
            self.headers.append(header)
        following = super().step(here)
        if here in IPS and not self.complete:
            self._limit = min(self._limit, header.at + self.ip.length)
            header.limit, header.ip = self._limit, self.ip
        return following

    def pull_header(self, buf: Buffer, carrier: Carrier) -> tuple[Shim, Md, int]:
        """Shim and INT header."""
        self.shim_at = buf.at
        return super().pull_header(buf, carrier)

    def pull_hops(self, buf: Buffer, shim: Shim, md: Md, at: int) -> tuple[list[Hop], Tail | None]:
        """The stack and the tail."""
        hops, self.tail = super().pull_hops(buf, shim, md, at)
        self.shim, self.behind = shim, buf.at
        return hops, self.tail


def checksum_at(header: Header, raw: bytes | bytearray) -> int | None:
    """Where the checksum of a header is; None where it has none."""
    if header.kind == Next.IPV4:
        return header.at + 10
    if header.kind == Next.GRE:
        return header.at + 4 if raw[header.at] & 0x80 else None
    return header.at + _CHECKSUM_AT[header.ip.protocol] if header.kind == Next.L4 else None


def covered(header: Header, raw: bytes | bytearray, removed: int) -> bytes | None:
    """What the checksum of a header covers in a packet from which so many bytes were removed behind it; None
    where the packet is cut before its end, or a length contradicts another.
    """
    at, end = header.at, header.limit - removed
    if header.kind == Next.IPV4:
        return bytes(raw[at : at + 4 * (raw[at] & 15)])
    pseudo = b""
    if header.kind == Next.L4:
        if header.ip.protocol == layout.PROTOCOL_UDP:
            length = get16(raw, at + UDP_LENGTH)
            if length < layout.UDP.size or at + length > end:
                return None
            end = at + length
        pseudo = ethernet.pseudo_header(header.ip, header.ip.protocol, end - at)
    return pseudo + raw[at:end] if end <= len(raw) else None


def get16(raw: bytes | bytearray, at: int) -> int:
    """A big-endian number of 16 bits."""
    return int.from_bytes(raw[at : at + 2], "big")


def put16(raw: bytearray, at: int, value: int) -> None:
    """Write a big-endian number of 16 bits."""
    raw[at : at + 2] = value.to_bytes(2, "big")


def set_dscp(raw: bytearray, ip_at: int, dscp: int) -> None:
    """Write the DSCP of an IP header."""
    shift = 2 if raw[ip_at] >> 4 == 4 else 6
    at = ip_at + (shift == 2)
    size = 1 if shift == 2 else 2
    word = int.from_bytes(raw[at : at + size], "big") & ~(0x3F << shift) | dscp << shift
    raw[at : at + size] = word.to_bytes(size, "big")


def protocol_at(raw: bytes, ip_at: int) -> int:
    """Where an IP header, or the last of its extension headers, names what follows."""
    if raw[ip_at] >> 4 == 4:
        return ip_at + 9
    at, here = ip_at + 6, ip_at + layout.IPV6.size
    while raw[at] in (*layout.NEXT_EXTENSIONS, layout.NEXT_AUTHENTICATION, layout.NEXT_FRAGMENT):
        size = {
            layout.NEXT_AUTHENTICATION: 4 * (raw[here + 1] + 2), layout.NEXT_FRAGMENT: 8
        }.get(raw[at], 8 * (raw[here + 1] + 1))  # fmt: skip
        at, here = here, here + size
    return at
