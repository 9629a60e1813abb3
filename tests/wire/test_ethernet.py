"""Ethernet, IP, UDP and TCP headers: round trips, truncation, and what scapy says of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopscope.wire.address import MAPPED
from hopscope.wire.buffer import Buffer, push
from hopscope.wire.errors import WireError
from hopscope.wire.headers.ethernet import (
    Ethernet,
    Ip,
    Tcp,
    Udp,
    checksum,
    ip_version_of,
    pull_ethernet,
    pull_ip,
    pull_link,
    pull_udp,
    push_ethernet,
    push_ip,
    push_tcp,
    push_udp,
    udp_checksum,
)
from hopscope.wire.layout import UDP
from hopscope.wire.reasons import Place, Reason
from hopscope.wire.records import Link
from oracle.ethernet import pull_tcp

U3, U6, U8, U16, U32 = (st.integers(0, (1 << bits) - 1) for bits in (3, 6, 8, 16, 32))
WORDS = st.binary(max_size=40).map(lambda raw: raw[: len(raw) // 4 * 4])
MACS = st.integers(0, (1 << 48) - 1)
NOT_A_TAG = U16.filter(lambda type_: type_ not in (0x8100, 0x88A8, 0x9100))
TAGS = st.lists(st.tuples(st.sampled_from([0x8100, 0x88A8, 0x9100]), U16), max_size=4).map(tuple)
IPV4_ADDRESS = U32.map(lambda address: MAPPED | address)
IPV4 = st.builds(
    Ip, version=st.just(4), source=IPV4_ADDRESS, destination=IPV4_ADDRESS, protocol=U8,
    length=st.integers(60, 65535),
    dscp=U6, ecn=st.integers(0, 3), ttl=U8, identification=U16, dont_fragment=st.booleans(),
    fragment_offset=st.integers(0, 8191), more_fragments=st.booleans(), options=WORDS,
)  # fmt: skip
NO_EXTENSION = st.sampled_from([6, 17, 50, 58, 59, 253])
ADDRESS = st.integers(0, (1 << 128) - 1)
IPV6 = st.builds(
    Ip, version=st.just(6), source=ADDRESS, destination=ADDRESS, protocol=NO_EXTENSION,
    length=st.integers(40, 65575),
    dscp=U6, ecn=st.integers(0, 3), ttl=U8, flow_label=st.integers(0, (1 << 20) - 1),
)  # fmt: skip


def _all_cuts_are_truncated(raw: bytes, pull: Callable[[Buffer], Any]) -> None:
    for cut in range(len(raw)):
        with pytest.raises(WireError) as caught:
            pull(Buffer(raw[:cut]))
        assert caught.value.reason == Reason.TRUNCATED
        assert caught.value.detail


@given(st.builds(Ethernet, MACS, MACS, NOT_A_TAG, TAGS))
def test_ethernet(ethernet: Ethernet) -> None:
    """Headers with up to four tags survive, and every cut is told."""
    out = bytearray()
    push_ethernet(out, ethernet)
    buf = Buffer(bytes(out))
    assert pull_ethernet(buf, Place.OUTER_ETHERNET) == ethernet
    assert buf.left == 0
    _all_cuts_are_truncated(bytes(out), lambda buf: pull_ethernet(buf, Place.OUTER_ETHERNET))


@given(st.one_of(IPV4, IPV6))
def test_ip(ip: Ip) -> None:
    """IPv4 with options and IPv6 survive; a pushed IPv4 header has a right checksum; every cut is told."""
    out = bytearray()
    push_ip(out, ip)
    read = pull_ip(Buffer(bytes(out)), ip.version, Place.OUTER_IP)
    if ip.version == 4:
        assert checksum(bytes(out)) == 0
    read.checksum = 0
    assert read == ip
    _all_cuts_are_truncated(bytes(out), lambda buf: pull_ip(buf, ip.version, Place.OUTER_IP))


def _ipv6(first: int, extensions: bytes) -> bytes:
    out = bytearray()
    push_ip(out, Ip(6, 1, 2, first, 40 + len(extensions) + 8, options=extensions))
    return bytes(out) + bytes(8)


@pytest.mark.parametrize(
    ("first", "extensions", "fragment", "protocol"),
    [
        (0, "3c000000000000001100000000000000", False, 17),  # hop-by-hop, destination options
        (43, "0602" + "00" * 22, False, 6),  # routing of 24 bytes
        (51, "11040000" + "00" * 20, False, 17),  # authentication of 24 bytes
        (44, "1100000000000001", False, 17),  # an atomic fragment is whole
        (44, "1100000100000001", True, 17),  # the first of several
        (44, "0000050800000001", True, 0),  # a later one: what follows is no header
        (135, "3b00000000000000", False, 59),
    ],
)
def test_ipv6_extensions(first: int, extensions: str, fragment: bool, protocol: int) -> None:
    """Extension headers are followed to the transport protocol; fragments are told."""
    raw = _ipv6(first, bytes.fromhex(extensions))
    buf = Buffer(raw)
    ip = pull_ip(buf, 6, Place.OUTER_IP)
    assert (ip.protocol, ip.fragment) == (protocol, fragment)
    assert buf.left == 8
    _all_cuts_are_truncated(raw[:-8], lambda buf: pull_ip(buf, 6, Place.OUTER_IP))


@pytest.mark.parametrize(
    ("change", "reason"),
    [((0, 0x65), Reason.UNKNOWN_VERSION), ((0, 0x44), Reason.BAD_LENGTH), ((3, 19), Reason.BAD_LENGTH)],
)
def test_ipv4_refusals(change: tuple[int, int], reason: Reason) -> None:
    """Another version, fewer than 5 words, and a total length below the header's are refused."""
    out = bytearray()
    push_ip(out, Ip(length=20))
    out[change[0]] = change[1]
    with pytest.raises(WireError) as caught:
        pull_ip(Buffer(bytes(out)), 4, Place.INNER_IP)
    assert (caught.value.reason, caught.value.place) == (reason, Place.INNER_IP)


def test_bytes_behind_the_stated_length_do_not_belong() -> None:
    """Padding behind an IP packet is no part of it: reading it is bad_length, not truncated."""
    out = bytearray()
    push_ip(out, Ip(length=24))
    buf = Buffer(bytes(out) + bytes(30))
    pull_ip(buf, 4, Place.INNER_IP)
    assert buf.left == 4
    with pytest.raises(WireError) as caught:
        pull_udp(buf, Place.INNER_L4)
    assert caught.value.reason == Reason.BAD_LENGTH


@given(st.builds(Udp, U16, U16, U16, U16))
def test_udp(udp: Udp) -> None:
    """UDP survives, and every cut is told."""
    out = bytearray()
    push_udp(out, udp)
    assert pull_udp(Buffer(bytes(out)), Place.INNER_L4) == udp
    _all_cuts_are_truncated(bytes(out), lambda buf: pull_udp(buf, Place.INNER_L4))


@given(st.builds(Tcp, U16, U16, U32, U32, U8, U16, U16, U16, WORDS))
def test_tcp(tcp: Tcp) -> None:
    """TCP with options survives, and every cut is told."""
    out = bytearray()
    push_tcp(out, tcp)
    assert pull_tcp(Buffer(bytes(out)), Place.INNER_L4) == tcp
    _all_cuts_are_truncated(bytes(out), lambda buf: pull_tcp(buf, Place.INNER_L4))


def test_a_tcp_header_has_five_words() -> None:
    """A data offset below 5 is refused."""
    with pytest.raises(WireError) as caught:
        pull_tcp(Buffer(bytes(12) + b"\x40" + bytes(20)), Place.INNER_L4)
    assert caught.value.reason == Reason.BAD_LENGTH


IP_BYTES = bytes([0x45]) + bytes(19)


@pytest.mark.parametrize(
    ("link", "raw", "version"),
    [
        (Link.ETHERNET, bytes(12) + bytes.fromhex("88a80001810000020800"), 4),
        (Link.ETHERNET, bytes(12) + bytes.fromhex("86dd"), 6),
        (Link.ETHERNET, bytes(12) + bytes.fromhex("0806"), 0),
        (Link.RAW_IP, IP_BYTES, 4),
        (Link.RAW_IP, b"\x60", 6),
        (Link.RAW_IP, b"\x10", 0),
        (Link.NULL, bytes([2, 0, 0, 0]), 4),
        (Link.NULL, bytes([0, 0, 0, 30]), 6),
        (Link.NULL, bytes([7, 0, 0, 0]), 0),
        (Link.LINUX_SLL, bytes(14) + bytes.fromhex("0800"), 4),
        (Link.LINUX_SLL2, bytes.fromhex("86dd") + bytes(18), 6),
        (99, IP_BYTES, 0),
    ],
)
def test_links(link: int, raw: bytes, version: int) -> None:
    """Every link type leads to its IP packet, or to none."""
    assert ip_version_of(pull_link(Buffer(raw), link)[0]) == version


@given(st.binary(max_size=60), U16, U16)
def test_udp_checksum_is_scapys(payload: bytes, sport: int, dport: int) -> None:
    """scapy computes the same UDP checksum over IPv4 and IPv6."""
    inet = pytest.importorskip("scapy.layers.inet")
    inet6 = pytest.importorskip("scapy.layers.inet6")
    out = bytearray()
    push_udp(out, Udp(sport, dport, 8 + len(payload)))
    segment = bytes(out) + payload
    four = inet.IP(src="192.0.2.1", dst="198.51.100.2") / inet.UDP(sport=sport, dport=dport) / payload
    six = inet6.IPv6(src="2001:db8::1", dst="2001:db8::2") / inet.UDP(sport=sport, dport=dport) / payload
    base = 0x20010DB8 << 96
    ours_4 = udp_checksum(Ip(4, MAPPED | 0xC0000201, MAPPED | 0xC6336402), segment)
    ours_6 = udp_checksum(Ip(6, base | 1, base | 2), segment)
    assert ours_4.to_bytes(2, "big") == bytes(four)[26:28]
    assert ours_6.to_bytes(2, "big") == bytes(six)[46:48]


def test_push_refuses_what_does_not_fit() -> None:
    """A value that is wider than its field is a ValueError that names both."""
    with pytest.raises(ValueError, match="UDP: sport 65536"):
        push(bytearray(), UDP, {"sport": 65536})
