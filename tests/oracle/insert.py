"""INT source and transit in one: INT-MD put into an ordinary packet, the inverse of `strip`.

For tests, demonstrations and traffic of the own: every carrier and version that the codecs know.  Lengths and
checksums around the INT are those of the packet that goes out; `Checksums` says how sources treat the
checksum of TCP and UDP, of which there are several ways (INT 2.1, 5.4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from hopscope.wire import layout
from hopscope.wire.buffer import Buffer, push
from hopscope.wire.craft import int_stack as craft_int
from hopscope.wire.craft.int_stack import Telemetry
from hopscope.wire.dialect import DEFAULT, Dialect
from hopscope.wire.errors import WireError
from hopscope.wire.headers import ethernet
from hopscope.wire.headers.ethernet import Ip, Udp
from hopscope.wire.headers.tunnel import by_ethertype
from hopscope.wire.reasons import Place
from hopscope.wire.records import Carrier, Hop, Link
from hopscope.wire.rules import Next
from hopscope.wire.telemetry import hop_stack, int_header
from hopscope.wire.telemetry.int_header import Md, Shim

from .locate import IPS, UDP_LENGTH, Header, Way, checksum_at, covered, get16, protocol_at, put16, set_dscp
from .row import Row

_IN_L4 = (Carrier.TCP, Carrier.UDP, Carrier.UDP_INSERTED)
_TUNNEL = {
    Carrier.GRE: (Next.GRE,), Carrier.VXLAN_GPE: (Next.VXLAN, Next.VXLAN_GPE), Carrier.GENEVE: (Next.GENEVE,)
}  # fmt: skip
_FIRST_ENTROPY_PORT = 49_152
_MAX_OPTION_WORDS = 63
_LENGTH_AT = {Next.IPV4: 2, Next.IPV6: 4, Next.GTP_U: 2}


class Checksums(IntEnum):
    """What the source does with a checksum of TCP or UDP that covers the INT."""

    UPDATE = 0
    """It fits the packet with INT."""
    LEAVE = 1
    """It is that of the packet without INT."""
    ZERO = 2
    """UDP: there is none any more. TCP: as LEAVE."""
    COMPLEMENT = 3
    """It is that of the packet without INT, and fits the one with INT by the source's checksum complement."""


@dataclass(frozen=True, slots=True)
class Form:
    """How INT is put into packets."""

    carrier: Carrier = Carrier.UDP
    npt: int = 1
    """2.x over TCP and UDP: 0 the DSCP says INT, 1 the UDP port does; inserted UDP: 2, or 0 (TCP only)."""
    version: int = 20
    """4, 5, 10 or 20."""
    remaining_hops: int = 8
    checksums: Checksums = Checksums.UPDATE
    added: bool = False
    """GRE: the source adds it (G), with the addresses of the packet."""


def insert_int(
    frame: bytes,
    hops: Sequence[Hop],
    instructions: int,
    form: Form = Form(),
    link: int = Link.ETHERNET,
    dialect: Dialect = DEFAULT,
) -> bytes:
    """The frame with INT-MD of these hops, in path order.

    Raises ValueError where the packet has nothing that carries this form, is cut or a fragment, or becomes
    too long.
    """
    if form.added:
        frame = _with_gre(frame, link)
    way = _way_to(frame, form, link, dialect)
    source = _Source(frame, way, form, dialect)
    return source.insert(list(hops), instructions)


class _Plain(Way):
    """The way to a header, past whatever looks like INT."""

    def find_shim(self, dport: int, *, tentative: bool) -> None:
        """No INT."""


def _way_to(frame: bytes, form: Form, link: int, dialect: Dialect) -> Way:
    """The way to the header behind which the INT goes: the last of its headers."""
    way = _Plain(Buffer(frame), Row({}), dialect)
    wanted = _TUNNEL.get(form.carrier, ())
    try:
        following = by_ethertype(ethernet.pull_link(way.buf, link)[0])
        while following:
            following = way.step(following)
            last = way.headers[-1]
            if last.kind in wanted or (form.carrier in _IN_L4 and _fits(way, form)):
                return way
    except WireError as error:
        raise ValueError(f"found a packet that cannot be read ({error}), expected a whole one") from error
    raise ValueError(f"found no header for INT over {form.carrier.name.lower()}, expected one in the packet")


def _fits(way: Way, form: Form) -> bool:
    """Whether the walk is where INT over TCP and UDP belongs."""
    last = way.headers[-1]
    if form.carrier == Carrier.UDP_INSERTED:
        return last.kind in IPS and (form.npt == 2 or last.ip.protocol == layout.PROTOCOL_TCP)
    wanted = layout.PROTOCOL_TCP if form.carrier == Carrier.TCP else layout.PROTOCOL_UDP
    return last.kind == Next.L4 and last.ip.protocol == wanted


def _with_gre(frame: bytes, link: int) -> bytes:
    """The packet in GRE between the same addresses (INT 2.1 5.6.2)."""
    buf = Buffer(frame)
    type_, _ = ethernet.pull_link(buf, link)
    version = ethernet.ip_version_of(type_)
    if version == 0:
        raise ValueError(f"found EtherType 0x{type_:04x}, expected IP")
    start = buf.at
    try:
        ip = ethernet.pull_ip(buf, version, Place.INNER_IP)
    except WireError as error:
        raise ValueError(f"found {error}, expected an IP packet") from error
    outer = Ip(version, ip.source, ip.destination, layout.PROTOCOL_GRE, dscp=ip.dscp, ecn=ip.ecn)
    outer.length = ip.length + layout.GRE.size + (20 if version == 4 else 40)
    out = bytearray(frame[:start])
    ethernet.push_ip(out, outer)
    push(out, layout.GRE, {"type": type_})
    return bytes(out) + frame[start:]


class _Source:
    """One packet that INT is put into."""

    def __init__(self, frame: bytes, way: Way, form: Form, dialect: Dialect) -> None:
        self.frame = frame
        self.way = way
        self.form = form
        self.dialect = dialect
        self.last = way.headers[-1]
        self.ip_at = next(header.at for header in reversed(way.headers) if header.kind in IPS)
        self.out = bytearray(frame)
        least = layout.TCP.size if self.last.ip.protocol == layout.PROTOCOL_TCP else layout.UDP.size
        if self.last.kind == Next.L4 and self.last.at + least > self.last.limit:
            raise ValueError(f"found a packet that ends in its header at byte {self.last.at}")
        if self.last.limit > len(frame):
            raise ValueError(f"found a packet cut to {len(frame)} bytes, expected all {self.last.limit}")

    def insert(self, hops: list[Hop], instructions: int) -> bytes:
        """The packet with this INT."""
        headers, form = self.way.headers, self.form
        telemetry = self._telemetry(hops, instructions)
        if form.carrier in _IN_L4:
            at, added = self._behind_l4(telemetry)
        else:
            at, added = self._in_tunnel(telemetry)
        self.out[at:at] = added
        for header in headers:
            self._lengthen(header, len(added))
        own = headers[-1]
        if form.checksums == Checksums.COMPLEMENT and own.kind == Next.L4 and instructions & 1 and hops:
            where = at + len(added) - 2
            put16(self.out, where, 0)
            put16(self.out, where, -self._difference(own, -len(added)) % 0xFFFF)
        for header in reversed(headers):
            self._check(header, len(added))
        return bytes(self.out)

    def _telemetry(self, hops: list[Hop], instructions: int) -> Telemetry:
        version, carrier = self.form.version, self.form.carrier
        md = Md(version, 0, self.form.remaining_hops, instructions, total_hops=len(hops))
        md.hop_words = layout.metadata_size(*int_header.form_of(md, self.dialect)) // 4
        body = bytearray()
        int_header.push_md(body, md, self.dialect)
        hop_stack.push_stack(body, md, hops, self.dialect)
        old = version < 20 and carrier != Carrier.GENEVE
        shim = Shim(old, carrier=carrier, npt=self.form.npt if version == 20 and carrier in _IN_L4 else 0)
        return Telemetry(carrier.name.lower(), shim, version, bytes(body))

    # ------------------------------------------------------------------------------------------ TCP and UDP

    def _behind_l4(self, telemetry: Telemetry) -> tuple[int, bytes]:
        """(where the INT goes, its bytes); the headers in front of it say that it follows."""
        ip, at, form, added = self.last.ip, self.last.at, self.form, bytearray()
        if form.carrier == Carrier.UDP_INSERTED:
            craft_int.push_l4(added, telemetry, ip.protocol if form.npt == 2 else 0, (0, 0), self.dialect)
            at = self.way.buf.at
            self.out[protocol_at(self.frame, self.ip_at)] = layout.PROTOCOL_UDP
            entropy = ethernet.checksum(
                self.frame[self.ip_at + 12 : self.ip_at + 20] + self.frame[at : at + 4]
            )
            udp = Udp(_FIRST_ENTROPY_PORT | entropy, self._port(), layout.UDP.size + len(added))
            header = bytearray()
            ethernet.push_udp(header, udp)
            return at, bytes(header + added)
        dport = get16(self.frame, at + 2)
        original, tail = ip.dscp * (form.version >= 10), (ip.protocol, dport, ip.dscp)
        if form.version == 20 and form.npt == 1:
            original = dport
            put16(self.out, at + 2, self._port())
        elif not self.dialect.marker:
            bit = self.dialect.int_dscp_bit
            if bit or self.dialect.int_dscp:
                set_dscp(self.out, self.ip_at, ip.dscp | bit if bit else self.dialect.int_dscp[0])
            elif form.version in (4, 5):
                put16(self.out, at + 2, self._port())
            else:
                raise ValueError(f"found no DSCP for INT in dialect {self.dialect.name}, expected one")
        craft_int.push_l4(added, telemetry, original, tail, self.dialect)
        size = layout.UDP.size
        if ip.protocol == layout.PROTOCOL_TCP:
            size = 20 if self.dialect.fixed_tcp else 4 * (self.frame[at + 12] >> 4)
        return at + size, bytes(added)

    def _port(self) -> int:
        """The port that says INT."""
        known = self.dialect.int_ports
        if self.form.carrier != Carrier.TCP:
            known = (*self.dialect.inserted_udp_ports, *(known if self.form.carrier == Carrier.UDP else ()))
        elif not self.dialect.tcp_ports:
            known = ()
        if not known:
            raise ValueError(f"found no port for INT in dialect {self.dialect.name}, expected one")
        return known[0]

    # -------------------------------------------------------------------------------------------- tunnels

    def _in_tunnel(self, telemetry: Telemetry) -> tuple[int, bytes]:
        """(where the INT goes, its bytes); the tunnel's header says that it follows."""
        at, kind, out, shim = self.last.at, self.last.kind, self.out, telemetry.shim
        if kind == Next.GENEVE:
            added = craft_int.in_tunnel(telemetry, 0, self.dialect).raw
            words = (out[at] & 0x3F) + len(added) // 4
            if words > _MAX_OPTION_WORDS or out[at] >> 6:
                raise ValueError(
                    f"found {words} words of Geneve options, expected {_MAX_OPTION_WORDS} at most"
                )
            out[at] += len(added) // 4
            return at + layout.GENEVE.size, added
        shim.added = self.form.added or kind == Next.VXLAN
        if kind == Next.GRE:
            if out[at] & 0x40 or out[at + 1] & 7:
                raise ValueError("found GRE with routing or of another version, expected version 0")
            told = craft_int.in_tunnel(telemetry, get16(out, at + 2), self.dialect)
            put16(out, at + 2, told.protocol)
            return self.way.buf.at, told.raw
        flags, next_ = out[at], out[at + 3]
        type_ = {1: layout.ETHERTYPE_IPV4, 2: layout.ETHERTYPE_IPV6, 3: layout.ETHERTYPE_TEB}.get(next_)
        made_gpe = kind == Next.VXLAN and self.form.version == 20 and self.dialect.gpe_ports
        if made_gpe and flags == 0x08 and next_ == 0:
            type_, out[at] = layout.ETHERTYPE_TEB, flags | 0x04
            put16(out, self.way.headers[-2].at + 2, self.dialect.gpe_ports[0])
        elif type_ is None or flags & 0x35 != 0x04:
            raise ValueError(f"found VXLAN with flags 0x{flags:02x} and next protocol {next_}")
        told = craft_int.in_tunnel(telemetry, type_, self.dialect)
        out[at + 3] = told.protocol
        return at + layout.VXLAN_GPE.size, told.raw

    # -------------------------------------------------------------------------------- lengths and checksums

    def _lengthen(self, header: Header, added: int) -> None:
        at = header.at + _LENGTH_AT.get(header.kind, 0)
        if header.kind == Next.L4 and header.ip.protocol == layout.PROTOCOL_UDP:
            at += UDP_LENGTH
        if at == header.at or get16(self.out, at) == 0:
            return
        length = get16(self.out, at) + added
        if length > 0xFFFF:
            raise ValueError(f"found a packet of {length} bytes with INT, expected 65535 at most")
        put16(self.out, at, length)

    def _difference(self, header: Header, removed: int) -> int:
        """What the checksum of a header misses, mod 0xFFFF."""
        before, after = covered(header, self.frame, 0), covered(header, self.out, removed)
        if before is None or after is None:
            raise ValueError(f"found a length that contradicts its packet's at byte {header.at}")
        return ethernet.checksum(before) - ethernet.checksum(after)

    def _check(self, header: Header, added: int) -> None:
        at, how = checksum_at(header, self.out), self.form.checksums
        if at is None:
            return
        is_udp = header.kind == Next.L4 and header.ip.protocol == layout.PROTOCOL_UDP
        if is_udp and (how == Checksums.ZERO or get16(self.out, at) == 0):
            put16(self.out, at, 0)
        elif how == Checksums.UPDATE or header.kind == Next.IPV4:
            value = (get16(self.out, at) - self._difference(header, -added)) % 0xFFFF
            put16(self.out, at, value or 0xFFFF * is_udp)
