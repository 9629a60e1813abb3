"""The UDP datagram in a captured frame: Ethernet or another link, MPLS labels, IP, UDP."""

from __future__ import annotations

from dataclasses import dataclass

from .. import layout
from ..buffer import Buffer
from ..dialect import Dialect
from ..errors import WireError
from ..reasons import Place, Reason
from ..rules import UDP_ROLE, Next
from . import ethernet, tunnel


@dataclass(slots=True)
class Datagram:
    """One datagram to a port for which a dialect looks."""

    source: int
    """Address, 128 bits, IPv4 as ::ffff:a.b.c.d."""
    error: WireError | None = None
    """Why its payload cannot be read; the fields below then have no meaning."""
    sport: int = 0
    dport: int = 0
    start: int = 0
    """Offset of its payload in the frame."""
    announced: int = 0
    """Its end according to its header; the capture may have cut it."""


def find_datagram(raw: bytes, link: int, dialect: Dialect) -> Datagram | None:
    """The datagram in a frame; None for another packet, or a packet that is cut before its ports."""
    buf = Buffer(raw)
    try:
        version = _ip_version(buf, link, dialect)
        if version == 0:
            return None
        ip_at = buf.at
        ip = ethernet.pull_ip(buf, version, Place.OUTER_IP)
        if ip.protocol != layout.PROTOCOL_UDP or ip.fragment_offset:
            return None
        if not dialect.table()[UDP_ROLE + buf.peek(layout.PORTS, Place.OUTER_UDP)["dport"]] & 1:
            return None
    except WireError:
        return None  # cut before its port: not a report
    udp_at = buf.at
    try:
        if ip.more_fragments:
            raise WireError(Reason.FRAGMENT, Place.OUTER_IP, ip_at, "first fragment of a datagram")
        udp = ethernet.pull_udp(buf, Place.OUTER_UDP)
        announced = udp_at + udp.length
        if udp.length < layout.UDP.size or announced > ip_at + ip.length:
            raise WireError(
                Reason.BAD_LENGTH, Place.OUTER_UDP, udp_at,
                f"UDP length {udp.length}, the IP length leaves {ip_at + ip.length - udp_at}",
            )  # fmt: skip
    except WireError as error:
        return Datagram(ip.source, error)
    return Datagram(ip.source, None, udp.sport, udp.dport, buf.at, announced)


def _ip_version(buf: Buffer, link: int, dialect: Dialect) -> int:
    """IP version after a frame's link header and MPLS labels, 0 if there is none."""
    type_, _ = ethernet.pull_link(buf, link)
    if type_ not in layout.ETHERTYPE_MPLS:
        return ethernet.ip_version_of(type_)
    following, _ = tunnel.pull_mpls(buf, dialect.table())
    return {Next.IPV4: 4, Next.IPV6: 6}.get(following, 0)
