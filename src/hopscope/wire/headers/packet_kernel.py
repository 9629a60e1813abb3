"""Link, IP, TCP and UDP headers for the batch decoder. Offsets are indices into the arena, all numbers
uint64.

A result code is 0, or `reason << 8 | place`; the offset returned with it is that of the rejected header.
"""

from __future__ import annotations

from ...base.kernels.jit import U64, be16, be32, be64, inlined, kernel
from .. import layout
from ..fields import Header
from ..reasons import Place, Reason
from ..records import Link

TRUNCATED = U64(Reason.TRUNCATED << 8)
BAD_LENGTH = U64(Reason.BAD_LENGTH << 8)
UNKNOWN_VERSION = U64(Reason.UNKNOWN_VERSION << 8)
ETHERNET, SLL, SLL2 = U64(Link.ETHERNET), U64(Link.LINUX_SLL), U64(Link.LINUX_SLL2)
RAW_IP, NULL = U64(Link.RAW_IP), U64(Link.NULL)
IPV4, IPV6 = U64(layout.ETHERTYPE_IPV4), U64(layout.ETHERTYPE_IPV6)
TAG_0, TAG_1, TAG_2 = (U64(type_) for type_ in layout.ETHERTYPES_VLAN)
MAX_TAGS = U64(layout.MAX_TAGS)
MAPPED = U64(0xFFFF << 32)
FRAGMENT, AUTHENTICATION = U64(layout.NEXT_FRAGMENT), U64(layout.NEXT_AUTHENTICATION)
EXT_0, EXT_1, EXT_2, EXT_3, EXT_4, EXT_5 = (U64(number) for number in layout.NEXT_EXTENSIONS)
SIZE_ETHERNET, SIZE_VLAN, SIZE_IPV4, SIZE_IPV6 = U64(14), U64(4), U64(20), U64(40)
NONE = U64(0)


def word(header: Header, name: str) -> tuple[U64, U64, U64]:
    """The place of a field, for `get`: byte offset of its 32-bit word, right shift, mask."""
    byte, shift, mask = header.word(name)
    return U64(byte), U64(shift), U64(mask)


def byte(header: Header, name: str) -> U64:
    """Offset of a field that begins at a byte boundary."""
    return U64(header.field(name).at // 8)


IPV4_LENGTH = word(layout.IPV4, "total_length")
IPV4_TTL, IPV6_TTL = byte(layout.IPV4, "ttl"), byte(layout.IPV6, "hop_limit")
IPV4_FRAGMENT = word(layout.IPV4, "fragment_offset")
IPV4_MORE = word(layout.IPV4, "more_fragments")
IPV4_PROTOCOL = word(layout.IPV4, "protocol")
IPV4_DSCP = word(layout.IPV4, "dscp")
IPV4_SOURCE = byte(layout.IPV4, "source")
IPV4_DESTINATION = byte(layout.IPV4, "destination")
IPV6_DSCP = word(layout.IPV6, "dscp")
IPV6_LENGTH = word(layout.IPV6, "payload_length")
IPV6_NEXT = word(layout.IPV6, "next_header")
IPV6_SOURCE = byte(layout.IPV6, "source")
IPV6_DESTINATION = byte(layout.IPV6, "destination")
ETHERNET_TYPE = byte(layout.ETHERNET, "type")
VLAN_TYPE, VLAN_ID = byte(layout.VLAN, "type"), word(layout.VLAN, "vlan")
FRAGMENT_OFFSET = word(layout.IPV6_FRAGMENT, "fragment_offset")
FRAGMENT_MORE = word(layout.IPV6_FRAGMENT, "more_fragments")


@inlined
def get(buf, at, field):
    """A field of the header at `at`; `field` is a constant made by `word`."""
    return (be32(buf, at + field[0]) >> field[1]) & field[2]


@inlined
def lacks(at, size, end, limit):
    """0, or why `size` bytes cannot be read at `at`: `truncated` past `end`, `bad_length` past `limit`."""
    if at + size <= limit:
        return NONE
    return TRUNCATED if at + size > end else BAD_LENGTH


@inlined
def is_tag(type_):
    """Whether an EtherType announces a VLAN tag."""
    return type_ == TAG_0 or type_ == TAG_1 or type_ == TAG_2


@kernel
def tags(buf, at, end, limit, type_):
    """(reason, offset, EtherType, tags, VLAN id of the last) after VLAN tags."""
    count, vlan = NONE, NONE
    while is_tag(type_) and count < MAX_TAGS:
        why = lacks(at, SIZE_VLAN, end, limit)
        if why:
            return why, at, NONE, NONE, NONE
        vlan = get(buf, at, VLAN_ID)
        type_ = be16(buf, at + VLAN_TYPE)
        at += SIZE_VLAN
        count += U64(1)
    return NONE, at, type_, count, vlan


@inlined
def ethernet(buf, at, end, limit):
    """(reason, offset, EtherType, tags, VLAN id of the last) after an Ethernet header; with a reason, the
    offset of the header that is cut.
    """
    why = lacks(at, SIZE_ETHERNET, end, limit)
    if why:
        return why, at, NONE, NONE, NONE
    type_ = be16(buf, at + ETHERNET_TYPE)
    at += SIZE_ETHERNET
    count, vlan = NONE, NONE
    if type_ != IPV4 and is_tag(type_):
        why, at, type_, count, vlan = tags(buf, at, end, limit, type_)
    return why, at, type_, count, vlan


@inlined
def ip_version(type_):
    """4, 6 or 0 by EtherType."""
    return U64(4) if type_ == IPV4 else (U64(6) if type_ == IPV6 else NONE)


@kernel
def other_link(buf, at, end, link):
    """(reason, offset, EtherType, tags, VLAN id of the last) after a link header other than Ethernet's.
    Without an EtherType, that of the IP version; 0 if unknown.
    """
    if link == RAW_IP:
        if at >= end:
            return TRUNCATED, at, NONE, NONE, NONE
        version = U64(buf[at]) >> U64(4)
        type_ = IPV4 if version == U64(4) else (IPV6 if version == U64(6) else NONE)
        return NONE, at, type_, NONE, NONE
    if link == NULL:
        if at + U64(4) > end:
            return TRUNCATED, at, NONE, NONE, NONE
        family = U64(buf[at]) | U64(buf[at + U64(3)])
        six = family == U64(10) or family == U64(24) or family == U64(28) or family == U64(30)
        type_ = IPV4 if family == U64(2) else (IPV6 if six else NONE)
        return NONE, at + U64(4), type_, NONE, NONE
    if link == SLL:
        size, where = U64(16), U64(14)
    elif link == SLL2:
        size, where = U64(20), U64(0)
    else:
        return NONE, at, NONE, NONE, NONE
    if at + size > end:
        return TRUNCATED, at, NONE, NONE, NONE
    return tags(buf, at + size, end, end, be16(buf, at + where))


@inlined
def ipv4(buf, at, end, limit, any_length):
    """(reason, offset, protocol, DSCP, stated length, fragment: 1 later 2 first) of an IPv4 header.

    `any_length`: a length of 0 stands for all bytes.
    """
    why = lacks(at, SIZE_IPV4, end, limit)
    if why:
        return why, at, NONE, NONE, NONE, NONE
    first = U64(buf[at])
    if first >> U64(4) != U64(4):
        return UNKNOWN_VERSION, at, NONE, NONE, NONE, NONE
    size = (first & U64(15)) << U64(2)
    if size < SIZE_IPV4:
        return BAD_LENGTH, at, NONE, NONE, NONE, NONE
    why = lacks(at, size, end, limit)
    if why:
        return why, at, NONE, NONE, NONE, NONE
    length = get(buf, at, IPV4_LENGTH)
    if length == NONE and any_length:
        length = limit - at
    if length < size:
        return BAD_LENGTH, at, NONE, NONE, NONE, NONE
    part = NONE
    if get(buf, at, IPV4_FRAGMENT) != NONE:
        part = U64(1)
    elif get(buf, at, IPV4_MORE) != NONE:
        part = U64(2)
    return NONE, at + size, get(buf, at, IPV4_PROTOCOL), get(buf, at, IPV4_DSCP), length, part


@inlined
def is_extension(number):
    """Whether a next header is an extension header with a length field."""
    return (
        number == EXT_0 or number == EXT_1 or number == EXT_2 or number == EXT_3 or number == EXT_4
        or number == EXT_5 or number == AUTHENTICATION
    )  # fmt: skip


@kernel
def ipv6(buf, at, end, limit):
    """(reason, offset, protocol, DSCP, stated length, fragment: 1 later 2 first) of an IPv6 header."""
    why = lacks(at, SIZE_IPV6, end, limit)
    if why:
        return why, at, NONE, NONE, NONE, NONE
    if U64(buf[at]) >> U64(4) != U64(6):
        return UNKNOWN_VERSION, at, NONE, NONE, NONE, NONE
    length = get(buf, at, IPV6_LENGTH) + SIZE_IPV6
    dscp = get(buf, at, IPV6_DSCP)
    number = get(buf, at, IPV6_NEXT)
    part = NONE
    at += SIZE_IPV6
    while part != U64(1) and (number == FRAGMENT or is_extension(number)):
        why = lacks(at, U64(8), end, limit)
        if why:
            return why, at, NONE, NONE, NONE, NONE
        size = U64(8)
        if number == FRAGMENT:
            if get(buf, at, FRAGMENT_OFFSET) != NONE:
                part = U64(1)
            elif get(buf, at, FRAGMENT_MORE) != NONE:
                part = U64(2)
        elif number == AUTHENTICATION:
            size = (U64(buf[at + U64(1)]) + U64(2)) << U64(2)
        else:
            size = (U64(buf[at + U64(1)]) + U64(1)) << U64(3)
        why = lacks(at, size, end, limit)
        if why:
            return why, at, NONE, NONE, NONE, NONE
        number = U64(buf[at])
        at += size
    return NONE, at, number, dscp, length, part


@inlined
def address(buf, at, version, offset_4, offset_6):
    """(high, low) halves of an address, IPv4 as ::ffff:a.b.c.d."""
    if version == U64(4):
        return NONE, MAPPED | be32(buf, at + offset_4)
    return be64(buf, at + offset_6), be64(buf, at + offset_6 + U64(8))


@inlined
def refuse(row, why, at, origin):
    """Write a reject code into the row; `at` is an index into the arena, `origin` the frame's."""
    row.reason = why >> U64(8)
    row.place = why & U64(0xFF)
    row.reason_at = at - origin


def code(reason: Reason, place: Place) -> U64:
    """A reject code."""
    return U64(reason << 8 | place)
