"""The UDP datagram in a captured frame, also inside tunnels."""

from __future__ import annotations

from hopscope.wire import layout
from hopscope.wire.buffer import Buffer
from hopscope.wire.dialect import Dialect
from hopscope.wire.errors import WireError
from hopscope.wire.headers import ethernet, tunnel
from hopscope.wire.headers.datagram import Datagram
from hopscope.wire.reasons import Place, Reason
from hopscope.wire.rules import UDP_ROLE, Next

from .tunnel import (
    pull_erspan_1,
    pull_erspan_2,
    pull_erspan_3,
    pull_geneve,
    pull_gre,
    pull_gtp_u,
    pull_vxlan,
    pull_vxlan_gpe,
)

_FAR = 1 << 62
_IPS = {Next.IPV4: 4, Next.IPV6: 6}
_TUNNELS = {
    Next.MPLS: tunnel.pull_mpls, Next.GRE: pull_gre, Next.ERSPAN_1: pull_erspan_1,
    Next.ERSPAN_2: pull_erspan_2, Next.ERSPAN_3: pull_erspan_3, Next.VXLAN: pull_vxlan,
    Next.VXLAN_GPE: pull_vxlan_gpe, Next.GTP_U: pull_gtp_u,
}  # fmt: skip


def find_datagram(raw: bytes, link: int, dialect: Dialect) -> Datagram | None:
    """The first datagram to a port that the dialect looks for; None without one."""
    buf, table = Buffer(raw), dialect.table()
    layers, bound = 0, _FAR
    try:
        type_, _ = ethernet.pull_link(buf, link)
        here = tunnel.by_ethertype(type_)
        layers -= here in _IPS
        while here in (*_IPS, *_TUNNELS, Next.ETHERNET, Next.GENEVE) and layers <= layout.MAX_LAYERS:
            if here in _IPS:
                layers += 1
                found, here, bound = _in_packet(buf, _IPS[here], bound, dialect)
                if found is not None:
                    return found
            elif here == Next.ETHERNET:
                here = tunnel.by_ethertype(ethernet.pull_ethernet(buf, Place.TUNNEL).type)
            elif here == Next.GENEVE:
                here, _, _ = pull_geneve(buf, table)
            else:
                here, _ = _TUNNELS[here](buf, table)
    except WireError:
        return None  # cut before its port: not a report
    return None


def _in_packet(buf: Buffer, version: int, bound: int, dialect: Dialect) -> tuple[Datagram | None, Next, int]:
    """The datagram of the IP packet at this position, or what the packet encloses and where that ends."""
    ip_at = buf.at
    ip = ethernet.pull_ip(buf, version, Place.OUTER_IP)
    bound = min(ip_at + ip.length, bound)
    if ip.fragment_offset:
        return None, Next.NOTHING, bound
    buf.limit = min(buf.end, bound)
    if ip.protocol != layout.PROTOCOL_UDP:
        return None, tunnel.by_protocol(ip.protocol), bound
    udp_at, dport = buf.at, buf.peek(layout.PORTS, Place.OUTER_UDP)["dport"]
    table = dialect.table()
    if not table[UDP_ROLE + dport] & 1:
        buf.at += layout.UDP.size
        return None, tunnel.by_port(dport, table), bound
    try:
        if ip.more_fragments:
            raise WireError(Reason.FRAGMENT, Place.OUTER_IP, ip_at, "first fragment of a datagram")
        udp = ethernet.pull_udp(buf, Place.OUTER_UDP)
        announced = udp_at + udp.length
        if udp.length < layout.UDP.size or announced > bound:
            raise WireError(
                Reason.BAD_LENGTH,
                Place.OUTER_UDP,
                udp_at,
                f"UDP length {udp.length}, the IP length leaves less",
            )
    except WireError as error:
        return Datagram(ip.source, error), Next.NOTHING, bound
    return Datagram(ip.source, None, udp.sport, udp.dport, buf.at, announced), Next.NOTHING, bound
