"""A packet around its INT: Ethernet, tags, labels, tunnels, IP and L4, with correct lengths and checksums."""

from __future__ import annotations

from .. import layout, rules
from ..dialect import Dialect
from ..headers import ethernet
from ..headers.ethernet import Ethernet, Ip
from ..layout import SOURCE_MAC, TARGET_MAC
from ..records import Layer
from ..telemetry import ifa, int_header
from . import int_stack as craft_int
from . import tunnel as craft_tunnel
from .ifa import Stack
from .int_stack import Telemetry
from .keys import CraftError, Keys
from .tunnel import Inside, segment

_LAYERS = tuple(layer.name.lower() for layer in Layer)
_SPORT, _DPORT = 40_000, 50_000
_V4, _V6 = ("192.0.2.1", "192.0.2.2"), ("2001:db8::1", "2001:db8::2")
_MAPPED_PREFIX = 0xFFFF
_WITH_PORTS = (layout.PROTOCOL_TCP, layout.PROTOCOL_UDP)
_IN_TUNNEL = ("gre", "vxlan_gpe", "geneve")
_SERVICE_TAG, _TAG = 0x88A8, 0x8100


def push_packet(out: bytearray, keys: Keys, telemetry: Telemetry | None, dialect: Dialect) -> None:
    """Append the Ethernet frame that `flow` describes, with the INT in it."""
    flow = keys.part("flow")
    ip, ports = _headers(flow, telemetry, dialect)
    layers = flow.words("layers", _LAYERS)
    vlan = flow.number("vlan", 0xFFF, 0)
    tunnel_id = flow.number("tunnel_id", 0xFFFFFFFF, 0)
    flow.close("a flow")
    carrier = telemetry.carrier if telemetry else ""
    option = telemetry.body if telemetry and carrier == craft_int.IN_OPTION else b""
    names = [name for name in craft_tunnel.ORDER if name in layers or name == carrier]
    if telemetry is not None and telemetry.ifa is not None:
        inside = _with_ifa(ip, ports, telemetry.ifa, dialect)
    elif telemetry is not None and carrier not in (*_IN_TUNNEL, craft_int.IN_OPTION):
        ip.dscp = _dscp(dialect)
        inside = _with_int(ip, ports, telemetry, dialect)
    else:
        here = option if ip.version == 6 else b""
        if option and not here and not names:
            raise CraftError("flow.src", "IOAM is carried in IPv6: no tunnel is named that could be IPv6")
        inside = craft_tunnel.packet(ip, segment(ip, ports, b"") if ports else b"", here)
        option = b"" if here else option
    if tunnel_id and set(names) <= {"ip_in_ip"}:
        names.insert(0, "gre")
    for name in names:
        carried = None
        if telemetry is not None and name == carrier:
            carried = craft_int.in_tunnel(telemetry, inside.type, dialect)
        number = tunnel_id if name != "ip_in_ip" else 0
        outmost = option if name == names[-1] else b""
        inside = craft_tunnel.wrap(name, inside, number, carried, dialect, outmost)
        tunnel_id -= number
    out += craft_tunnel.frame(inside, _tags(layers, vlan), int("mpls" in layers))


def push_nothing(out: bytearray) -> None:
    """Append a frame that is neither a report nor an IP packet."""
    ethernet.push_ethernet(out, Ethernet(TARGET_MAC, SOURCE_MAC, ethernet.ETHERTYPE_LOCAL))


def _headers(flow: Keys, telemetry: Telemetry | None, dialect: Dialect) -> tuple[Ip, tuple[int, int] | None]:
    six = any(isinstance(flow.raw(name), str) and ":" in flow.raw(name) for name in ("src", "dst"))
    unsaid = not flow.has("src") and not flow.has("dst")
    usual = _V6 if six or (unsaid and telemetry and telemetry.carrier == craft_int.IN_OPTION) else _V4
    source, destination = flow.address("src", usual[0]), flow.address("dst", usual[1])
    version = 4 if source >> 32 == destination >> 32 == _MAPPED_PREFIX else 6
    protocol = flow.number("proto", 255, layout.PROTOCOL_UDP)
    ports = None
    if protocol in _WITH_PORTS:
        usual_port = _int_port(dialect, _DPORT) if telemetry and not _dscp(dialect) else _DPORT
        ports = flow.number("sport", 65535, _SPORT), flow.number("dport", 65535, usual_port)
    return Ip(version, source, destination, protocol), ports


def _tags(layers: frozenset[str], vlan: int) -> tuple[tuple[int, int], ...]:
    """VLAN tags: (EtherType, control)."""
    if "qinq" in layers:
        return (_SERVICE_TAG, 1), (_TAG, vlan)
    return ((_TAG, vlan),) if vlan or "vlan" in layers else ()


def _dscp(dialect: Dialect) -> int:
    """A DSCP that announces INT; 0 if the dialect has none."""
    announcing = dialect.table()[rules.INT_DSCP : rules.INT_DSCP + 64]
    candidates = (*dialect.int_dscp, *range(63, -1, -1))
    return next((dscp for dscp in candidates if announcing[dscp]), 0)


def _with_int(ip: Ip, ports: tuple[int, int] | None, telemetry: Telemetry, dialect: Dialect) -> Inside:
    """The packet with its INT after the L4 header, and the bytes after it."""
    name = {layout.PROTOCOL_TCP: "tcp", layout.PROTOCOL_UDP: "udp"}.get(ip.protocol, "")
    npt, following, original, outer = telemetry.shim.npt, b"", 0, ports
    protocol, tail = ip.protocol, (ip.protocol, ports[1] if ports else 0)
    if telemetry.carrier == "udp_inserted":
        if not dialect.inserted_udp_ports:
            raise CraftError("int.carrier", f"dialect {dialect.name} has no port for an inserted UDP header")
        if npt == 1:
            raise CraftError(
                "int.npt", "found 1 with an inserted UDP header, which keeps no port; expected 0 or 2"
            )
        protocol, outer = layout.PROTOCOL_UDP, (_SPORT, dialect.inserted_udp_ports[0])
        original = ip.protocol if npt == 2 else 0
        following = segment(ip, ports, b"") if ports else b""
    elif npt == 1 and name and ports and telemetry.carrier in ("", name):
        usual = (*dialect.inserted_udp_ports, ports[1])[0] if name == "udp" else ports[1]
        original, outer = ports[1], (ports[0], _int_port(dialect, usual))
    elif npt == 2:
        original = ip.protocol
        protocol = layout.PROTOCOL_TCP if telemetry.carrier == "tcp" else layout.PROTOCOL_UDP  # as some do
        following = segment(ip, ports, b"") if ports else b""
        outer = _SPORT, _int_port(dialect, _DPORT)
    elif ports is None or npt or (telemetry.carrier and telemetry.carrier != name):
        carrier = telemetry.carrier or "tcp or udp"
        why = f" with npt {npt}" if npt else ""
        raise CraftError("int.carrier", f"{carrier}{why} does not carry a packet of protocol {ip.protocol}")
    assert outer is not None
    if not _marked(protocol, ip.dscp, outer[1], telemetry, dialect):
        if (
            name != "udp"
            or not int_header.has_tail(telemetry.shim, telemetry.version)
            or not dialect.int_ports
        ):
            raise CraftError("int.carrier", f"nothing in dialect {dialect.name} announces INT here")
        outer = outer[0], dialect.int_ports[0]  # the tail holds the packet's own port
    stack = bytearray()
    craft_int.push_l4(stack, telemetry, original, tail, dialect)
    ip.protocol = protocol
    return craft_tunnel.packet(ip, segment(ip, outer, bytes(stack) + following))


def _with_ifa(ip: Ip, ports: tuple[int, int] | None, stack: Stack, dialect: Dialect) -> Inside:
    """The packet with IFA around its L4 header."""
    if not dialect.ifa_protocol:
        raise CraftError("int.version", f"dialect {dialect.name} has no IP protocol of IFA")
    if ports is None:
        raise CraftError("flow.proto", f"IFA carries TCP or UDP, not a packet of protocol {ip.protocol}")
    out = bytearray()
    ifa.push_ifa(out, ip.protocol, segment(ip, ports, b""), stack.head, stack.hops)
    ip.protocol = dialect.ifa_protocol
    return craft_tunnel.packet(ip, bytes(out))


def _marked(protocol: int, dscp: int, port: int, telemetry: Telemetry, dialect: Dialect) -> bool:
    """Whether anything announces INT after TCP or UDP."""
    table = dialect.table()
    if table[rules.INT_DSCP + dscp] or dialect.marker or (dialect.assume_int and telemetry.report):
        return True
    if telemetry.carrier == "udp_inserted":
        return True
    here = bool(table[rules.UDP_ROLE + port] & rules.ROLE_INT)
    return here and (protocol == layout.PROTOCOL_UDP or dialect.tcp_ports)


def _int_port(dialect: Dialect, usual: int) -> int:
    return dialect.int_ports[0] if dialect.int_ports else usual
