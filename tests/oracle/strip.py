"""A packet as it was before its INT source: shim, header, stack and tail out, what they changed put back.
The same for IFA: its header, metadata header and stack.

This is the readable truth; `strip_batch.Stripper` is the same for batches.  What is put back, around the INT
and in every header outside it:

* lengths: of IP, UDP, GTP-U and Geneve's options;
* what follows: the UDP port (NPT 1, or the tail of 0.5), the IP protocol (NPT 2, or an inserted UDP header),
  the next protocols of GRE and VXLAN-GPE; GRE and VXLAN-GPE that the source added (G) go;
* the DSCP, where it is one that says INT, and no port does: it becomes what the shim or the tail tell, else
  what `rules.PLAIN_DSCP` says.  Any other was not written by an INT source, and stays, as TTL and ECN do;
* checksums (IPv4, TCP, UDP, GRE; inmost first).  Sources treat them differently, so each decides: where it
  fits the packet without INT as it is, the source left it (or zeroed the sum with a checksum complement), and
  it stays.  Where it fitted the packet with INT, all nodes updated it, and it is updated back.  Where neither
  fits, or the packet is cut, it stays as it is and is counted: damage before is no less visible behind.  A
  UDP checksum of 0 is none, and stays 0.  TCP behind an inserted header was not touched.

Bytes behind the packet's end (padding, trailers) stay behind it.  No padding is added: senders do that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hopscope.wire import layout, rules
from hopscope.wire.buffer import Buffer
from hopscope.wire.dialect import DEFAULT, Dialect
from hopscope.wire.errors import WireError
from hopscope.wire.headers import ethernet
from hopscope.wire.reasons import Place, Reason
from hopscope.wire.records import Carrier, Link, Mode
from hopscope.wire.rules import Next

from .datagram import find_datagram
from .inner import follow
from .locate import IPS, UDP_LENGTH, Header, Way, checksum_at, covered, get16, protocol_at, put16, set_dscp
from .row import Row

_INT = (Next.GRE, Next.INT)
_GPE_FLAGS, _GPE_NEXT, _GPE_NEXT_PRESENT = 0, 3, 0x04
_DPORT = 2


@dataclass(slots=True)
class Restored:
    """What a packet was."""

    frame: bytes
    removed: int = 0
    """Bytes that are gone; 0: it has neither INT-MD nor IFA, and is as it came."""
    unverified: bool = False
    """A checksum fitted neither with them nor without, or the packet is cut: it is as it came."""


def strip_packet(frame: bytes, link: int = Link.ETHERNET, dialect: Dialect = DEFAULT) -> bytes:
    """The frame without its INT-MD or IFA; one without these, or with a report, as it came.

    Raises WireError where its INT, IOAM or IFA is damaged.
    """
    return restore(frame, link, dialect).frame


def restore(frame: bytes, link: int = Link.ETHERNET, dialect: Dialect = DEFAULT) -> Restored:
    """`strip_packet`, and what there is to say of it."""
    if find_datagram(frame, link, dialect) is not None:
        return Restored(frame)
    row = Row({})
    way = Way(Buffer(frame), row, dialect)
    found = follow(way, link)
    if row.error is not None and found:
        raise row.error
    mode = row.fields.get("int_mode")
    if found and mode == Mode.IFA:
        return _IfaRestorer(way).restored()
    if found and mode in (Mode.IOAM_PREALLOCATED, Mode.IOAM_INCREMENTAL, Mode.IOAM_DEX):
        return _without_ioam(way)
    if not found or mode != Mode.MD:
        return Restored(frame)
    if _is_open(way, dialect):
        raise WireError(
            Reason.BAD_LENGTH, Place.INT_SHIM, way.shim_at,
            "shim length 0: what follows the stack cannot be told from it",
        )  # fmt: skip
    return _without_gre(way, link) or _Restorer(way).restored()


def _is_open(way: Way, dialect: Dialect) -> bool:
    """Whether the stack is as long as the packet leaves room, since nothing tells its length."""
    fields = way.row.fields
    is_open = dialect.any_shim_length and way.shim.length == 0 and way.shim.carrier != Carrier.GENEVE
    return is_open and fields["int_version"] >= 10


def _without_gre(way: Way, link: int) -> Restored | None:
    """The packet for which the INT source added GRE (G), where this is the frame's first header (INT 2.1
    5.6.2): the outer IP header goes too and, in front of an Ethernet frame, the outer Ethernet header.
    """
    kinds, shim = [header.kind for header in way.headers], way.shim
    if not shim.added or kinds[1:] != [*_INT] or kinds[0] not in IPS:
        return None
    frame, start, behind = way.buf.raw, way.headers[0].at, way.behind
    if link == Link.ETHERNET and shim.next_protocol == layout.ETHERTYPE_TEB:
        return Restored(frame[behind:], behind)
    if shim.next_protocol not in (layout.ETHERTYPE_IPV4, layout.ETHERTYPE_IPV6):
        return None
    if link == Link.ETHERNET:
        type_ = shim.next_protocol.to_bytes(2, "big")
        return Restored(frame[: start - 2] + type_ + frame[behind:], behind - start)
    return Restored(frame[behind:], behind) if link == Link.RAW_IP else None


class _Restorer:
    """One packet with INT."""

    def __init__(self, way: Way) -> None:
        self.way = way
        self.frame = bytes(way.buf.raw)
        self.l4 = way.headers[-1] if way.headers[-1].kind == Next.L4 else None
        self.inserted = way.shim.carrier == Carrier.UDP_INSERTED or (way.tail is None and way.shim.npt == 2)
        self.cut = self._cut()
        self.removed = way.behind - self.cut
        self.out = bytearray(self.frame[: self.cut] + self.frame[way.behind :])
        self.unverified = False

    def restored(self) -> Restored:
        """The packet without its INT."""
        headers = self.way.headers
        if self.l4 is not None:
            self._carrier()
            if self.inserted:
                headers = headers[:-1]
        for header in headers:
            self._length(header)
        for header in reversed(headers):
            self._checksum(header)
        return Restored(bytes(self.out), self.removed, self.unverified)

    def _cut(self) -> int:
        """Where what goes begins."""
        if self.l4 is None:
            return self.way.shim_at
        if self.inserted:
            return self.l4.at
        if self.l4.ip.protocol == layout.PROTOCOL_UDP:
            return self.l4.at + layout.UDP.size
        words = 5 if self.way.table[rules.FIXED_TCP] else self.frame[self.l4.at + 12] >> 4
        return self.l4.at + 4 * words

    # ------------------------------------------------------------------------------------ what the shim tells

    def _carrier(self) -> None:
        """DSCP, and port or protocol, of a packet whose INT is behind TCP or UDP."""
        assert self.l4 is not None
        way, ip, shim, tail = self.way, self.l4.ip, self.way.shim, self.way.tail
        ip_at = next(header.at for header in reversed(way.headers) if header.kind in IPS)
        dport = int.from_bytes(self.frame[self.l4.at + 2 : self.l4.at + 4], "big")
        tells = tail is not None and tail.protocol == ip.protocol
        if way.table[rules.INT_DSCP + ip.dscp] and not self._said_by_port(dport):
            dscp = int(way.table[rules.PLAIN_DSCP + ip.dscp])
            if tells and tail is not None:
                dscp = tail.dscp & 0x3F
            elif tail is None and way.row.fields["int_version"] >= 10 and shim.npt == 0:
                dscp = shim.original
            set_dscp(self.out, ip_at, dscp)
        if self.inserted:
            protocol = shim.original if tail is None and shim.npt == 2 else layout.PROTOCOL_TCP
            self.out[protocol_at(self.frame, ip_at)] = protocol
        elif tail is not None and tells:
            put16(self.out, self.l4.at + _DPORT, tail.dport)
        elif tail is None and shim.npt == 1:
            put16(self.out, self.l4.at + _DPORT, shim.original)

    def _said_by_port(self, dport: int) -> bool:
        """Whether a port says that INT follows, so that the DSCP did not have to."""
        table, role = self.way.table, int(self.way.table[rules.UDP_ROLE + dport])
        if self.l4 is not None and self.l4.ip.protocol == layout.PROTOCOL_UDP:
            return bool(role & (rules.ROLE_INT | rules.ROLE_INSERTED))
        return bool(table[rules.TCP_PORTS] and role & rules.ROLE_INT)

    # --------------------------------------------------------------------------------- lengths, what follows

    def _length(self, header: Header) -> None:
        """Lengths in a header around the INT, and what it says that follows."""
        at, shim = header.at, self.way.shim
        if header.kind == Next.IPV4:
            self._shorten(at + 2)
        elif header.kind == Next.IPV6:
            self._shorten(at + 4)
        elif header.kind == Next.L4 and header.ip.protocol == layout.PROTOCOL_UDP:
            length = get16(self.out, at + UDP_LENGTH)
            # a source that does not count its INT leaves the packet's own length
            if length != header.limit - at - self.removed and length >= self.removed + layout.UDP.size:
                put16(self.out, at + UDP_LENGTH, length - self.removed)
        elif header.kind == Next.GTP_U:
            self._shorten(at + 2)
        elif header.kind == Next.GENEVE and self.l4 is None and header is self.way.headers[-1]:
            self.out[at] -= self.removed // 4
        elif header.kind == Next.GRE and self._carries(header):
            put16(self.out, at + 2, shim.next_protocol)
        elif header.kind == Next.VXLAN_GPE and self._carries(header):
            self._gpe(header)

    def _carries(self, header: Header) -> bool:
        """Whether the shim follows this tunnel's header."""
        headers = self.way.headers
        return headers[-1].kind == Next.INT and headers[-2] is header

    def _gpe(self, header: Header) -> None:
        shim, at = self.way.shim, header.at
        self.out[at + _GPE_NEXT] = shim.next_protocol
        port = self.way.table[rules.VXLAN_PORT : rules.VXLAN_PORT + 2].tobytes()
        if shim.added and shim.next_protocol == Next.ETHERNET and any(port):
            self.out[at + _GPE_FLAGS] &= ~_GPE_NEXT_PRESENT
            self.out[at + _GPE_NEXT] = 0
            self.out[at - 6 : at - 4] = port

    def _shorten(self, at: int) -> None:
        length = get16(self.out, at)
        if length >= self.removed:
            put16(self.out, at, length - self.removed)

    # ---------------------------------------------------------------------------------------------- checksums

    def _checksum(self, header: Header) -> None:
        """Put the checksum of a header right, if it has one."""
        at = checksum_at(header, self.out)
        is_udp = header.kind == Next.L4 and header.ip.protocol == layout.PROTOCOL_UDP
        if at is None or (is_udp and get16(self.out, at) == 0):
            return
        after = covered(header, self.out, self.removed)
        before = covered(header, self.frame, 0)
        if after is not None and ethernet.checksum(after) == 0:
            return
        if after is None or before is None or ethernet.checksum(before) != 0:
            self.unverified = True
            return
        value = (get16(self.out, at) + ethernet.checksum(after)) % 0xFFFF
        put16(self.out, at, value or 0xFFFF * is_udp)


class _IfaRestorer(_Restorer):
    """One packet with IFA: four bytes before its TCP or UDP header go, then the stack after that header."""

    def __init__(self, way: Way) -> None:
        self.way, self.l4, self.unverified = way, None, False
        self.whole = bytes(way.buf.raw)

    def restored(self) -> Restored:
        """The packet without its IFA."""
        *around, ifa = self.way.headers
        at, metadata = ifa.at, int(self.way.row.fields["int_at"])
        behind = metadata + 4 + 4 * self.whole[metadata + 3]
        protocol = self.whole[at + 1]
        l4 = Header(Next.L4, at, ifa.limit - 4, replace(ifa.ip, protocol=protocol))
        self.frame = self.whole[:at] + self.whole[at + 4 :]  # the TCP or UDP header is where it will be
        self.out = bytearray(self.whole[:at] + self.whole[at + 4 : metadata] + self.whole[behind:])
        self.out[protocol_at(self.whole, around[-1].at)] = protocol
        self.removed = behind - metadata
        self._length(l4)
        self._checksum(l4)
        self.frame, self.removed = self.whole, self.removed + 4
        for header in around:
            self._length(header)
        for header in reversed(around):
            self._checksum(header)
        return Restored(bytes(self.out), self.removed, self.unverified)


def _without_ioam(way: Way) -> Restored:
    """The packet without its hop-by-hop header, where that has IOAM and padding alone; else as it came."""
    frame, at = bytes(way.buf.raw), int(way.row.fields["int_at"])
    around = [header for header in way.headers if header.at + 40 < at]
    while around and around[-1].kind != Next.IPV6:
        around.pop()
    if not around:
        return Restored(frame)
    start = around[-1].at + 40
    length = get16(frame, start - 36)
    area = frame[start : min(start + length, len(frame))]
    size = 8 * (area[1] + 1) if len(area) >= 8 else 0
    if frame[start - 34] != 0 or not start < at < start + size or size > len(area):
        return Restored(frame)
    options = area[2:size]
    while options:
        if options[0] == 0:
            options = options[1:]
        elif options[0] in (1, *layout.IOAM_OPTION_TYPES) and 2 + (*options, 256)[1] <= len(options):
            options = options[2 + options[1] :]
        else:
            return Restored(frame)
    return _IoamRestorer(way, around, start, size).restored()


class _IoamRestorer(_Restorer):
    """One packet without a hop-by-hop header of `removed` bytes at `start`."""

    def __init__(self, way: Way, around: list[Header], start: int, removed: int) -> None:
        self.way, self.l4, self.unverified, self.removed = way, None, False, removed
        self.around, self.frame = around, bytes(way.buf.raw)
        self.out = bytearray(self.frame[:start] + self.frame[start + removed :])
        self.out[start - 34] = self.frame[start]

    def restored(self) -> Restored:
        """The packet without it."""
        for header in self.around:
            self._length(header)
        for header in reversed(self.around):
            self._checksum(header)
        return Restored(bytes(self.out), self.removed, self.unverified)
