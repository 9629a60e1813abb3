"""Ethernet, VLAN, IPv4, IPv6, UDP and TCP: the headers around a report and of the packet in it."""

from __future__ import annotations

from dataclasses import dataclass
from struct import unpack

from .. import layout
from ..address import MAPPED
from ..buffer import Buffer, push
from ..errors import WireError
from ..reasons import Place, Reason
from ..records import Link

ETHERTYPE_LOCAL = 0x88B5
"""IEEE 802 local experimental: the inner packet of a report without a flow."""


@dataclass(slots=True)
class Ethernet:
    """An Ethernet header with its VLAN tags: (EtherType of the tag, tag control information)."""

    destination: int = 0
    source: int = 0
    type: int = layout.ETHERTYPE_IPV4
    tags: tuple[tuple[int, int], ...] = ()


@dataclass(slots=True)
class Ip:
    """An IPv4 or IPv6 header. Addresses are 128-bit numbers, IPv4 as ::ffff:a.b.c.d."""

    version: int = 4
    source: int = 0
    destination: int = 0
    protocol: int = 0
    """Protocol after all extension headers."""
    length: int = 0
    """Length of the whole packet according to the header, bytes."""
    dscp: int = 0
    ecn: int = 0
    ttl: int = 64
    identification: int = 0
    dont_fragment: bool = False
    fragment_offset: int = 0
    """In units of 8 bytes."""
    more_fragments: bool = False
    options: bytes = b""
    """IPv4 options, or all IPv6 extension headers."""
    flow_label: int = 0
    checksum: int = 0
    """Checksum as read; IPv4 only. It is not verified, since 0 occurs in practice."""

    @property
    def fragment(self) -> bool:
        """Whether it is a part of a packet."""
        return self.more_fragments or self.fragment_offset > 0


@dataclass(slots=True)
class Udp:
    """A UDP header."""

    sport: int = 0
    dport: int = 0
    length: int = 8
    checksum: int = 0


@dataclass(slots=True)
class Tcp:
    """A TCP header with its options."""

    sport: int = 0
    dport: int = 0
    sequence: int = 0
    acknowledgment: int = 0
    flags: int = 0
    window: int = 0
    checksum: int = 0
    urgent: int = 0
    options: bytes = b""


def pull_ethernet(buf: Buffer, place: Place) -> Ethernet:
    """Ethernet with up to four VLAN tags. Raises WireError if it is cut."""
    first = buf.pull(layout.ETHERNET, place)
    type_, tags = pull_tags(buf, first["type"], place)
    return Ethernet(first["destination"], first["source"], type_, tags)


def pull_tags(buf: Buffer, type_: int, place: Place) -> tuple[int, tuple[tuple[int, int], ...]]:
    """VLAN tags after an EtherType: the EtherType after them, and the tags."""
    tags: list[tuple[int, int]] = []
    while type_ in layout.ETHERTYPES_VLAN and len(tags) < layout.MAX_TAGS:
        tag = buf.pull(layout.VLAN, place)
        tags.append((type_, tag["priority"] << 13 | tag["drop_eligible"] << 12 | tag["vlan"]))
        type_ = tag["type"]
    return type_, tuple(tags)


def push_ethernet(out: bytearray, ethernet: Ethernet) -> None:
    """Append the header and its tags."""
    types = [*(type_ for type_, _ in ethernet.tags), ethernet.type]
    push(
        out,
        layout.ETHERNET,
        {"destination": ethernet.destination, "source": ethernet.source, "type": types[0]},
    )
    for (_, control), type_ in zip(ethernet.tags, types[1:], strict=True):
        out += control.to_bytes(2, "big") + type_.to_bytes(2, "big")


def pull_link(buf: Buffer, link: int) -> tuple[int, tuple[tuple[int, int], ...]]:
    """(EtherType, VLAN tags) of a frame's link header. Without an EtherType, that of its IP version; 0 if
    unknown. Raises WireError if it is cut.
    """
    place = Place.OUTER_ETHERNET
    if link == Link.RAW_IP:
        buf.need(1, place, "IP")
        return ethertype_of(buf.raw[buf.at] >> 4), ()
    if link == Link.NULL:
        # The address family is in the byte order of the machine that captured: 2 is IPv4 everywhere, IPv6 is
        # 24, 28 or 30 on the BSDs and 10 on Linux.
        start = buf.skip(4, place, "loopback header")
        family = buf.raw[start] | buf.raw[start + 3]
        return ethertype_of(4 if family == 2 else 6 if family in (10, 24, 28, 30) else 0), ()
    if link == Link.ETHERNET:
        ethernet = pull_ethernet(buf, place)
        return ethernet.type, ethernet.tags
    if link == Link.LINUX_SLL:
        return pull_tags(buf, buf.pull(layout.SLL, place)["type"], place)
    if link == Link.LINUX_SLL2:
        return pull_tags(buf, buf.pull(layout.SLL2, place)["type"], place)
    return 0, ()


def ethertype_of(version: int) -> int:
    """EtherType of an IP version, 0 for another number."""
    return {4: layout.ETHERTYPE_IPV4, 6: layout.ETHERTYPE_IPV6}.get(version, 0)


def ip_version_of(ethertype: int) -> int:
    """4, 6, or 0 for anything else."""
    return {layout.ETHERTYPE_IPV4: 4, layout.ETHERTYPE_IPV6: 6}.get(ethertype, 0)


def pull_ip(buf: Buffer, version: int, place: Place, *, any_length: bool = False) -> Ip:
    """IPv4 with options or IPv6 with extension headers; bytes after the stated length can no longer be read.

    Fragments are returned as such (`Ip.fragment`). `any_length`: an IPv4 length of 0 stands for all bytes.
    Raises WireError if the header is cut, is of another version, or states a length below its own.
    """
    start = buf.at
    ip = _pull_ipv4(buf, place, any_length) if version == 4 else _pull_ipv6(buf, place)
    buf.limit = min(buf.limit, start + ip.length)
    return ip


def _pull_ipv4(buf: Buffer, place: Place, any_length: bool) -> Ip:
    # RFC 791 3.1
    start = buf.at
    head = buf.peek(layout.IPV4, place)
    if head["version"] != 4:
        raise WireError(
            Reason.UNKNOWN_VERSION, place, start, f"IP version {head['version']} where 4 is expected"
        )
    size = head["header_words"] * 4
    if size < layout.IPV4.size:
        raise WireError(
            Reason.BAD_LENGTH, place, start, f"IPv4 header of {size} bytes, at least 20 are needed"
        )
    buf.need(size, place, "IPv4 with options")
    if any_length and head["total_length"] == 0:
        head["total_length"] = buf.limit - start
    if head["total_length"] < size:
        raise WireError(
            Reason.BAD_LENGTH,
            place,
            start,
            f"IPv4 total length {head['total_length']} is below the header's {size} bytes",
        )
    buf.at = start + size
    return Ip(
        4, MAPPED | head["source"], MAPPED | head["destination"], head["protocol"], head["total_length"],
        dscp=head["dscp"], ecn=head["ecn"], ttl=head["ttl"], identification=head["identification"],
        dont_fragment=bool(head["dont_fragment"]), fragment_offset=head["fragment_offset"],
        more_fragments=bool(head["more_fragments"]), options=bytes(buf.raw[start + 20 : start + size]),
        checksum=head["checksum"],
    )  # fmt: skip


def _pull_ipv6(buf: Buffer, place: Place) -> Ip:
    # RFC 8200 3 and 4
    head = buf.peek(layout.IPV6, place)
    if head["version"] != 6:
        raise WireError(
            Reason.UNKNOWN_VERSION, place, buf.at, f"IP version {head['version']} where 6 is expected"
        )
    buf.at += layout.IPV6.size
    options = buf.at
    ip = Ip(
        6, head["source"], head["destination"], head["next_header"],
        head["payload_length"] + layout.IPV6.size,
        dscp=head["dscp"], ecn=head["ecn"], ttl=head["hop_limit"], flow_label=head["flow_label"],
    )  # fmt: skip
    while ip.fragment_offset == 0:  # fragments other than the first have no further headers
        if ip.protocol == layout.NEXT_FRAGMENT:
            fragment = buf.pull(layout.IPV6_FRAGMENT, place)
            ip.protocol, ip.identification = fragment["next_header"], fragment["identification"]
            ip.fragment_offset = fragment["fragment_offset"]
            ip.more_fragments = ip.more_fragments or bool(fragment["more_fragments"])
        elif ip.protocol in layout.NEXT_EXTENSIONS or ip.protocol == layout.NEXT_AUTHENTICATION:
            head = buf.peek(layout.IPV6_EXTENSION, place)
            # RFC 4302 2.2: the authentication header counts words, minus 2
            size = (
                (head["length"] + 2) * 4
                if ip.protocol == layout.NEXT_AUTHENTICATION
                else (head["length"] + 1) * 8
            )
            buf.skip(size, place, "IPv6 extension")
            ip.protocol = head["next_header"]
        else:
            break
    ip.options = bytes(buf.raw[options : buf.at])
    return ip


def push_ip(out: bytearray, ip: Ip) -> None:
    """Append the header, for IPv4 with the correct checksum; `ip.length` is used unchanged.

    IPv6 extension headers are `ip.options` as read; the first one's type must then be in its `next_header`.
    """
    if ip.version == 6:
        push(out, layout.IPV6, {
            "version": 6, "dscp": ip.dscp, "ecn": ip.ecn, "flow_label": ip.flow_label,
            "payload_length": ip.length - layout.IPV6.size, "next_header": ip.protocol, "hop_limit": ip.ttl,
            "source": ip.source, "destination": ip.destination,
        })  # fmt: skip
        out += ip.options
        return
    start = len(out)
    push(out, layout.IPV4, {
        "version": 4, "header_words": 5 + len(ip.options) // 4, "dscp": ip.dscp, "ecn": ip.ecn,
        "total_length": ip.length,
        "identification": ip.identification, "dont_fragment": ip.dont_fragment,
        "more_fragments": ip.more_fragments,
        "fragment_offset": ip.fragment_offset, "ttl": ip.ttl, "protocol": ip.protocol,
        "source": ip.source & 0xFFFFFFFF, "destination": ip.destination & 0xFFFFFFFF,
    })  # fmt: skip
    out += ip.options
    out[start + 10 : start + 12] = checksum(bytes(out[start:])).to_bytes(2, "big")


def checksum(data: bytes) -> int:
    """The Internet checksum of `data` (RFC 1071)."""
    total: int = sum(unpack(f">{(len(data) + 1) // 2}H", data + b"\0" if len(data) % 2 else data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def udp_checksum(ip: Ip, segment: bytes) -> int:
    """Checksum of a UDP header with 0 in its checksum field, and of the bytes after it (RFC 768)."""
    return segment_checksum(ip, layout.PROTOCOL_UDP, segment) or 0xFFFF


def segment_checksum(ip: Ip, protocol: int, segment: bytes) -> int:
    """Checksum of a TCP or UDP header with 0 in its checksum field, and of the bytes after it."""
    return checksum(pseudo_header(ip, protocol, len(segment)) + segment)


def pseudo_header(ip: Ip, protocol: int, length: int) -> bytes:
    """The pseudo header that checksums of TCP and UDP cover, before `length` bytes."""
    width = 4 if ip.version == 4 else 16
    addresses = (ip.source & ((1 << width * 8) - 1)).to_bytes(width, "big")
    addresses += (ip.destination & ((1 << width * 8) - 1)).to_bytes(width, "big")
    return addresses + length.to_bytes(4, "big") + bytes([0, 0, 0, protocol])


def pull_udp(buf: Buffer, place: Place) -> Udp:
    """A UDP header. Raises WireError if it is cut."""
    return Udp(**buf.pull(layout.UDP, place))


def push_udp(out: bytearray, udp: Udp) -> None:
    """Append the header unchanged."""
    push(
        out,
        layout.UDP,
        {"sport": udp.sport, "dport": udp.dport, "length": udp.length, "checksum": udp.checksum},
    )


def push_tcp(out: bytearray, tcp: Tcp) -> None:
    """Append the header; its options must be whole words."""
    push(out, layout.TCP, {
        "sport": tcp.sport, "dport": tcp.dport, "sequence": tcp.sequence,
        "acknowledgment": tcp.acknowledgment,
        "header_words": 5 + len(tcp.options) // 4, "flags": tcp.flags, "window": tcp.window,
        "checksum": tcp.checksum,
        "urgent": tcp.urgent,
    })  # fmt: skip
    out += tcp.options
