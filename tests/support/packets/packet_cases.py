"""Ordinary packets with right lengths and checksums, for the tests of what goes into them and comes out."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from hopscope.wire import layout
from hopscope.wire.buffer import push
from hopscope.wire.headers import ethernet
from hopscope.wire.headers.ethernet import Ethernet, Ip, Tcp, Udp
from hopscope.wire.records import Hop

V4 = (0xFFFF_C000_0201, 0xFFFF_C000_0202)
V6 = (0x20010DB8_00000000_00000000_00000001, 0x20010DB8_00000000_00000000_00000002)
_EXTENSION = bytes([0, 0, 1, 4, 0, 0, 0, 0])
TUNNELS = ("gre", "gre checksum", "vxlan", "vxlan_gpe", "geneve", "gtp_u", "ip_in_ip")


@dataclass(frozen=True)
class Packet:
    """What a packet is made of."""

    version: int = 4
    protocol: int = layout.PROTOCOL_UDP
    payload: bytes = b"payload"
    dscp: int = 0
    options: bool = False
    """IPv4 options or an IPv6 extension header, and TCP options."""
    check: bool = True
    """UDP has a checksum."""
    tags: int = 0
    trailer: bytes = b""
    tunnels: tuple[str, ...] = ()
    """From the inside out."""

    def frame(self) -> bytes:
        """The Ethernet frame."""
        type_, inside = ip_packet(self, segment(self, (40_000, 53_000), self.payload), self.protocol)
        for name in self.tunnels:
            type_, inside = self.tunnel(name, type_, inside)
        out = bytearray()
        ethernet.push_ethernet(out, Ethernet(2, 1, type_, ((0x8100, 5),) * self.tags))
        return bytes(out) + inside + self.trailer

    def tunnel(self, name: str, type_: int, inside: bytes) -> tuple[int, bytes]:
        """(EtherType, packet) of a tunnel around a packet."""
        out, ports = bytearray(), (49_999, 0)
        framed = bytearray()
        ethernet.push_ethernet(framed, Ethernet(2, 1, type_))
        if name == "ip_in_ip":
            return ip_packet(self, inside, 4 if type_ == layout.ETHERTYPE_IPV4 else 41)
        if name.startswith("gre"):
            push(out, layout.GRE, {"checksum_present": " " in name, "key_present": 1, "type": type_})
            out += bytes(4 * (" " in name)) + b"key!" + inside
            if " " in name:
                out[4:6] = ethernet.checksum(bytes(out)).to_bytes(2, "big")
            return ip_packet(self, bytes(out), layout.PROTOCOL_GRE)
        if name == "vxlan":
            push(out, layout.VXLAN, {"flags": 8, "vni": 7})
            out, ports = out + framed + inside, (49_999, 4789)
        elif name == "vxlan_gpe":
            next_ = 1 if type_ == layout.ETHERTYPE_IPV4 else 2
            push(out, layout.VXLAN_GPE, {"flags": 12, "next_protocol": next_, "vni": 7})
            out, ports = out + inside, (49_999, 4790)
        elif name == "geneve":
            push(out, layout.GENEVE, {"option_words": 2, "type": type_, "vni": 7})
            push(out, layout.GENEVE_OPTION, {"class": 0x0104, "type": 1, "words": 1})
            out, ports = out + b"opt!" + inside, (49_999, 6081)
        elif name == "gtp_u":
            head = {"version": 1, "protocol": 1, "message": 255, "length": len(inside), "teid": 7}
            push(out, layout.GTP_U, head)
            out, ports = out + inside, (49_999, 2152)
        datagram = segment(self, ports, bytes(out), layout.PROTOCOL_UDP)
        return ip_packet(self, datagram, layout.PROTOCOL_UDP)


def _addresses(packet: Packet) -> tuple[int, int]:
    return V4 if packet.version == 4 else V6


def segment(packet: Packet, ports: tuple[int, int], payload: bytes, protocol: int = -1) -> bytes:
    """TCP or UDP with its checksum; other protocols are their payload."""
    protocol = packet.protocol if protocol < 0 else protocol
    out = bytearray()
    if protocol == layout.PROTOCOL_TCP:
        options = bytes([1, 1, 1, 1, 8, 10, *range(8), 1, 1]) if packet.options else b""
        ethernet.push_tcp(out, Tcp(*ports, sequence=7, flags=0x18, window=512, options=options))
    elif protocol == layout.PROTOCOL_UDP:
        ethernet.push_udp(out, Udp(*ports, 8 + len(payload)))
    else:
        return payload
    out += payload
    ip = Ip(packet.version, *_addresses(packet))
    value = ethernet.segment_checksum(ip, protocol, bytes(out))
    if protocol == layout.PROTOCOL_TCP:
        out[16:18] = value.to_bytes(2, "big")
    elif packet.check:
        out[6:8] = (value or 0xFFFF).to_bytes(2, "big")
    return bytes(out)


def ip_packet(packet: Packet, body: bytes, protocol: int) -> tuple[int, bytes]:
    """(EtherType, packet)."""
    ip = Ip(packet.version, *_addresses(packet), protocol, dscp=packet.dscp, ecn=1, identification=77)
    if packet.options and packet.version == 4:
        ip.options = bytes([1, 1, 1, 0])
    elif packet.options:
        ip.options, ip.protocol = bytes([protocol]) + _EXTENSION[1:], 60
    ip.length = (20 if packet.version == 4 else 40) + len(ip.options) + len(body)
    out = bytearray()
    ethernet.push_ip(out, ip)
    type_ = layout.ETHERTYPE_IPV4 if packet.version == 4 else layout.ETHERTYPE_IPV6
    return type_, bytes(out) + body


packets = st.builds(
    Packet,
    version=st.sampled_from((4, 6)),
    protocol=st.sampled_from((6, 17)),
    payload=st.binary(max_size=40),
    dscp=st.sampled_from((0, 10, 0x17, 0x20, 63)),
    options=st.booleans(),
    check=st.booleans(),
    tags=st.integers(0, 2),
    trailer=st.sampled_from((b"", bytes(7), b"\x99\x12\x34\x56")),
)

hop_lists = st.lists(
    st.builds(
        Hop,
        node_id=st.integers(0, 2**32 - 1),
        hop_latency=st.integers(0, 2**32 - 1),
        queue_id=st.integers(0, 255),
        queue_occupancy=st.integers(0, 2**24 - 1),
        egress_time=st.integers(0, 2**32 - 1),
        tx_utilization=st.integers(0, 2**32 - 1),
        checksum_complement=st.just(0),
    ),
    max_size=5,
)
