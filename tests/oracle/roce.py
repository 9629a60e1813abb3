"""RoCEv2 packets, one at a time, and RoCEv1 for reading.

A transport packet is a Base Transport Header, the headers that its opcode implies (`ROCE_HEADERS`),
payload, pad to whole words, and the invariant CRC (InfiniBand 9.2 to 9.4, annex A17).
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from hopscope.wire import layout
from hopscope.wire.buffer import Buffer
from hopscope.wire.errors import WireError
from hopscope.wire.fields import Header
from hopscope.wire.headers.ethernet import (
    Ethernet,
    Ip,
    Udp,
    ip_version_of,
    pull_ip,
    pull_link,
    pull_udp,
    push_ethernet,
    push_ip,
    push_udp,
    udp_checksum,
)
from hopscope.wire.layout import SOURCE_MAC, TARGET_MAC
from hopscope.wire.reasons import Place, RoceReason
from hopscope.wire.records import Link
from hopscope.wire.roce.cm import RoceError
from hopscope.wire.roce.layout import (
    AETH,
    ATOMIC_ACK_ETH,
    ATOMIC_ETH,
    BTH,
    DETH,
    HAS_AETH,
    HAS_ATOMIC,
    HAS_ATOMIC_ACK,
    HAS_DETH,
    HAS_IMMEDIATE,
    HAS_PAYLOAD,
    HAS_RETH,
    ICRC_SIZE,
    IMMEDIATE,
    RETH,
    ROCE_HEADERS,
    ROCE_PORT,
    Aeth,
    AtomicEth,
    Bth,
    Deth,
    Reth,
)

ETHERTYPE_ROCE_V1 = 0x8915
"""RoCE without UDP: a global route header in the form of IPv6 takes the place of IP."""
NEXT_BTH = 0x1B
"""Next header of a global route header: a Base Transport Header follows."""


@dataclass(slots=True)
class Packet:
    """A transport packet; it has the headers of its opcode."""

    bth: Bth
    reth: Reth | None = None
    atomic: AtomicEth | None = None
    aeth: Aeth | None = None
    original: int | None = None
    """The value in memory before an atomic operation."""
    deth: Deth | None = None
    immediate: int | None = None
    payload: bytes = b""
    """The payload without pad."""


@dataclass(slots=True)
class RoceFrame:
    """A packet with its sender and receiver."""

    packet: Packet
    source: int
    """128 bits, IPv4 as ::ffff:a.b.c.d."""
    destination: int
    sport: int = 0
    version: int = 2
    """1: RoCEv1, which has no UDP."""
    icrc: int = 0
    """The ICRC in the byte order of the wire, most significant byte first."""


def icrc(packet: bytes) -> bytes:
    """The ICRC (4 bytes) of an IPv4 or IPv6 packet, or of a RoCEv1 packet from its GRH on; `packet` lacks the
    ICRC.

    IPv6 must have no extension headers; the IP and UDP lengths must include the ICRC.
    """
    ones = bytearray(packet)
    if ones[0] >> 4 == 4:
        udp = (ones[0] & 15) * 4
        changing = [1, 8, 10, 11, udp + 6, udp + 7, udp + 12]
    else:
        ones[0] |= 0x0F
        base = 40 if ones[6] == NEXT_BTH else 48
        changing = [1, 2, 3, 7, base + 4, *([46, 47] if base == 48 else [])]
    for at in changing:
        ones[at] = 0xFF
    return zlib.crc32(b"\xff" * 8 + ones).to_bytes(4, "little")


class _Reader:
    """Reads headers from a transport packet; `truncated` if one is cut."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.at = 0

    def pull(self, header: Header) -> dict[str, int]:
        end = self.at + header.size
        if end > len(self.raw):
            left = len(self.raw) - self.at
            raise RoceError(RoceReason.TRUNCATED, f"{header.name} needs {header.size} bytes, {left} are left")
        fields = header.unpack(self.raw, self.at)
        self.at = end
        return fields


def pull_packet(raw: bytes) -> Packet:
    """Read a transport packet, without its ICRC. Raises RoceError."""
    read = _Reader(raw)
    bth = Bth(**read.pull(BTH))
    has = ROCE_HEADERS[bth.opcode]
    if bth.version or not has:
        raise RoceError(
            RoceReason.UNKNOWN_OPCODE, f"opcode {bth.opcode:#04x} of transport version {bth.version}"
        )
    packet = Packet(bth)
    if has & HAS_RETH:
        packet.reth = Reth(**read.pull(RETH))
    if has & HAS_ATOMIC:
        packet.atomic = AtomicEth(**read.pull(ATOMIC_ETH))
    if has & HAS_AETH:
        packet.aeth = Aeth(**read.pull(AETH))
    if has & HAS_ATOMIC_ACK:
        packet.original = read.pull(ATOMIC_ACK_ETH)["original"]
    if has & HAS_DETH:
        packet.deth = Deth(**read.pull(DETH))
    if has & HAS_IMMEDIATE:
        packet.immediate = read.pull(IMMEDIATE)["immediate"]
    left = len(raw) - read.at
    if len(raw) % 4 or bth.pad > left or (left and not has & HAS_PAYLOAD):
        raise RoceError(
            RoceReason.BAD_LENGTH,
            f"{left} bytes after the headers of {bth.opcode:#04x}, {bth.pad} of them pad",
        )
    packet.payload = raw[read.at : len(raw) - bth.pad]
    return packet


def push_packet(out: bytearray, packet: Packet) -> None:
    """Append the packet with its pad, without ICRC. Raises ValueError if its headers do not match its opcode,
    or a value is wider than its field.
    """
    bth = packet.bth
    has = ROCE_HEADERS[bth.opcode]
    pad = -len(packet.payload) % 4
    out += BTH.pack_object(bth, pad=pad)
    parts = (
        (HAS_RETH, RETH, packet.reth),
        (HAS_ATOMIC, ATOMIC_ETH, packet.atomic),
        (HAS_AETH, AETH, packet.aeth),
        (HAS_ATOMIC_ACK, ATOMIC_ACK_ETH, packet.original),
        (HAS_DETH, DETH, packet.deth),
        (HAS_IMMEDIATE, IMMEDIATE, packet.immediate),
    )
    for bit, header, part in parts:
        if (part is not None) != bool(has & bit):
            raise ValueError(f"opcode {bth.opcode:#04x} {'needs' if has & bit else 'has no'} {header.name}")
        if isinstance(part, int):
            out += part.to_bytes(header.size, "big")
        elif part is not None:
            out += header.pack_object(part)
    if not has or (packet.payload and not has & HAS_PAYLOAD):
        raise ValueError(f"opcode {bth.opcode:#04x} with {len(packet.payload)} bytes of payload")
    out += packet.payload + bytes(pad)


def read_frame(raw: bytes, link: int = Link.ETHERNET, *, check: bool = True) -> RoceFrame:
    """Read a frame with RoCEv2 over UDP port 4791, or with RoCEv1; `check`: verify the ICRC. Raises
    RoceError.
    """
    buf = Buffer(raw)
    try:
        type_, _ = pull_link(buf, link)
        start = buf.at
        if type_ == ETHERTYPE_ROCE_V1:
            return _read_v1(raw, start, check)
        ip = pull_ip(buf, ip_version_of(type_), Place.OUTER_IP) if ip_version_of(type_) else Ip()
        plain = ip.version == 4 or not ip.options
        if not plain or ip.protocol != layout.PROTOCOL_UDP or ip.fragment or start + ip.length > len(raw):
            raise RoceError(RoceReason.TRUNCATED, "no whole UDP datagram")
        udp = pull_udp(buf, Place.OUTER_UDP)
    except WireError as error:
        raise RoceError(RoceReason.TRUNCATED, str(error)) from error
    end = buf.at - layout.UDP.size + udp.length
    if udp.dport != ROCE_PORT or udp.length < layout.UDP.size or end > start + ip.length:
        raise RoceError(
            RoceReason.TRUNCATED, f"UDP port {udp.dport} with {udp.length} bytes, port 4791 is RoCEv2's"
        )
    read = _read(raw[start:end], buf.at - start, check)
    return RoceFrame(read, ip.source, ip.destination, udp.sport, 2, int.from_bytes(raw[end - 4 : end], "big"))


def _read(packet: bytes, at: int, check: bool) -> Packet:
    if len(packet) < at + BTH.size + ICRC_SIZE:
        raise RoceError(RoceReason.TRUNCATED, f"{len(packet) - at} bytes, at least 16 are needed")
    found, expected = packet[-4:], icrc(packet[:-4])
    if check and found != expected:
        raise RoceError(RoceReason.BAD_ICRC, f"ICRC {found.hex()}, expected {expected.hex()}")
    return pull_packet(packet[at:-4])


def _read_v1(raw: bytes, start: int, check: bool) -> RoceFrame:
    if len(raw) < start + layout.IPV6.size:
        raise RoceError(RoceReason.TRUNCATED, "the global route header needs 40 bytes")
    head = layout.IPV6.unpack(raw, start)
    end = start + layout.IPV6.size + head["payload_length"]
    if head["version"] != 6 or head["next_header"] != NEXT_BTH or end > len(raw):
        raise RoceError(RoceReason.TRUNCATED, "no whole InfiniBand packet after the global route header")
    packet = _read(raw[start:end], layout.IPV6.size, check)
    crc = int.from_bytes(raw[end - 4 : end], "big")
    return RoceFrame(packet, head["source"], head["destination"], 0, 1, crc)


def write_frame(frame: RoceFrame) -> bytes:
    """The frame: Ethernet, IP, UDP, the packet and its ICRC; DF set, identification 0, no UDP checksum over
    IPv4.
    """
    body = bytearray()
    push_packet(body, frame.packet)
    six = frame.source >> 32 != 0xFFFF
    size = layout.UDP.size + len(body) + ICRC_SIZE
    ip = Ip(6 if six else 4, frame.source, frame.destination, layout.PROTOCOL_UDP, dont_fragment=True)
    ip.length = size + (layout.IPV6 if six else layout.IPV4).size
    out, inner = bytearray(), bytearray()
    push_ethernet(
        out, Ethernet(TARGET_MAC, SOURCE_MAC, layout.ETHERTYPE_IPV6 if six else layout.ETHERTYPE_IPV4)
    )
    push_ip(out, ip)
    push_udp(inner, Udp(frame.sport, ROCE_PORT, size))
    inner += body
    inner += icrc(bytes(out[layout.ETHERNET.size :] + inner))
    if six:
        inner[6:8] = udp_checksum(ip, bytes(inner)).to_bytes(2, "big")
    return bytes(out + inner)
