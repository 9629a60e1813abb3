"""A packet around its INT: Ethernet, tags, labels, tunnels, IP and L4, with right lengths and checksums."""

from __future__ import annotations

from . import craft_int, ethernet, layout, rules
from .craft_int import Telemetry
from .craft_keys import CraftError, Keys
from .dialect import Dialect
from .ethernet import Ethernet, Ip, Tcp, Udp

MAC_A, MAC_B = 0x020000000001, 0x020000000002
ETHERTYPE_LOCAL = 0x88B5
"""IEEE 802 local experimental: a packet of which nothing is said."""
_SPORT, _DPORT = 40_000, 50_000
_V4, _V6 = ("192.0.2.1", "192.0.2.2"), ("2001:db8::1", "2001:db8::2")
_ACK = 0x10
_MAPPED_PREFIX = 0xFFFF


def push_packet(out: bytearray, keys: Keys, telemetry: Telemetry | None, dialect: Dialect) -> None:
    """Append the Ethernet frame that `flow` describes, with the INT in it."""
    flow = keys.part("flow")
    ip, l4 = _headers(flow)
    flow.close("a flow")
    segment = bytearray()
    if telemetry is not None:
        if telemetry.carrier not in ("", "tcp", "udp"):
            raise CraftError("int.carrier", f"{telemetry.carrier} is not crafted")
        ip.dscp = _dscp(dialect)
        _push_int(segment, ip, l4, telemetry, dialect)
    elif l4 is not None:
        push_segment(segment, ip, l4, b"")
    size = 20 if ip.version == 4 else 40
    ip.length = size + len(segment)
    type_ = layout.ETHERTYPE_IPV4 if ip.version == 4 else layout.ETHERTYPE_IPV6
    ethernet.push_ethernet(out, Ethernet(MAC_B, MAC_A, type_))
    ethernet.push_ip(out, ip)
    out += segment


def push_nothing(out: bytearray) -> None:
    """Append a frame that is no report and no IP packet."""
    ethernet.push_ethernet(out, Ethernet(MAC_B, MAC_A, ETHERTYPE_LOCAL))


def _headers(flow: Keys) -> tuple[Ip, tuple[int, int] | None]:
    six = any(isinstance(flow.raw(name), str) and ":" in flow.raw(name) for name in ("src", "dst"))
    usual = _V6 if six else _V4
    source, destination = flow.address("src", usual[0]), flow.address("dst", usual[1])
    version = 4 if source >> 32 == destination >> 32 == _MAPPED_PREFIX else 6
    protocol = flow.number("proto", 255, layout.PROTOCOL_UDP)
    ports = None
    if protocol in (layout.PROTOCOL_TCP, layout.PROTOCOL_UDP):
        ports = flow.number("sport", 65535, _SPORT), flow.number("dport", 65535, _DPORT)
    return Ip(version, source, destination, protocol), ports


def _dscp(dialect: Dialect) -> int:
    """A DSCP that says that INT follows."""
    said = dialect.table()[rules.INT_DSCP : rules.INT_DSCP + 64]
    wanted = (*dialect.int_dscp, *range(63, -1, -1))
    return next((dscp for dscp in wanted if said[dscp]), 0)


def _push_int(
    out: bytearray, ip: Ip, ports: tuple[int, int] | None, telemetry: Telemetry, dialect: Dialect
) -> None:
    """Append the L4 header, the INT, and what belongs behind it."""
    name = {layout.PROTOCOL_TCP: "tcp", layout.PROTOCOL_UDP: "udp"}.get(ip.protocol, "")
    behind = bytearray()
    original = 0
    outer = ports
    protocol, tail = ip.protocol, (ip.protocol, ports[1] if ports else 0)
    if telemetry.npt == 1:
        if name != "udp" or ports is None:
            raise CraftError("int.npt", "1 is for UDP alone")
        original = ports[1]
        outer = ports[0], _int_port(dialect, ports[1])
    elif telemetry.npt == 2:
        original, protocol = ip.protocol, layout.PROTOCOL_UDP
        if ports is not None:
            push_segment(behind, ip, ports, b"")
        outer = _SPORT, _int_port(dialect, _DPORT)
    elif ports is None or (telemetry.carrier and telemetry.carrier != name):
        carrier = telemetry.carrier or "tcp or udp"
        raise CraftError("int.carrier", f"{carrier} does not carry a packet of protocol {ip.protocol}")
    assert outer is not None
    stack = bytearray()
    craft_int.push_l4(stack, telemetry, original, tail, dialect)
    ip.protocol = protocol
    push_segment(out, ip, outer, bytes(stack + behind))


def _int_port(dialect: Dialect, usual: int) -> int:
    return dialect.int_ports[0] if dialect.int_ports else usual


def push_segment(out: bytearray, ip: Ip, ports: tuple[int, int], payload: bytes) -> None:
    """Append TCP or UDP, by the protocol of `ip`, with its checksum, and the payload."""
    segment = bytearray()
    if ip.protocol == layout.PROTOCOL_TCP:
        ethernet.push_tcp(segment, Tcp(*ports, flags=_ACK, window=0xFFFF))
        at = 16
    else:
        ethernet.push_udp(segment, Udp(*ports, 8 + len(payload)))
        at = 6
    segment += payload
    check = ethernet.segment_checksum(ip, ip.protocol, bytes(segment))
    if ip.protocol == layout.PROTOCOL_UDP:
        check = check or 0xFFFF
    segment[at : at + 2] = check.to_bytes(2, "big")
    out += segment
