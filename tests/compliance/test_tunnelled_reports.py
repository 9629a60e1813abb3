"""Telemetry Reports that a network wraps before a collector sees them: mirrored with ERSPAN, carried by GRE,
IP in IP, MPLS, VXLAN, VXLAN-GPE, Geneve and GTP-U. Frames are written by hand, and by scapy.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from functools import lru_cache

import pytest

from hopscope.wire.decode.as_json import report_objects
from hopscope.wire.decode.decoder import Decoder
from hopscope.wire.decode.plain import decode_plain
from hopscope.wire.dialect import DEFAULT, Dialect
from hopscope.wire.records import Link
from oracle.decode import decode_scalar
from support.packets.by_hand import (
    PATH_2,
    SIMPLE,
    STACK_2,
    Report,
    ethernet,
    group,
    int_2,
    ipv4,
    outer,
    single,
    u32,
    udp,
)
from support.packets.tshark import Tshark, assert_capture_agrees
from support.packets.wire_cases import assert_same, frame_batch

pytestmark = pytest.mark.kernel

PACKETS = replace(DEFAULT, name="packets", packets=True)
REPORT = ipv4(udp(SIMPLE, 32766), outer=True)
"""The IP packet with a report, from 192.0.2.1."""
FRAME = ethernet(REPORT)


def around(payload: bytes, protocol: int) -> bytes:
    """The IPv4 packet of a tunnel's end, from 198.51.100.1, in a frame."""
    return ethernet(ipv4(payload, protocol))


def gre(type_: int, payload: bytes, flags: int = 0, words: bytes = b"") -> bytes:
    """GRE; `flags` 0x2000 key, 0x1000 sequence, with their `words`."""
    return around(struct.pack("!HH", flags, type_) + words + payload, 47)


ERSPAN_2 = struct.pack("!HHI", 1 << 12 | 100, 7, 0)
ERSPAN_3 = struct.pack("!HHIHH", 2 << 12 | 100, 7, 1234, 0, 0)
ERSPAN_3_LONGER = ERSPAN_3[:10] + struct.pack("!H", 1) + bytes(8)
VXLAN = bytes.fromhex("08000000") + u32(77 << 8)
GPE = bytes.fromhex("0c000003") + u32(77 << 8)
GENEVE = struct.pack("!BBHIHBBI", 2, 0, 0x6558, 77 << 8, 0x0102, 0x80, 1, 0)
GTP_U = struct.pack("!BBHI", 0x30, 255, len(REPORT), 9)
LABELS = u32(100 << 12 | 64, 200 << 12 | 1 << 8 | 64)

TUNNELS = {
    "gre": gre(0x0800, REPORT),
    "gre with key and sequence": gre(0x0800, REPORT, 0x3000, u32(5, 6)),
    "gre, ethernet": gre(0x6558, FRAME),
    "erspan i": gre(0x88BE, FRAME),
    "erspan ii": gre(0x88BE, ERSPAN_2 + FRAME, 0x1000, u32(1)),
    "erspan iii": gre(0x22EB, ERSPAN_3 + FRAME, 0x1000, u32(1)),
    "erspan iii, optional part": gre(0x22EB, ERSPAN_3_LONGER + FRAME, 0x1000, u32(1)),
    "ip in ip": around(REPORT, 4),
    "vxlan": around(udp(VXLAN + FRAME, 4789), 17),
    "vxlan-gpe": around(udp(GPE + FRAME, 4790), 17),
    "geneve": around(udp(GENEVE + FRAME, 6081, 50000), 17),  # 4000 is ICQ to Wireshark
    "gtp-u": around(udp(GTP_U + REPORT, 2152), 17),
    "mpls": ethernet(LABELS + REPORT, 0x8847),
    "mpls, ethernet": ethernet(LABELS + FRAME, 0x8847),
    "erspan of vxlan": gre(0x88BE, ERSPAN_2 + around(udp(VXLAN + FRAME, 4789), 17), 0x1000, u32(1)),
    "vlan in vxlan": around(udp(VXLAN + ethernet(REPORT, 0x0800, (0x8100,)), 4789), 17),
}


@lru_cache(4)
def _decoder(dialect: Dialect) -> Decoder:
    return Decoder(dialect, frames=8)


def decode(frame: bytes, dialect: Dialect = DEFAULT, link: Link = Link.ETHERNET) -> list[Report]:
    """The objects of a frame; compiled or not, the decoder gives the same, and so does the oracle."""
    batch = frame_batch([frame], link)
    plain = decode_plain(batch, dialect)
    assert_same(plain, _decoder(dialect).decode(batch))
    assert_same(plain, decode_scalar(batch, dialect))
    return list(report_objects(plain, batch, dialect))


def comparable(found: Report) -> Report:
    """A report without where it lies in its frame."""
    return {key: value for key, value in found.items() if key not in ("wire_length", "frame")}


@pytest.mark.parametrize("tunnel", TUNNELS)
@pytest.mark.parametrize("dialect", [DEFAULT, PACKETS], ids=["reports", "packets"])
def test_the_report_is_found(tunnel: str, dialect: Dialect) -> None:
    """It is what it is without the tunnel: its source is the switch, not the tunnel's end."""
    (bare,) = decode(FRAME, dialect)
    (found,) = decode(TUNNELS[tunnel], dialect)
    assert comparable(found) == comparable(bare)
    assert found["source"] == "192.0.2.1"
    assert found["hops"] == PATH_2


@pytest.mark.parametrize("tunnel", ["gre", "erspan ii", "vxlan", "geneve", "gtp-u", "mpls, ethernet"])
def test_every_prefix(tunnel: str) -> None:
    """Cut anywhere it is nothing, or a report that is rejected by name; never another report."""
    whole = TUNNELS[tunnel]
    for size in range(len(whole)):
        for found in decode(whole[:size]):
            assert "error" in found or found["hops"] == PATH_2


@pytest.mark.parametrize("tunnel", ["gre", "erspan iii", "vxlan"])
def test_every_byte_damaged(tunnel: str) -> None:
    """Any byte of the tunnel changed: the decoder, compiled or not, and the oracle read the same."""
    whole = TUNNELS[tunnel]
    for at in range(len(whole) - len(SIMPLE)):
        decode(whole[:at] + bytes([whole[at] ^ 0x5A]) + whole[at + 1 :])


def test_links_without_ethernet() -> None:
    """A capture of IP packets, or on a tunnel's own interface."""
    packet = ipv4(struct.pack("!HH", 0, 0x0800) + REPORT, 47)
    (found,) = decode(packet, DEFAULT, Link.RAW_IP)
    assert found["hops"] == PATH_2


def test_other_packets_in_tunnels_stay_other_packets() -> None:
    """No report inside: nothing is found; INT in a tunnel's packet is still found where packets are read."""
    marked = ipv4(udp(int_2(0xA000, STACK_2, 2)), dscp=0x17)
    for frame in (gre(0x0800, marked), around(udp(VXLAN + ethernet(marked), 4789), 17)):
        assert decode(frame) == []
        (found,) = decode(frame, PACKETS)
        assert found["hops"] == PATH_2
        assert "report" not in found


def test_a_report_about_a_tunnel_is_one_report() -> None:
    """A report whose inner packet is in a tunnel is not looked into for another report."""
    (found,) = decode(outer(group(single(TUNNELS["gre"]))))
    assert "report" in found


def test_too_many_layers_end_the_search() -> None:
    """More IP headers than are read anywhere: not a report."""
    packet = REPORT
    for _ in range(9):
        packet = ipv4(packet, 4)
    assert decode(ethernet(packet)) == []


def test_by_scapy() -> None:
    """The same tunnels as scapy builds them."""
    scapy = pytest.importorskip("scapy.all")
    pytest.importorskip("scapy.layers.vxlan")
    from scapy.contrib.erspan import ERSPAN_II

    inside = scapy.Ether(FRAME)
    ends = scapy.Ether() / scapy.IP(src="198.51.100.1", dst="198.51.100.2")
    for packet in (
        ends / scapy.GRE() / scapy.IP(REPORT),
        ends / scapy.GRE(proto=0x88BE, seqnum_present=1, sequence_number=3) / ERSPAN_II() / inside,
        ends / scapy.UDP(dport=4789) / scapy.VXLAN(vni=77, flags="Instance") / inside,
    ):
        (found,) = decode(bytes(packet))
        assert found["hops"] == PATH_2


def test_wireshark_agrees(tshark: Tshark) -> None:
    """Wireshark takes the tunnels apart by itself, and its dissector then shows the same reports."""
    capture = tshark.write("tunnels.pcap", frame_batch(list(TUNNELS.values())))
    assert assert_capture_agrees(tshark, capture, DEFAULT) == len(TUNNELS)
