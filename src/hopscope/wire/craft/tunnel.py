"""Tunnels around a crafted packet: each adds one more outer IP header."""

from __future__ import annotations

from dataclasses import dataclass

from .. import layout
from ..buffer import push
from ..dialect import Dialect
from ..headers import ethernet
from ..headers.ethernet import Ethernet, Ip, Tcp, Udp
from ..layout import SOURCE_MAC, TARGET_MAC
from ..telemetry import ioam
from .keys import CraftError

_ENDS_4 = (0xFFFF_C633_6401, 0xFFFF_C633_6402)
_ENDS_6 = (0x20010DB8_00000000_00000001_00000001, 0x20010DB8_00000000_00000001_00000002)
"""198.51.100.1 and .2, 2001:db8::1:0:1 and :2: the ends of every tunnel."""
ENTROPY = 49_152
"""Source port of tunnels over UDP."""
ORDER = ("gre", "gtp_u", "geneve", "vxlan_gpe", "vxlan", "erspan", "ip_in_ip")
"""Tunnels from the inside out: those with ids of 32 bits are innermost, since reports have that id."""
_ACK = 0x10
_NEXT = {layout.ETHERTYPE_IPV4: 1, layout.ETHERTYPE_IPV6: 2, layout.ETHERTYPE_TEB: 3}
_HOP_BY_HOP = 0
_Payload = tuple[int, int, bytes]
"""IP protocol, UDP port (0: no UDP), and the bytes after these headers."""
_VALID_VNI, _NEXT_PRESENT = 0x08, 0x04


@dataclass(slots=True)
class Inside:
    """The contents of a tunnel: an IP packet, or an Ethernet frame."""

    type: int
    """EtherType."""
    raw: bytes


@dataclass(slots=True)
class Shimmed:
    """INT that a tunnel carries before the packet."""

    protocol: int
    """Protocol number by which the tunnel's header announces it."""
    raw: bytes
    """Shim, header and stack."""


def packet(ip: Ip, segment: bytes, option: bytes = b"") -> Inside:
    """An IP packet with this payload, and for IPv6 an optional option; sets the length."""
    if option:
        extension = bytearray()
        ioam.push_extension(extension, option, ip.protocol)
        ip.options, ip.protocol = bytes(extension), _HOP_BY_HOP
    ip.length = (20 if ip.version == 4 else 40) + len(ip.options) + len(segment)
    out = bytearray()
    ethernet.push_ip(out, ip)
    return Inside(layout.ETHERTYPE_IPV4 if ip.version == 4 else layout.ETHERTYPE_IPV6, bytes(out + segment))


def segment(ip: Ip, ports: tuple[int, int], payload: bytes) -> bytes:
    """TCP or UDP, by the protocol of `ip`, with its checksum, and the payload."""
    out = bytearray()
    if ip.protocol == layout.PROTOCOL_TCP:
        ethernet.push_tcp(out, Tcp(*ports, flags=_ACK, window=0xFFFF))
        at = 16
    else:
        ethernet.push_udp(out, Udp(*ports, 8 + len(payload)))
        at = 6
    out += payload
    check = ethernet.segment_checksum(ip, ip.protocol, bytes(out))
    if ip.protocol == layout.PROTOCOL_UDP:
        check = check or 0xFFFF
    out[at : at + 2] = check.to_bytes(2, "big")
    return bytes(out)


def frame(inside: Inside, tags: tuple[tuple[int, int], ...] = (), labels: int = 0) -> bytes:
    """An Ethernet frame with VLAN tags and a number of MPLS labels."""
    out = bytearray()
    type_ = layout.ETHERTYPE_MPLS[0] if labels else inside.type
    ethernet.push_ethernet(out, Ethernet(TARGET_MAC, SOURCE_MAC, type_, tags))
    for label in range(labels):
        push(out, layout.MPLS, {"label": 16 + label, "bottom": label == labels - 1, "ttl": 64})
    return bytes(out) + inside.raw


def wrap(
    name: str, inside: Inside, number: int, telemetry: Shimmed | None, dialect: Dialect, option: bytes = b""
) -> Inside:
    """The tunnel packet around `inside`, with tunnel id `number`; it is IPv6 if it has an option."""
    most = 0xFFFFFFFF if name in ("gre", "gtp_u") else 0xFFFFFF if name != "ip_in_ip" else 0
    if number > most:
        raise CraftError("flow.tunnel_id", f"{number} does not fit a tunnel of {name} ({most} at most)")
    protocol, port, payload = _WRAP[name](inside, number, telemetry, dialect)
    ip = Ip(6, *_ENDS_6, protocol) if option else Ip(4, *_ENDS_4, protocol)
    return packet(ip, segment(ip, (ENTROPY, port), payload) if port else payload, option)


def _gre(inside: Inside, key: int, telemetry: Shimmed | None, dialect: Dialect) -> _Payload:
    out = bytearray()
    type_ = telemetry.protocol if telemetry else inside.type
    push(out, layout.GRE, {"key_present": key > 0, "type": type_})
    if key:
        out += key.to_bytes(4, "big")
    return layout.PROTOCOL_GRE, 0, bytes(out) + (telemetry.raw if telemetry else b"") + inside.raw


def _vxlan(inside: Inside, vni: int, telemetry: Shimmed | None, dialect: Dialect) -> _Payload:
    out = bytearray()
    push(out, layout.VXLAN, {"flags": _VALID_VNI, "vni": vni})
    return layout.PROTOCOL_UDP, _port(dialect.vxlan_ports, "vxlan"), bytes(out) + frame(inside)


def _vxlan_gpe(inside: Inside, vni: int, telemetry: Shimmed | None, dialect: Dialect) -> _Payload:
    out = bytearray()
    next_ = telemetry.protocol if telemetry else next_protocol(inside.type)
    push(out, layout.VXLAN_GPE, {"flags": _VALID_VNI | _NEXT_PRESENT, "next_protocol": next_, "vni": vni})
    raw = bytes(out) + (telemetry.raw if telemetry else b"") + inside.raw
    return layout.PROTOCOL_UDP, _port(dialect.gpe_ports, "vxlan_gpe"), raw


def _geneve(inside: Inside, vni: int, telemetry: Shimmed | None, dialect: Dialect) -> _Payload:
    options = telemetry.raw if telemetry else b""
    if len(options) > 4 * 63:
        raise CraftError("hops", f"Geneve options of {len(options)} bytes, 252 at most")
    out = bytearray()
    push(out, layout.GENEVE, {"option_words": len(options) // 4, "type": inside.type, "vni": vni})
    return layout.PROTOCOL_UDP, _port(dialect.geneve_ports, "geneve"), bytes(out) + options + inside.raw


def _gtp_u(inside: Inside, teid: int, telemetry: Shimmed | None, dialect: Dialect) -> _Payload:
    out = bytearray()
    push(out, layout.GTP_U, {
        "version": 1, "protocol": 1, "message": layout.GTP_U_USER_PACKET, "length": len(inside.raw),
        "teid": teid,
    })  # fmt: skip
    return layout.PROTOCOL_UDP, _port(dialect.gtpu_ports, "gtp_u"), bytes(out) + inside.raw


def _ip_in_ip(inside: Inside, number: int, telemetry: Shimmed | None, dialect: Dialect) -> _Payload:
    four = inside.type == layout.ETHERTYPE_IPV4
    return layout.PROTOCOL_IPV4 if four else layout.PROTOCOL_IPV6, 0, inside.raw


def _erspan(inside: Inside, number: int, telemetry: Shimmed | None, dialect: Dialect) -> _Payload:
    out = bytearray()
    push(out, layout.GRE, {"sequence_present": 1, "type": layout.ETHERTYPE_ERSPAN_2})
    out += bytes(4)
    push(out, layout.ERSPAN_2, {"version": 1})
    return layout.PROTOCOL_GRE, 0, bytes(out) + frame(inside)


_WRAP = {
    "gre": _gre, "vxlan": _vxlan, "vxlan_gpe": _vxlan_gpe, "geneve": _geneve, "gtp_u": _gtp_u,
    "ip_in_ip": _ip_in_ip, "erspan": _erspan,
}  # fmt: skip


def next_protocol(type_: int) -> int:
    """The next protocol of VXLAN-GPE that stands for an EtherType."""
    return _NEXT[type_]


def _port(ports: tuple[int, ...], name: str) -> int:
    if not ports:
        raise CraftError("flow.layers", f"the dialect has no port for {name}")
    return ports[0]
