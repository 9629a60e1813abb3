"""Writing headers, for the batch encoder: big-endian numbers, IP headers, checksums. Numbers are uint64."""

from ...base.kernels.jit import U8, U64, be16, inlined, kernel
from .. import layout
from .packet_kernel import byte, word

SOURCE_MAC, TARGET_MAC = U64(layout.SOURCE_MAC), U64(layout.TARGET_MAC)
IPV4, IPV6 = U64(layout.ETHERTYPE_IPV4), U64(layout.ETHERTYPE_IPV6)
UDP = U64(layout.PROTOCOL_UDP)
SIZE_ETHERNET, SIZE_IPV4, SIZE_IPV6 = (U64(h.size) for h in (layout.ETHERNET, layout.IPV4, layout.IPV6))
SIZE_UDP = U64(layout.UDP.size)
OUTER_4, OUTER_6 = SIZE_ETHERNET + SIZE_IPV4 + SIZE_UDP, SIZE_ETHERNET + SIZE_IPV6 + SIZE_UDP
"""Bytes before a datagram's payload."""
TTL = U64(64)
ETHERNET_SOURCE, ETHERNET_TYPE = byte(layout.ETHERNET, "source"), byte(layout.ETHERNET, "type")
IPV4_VERSION, IPV4_WORDS = word(layout.IPV4, "version"), word(layout.IPV4, "header_words")
IPV4_DSCP, IPV4_LENGTH = word(layout.IPV4, "dscp"), word(layout.IPV4, "total_length")
IPV4_ID, IPV4_WHOLE = word(layout.IPV4, "identification"), word(layout.IPV4, "dont_fragment")
IPV4_TTL, IPV4_PROTOCOL = word(layout.IPV4, "ttl"), word(layout.IPV4, "protocol")
IPV4_CHECKSUM = word(layout.IPV4, "checksum")
IPV4_SOURCE, IPV4_TARGET = byte(layout.IPV4, "source"), byte(layout.IPV4, "destination")
IPV6_VERSION, IPV6_DSCP = word(layout.IPV6, "version"), word(layout.IPV6, "dscp")
IPV6_LENGTH, IPV6_NEXT = word(layout.IPV6, "payload_length"), word(layout.IPV6, "next_header")
IPV6_TTL = word(layout.IPV6, "hop_limit")
IPV6_SOURCE, IPV6_TARGET = byte(layout.IPV6, "source"), byte(layout.IPV6, "destination")
UDP_SPORT, UDP_DPORT = word(layout.UDP, "sport"), word(layout.UDP, "dport")
UDP_LENGTH, UDP_CHECKSUM = word(layout.UDP, "length"), byte(layout.UDP, "checksum")
LOW_16 = U64(0xFFFF)


@inlined
def put8(out, at, value):
    """Write 8 bits."""
    out[at] = U8(value)


@inlined
def put16(out, at, value):
    """Write 16 bits."""
    value = U64(value)
    out[at] = U8(value >> U64(8))
    out[at + U64(1)] = U8(value)


@inlined
def put32(out, at, value):
    """Write 32 bits."""
    value = U64(value)
    out[at] = U8(value >> U64(24))
    out[at + U64(1)] = U8(value >> U64(16))
    out[at + U64(2)] = U8(value >> U64(8))
    out[at + U64(3)] = U8(value)


@inlined
def put48(out, at, value):
    """Write 48 bits."""
    put16(out, at, value >> U64(32))
    put32(out, at + U64(2), value)


@inlined
def put64(out, at, value):
    """Write 64 bits."""
    value = U64(value)
    put32(out, at, value >> U64(32))
    put32(out, at + U64(4), value)


@inlined
def bits(field, value):
    """A value shifted to its place in its 32-bit word, for `put_word`; `field`: a constant from `word`."""
    return (U64(value) & field[2]) << field[1]


@inlined
def put_word(out, at, field, value):
    """Write the 32-bit word that holds `field` in the header at `at`."""
    put32(out, at + field[0], value)


@kernel
def put_ethernet(out, at, type_):
    """Write an Ethernet header; returns the offset after it."""
    put48(out, at, TARGET_MAC)
    put48(out, at + ETHERNET_SOURCE, SOURCE_MAC)
    put16(out, at + ETHERNET_TYPE, type_)
    return at + SIZE_ETHERNET


@kernel
def put_ip(
    out, at, version, protocol, length, dscp, whole, identification, ttl, src_hi, src_lo, dst_hi, dst_lo
):
    """Write an IPv4 or IPv6 header of a packet of `length` bytes; `whole`: don't fragment;
    `identification`: 16 bits, IPv4 only. Returns the offset after it.
    """
    if version == U64(6):
        put_word(out, at, IPV6_VERSION, bits(IPV6_VERSION, U64(6)) | bits(IPV6_DSCP, dscp))
        payload = bits(IPV6_LENGTH, length - SIZE_IPV6)
        put_word(out, at, IPV6_LENGTH, payload | bits(IPV6_NEXT, protocol) | bits(IPV6_TTL, ttl))
        put64(out, at + IPV6_SOURCE, src_hi)
        put64(out, at + IPV6_SOURCE + U64(8), src_lo)
        put64(out, at + IPV6_TARGET, dst_hi)
        put64(out, at + IPV6_TARGET + U64(8), dst_lo)
        return at + SIZE_IPV6
    source, target = src_lo & U64(0xFFFFFFFF), dst_lo & U64(0xFFFFFFFF)
    first = bits(IPV4_VERSION, U64(4)) | bits(IPV4_WORDS, U64(5)) | bits(IPV4_DSCP, dscp)
    first |= bits(IPV4_LENGTH, length)
    second = bits(IPV4_ID, identification) | bits(IPV4_WHOLE, whole)
    third = bits(IPV4_TTL, ttl) | bits(IPV4_PROTOCOL, protocol)
    total = halves(first) + halves(second) + halves(third) + halves(source) + halves(target)
    put_word(out, at, IPV4_VERSION, first)
    put_word(out, at, IPV4_ID, second)
    put_word(out, at, IPV4_TTL, third | bits(IPV4_CHECKSUM, fold(total) ^ LOW_16))
    put32(out, at + IPV4_SOURCE, source)
    put32(out, at + IPV4_TARGET, target)
    return at + SIZE_IPV4


@inlined
def put_udp(out, at, sport, dport, length):
    """Write a UDP header without checksum; `length` includes this header. Returns the offset after it."""
    put_word(out, at, UDP_SPORT, bits(UDP_SPORT, sport) | bits(UDP_DPORT, dport))
    put_word(out, at, UDP_LENGTH, bits(UDP_LENGTH, length))
    return at + SIZE_UDP


@kernel
def put_outer(out, start, end, six, check, sport, dport, src_hi, src_lo, dst_hi, dst_lo):
    """Write Ethernet, IP and UDP before a payload that ends at `end`; `check`: with a UDP checksum, which
    IPv6 always has.
    """
    at = put_ethernet(out, start, IPV6 if six else IPV4)
    version = U64(6) if six else U64(4)
    at = put_ip(out, at, version, UDP, end - at, U64(0), U64(1), U64(0), TTL, src_hi, src_lo, dst_hi, dst_lo)
    put_udp(out, at, sport, dport, end - at)
    if check or six:
        if not six:
            src_lo, dst_lo = src_lo & U64(0xFFFFFFFF), dst_lo & U64(0xFFFFFFFF)
            src_hi, dst_hi = U64(0), U64(0)
        put16(out, at + UDP_CHECKSUM, udp_checksum(out, at, end, src_hi, src_lo, dst_hi, dst_lo))


@inlined
def halves(number):
    """The sum of a word's two 16-bit numbers."""
    return (number >> U64(16)) + (number & LOW_16)


@inlined
def fold(total):
    """A sum of 16-bit numbers as one, with end-around carry."""
    while total >> U64(16):
        total = (total & LOW_16) + (total >> U64(16))
    return total


@kernel
def udp_checksum(out, at, end, src_hi, src_lo, dst_hi, dst_lo):
    """Checksum of the UDP datagram at `at`, whose own field is 0; IPv4 addresses in the lower 32 bits."""
    total = UDP + (end - at)
    for half in (src_hi, src_lo, dst_hi, dst_lo):
        total += (
            (half >> U64(48)) + ((half >> U64(32)) & LOW_16) + ((half >> U64(16)) & LOW_16) + (half & LOW_16)
        )
    i = at
    while i + U64(1) < end:
        total += be16(out, i)
        i += U64(2)
    if i < end:
        total += U64(out[i]) << U64(8)
    value = fold(total) ^ LOW_16
    return value if value else LOW_16
