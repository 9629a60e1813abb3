"""The way into a packet: every tunnel and every place of INT, built by hand and by scapy, in a report and by
itself; and all of it cut and damaged at every byte. Both decoders, always.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any

import pytest

from hopscope.wire.decode.as_json import report_objects
from hopscope.wire.decode.decoder import Decoder
from hopscope.wire.decode.plain import decode_plain
from hopscope.wire.dialect import DEFAULT, Dialect
from hopscope.wire.records import FrameBatch, Layer, Link, ReportBatch
from support.packets.by_hand import (
    EXTENSIONS,
    PATH_2,
    STACK_2,
    ethernet,
    group,
    int_2,
    ipv4,
    ipv6,
    outer,
    single,
    tcp,
    u32,
    udp,
)
from support.packets.wire_cases import assert_same, frame_batch

pytestmark = pytest.mark.kernel

MARKER = bytes.fromhex("aaaaaaaabbbbbbbb")
PACKETS = replace(DEFAULT, name="packets", packets=True, int_ports=(666,), tcp_ports=True, marker=MARKER)
INT = int_2(0xA000, STACK_2, 2)
MX = bytes.fromhex("30030000 20000000 a0000000 00000000")
MARKED = ipv4(udp(INT + b"payload!"), dscp=0x17)
FRAME = ethernet(MARKED)
PLAIN = ipv4(udp(b"payload!"))
HEAD, BODY = INT[:4], INT[4:]


def shim(next_protocol: int, carrier: str) -> bytes:
    """INT with the shim of GRE (EtherType next) or VXLAN-GPE (next protocol next)."""
    head = struct.pack("!BBH", 0x10, len(BODY) // 4, next_protocol) if carrier == "gre" else None
    return (head or struct.pack("!BBBB", 0x10, len(BODY) // 4, 0, next_protocol)) + BODY


def around(payload: bytes, proto: int, **more: Any) -> bytes:
    """The outer IPv4 header of a tunnel."""
    return ipv4(payload, proto, outer=True, **more)


def label(*values: tuple[int, int]) -> bytes:
    """MPLS: (label, bottom)."""
    return u32(*(number << 12 | bottom << 8 | 64 for number, bottom in values))


GENEVE_INT = struct.pack("!HBB", 0x0103, 1, len(BODY) // 4) + BODY
OTHER_OPTION = struct.pack("!HBB", 0x0102, 0x80, 1) + bytes(4)


def geneve(options: bytes, type_: int, payload: bytes) -> bytes:
    """Geneve over UDP."""
    return udp(struct.pack("!BBHI", len(options) // 4, 0, type_, 77 << 8) + options + payload, 6081)


VXLAN = bytes.fromhex("08000000") + u32(77 << 8)
CASES: dict[str, tuple[bytes, int, tuple[str, int, set[str]]]] = {
    # an IP packet or a frame, its EtherType (0: it is a frame); carrier, tunnel id, layers
    "udp": (MARKED, 0x0800, ("udp", 0, set())),
    "udp by port": (ipv4(udp(INT, 666)), 0x0800, ("udp", 0, set())),
    "tcp by port": (ipv4(tcp(INT, dport=666), 6), 0x0800, ("tcp", 0, set())),
    "tcp with options": (ipv4(tcp(INT, b"\x01" * 8), 6, dscp=0x17), 0x0800, ("tcp", 0, set())),
    "marker": (ipv4(udp(MARKER + INT)), 0x0800, ("udp", 0, set())),
    "marker over tcp": (ipv4(tcp(MARKER + INT), 6), 0x0800, ("tcp", 0, set())),
    "ipv6": (ipv6(udp(INT), dscp=0x17), 0x86DD, ("udp", 0, set())),
    "ipv6 extensions": (ipv6(udp(INT), dscp=0x17, extensions=EXTENSIONS), 0x86DD, ("udp", 0, set())),
    "vlan": (ethernet(MARKED, tags=(0x8100,)), 0, ("udp", 0, {"vlan"})),
    "qinq": (ethernet(MARKED, tags=(0x88A8, 0x8100)), 0, ("udp", 0, {"qinq"})),
    "mpls": (ethernet(label((100, 0), (200, 1)) + MARKED, 0x8847), 0, ("udp", 0, {"mpls"})),
    "mpls vlan": (
        ethernet(label((100, 1)) + MARKED, 0x8848, (0x8100,)), 0, ("udp", 0, {"vlan", "mpls"})),
    "mpls control word": (ethernet(label((100, 1)) + bytes(4) + FRAME, 0x8847), 0, ("udp", 0, {"mpls"})),
    "mpls ethernet": (
        ethernet(label((100, 1)) + b"\xa2" + FRAME[1:], 0x8847), 0, ("udp", 0, {"mpls"})),
    "mpls in ip": (around(label((100, 1)) + MARKED, 137), 0x0800, ("udp", 0, {"mpls"})),
    "ip in ip": (around(MARKED, 4), 0x0800, ("udp", 0, {"ip_in_ip"})),
    "ip in ipv6": (ipv6(MARKED, 4), 0x86DD, ("udp", 0, {"ip_in_ip"})),
    "ipv6 in ip": (around(ipv6(udp(INT), dscp=0x17), 41), 0x0800, ("udp", 0, {"ip_in_ip"})),
    "gre": (around(u32(0x0000_0800) + MARKED, 47), 0x0800, ("udp", 0, {"gre"})),
    "gre c k s": (around(u32(0xB000_0800, 0, 77, 5) + MARKED, 47), 0x0800, ("udp", 77, {"gre"})),
    "gre teb": (around(u32(0x2000_6558, 77) + FRAME, 47), 0x0800, ("udp", 77, {"gre"})),
    "gre mpls": (around(u32(0x8847) + label((9, 1)) + MARKED, 47), 0x0800, ("udp", 0, {"gre", "mpls"})),
    "erspan 1": (around(u32(0x88BE) + FRAME, 47), 0x0800, ("udp", 0, {"erspan"})),
    "erspan 2": (
        around(u32(0x1000_88BE, 5, 0x10640842, 0x11) + FRAME, 47), 0x0800, ("udp", 0, {"erspan"})),
    "erspan 3": (
        around(u32(0x1000_22EB, 5, 0x20640842, 9, 0x8004) + FRAME, 47), 0x0800, ("udp", 0, {"erspan"})),
    "erspan 3 optional": (
        around(u32(0x1000_22EB, 5, 0x20640842, 9, 0x8005, 1, 2) + FRAME, 47), 0x0800,
        ("udp", 0, {"erspan"})),
    "erspan 3 ip": (
        around(u32(0x1000_22EB, 5, 0x20640842, 9, 0x0804) + MARKED, 47), 0x0800, ("udp", 0, {"erspan"})),
    "vxlan": (around(udp(VXLAN + FRAME, 4789), 17), 0x0800, ("udp", 77, {"vxlan"})),
    "vxlan with the dscp of its packet": (
        around(udp(VXLAN + FRAME, 4789), 17, dscp=0x17), 0x0800, ("udp", 77, {"vxlan"})),
    "int in front of vxlan": (
        around(udp(INT + VXLAN + ethernet(PLAIN), 4789), 17, dscp=0x17), 0x0800, ("udp", 77, {"vxlan"})),
    "gpe ip": (
        around(udp(bytes.fromhex("0c000001") + u32(77 << 8) + MARKED, 4790), 17), 0x0800,
        ("udp", 77, {"vxlan_gpe"})),
    "gpe ethernet": (
        around(udp(bytes.fromhex("0c000003") + u32(77 << 8) + FRAME, 4790), 17), 0x0800,
        ("udp", 77, {"vxlan_gpe"})),
    "geneve": (around(geneve(OTHER_OPTION, 0x6558, FRAME), 17), 0x0800, ("udp", 77, {"geneve"})),
    "gtp-u": (around(udp(u32(0x30FF0020, 77) + MARKED, 2152), 17), 0x0800, ("udp", 77, {"gtp_u"})),
    "gtp-u extensions": (
        around(udp(bytes.fromhex("34ff0028 0000004d 000000c0 010abc85 01100900") + MARKED, 2152), 17), 0x0800,
        ("udp", 77, {"gtp_u"})),
    "gtp-u sequence": (
        around(udp(bytes.fromhex("32ff0028 0000004d 00050000") + MARKED, 2152), 17), 0x0800,
        ("udp", 77, {"gtp_u"})),
    "int over gre": (
        around(u32(0x2000_88B6, 77) + shim(0x0800, "gre") + PLAIN, 47), 0x0800, ("gre", 77, {"gre"})),
    "int over gpe": (
        around(udp(bytes.fromhex("0c000082") + u32(77 << 8) + shim(3, "gpe") + ethernet(PLAIN), 4790), 17),
        0x0800, ("vxlan_gpe", 77, {"vxlan_gpe"})),
    "int in geneve": (
        around(geneve(OTHER_OPTION + GENEVE_INT, 0x6558, ethernet(PLAIN)), 17), 0x0800,
        ("geneve", 77, {"geneve"})),
    "inserted": (
        ipv4(udp(INT + tcp(b"payload!"), 0x1000)), 0x0800, ("udp_inserted", 0, set())),
    "inserted npt 2": (
        ipv4(udp(int_2(0xA000, STACK_2, 2, npt=2, original=6) + tcp(b""), 0x1000)), 0x0800,
        ("udp_inserted", 0, set())),
    "inserted in front of gre": (
        around(udp(int_2(0xA000, STACK_2, 2, npt=2, original=47) + u32(0x0800) + PLAIN, 0x1000), 17), 0x0800,
        ("udp_inserted", 0, {"gre"})),
    "npt 1, port 0x1000": (
        ipv4(udp(int_2(0xA000, STACK_2, 2, npt=1, original=53) + b"payload!", 0x1000), dscp=0), 0x0800,
        ("udp", 0, set())),
    "npt 1": (
        ipv4(udp(int_2(0xA000, STACK_2, 2, npt=1, original=53), 666)), 0x0800, ("udp", 0, set())),
    "npt 1 in front of vxlan": (
        around(udp(int_2(0xA000, STACK_2, 2, npt=1, original=4789) + VXLAN + ethernet(PLAIN), 666), 17),
        0x0800, ("udp", 77, {"vxlan"})),
    "npt 2": (
        ipv4(udp(int_2(0xA000, STACK_2, 2, npt=2, original=6) + tcp(b""), 666)), 0x0800, ("udp", 0, set())),
    "npt 2 in front of gre": (
        around(udp(int_2(0xA000, STACK_2, 2, npt=2, original=47) + u32(0x0800) + PLAIN, 666), 17), 0x0800,
        ("udp", 0, {"gre"})),
    "six layers": (
        around(around(around(around(around(MARKED, 4), 4), 4), 4), 4), 0x0800, ("udp", 0, {"ip_in_ip"})),
}  # fmt: skip


def framed(case: str) -> bytes:
    """The Ethernet frame of a case."""
    packet, type_, _ = CASES[case]
    return ethernet(packet, type_) if type_ else packet


def reported(frame: bytes, flags: str = "F") -> bytes:
    """The frame in a Report 2.0."""
    return outer(group(single(frame, flags=flags)))


@lru_cache(8)
def _decoder(dialect: Dialect) -> Decoder:
    return Decoder(dialect)


def agreed(batch: FrameBatch, dialect: Dialect = PACKETS) -> ReportBatch:
    """The reports of these frames; both decoders must agree."""
    plain = decode_plain(batch, dialect)
    assert_same(plain, _decoder(dialect).decode(batch))
    return plain


def decode(
    frames: list[bytes], dialect: Dialect = PACKETS, link: Link = Link.ETHERNET
) -> list[dict[str, Any]]:
    """The objects of these frames."""
    batch = frame_batch(frames, link)
    return list(report_objects(agreed(batch, dialect), batch, dialect))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("report", [True, False])
def test_int_is_found(case: str, report: bool) -> None:
    """INT and the innermost flow, with what lies around it, in a report and in a packet."""
    carrier, tunnel_id, layers = CASES[case][2]
    frame = framed(case)
    (found,) = decode([reported(frame) if report else frame])
    assert ("report" in found) == report
    assert found["int"]["carrier"] == carrier
    assert found["hops"] == PATH_2
    flow = found["flow"]
    assert flow["src"] in ("198.51.100.1", "2001:db8::1")
    assert flow["proto"] == (6 if "tcp" in case or case in ("inserted", "inserted npt 2", "npt 2") else 17)
    assert flow["sport"] == 4000
    assert flow["dport"] == (666 if "by port" in case else 53)
    assert (flow.get("tunnel_id", 0), set(flow.get("layers", []))) == (tunnel_id, layers)
    assert flow.get("vlan", 0) == (100 if layers & {"vlan", "qinq"} else 0)


def _prefixes(frame: bytes) -> Iterator[bytes]:
    return (frame[:cut] for cut in range(len(frame)))


@pytest.mark.parametrize("case", CASES)
def test_every_prefix(case: str) -> None:
    """Cut anywhere, both decoders say the same: all hops, or none."""
    frame = framed(case)
    for whole in (frame, reported(frame), reported(frame, "")):
        for found in decode(list(_prefixes(whole))):
            if found.get("hops"):
                assert found["hops"] == PATH_2
    for found in decode([reported(cut, flags) for flags in ("F", "") for cut in _prefixes(frame)]):
        assert not found.get("hops") or found["hops"] == PATH_2


@pytest.mark.parametrize("case", CASES)
def test_every_byte_damaged(case: str) -> None:
    """Any byte changed to one of several values: both decoders say the same, and neither crashes; in a packet
    for each value, in each form of report, and without packets, for a third of them.
    """
    frame = framed(case)
    damaged = [
        frame[:at] + bytes([value]) + frame[at + 1 :]
        for at, byte in enumerate(frame)
        for value in sorted({0, 1, 0xFF, byte ^ 0x10, byte ^ 1} - {byte})
    ]
    agreed(frame_batch(damaged))
    decode([reported(one, flags) for flags, first in (("F", 0), ("", 1)) for one in damaged[first::3]])
    decode([reported(one) for one in damaged[2::3]], DEFAULT)


@pytest.mark.parametrize("size", range(1, 24))
def test_damage_behind_int(size: int) -> None:
    """A further packet that is cut behind complete INT is no refusal: the flow found so far stays."""
    frame = framed("int over gre")
    (found,) = decode([reported(frame[: len(frame) - len(PLAIN) + size])])
    assert found["hops"] == PATH_2
    assert found["flow"]["src"] == ("192.0.2.1" if size < 20 else "198.51.100.1")
    assert found["flow"].get("tunnel_id", 0) == (0 if size < 20 else 77)


def test_too_many_layers() -> None:
    """Seven IP headers are refused at the tunnel, in a report and in a packet."""
    frame = ethernet(around(CASES["six layers"][0], 4))
    for one in (frame, reported(frame), reported(frame, "")):
        (found,) = decode([one])
        assert (found["error"]["reason"], found["error"]["at"]) == ("too_many_layers", "tunnel")


def test_what_looks_like_int_but_is_not() -> None:
    """Without F, DSCP or port alone are ordinary traffic; with F, a refusal; a packet alone is none."""
    frame = ethernet(ipv4(udp(b"\xc0" + bytes(30)), dscp=0x17))
    assert decode([frame]) == []
    (found,) = decode([reported(frame, "")])
    assert "int" not in found
    assert "error" not in found
    (found,) = decode([reported(frame)])
    assert (found["error"]["reason"], found["error"]["at"]) == ("unknown_type", "int shim")


@pytest.mark.parametrize("flags", ["F", ""])
def test_a_tunnel_that_is_cut(flags: str) -> None:
    """Reports bring the beginnings of packets: a tunnel that is cut leaves the outer flow, F or not."""
    frame = framed("vxlan")[: 14 + 20 + 8 + 5]
    (found,) = decode([reported(frame) if flags else reported(frame, "")])
    assert "error" not in found
    assert (found["flow"]["dport"], "layers" in found["flow"]) == (4789, False)


def test_a_report_behind_labels() -> None:
    """A report whose own packet is inside MPLS."""
    report = reported(FRAME)
    (found,) = decode([ethernet(label((100, 0), (16, 1)) + report[14:], 0x8847)], DEFAULT)
    assert (found["source"], found["hops"]) == ("192.0.2.1", PATH_2)


def test_packets_of_every_link_type() -> None:
    """A packet without Ethernet; and UDP payloads, which are reports and nothing else."""
    assert decode([MARKED], link=Link.RAW_IP)[0]["hops"] == PATH_2
    assert decode([b"\2\0\0\0" + MARKED], link=Link.NULL)[0]["hops"] == PATH_2
    cooked = bytes(14) + bytes.fromhex("8100 0064 0800") + MARKED
    assert decode([cooked], link=Link.LINUX_SLL)[0]["flow"]["layers"] == ["vlan"]
    assert "error" in decode([MARKED], link=Link.UDP_PAYLOAD)[0]
    assert decode([FRAME], DEFAULT) == []


def _packet_ids(frames: list[bytes]) -> list[int]:
    return [int(number) for number in agreed(frame_batch(frames)).reports["packet_id"]]


def test_packet_id() -> None:
    """Alike at every node (TTL, DSCP, checksum differ), different for another packet, 0 where not wanted."""
    packet = bytearray(ethernet(ipv4(tcp(MX), 6, dscp=0x17)))
    later = bytearray(packet)
    later[14 + 8] -= 3  # TTL
    later[14 + 10] ^= 0xFF  # checksum
    other = bytearray(packet)
    other[14 + 20 + 7] ^= 1  # sequence number
    ids = _packet_ids([reported(bytes(one)) for one in (packet, later, other)] + [bytes(packet)])
    assert ids[0] == ids[1] == ids[3] != ids[2]
    assert all(ids)
    assert _packet_ids([reported(FRAME), FRAME]) == [0, 0]


def test_packet_id_of_a_postcard() -> None:
    """A report with its own metadata and no INT in its packet, plain, tunnelled, and cut behind its ports."""
    own = group(single(ethernet(PLAIN), bits=0x2000, own=u32(5)))
    short = group(single(ethernet(PLAIN)[: 14 + 24], bits=0x2000, own=u32(5)))
    tunnel = group(single(ethernet(around(u32(0x0800) + PLAIN, 47)), bits=0x2000, own=u32(5)))
    whole, cut, inner = _packet_ids([outer(own), outer(short), outer(tunnel)])
    assert whole
    assert cut
    assert whole == inner != cut


SCAPY: dict[str, tuple[str, ...]] = {
    "mpls": ("mpls",), "gre": ("gre",), "vxlan": ("vxlan",), "geneve": ("geneve",), "ip in ip": ("ip_in_ip",),
    "gtp-u": ("gtp_u",), "qinq": ("qinq",), "vxlan in gre": ("gre", "vxlan"),
}  # fmt: skip


def _by_scapy(name: str) -> bytes:
    inet, l2 = pytest.importorskip("scapy.layers.inet"), pytest.importorskip("scapy.layers.l2")
    from scapy.contrib.geneve import GENEVE
    from scapy.contrib.gtp import GTP_U_Header
    from scapy.contrib.mpls import MPLS
    from scapy.layers.vxlan import VXLAN as SCAPY_VXLAN

    packet = (
        inet.IP(src="198.51.100.1", dst="203.0.113.9", tos=0x17 << 2) / inet.UDP(sport=4000, dport=53) / INT
    )
    ends = inet.IP(src="192.0.2.1", dst="192.0.2.2")
    link = l2.Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")  # else scapy asks the network
    frame = link / packet
    made = {
        "mpls": MPLS(label=100, s=0) / MPLS(label=200, s=1) / packet,
        "gre": ends / l2.GRE(key_present=1, key=77) / packet,
        "vxlan": ends / inet.UDP(dport=4789) / SCAPY_VXLAN(vni=77) / frame,
        "geneve": ends / inet.UDP(dport=6081) / GENEVE(vni=77, proto=0x6558) / frame,
        "ip in ip": ends / packet,
        "gtp-u": ends / inet.UDP(dport=2152) / GTP_U_Header(teid=77) / packet,
        "qinq": l2.Dot1AD(vlan=5) / l2.Dot1Q(vlan=100) / packet,
        "vxlan in gre": ends / l2.GRE() / ends / inet.UDP(dport=4789) / SCAPY_VXLAN(vni=77) / frame,
    }[name]
    return bytes(link / made)


@pytest.mark.parametrize("name", SCAPY)
def test_scapys_packets(name: str) -> None:
    """Tunnels that scapy built are read, whole and cut at every byte."""
    frame = _by_scapy(name)
    (found,) = decode([frame])
    assert (found["flow"]["src"], found["flow"]["dport"], found["hops"]) == ("198.51.100.1", 53, PATH_2)
    assert tuple(found["flow"]["layers"]) == SCAPY[name]
    assert {one.name.lower() for one in Layer} >= set(SCAPY[name])
    decode([reported(cut) for cut in _prefixes(frame)])
