"""The way into a packet, by the scalar codecs: its layers from the outside in, its flow, its telemetry.

`Walk` is at one header at a time. Each step reads it and says what follows (`rules.Next`), until nothing
does.

* The flow is that of the innermost IP header that can be read, behind INT too; what lies around it is written
  together with it.
* The first INT found is the packet's. IOAM, in options of an IPv6 header on the way, counts where there is
  none.
* Damage behind complete INT, or behind a trace, is no refusal. Nor is what looked like a tunnel but is not,
  or is cut: reports bring the beginnings of packets. What was announced as INT is refused where a report says
  that INT follows (F); otherwise it is ordinary traffic.
"""

from __future__ import annotations

from collections.abc import Callable

from hopscope.wire import layout, rules
from hopscope.wire.buffer import Buffer
from hopscope.wire.dialect import Dialect
from hopscope.wire.errors import WireError
from hopscope.wire.headers import ethernet, tunnel
from hopscope.wire.headers.ethernet import Ip
from hopscope.wire.headers.tunnel import Found, Table
from hopscope.wire.reasons import Place, Reason
from hopscope.wire.records import Carried, Carrier, Flag, Hop, Layer, Mode
from hopscope.wire.rules import Next
from hopscope.wire.telemetry.hop_stack import Tail
from hopscope.wire.telemetry.int_header import Md, Shim

from . import report
from .ethernet import pull_tcp
from .ifa import is_ifa, read_ifa
from .int_header import pull_header, pull_stack, row_fields
from .ioam import is_in, read_extensions
from .packet_id import packet_id
from .report import pull_tlvs
from .row import Row
from .tunnel import (
    by_gpe,
    pull_erspan_1,
    pull_erspan_2,
    pull_erspan_3,
    pull_geneve,
    pull_gre,
    pull_gtp_u,
    pull_vxlan,
    pull_vxlan_gpe,
)

LOW = (1 << 64) - 1
_TUNNELS: dict[Next, tuple[Layer, Callable[[Buffer, Table], Found]]] = {
    Next.MPLS: (Layer.MPLS, tunnel.pull_mpls),
    Next.GRE: (Layer.GRE, pull_gre),
    Next.ERSPAN_1: (Layer.ERSPAN, pull_erspan_1),
    Next.ERSPAN_2: (Layer.ERSPAN, pull_erspan_2),
    Next.ERSPAN_3: (Layer.ERSPAN, pull_erspan_3),
    Next.VXLAN: (Layer.VXLAN, pull_vxlan),
    Next.VXLAN_GPE: (Layer.VXLAN_GPE, pull_vxlan_gpe),
    Next.GTP_U: (Layer.GTP_U, pull_gtp_u),
}
_OF_INT = (
    Place.INT_SHIM, Place.INT_HEADER, Place.INT_STACK, Place.INT_TAIL, Place.IOAM_OPTION, Place.IOAM_DATA,
    Place.IFA,
)  # fmt: skip


def read_inner(buf: Buffer, inner_type: int, row: Row, dialect: Dialect) -> None:
    """The packet that a report brought, into the row. Raises WireError: see the reasons."""
    if inner_type == report.INNER_TLV:
        found = pull_tlvs(buf)
        if found is None:
            return
        inner_type, start, end = found
        buf = Buffer(buf.raw, start, end)
    if inner_type in (report.INNER_ETHERNET, report.INNER_IPV4, report.INNER_IPV6):
        Walk(buf, row, dialect).run(Next(inner_type))


def read_packet(buf: Buffer, link: int, row: Row, dialect: Dialect) -> bool:
    """A captured packet, into the row; whether it carries telemetry, sound or damaged, or hides what
    it carries behind too many layers.
    """
    return follow(Walk(buf, row, dialect), link)


def follow(walk: Walk, link: int) -> bool:
    """`read_packet` by this walk, which is at the packet's start."""
    row = walk.row
    try:
        type_, tags = ethernet.pull_link(walk.buf, link)
        walk.note_tags(tags)
        walk.run(tunnel.by_ethertype(type_))
    except WireError as error:
        row.refuse(error)
        damaged = error.place in _OF_INT or error.reason == Reason.TOO_MANY_LAYERS
        return damaged or bool(row.fields.get("int_version"))
    return bool(row.fields.get("int_version"))


class Walk:
    """The way into one packet."""

    def __init__(self, buf: Buffer, row: Row, dialect: Dialect) -> None:
        self.buf = buf
        self.row = row
        self.dialect = dialect
        self.table: Table = dialect.table()
        self.layers = 0
        self.vlan = 0
        self.tunnel_id = 0
        self.depth = 0
        self.ip = Ip()
        self.behind_ports: int | None = None
        """Of the innermost IP header."""
        self.carrier = Carrier.NONE
        """Tunnel whose header says that INT follows."""
        self.trace: tuple[int, int] | None = None
        """The first IPv6 header with IOAM, and where its extension headers end."""
        self.inside = False
        """Behind the first IP packet's ports: there may be a tunnel or INT, or not."""
        self.certain = False
        """A port or a tunnel announces INT, and not a DSCP alone."""
        self.told = False
        """What is damaged lies in front of INT that DSCP, port or marker announce."""
        self.complete = False
        """The packet's INT was read."""

    def run(self, following: Next) -> None:
        """Walk on to the end. Raises WireError where the packet is refused."""
        try:
            while following:
                following = self.step(following)
        except WireError as error:
            if self.matters(error):
                raise
        if self.trace and not self.row.fields.get("int_version"):
            read_extensions(self.buf.raw, *self.trace, self.row, self.dialect)
        self.identify()

    def matters(self, error: WireError) -> bool:
        """Whether damage is a refusal."""
        found = self.row.fields.get("int_version")
        if self.complete or (self.trace and not found):
            return False
        if found or error.reason == Reason.TOO_MANY_LAYERS or not self.inside:
            return True
        if self.certain and error.place in _OF_INT and not self.row.fields.get("version"):
            return True
        cut = error.place == Place.INT_HEADER and error.reason == Reason.TRUNCATED
        announced = self.told or error.place in _OF_INT
        return cut or (announced and self.tracked)

    @property
    def tracked(self) -> bool:
        """Whether a report says that the packet carries INT."""
        return bool(self.row.fields.get("flags", 0) & Flag.TRACKED)

    def identify(self) -> None:
        """What joins the postcards of a packet, where this is one, or no report brought it."""
        fields = self.row.fields
        mode, own = fields.get("int_mode", 0), fields.get("carried", 0) & Carried.OWN_HOP
        bare = not fields.get("version") and mode != Mode.MD  # a stack is no postcard
        wanted = bare or mode == Mode.MX or (own and not mode)
        if wanted and self.depth and not fields.get("packet_id"):
            end = min(self.buf.end, self.buf.limit)
            self.row.set(packet_id=packet_id(self.ip, self.buf.raw, self.behind_ports, end))

    # ------------------------------------------------------------------------------------------------- steps

    def step(self, here: Next) -> Next:
        """Read the header at this position; returns what follows."""
        if here in (Next.IPV4, Next.IPV6):
            return self.read_ip(4 if here == Next.IPV4 else 6)
        if here == Next.ETHERNET:
            frame = ethernet.pull_ethernet(self.buf, Place.INNER_ETHERNET)
            self.note_tags(frame.tags)
            return tunnel.by_ethertype(frame.type)
        if here == Next.L4:
            return self.read_l4()
        if here == Next.INT:
            return self.read_shimmed()
        if here == Next.GENEVE:
            return self.read_geneve()
        if here == Next.IFA:
            return self.read_ifa()
        layer, pull = _TUNNELS[here]
        following, tunnel_id = pull(self.buf, self.table)
        mirrors = following in (Next.ERSPAN_1, Next.ERSPAN_2, Next.ERSPAN_3)
        self.note(Layer.ERSPAN if mirrors else layer, tunnel_id)
        self.carrier = Carrier.GRE if here == Next.GRE else Carrier.VXLAN_GPE
        return following

    def note(self, layer: Layer, tunnel_id: int | None = None) -> None:
        """A layer around the next IP header."""
        self.layers |= layer
        if tunnel_id is not None:
            self.tunnel_id = tunnel_id

    def note_tags(self, tags: tuple[tuple[int, int], ...]) -> None:
        """VLAN tags around the next IP header."""
        if tags:
            self.note(Layer.VLAN if len(tags) == 1 else Layer.QINQ)
            self.vlan = tags[-1][1] & 0xFFF

    def read_ip(self, version: int) -> Next:
        """An IP header: the flow, as far as it goes."""
        buf, row = self.buf, self.row
        if self.depth == layout.MAX_LAYERS:
            raise WireError(
                Reason.TOO_MANY_LAYERS, Place.TUNNEL, buf.at, f"more than {layout.MAX_LAYERS} IP headers"
            )
        start = buf.at
        any_length = bool(self.table[rules.ANY_IP_LENGTH])
        ip = ethernet.pull_ip(buf, version, Place.INNER_IP, any_length=any_length)
        self.depth += 1
        self.ip, self.behind_ports = ip, None
        row.set(src_hi=ip.source >> 64, src_lo=ip.source & LOW, dst_hi=ip.destination >> 64,
                dst_lo=ip.destination & LOW, proto=ip.protocol, sport=0, dport=0, ip_version=version,
                inner_length=ip.length, ttl=ip.ttl, layers=self.layers, vlan=self.vlan,
                tunnel_id=self.tunnel_id)  # fmt: skip
        row.fields["carried"] = row.fields.get("carried", 0) & ~Carried.PORTS | Carried.FLOW
        if self.trace is None and ip.options and version == 6 and is_in(buf.raw, start, buf.at):
            self.trace = (start, buf.at)
        if ip.fragment:
            raise WireError(Reason.FRAGMENT, Place.INNER_IP, start, "the inner packet is a fragment")
        if ip.protocol and ip.protocol == self.table[rules.IFA_PROTOCOL] and not self.complete:
            self.inside = True
            return Next.IFA if is_ifa(buf) else Next.NOTHING
        return self.behind_protocol(ip.protocol)

    def read_ifa(self) -> Next:
        """IFA, and the header that it is around; returns what follows the stack."""
        try:
            read_ifa(self.buf, self.row)
        except WireError:
            self.certain = True
            raise
        self.finish(self.row.hops)
        fields = self.row.fields
        is_udp = fields["proto"] == layout.PROTOCOL_UDP
        return tunnel.by_port(fields["dport"], self.table) if is_udp else Next.NOTHING

    def behind_protocol(self, protocol: int) -> Next:
        """What follows by IP protocol."""
        following = tunnel.by_protocol(protocol)
        if following in (Next.IPV4, Next.IPV6):
            self.note(Layer.IP_IN_IP)
        self.inside |= following != Next.L4
        return following

    def read_l4(self) -> Next:
        """TCP or UDP: ports, then INT, or a tunnel by its port."""
        buf, row = self.buf, self.row
        ports = buf.peek(layout.PORTS, Place.INNER_L4)
        row.set(**ports)
        row.carry(Carried.PORTS)
        self.behind_ports = buf.at + layout.PORTS.size
        self.inside = True
        is_udp = row.fields["proto"] == layout.PROTOCOL_UDP
        following = tunnel.by_port(ports["dport"], self.table) if is_udp else Next.NOTHING
        if not self.complete:
            start = buf.at
            found = self.find_shim(ports["dport"], tentative=bool(following))
            if found is not None:
                return self.behind_l4(*found)
            buf.at = start
        if following:
            ethernet.pull_udp(buf, Place.INNER_L4)
        return following

    # --------------------------------------------------------------------------------------------------- INT

    def find_shim(self, dport: int, *, tentative: bool) -> tuple[Shim, Md, int] | None:
        """INT behind TCP or UDP: (shim, header, offset of the header); None where there is none.

        `tentative`: what is no INT is a tunnel. Raises WireError where there should be INT.
        """
        buf, marker = self.buf, self.dialect.marker
        is_udp = self.row.fields["proto"] == layout.PROTOCOL_UDP
        role = int(self.table[rules.UDP_ROLE + dport])
        told = self.says_int(is_udp, role)
        if not told and not marker:
            return None
        try:
            if is_udp:
                ethernet.pull_udp(buf, Place.INNER_L4)
            else:
                self.pull_tcp()
            if marker and buf.raw[buf.at : min(buf.at + len(marker), buf.end, buf.limit)] == marker:
                buf.at += len(marker)
                told = True
            if not told:
                return None
            if is_udp:
                carrier = Carrier.UDP_INSERTED if role & rules.ROLE_INSERTED else Carrier.UDP
            else:
                carrier = Carrier.TCP
            return self.pull_header(buf, carrier)
        except WireError:
            if told and (not tentative or self.row.fields.get("int_version")):
                self.told = True
                self.certain = bool(role & rules.ROLE_INT and (is_udp or self.table[rules.TCP_PORTS]))
                raise
            return None

    def says_int(self, is_udp: bool, role: int) -> bool:
        """Whether DSCP, port or dialect say that INT follows TCP or UDP."""
        table = self.table
        if table[rules.INT_DSCP + self.ip.dscp]:
            return True
        fields = self.row.fields
        if table[rules.ASSUME_INT] and fields.get("version") and not fields.get("flags", 0) & Flag.DROPPED:
            return True
        if is_udp:
            return bool(role & (rules.ROLE_INT | rules.ROLE_INSERTED))
        return bool(table[rules.TCP_PORTS] and role & rules.ROLE_INT)

    def pull_tcp(self) -> None:
        """A TCP header; in some dialects INT is in front of its options."""
        start = self.buf.at
        if not self.table[rules.FIXED_TCP]:
            pull_tcp(self.buf, Place.INNER_L4)
            return
        size = 4 * self.buf.pull(layout.TCP, Place.INNER_L4)["header_words"]
        if size < layout.TCP.size:
            raise WireError(
                Reason.BAD_LENGTH, Place.INNER_L4, start,
                f"TCP header of {size} bytes, at least 20 are needed",
            )  # fmt: skip

    def pull_header(self, buf: Buffer, carrier: Carrier) -> tuple[Shim, Md, int]:
        """Shim and INT header: (shim, header, offset of the header)."""
        return pull_header(buf, carrier, self.dialect, self.row.fields.get("version", 0), self.row.fields)

    def pull_hops(self, buf: Buffer, shim: Shim, md: Md, at: int) -> tuple[list[Hop], Tail | None]:
        """The stack behind an INT header, and the tail of 0.4 and 0.5."""
        self.row.set(**row_fields(shim, md, at))
        return pull_stack(buf, shim, md, self.dialect)

    def finish(self, hops: list[Hop]) -> None:
        """The INT is complete."""
        self.row.hops = hops
        self.complete = True

    def behind_l4(self, shim: Shim, md: Md, at: int) -> Next:
        """INT over TCP and UDP, then the packet's own port and protocol; returns what follows INT."""
        row = self.row
        protocol = row.fields["proto"]
        hops, tail = self.pull_hops(self.buf, shim, md, at)
        original = None
        if tail is not None and tail.protocol == protocol:  # programs that do not fill it leave 0
            row.set(dport=tail.dport)
        if tail is None and shim.npt == 2:
            original = shim.original
        elif shim.carrier == Carrier.UDP_INSERTED:
            original = layout.PROTOCOL_TCP
        elif tail is None and shim.npt == 1:
            row.set(dport=shim.original)
        if original is not None:
            self.restore(original)
            self.finish(hops)
            return self.behind_protocol(original)
        self.finish(hops)
        if protocol == layout.PROTOCOL_UDP:
            return tunnel.by_port(row.fields["dport"], self.table)
        return Next.NOTHING

    def restore(self, protocol: int) -> None:
        """The UDP header was added with INT; the packet's own header follows the stack."""
        if protocol in (layout.PROTOCOL_TCP, layout.PROTOCOL_UDP):
            self.row.set(**self.buf.peek(layout.PORTS, Place.INNER_L4), proto=protocol)
            return
        self.row.set(proto=protocol, sport=0, dport=0)
        self.row.fields["carried"] &= ~Carried.PORTS

    def read_shimmed(self) -> Next:
        """INT over GRE and VXLAN-GPE, whose shim says what follows it."""
        if self.complete:
            return Next.NOTHING
        self.certain = True
        shim, md, at = self.pull_header(self.buf, self.carrier)
        hops, _ = self.pull_hops(self.buf, shim, md, at)
        self.finish(hops)
        if shim.carrier == Carrier.GRE:
            return tunnel.by_ethertype(shim.next_protocol)
        return by_gpe(shim.next_protocol, self.table)

    def read_geneve(self) -> Next:
        """Geneve, and the INT in its options."""
        following, vni, option = pull_geneve(self.buf, self.table)
        self.note(Layer.GENEVE, vni)
        if option is not None and not self.complete:
            inside = Buffer(self.buf.raw, option[0], self.buf.end)
            inside.limit = min(self.buf.limit, option[1])
            try:
                found = self.pull_header(inside, Carrier.GENEVE)
            except WireError:
                fields = self.row.fields
                if self.tracked or not fields.get("version") or fields.get("int_version"):
                    self.certain = True
                    raise
                return following
            hops, _ = self.pull_hops(inside, *found)
            self.finish(hops)
        return following
