"""What comes out of the sink: packets as they were before their INT source."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hopscope.wire.craft.frames import craft
from hopscope.wire.craft.keys import Keys
from hopscope.wire.craft.packet import push_packet
from hopscope.wire.dialect import DEFAULT, DIALECTS, Dialect
from hopscope.wire.errors import WireError
from hopscope.wire.records import Carrier, Hop, Link
from oracle.insert import Checksums, Form, insert_int
from oracle.strip import restore, strip_packet
from support.packets.packet_cases import Packet, hop_lists, packets
from support.packets.wire_cases import frames_of, read_capture

SPEC = replace(DEFAULT, name="sink", packets=True)
IN_L4 = {6: Carrier.TCP, 17: Carrier.UDP}
HOPS = [Hop(node_id=1, hop_latency=7), Hop(node_id=2, hop_latency=9)]


@st.composite
def forms(draw: st.DrawFn, protocol: int) -> Form:
    """Ways to put INT into a packet of this protocol, all but those whose original nothing tells."""
    version = draw(st.sampled_from((4, 5, 10, 20)))
    inserted = draw(st.booleans())
    if inserted:
        npt = draw(st.sampled_from((0, 2))) if protocol == 6 else 2
        version = 20 if npt == 2 else version
    else:
        npt = draw(st.sampled_from((0, 1))) if protocol == 17 else 0
    carrier = Carrier.UDP_INSERTED if inserted else IN_L4[protocol]
    checksums = draw(st.sampled_from((Checksums.UPDATE, Checksums.LEAVE, Checksums.COMPLEMENT)))
    return Form(carrier, npt, version, checksums=checksums)


@settings(max_examples=200)
@given(st.data(), packets, hop_lists, st.sampled_from((0x8000, 0xB001, 0xFF01, 0xFF81)))
def test_strip_is_the_inverse_of_insert(
    data: st.DataObject, packet: Packet, hops: list[Hop], bitmap: int
) -> None:
    """Over TCP and UDP, every version, indication and treatment of checksums: the packet is itself again."""
    form = data.draw(forms(packet.protocol))
    dialect = SPEC if form.version != 4 else replace(DIALECTS["int-0.4"], inserted_udp_ports=(0x1000,))
    frame = packet.frame()
    inserted = insert_int(
        frame, hops, bitmap & 0xFF00 if form.version < 10 else bitmap, form, dialect=dialect
    )
    assert len(inserted) > len(frame)
    found = restore(inserted, Link.ETHERNET, dialect)
    assert found.frame == frame
    assert found.removed == len(inserted) - len(frame)
    assert not found.unverified


CARRIERS = {
    "gre": (Carrier.GRE, False), "gre checksum": (Carrier.GRE, False), "vxlan": (Carrier.VXLAN_GPE, False),
    "vxlan_gpe": (Carrier.VXLAN_GPE, False), "geneve": (Carrier.GENEVE, False),
}  # fmt: skip


@settings(max_examples=100)
@given(
    packets,
    st.sampled_from(sorted(CARRIERS)),
    st.lists(st.sampled_from(("gre", "gtp_u", "ip_in_ip", "vxlan")), max_size=2),
    hop_lists,
    st.sampled_from((5, 10, 20)),
    st.sampled_from((Checksums.UPDATE, Checksums.LEAVE)),
)
def test_tunnels_are_themselves_again(
    packet: Packet, name: str, around: list[str], hops: list[Hop], version: int, checksums: Checksums
) -> None:
    """INT in a tunnel's header, also of a tunnel in tunnels: next protocols, options, lengths and checksums
    of everything outside are restored.
    """
    assume(CARRIERS[name][0] not in (Carrier.GRE, Carrier.VXLAN_GPE) or version == 20 or name == "vxlan_gpe")
    around = [one for one in around if not (name.startswith("gre") and one == "gre")]
    around = [one for one in around if not (name.startswith("vxlan") and one == "vxlan")]
    packet = replace(packet, tunnels=(name, *around))
    frame = packet.frame()
    form = Form(CARRIERS[name][0], version=version, checksums=checksums)
    inserted = insert_int(frame, hops, 0xB000, form, dialect=SPEC)
    assert restore(inserted, Link.ETHERNET, SPEC).frame == frame


@settings(max_examples=100)
@given(
    packets, st.lists(st.sampled_from(("gre checksum", "gtp_u", "ip_in_ip", "vxlan", "geneve")), max_size=3)
)
def test_int_in_tunnels(packet: Packet, around: list[str]) -> None:
    """INT over TCP in tunnels: every length and checksum around it is restored."""
    frame = replace(packet, protocol=6, tunnels=tuple(around)).frame()
    for checksums in (Checksums.UPDATE, Checksums.LEAVE):
        inserted = insert_int(frame, HOPS, 0xA000, Form(Carrier.TCP, 0, checksums=checksums), dialect=SPEC)
        assert strip_packet(inserted, dialect=SPEC) == frame


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("tags", [0, 1])
def test_gre_that_the_source_added_goes(version: int, tags: int) -> None:
    """G: the outer IP header and GRE go too, around IP; around Ethernet, the outer Ethernet too."""
    frame = Packet(version, tags=tags).frame()
    inserted = insert_int(frame, HOPS, 0xA000, Form(Carrier.GRE, added=True), dialect=SPEC)
    assert inserted[12 + 4 * tags : 14 + 4 * tags] == frame[12 + 4 * tags : 14 + 4 * tags]
    assert strip_packet(inserted, dialect=SPEC) == frame
    start = 14 + 4 * tags
    assert strip_packet(inserted[start:], Link.RAW_IP, SPEC) == frame[start:]
    at = start + (20 if version == 4 else 40) + 4
    framed = inserted[: at + 2] + b"\x65\x58" + inserted[at + 4 :]
    behind = len(inserted) - len(frame) + start
    framed = framed[:behind] + frame[:start] + framed[behind:]
    length = int.from_bytes(framed[start + (2 if version == 4 else 4) :][:2], "big") + start
    where = start + (2 if version == 4 else 4)
    framed = framed[:where] + length.to_bytes(2, "big") + framed[where + 2 :]
    assert strip_packet(framed, dialect=SPEC) == frame


def _udp(raw: bytes) -> tuple[int, int]:
    """(length, checksum) of UDP in IPv4 in Ethernet."""
    return int.from_bytes(raw[38:40], "big"), int.from_bytes(raw[40:42], "big")


def test_a_zeroed_udp_checksum_stays_zero() -> None:
    """0 says that there is no checksum: nothing tells whether there was one."""
    frame = Packet().frame()
    found = restore(insert_int(frame, HOPS, 0xA000, Form(checksums=Checksums.ZERO), dialect=SPEC), 1, SPEC)
    assert found.frame == frame[:40] + b"\0\0" + frame[42:]
    assert not found.unverified


@pytest.mark.parametrize("checksums", list(Checksums)[:2])
def test_a_checksum_that_fits_nothing_stays(checksums: Checksums) -> None:
    """Damage in front of the sink is still seen behind it: the checksum is as it came, and told."""
    frame = bytearray(insert_int(Packet().frame(), HOPS, 0xA000, Form(checksums=checksums), dialect=SPEC))
    frame[-1] ^= 0x40
    found = restore(bytes(frame), 1, SPEC)
    assert found.unverified
    assert _udp(found.frame) == (15, _udp(bytes(frame))[1])
    cut = restore(bytes(frame[:-3]), 1, SPEC)
    assert (cut.frame, cut.unverified) == (found.frame[:-3], True)


def test_a_length_that_the_source_left_stays() -> None:
    """A UDP length without the INT is already the packet's own."""
    frame = Packet(check=False).frame()
    inserted = bytearray(insert_int(frame, HOPS, 0xA000, dialect=SPEC))
    inserted[38:40] = frame[38:40]
    assert strip_packet(bytes(inserted), dialect=SPEC) == frame


@pytest.mark.parametrize(
    ("dialect", "form", "dscp", "came", "restored"),
    [
        (SPEC, Form(npt=0), 10, 0x17, 10),  # the shim tells
        (replace(SPEC, marker=b"INT!"), Form(npt=0), 10, 12, 12),  # no DSCP of INT: the network wrote it
        (SPEC, Form(npt=1), 0x20, 0x20, 0x20),  # the port says INT, so nobody had to write the DSCP
        (SPEC, Form(version=5), 10, 0x20, 10),  # the tail tells
        (replace(SPEC, int_dscp=(), int_dscp_bit=32), Form(npt=0), 10, 42, 10),
        (replace(SPEC, inserted_udp_ports=(), int_ports=()), Form(npt=1), 10, 0x17, 0),  # nothing tells
        (replace(SPEC, inserted_udp_ports=(), int_dscp=(), int_dscp_bit=32), Form(npt=1), 10, 42, 10),
    ],
)
def test_dscp(dialect: Dialect, form: Form, dscp: int, came: int, restored: int) -> None:
    """Which DSCP comes out, by what says INT and what the shim or the tail tell."""
    made = dialect if dialect.inserted_udp_ports else replace(dialect, inserted_udp_ports=(99,))
    inserted = bytearray(insert_int(Packet(dscp=dscp).frame(), HOPS, 0xA000, form, dialect=made))
    inserted[15] = came << 2 | 1
    out = restore(bytes(inserted), 1, dialect)
    assert out.removed
    assert out.frame[15] == restored << 2 | 1


def test_what_has_no_int_md_is_as_it_came() -> None:
    """Ordinary packets, INT-MX, reports, and what is no IP."""
    objects: list[dict[str, Any]] = [
        {"flow": {"proto": 17}, "int": {"mode": "mx", "instructions": "0x8800"}, "hops": []},
        {"flow": {"proto": 6}, "int": {}, "hops": [{"node_id": 1}], "report": {}},
    ]
    for frame in (
        *frames_of(craft(objects)),
        Packet(dscp=0x17).frame(),
        b"",
        bytes(80),
        Packet().frame()[:30],
    ):
        assert strip_packet(frame, dialect=SPEC) == frame


def test_damaged_int_is_told() -> None:
    """Cut anywhere in its INT, or with lengths that contradict each other, it raises the decoder's error."""
    inserted = insert_int(Packet().frame(), HOPS, 0xA000, dialect=SPEC)
    for cut in range(46 + 4, 42 + 16 + 16):
        with pytest.raises(WireError, match="truncated"):
            strip_packet(inserted[:cut], dialect=SPEC)
    with pytest.raises(WireError, match="bad_length"):
        strip_packet(inserted[:43] + b"\x06" + inserted[44:], dialect=SPEC)


def test_a_stack_without_an_end_is_refused() -> None:
    """Where neither shim nor header tell the size of the stack, the payload cannot be told from it."""
    dialect = replace(SPEC, any_shim_length=True)
    inserted = bytearray(insert_int(Packet().frame(), HOPS, 0xA000, Form(version=10), dialect=dialect))
    inserted[44] = 0
    with pytest.raises(WireError, match="shim length 0"):
        strip_packet(bytes(inserted), dialect=dialect)


CRAFTED = [
    ({"carrier": "tcp", "version": version}, 6) for version in ("0.5", "1.0", "2")
] + [
    ({"carrier": "udp", "version": version}, 17) for version in ("0.5", "1.0", "2")
] + [
    ({"npt": 1}, 17), ({"npt": 2}, 6), ({"npt": 2}, 17), ({"npt": 2}, 1),
    ({"carrier": "udp_inserted"}, 6), ({"carrier": "udp_inserted", "npt": 2}, 17),
]  # fmt: skip


@pytest.mark.parametrize("src", ["10.0.0.1", "2001:db8::5"])
@pytest.mark.parametrize(("int_", "proto"), CRAFTED)
def test_crafted_packets(int_: dict[str, object], proto: int, src: str) -> None:
    """A crafted packet with INT becomes the packet that is crafted without, in each tunnel."""
    by_port = int_.get("carrier") == "udp_inserted" or int_.get("npt") == 1
    dialect = replace(SPEC, int_dscp=(), int_ports=(666,)) if by_port else SPEC  # or it would say INT twice
    for layer in ("vlan", "vxlan", "gre", "geneve", "mpls", "ip_in_ip", "erspan"):
        flow = {
            "src": src,
            "proto": proto,
            "layers": [layer],
            **({"sport": 7, "dport": 9} if proto > 1 else {}),
        }
        (with_int,) = frames_of(craft([{"flow": flow, "int": int_, "hops": [{"node_id": 1}]}], dialect))
        without = bytearray()
        push_packet(without, Keys({"flow": flow}), None, dialect)
        assert strip_packet(with_int, dialect=dialect) == without


def _rebuilt(frame: bytes) -> bytes:
    """The frame as Scapy builds it from addresses, ports and payload: lengths and checksums are Scapy's."""
    from scapy.layers.inet import IP, TCP, UDP
    from scapy.layers.inet6 import IPv6
    from scapy.layers.l2 import Ether

    packet = Ether(frame)
    for layer, names in (
        (IP, ("len", "chksum")),
        (IPv6, ("plen",)),
        (UDP, ("len", "chksum")),
        (TCP, ("chksum",)),
    ):
        for name in names:
            if layer in packet:
                delattr(packet[layer], name)
    return bytes(packet)


@pytest.mark.shared
def test_captured_packets(shared: Path) -> None:
    """INT-MD packets of Scapy's INT layers are those that Scapy makes without; its INT-MX packets pass."""
    path = shared / "int_2_1/scapy_int_vectors_udp_tcp.pcap"
    vectors = json.loads(path.with_suffix(".json").read_text())
    for raw, vector in zip(read_capture(path), vectors, strict=True):
        out = strip_packet(raw, dialect=DIALECTS["scapy"])
        if "MX" in vector["test"]:
            assert out == raw
            continue
        port, payload = 54 if "IPv6" in vector["test"] else 34, b"a" * 64
        assert out == _rebuilt(out)
        assert (out[port : port + 4], out[-64:]) == (b"\x10\x64\x23\x44", payload)
        assert len(out) == port + (20 if "TCP" in vector["test"] else 8) + 64
        assert int.from_bytes(out[14:16], "big") in (0x4500, 0x6000)  # no DSCP


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "at", "dialect"),
    [
        ("report_0_5/src__test__resources__int_report.pcap", 12, DEFAULT),
        ("report_0_5/e2e_v0_5.pcap", 12, replace(DIALECTS["intcollector"], int_ports=(5000,))),
        ("report_1_0/e2e_v1_0.pcap", 16,
         replace(DIALECTS["intcollector"], int_ports=(5000,), int_layouts=((0, 0, 10),))),
        ("report_1_0/generator_v1_0.pcap", 16,
         replace(DIALECTS["geant"], int_ports=(5000,), int_layouts=((0, 0, 10),))),
        ("report_2_0/bmv2_19_reports.pcapng", 20, DIALECTS["bmv2"]),
    ],
)  # fmt: skip
def test_packets_of_captured_reports(shared: Path, name: str, at: int, dialect: Dialect) -> None:
    """The packets that captured reports brought, taken out of them: what Scapy makes of what is left is the
    same.  bmv2's were cut, so that their checksum cannot be verified, and stays.
    """
    dialect = replace(dialect, packets=True, ports=())
    for raw in read_capture(shared / name):
        inner = raw[14 + 20 + 8 + at :]
        found = restore(inner, Link.ETHERNET, dialect)
        assert found.removed
        assert found.unverified == ("bmv2" in name)
        if found.unverified:
            start = 14 + 20 + 6
            assert found.frame[start : start + 2] == inner[start : start + 2]
            assert len(inner) - 14 < int.from_bytes(inner[16:18], "big")
            whole = bytearray(_rebuilt(found.frame + bytes(5)))
            whole[start : start + 2] = found.frame[start : start + 2]
            assert whole == found.frame + bytes(5)
        else:
            assert found.frame == _rebuilt(found.frame)
