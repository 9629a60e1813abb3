"""tshark with the generated dissector and our own decoder read the same, field by field, refusals too."""

from __future__ import annotations

import json
import random
import re
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, Verbosity, given, settings
from hypothesis import strategies as st

from hopscope.wire.buffer import push
from hopscope.wire.dialect import DIALECTS
from hopscope.wire.dta import layout
from hopscope.wire.encode.encoder import encode_reports
from hopscope.wire.fields import Header
from support.packets.by_hand import STACK_2, ethernet, group, int_2, ipv4, ipv6, outer, single, udp
from support.packets.tshark import (
    Tshark,
    assert_agrees,
    assert_capture_agrees,
    decoded,
    fields,
    reports,
    value_of,
)
from support.packets.wire_cases import frame_batch, frames_of, read_capture, report_batches

SPEC = DIALECTS["spec"]


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "dialect", "count"),
    [
        ("report_0_5/src__test__resources__int_report.pcap", "spec", 1),
        ("report_2_0/bmv2_19_reports.pcapng", "spec", 19),
        ("report_0_5/e2e_v0_5.pcap", "spec", 3),
        ("report_1_0/e2e_v1_0.pcap", "spec", 3),
        ("report_1_0/generator_v1_0.pcap", "spec", 6),
        ("traffic/tcpreplay_test.pcap", "spec", 0),
        ("traffic/dpkt_http.pcap", "spec", 0),
        ("rocev2/roce_uts_vectors.pcap", "spec", 0),
        ("rocev2/rocev2_8_opcodes.pcap", "spec", 0),
        ("dta/dta_generators.pcap", "spec", 0),
        ("report_0_5/e2e_v0_5.pcap", "intcollector", 3),
        ("report_1_0/e2e_v1_0.pcap", "intcollector", 3),
        ("report_1_0/generator_v1_0.pcap", "geant", 6),
        ("int_2_1/scapy_int_vectors_udp_tcp.pcap", "scapy", 16),
    ],
)
def test_captures(tshark: Tshark, shared: Path, name: str, dialect: str, count: int) -> None:
    """Captures of others: every report has the same fields in both."""
    assert assert_capture_agrees(tshark, shared / name, DIALECTS[dialect]) == count


def _expected(path: Path) -> list[dict[str, Any]]:
    return [packet["expect"] for packet in json.loads(path.read_text())["packets"]]


@pytest.mark.shared
@pytest.mark.parametrize("name", ["report_0_5/e2e_v0_5", "report_1_0/e2e_v1_0"])
def test_intcollector(tshark: Tshark, shared: Path, name: str) -> None:
    """INTCollector's packets under their dialect, as its own end-to-end test has them."""
    expected = _expected(shared / f"{name}.json")
    shown = tshark.frames(shared / f"{name}.pcap", dialect="intcollector")
    for layers, want in zip(shown, expected, strict=True):
        (report,) = reports(layers)
        assert report["int"]["path"] == "6 → 5 → 4"
        for node, latency in want.get("hop_latency", {}).items():
            (hop,) = [hop for hop in report["hops"] if hop["node_id"] == int(node)]
            times = [hop["hop_latency"], hop["egress_time"]]
            assert latency in (times, hop["hop_latency"])
        if "sink_time" in want:
            assert report["report"]["ingress_time"] == want["sink_time"]
        for key, name_of in (("queue_congestion_16_16", "queue_congestion"),
                             ("queue_occupancy_16_16", "queue_occupancy")):  # fmt: skip
            for place, value in want.get(key, {}).items():
                node, queue = map(int, place.split(","))
                (hop,) = [hop for hop in report["hops"] if hop["node_id"] == node]
                assert (hop["queue_id"], hop[name_of]) == (queue, value)


@pytest.mark.shared
def test_geant(tshark: Tshark, shared: Path) -> None:
    """GEANT's generator under its dialect: every word of every hop, in the order of the wire."""
    expected = _expected(shared / "report_1_0/generator_v1_0.json")
    shown = tshark.frames(shared / "report_1_0/generator_v1_0.pcap", dialect="geant")
    for layers, want in zip(shown, expected, strict=True):
        (report,) = reports(layers)
        words = [
            word
            for hop in reversed(report["hops"])
            for word in (
                hop["node_id"], hop["ingress_port"] << 16 | hop["egress_port"], hop["hop_latency"],
                hop["queue_id"] << 24 | hop["queue_occupancy"], hop["ingress_time"], hop["egress_time"],
                hop["l2_ingress_port"] << 16 | hop["l2_egress_port"], hop["tx_utilization"],
            )
        ]  # fmt: skip
        assert (len(report["hops"]), words[: len(want["metadata_words"])]) == (
            want["hops"], want["metadata_words"],
        )  # fmt: skip


@pytest.mark.shared
def test_int_2_1_packets(tshark: Tshark, shared: Path) -> None:
    """INT-MD and MX 2.1 in packets, over UDP and TCP, IPv4 and IPv6, marked by DSCP or port (scapy)."""
    vectors = json.loads((shared / "int_2_1/scapy_int_vectors_udp_tcp.json").read_text())
    shown = tshark.frames(shared / "int_2_1/scapy_int_vectors_udp_tcp.pcap", dialect="scapy")
    for layers, vector in zip(shown, vectors, strict=True):
        (packet,) = reports(layers)
        mode = "mx" if "INT MX" in vector["test"] else "md"
        carrier = "tcp" if " TCP" in vector["test"] else "udp"
        assert (packet["int"]["mode"], packet["int"]["carrier"]) == (mode, carrier)
        domain = [packet["int"][name] for name in ("domain_id", "ds_instruction", "ds_flags")]
        assert (packet["int"]["instructions"], domain) == (0xFE00, [0x7777, 0x8888, 0x9999])
        names = ("node_id", "ingress_port", "egress_port", "l2_ingress_port", "l2_egress_port")
        hops = [[hop[name] for name in names] for hop in packet["hops"]]
        assert hops == ([[0xA11, 10, 11, 1, 2], [0xB22, 20, 21, 5, 6]] if mode == "md" else [])


@pytest.mark.shared
def test_every_prefix(tshark: Tshark, shared: Path) -> None:
    """Packets cut at every byte: never a Lua error, the same reason, place and byte in both."""
    frames = [
        frame[:cut]
        for name in ("report_0_5/src__test__resources__int_report.pcap", "report_2_0/bmv2_19_reports.pcapng")
        for frame in read_capture(shared / name)[:1]
        for cut in range(len(frame) + 1)
    ]
    capture = tshark.write("prefixes.pcap", frame_batch(frames))
    assert assert_capture_agrees(tshark, capture, SPEC) == len(decoded(capture, SPEC)) > 200


@given(st.data())
@settings(max_examples=3, phases=[Phase.generate], derandomize=True, verbosity=Verbosity.quiet)
def test_reports_of_our_encoder(tshark: Tshark, data: st.DataObject) -> None:
    """Reports of every version, form and bitmap, several in a datagram, are shown as they are decoded."""
    frames = [frame for _ in range(30) for frame in frames_of(encode_reports(data.draw(report_batches())))]
    capture = tshark.write("ours.pcap", frame_batch(frames))
    shown = [one for layers in tshark.frames(capture) for one in reports(layers)]
    ours = decoded(capture, SPEC)
    assert len(ours) == len(shown)
    for one, said in zip(ours, shown, strict=True):
        assert_agrees(one, said)


@pytest.mark.shared
@pytest.mark.parametrize("dialect", ["spec", "bmv2", "mandaryoshi", "cablelabs"])
def test_damaged_packets(tshark: Tshark, shared: Path, dialect: str) -> None:
    """Captured packets with bytes changed: never a Lua error, the same values or the same refusal in both."""
    rng = random.Random(2026)
    paths = [shared / "report_0_5", shared / "report_1_0", shared / "report_2_0"]
    whole = [frame for path in paths for file in sorted(path.glob("*.pcap*")) for frame in read_capture(file)]
    frames = []
    for _ in range(1000):
        frame = bytearray(rng.choice(whole))
        for _ in range(rng.choice((1, 1, 2, 4))):
            frame[rng.randrange(12, len(frame))] = rng.choice((0, 1, 255, rng.randrange(256)))
        frames.append(bytes(frame[: rng.choice((len(frame), len(frame), rng.randrange(len(frame))))]))
    capture = tshark.write("damaged.pcap", frame_batch(frames))
    assert_capture_agrees(tshark, capture, DIALECTS[dialect], packets="FALSE")


# ------------------------------------------------------------------------------------- where INT is, by hand

DNS = bytes.fromhex("12340100000100000000000003777777076578616d706c6503636f6d0000010001")
INT = int_2(0xA000, STACK_2, 2)
MD = INT[4:]
WORDS = len(MD) // 4
PLAIN = ipv4(udp(DNS))
MARKED = ipv4(udp(INT + DNS), dscp=0x17)
VNI = 77 << 8
CARRIED = {
    "udp": (MARKED, "udp"),
    "ipv6": (ipv6(udp(INT + DNS), dscp=0x17), "udp"),
    "ip in ip": (ipv4(MARKED, 4), "udp"),
    "vxlan": (ipv4(udp(struct.pack("!II", 8 << 24, VNI) + ethernet(MARKED), 4789)), "udp"),
    "gtp-u": (ipv4(udp(struct.pack("!BBHI", 0x30, 255, len(MARKED), 99) + MARKED, 2152)), "udp"),
    "gre": (
        ipv4(struct.pack("!HHBBH", 0, 0x88B6, 0x18, WORDS, 0x800) + MD + PLAIN, 47),
        "gre",
    ),
    "gre with a key": (
        ipv4(struct.pack("!HHIBBH", 0x2000, 0x88B6, 7, 0x10, WORDS, 0x800) + MD + PLAIN, 47),
        "gre",
    ),
    "vxlan-gpe": (
        ipv4(udp(struct.pack("!BHBIBBBB", 12, 0, 0x82, VNI, 16, WORDS, 0, 3) + MD + ethernet(PLAIN), 4790)),
        "vxlan_gpe",
    ),
    "geneve": (
        ipv4(udp(struct.pack("!BBHIHBB", WORDS + 1, 0, 0x6558, VNI, 0x103, 1, WORDS) + MD + ethernet(PLAIN),
                 6081)),
        "geneve",
    ),
    "npt 1": (ipv4(udp(int_2(0xA000, STACK_2, 2, npt=1, original=53) + DNS, 999), dscp=0x17), "udp"),
    "npt 2": (ipv4(udp(int_2(0xA000, STACK_2, 2, npt=2, original=17) + udp(DNS), 999), dscp=0x17), "udp"),
    "npt 1, port 0x1000": (ipv4(udp(int_2(0xA000, STACK_2, 2, npt=1, original=53) + DNS, 0x1000)), "udp"),
    "inserted": (
        ipv4(udp(int_2(0xA000, STACK_2, 2, npt=2, original=17) + udp(DNS), 0x1000)),
        "udp_inserted",
    ),
}  # fmt: skip
"""A DNS question with INT, and what carries the INT."""


def test_where_int_is(tshark: Tshark) -> None:
    """INT is found behind every carrier and in every tunnel, in packets and in reports; a report's packet is
    given to Wireshark's own dissectors as its source sent it, so that the DNS question is there.
    """
    types = [0x86DD if name == "ipv6" else 0x800 for name in CARRIED]
    packets = [ethernet(packet, type_) for (packet, _), type_ in zip(CARRIED.values(), types, strict=True)]
    brought = [outer(group(single(packet))) for packet in packets]
    shown = tshark.frames(tshark.write("carried.pcap", frame_batch(packets + brought)))
    for (name, (_, carrier)), packet, report in zip(
        CARRIED.items(), shown[: len(packets)], shown[len(packets) :], strict=True
    ):
        for (found,) in (reports(packet), reports(report)):
            assert "error" not in found, (name, found)
            assert (found["int"]["path"], found["int"]["carrier"]) == ("1 → 2 → 3", carrier), name
            assert (found["flow"]["proto"], found["flow"]["dport"]) == (17, 53), name
        assert "www.example.com" in json.dumps(report), name
    numbers = [reports(packet)[0]["flow"].get("tunnel_id") for packet in shown]
    assert {name: number for name, number in zip(CARRIED, numbers, strict=False) if number} == {
        "vxlan": 77, "gtp-u": 99, "gre with a key": 7, "vxlan-gpe": 77, "geneve": 77,
    }  # fmt: skip


def test_every_prefix_of_carried_int(tshark: Tshark) -> None:
    """Packets in tunnels, cut at every byte, alone and in reports: never a Lua error; what is cut is told."""
    packets = [ethernet(packet) for packet, _ in CARRIED.values()]
    cut = [packet[:size] for packet in packets for size in range(len(packet))]
    reported = [outer(group(single(packet))) for packet in cut[::2]]
    for name, frames in (("packets", cut), ("reports", reported)):
        capture = tshark.write(f"{name}.pcap", frame_batch(frames))
        reasons = tshark.run(capture, "-T", "fields", "-e", "hopscope.error.reason").split()
        assert set(reasons) <= {"truncated", "bad_length", "unknown_version"}
        assert reasons.count("truncated") > len(frames) // 10


def test_tags_and_labels(tshark: Tshark) -> None:
    """Behind VLAN tags and MPLS labels INT is found too, and not where preferences say otherwise."""
    label = (16 << 12 | 0x100 | 64).to_bytes(4, "big")
    frames = [
        ethernet(MARKED, tags=(0x8100,)), ethernet(MARKED, tags=(0x88A8, 0x8100)),
        ethernet(label + MARKED, 0x8847), ethernet(ipv4(udp(INT + DNS), dscp=9)),
        ethernet(ipv4(udp(INT + DNS, 777))),
    ]  # fmt: skip
    capture = tshark.write("tags.pcap", frame_batch(frames))
    paths = ("-T", "fields", "-e", "hopscope.int.hop_count")
    assert tshark.run(capture, *paths).split("\n")[:5] == ["3", "3", "3", "", ""]
    around = tshark.run(capture, "-T", "fields", "-e", "hopscope.flow.vlan", "-e", "hopscope.flow.layers")
    assert around.split("\n")[:3] == ["100\tvlan", "100\tqinq", "\tmpls"]
    assert tshark.run(capture, *paths, packets="FALSE").split() == []
    assert tshark.run(capture, *paths, int_dscp="9-10").split("\n")[:5] == ["", "", "", "3", ""]
    assert tshark.run(capture, *paths, int_ports="700-777").split("\n")[:5] == ["3", "3", "3", "", "3"]


def test_ports_and_info_column(tshark: Tshark) -> None:
    """The port preference decides what a report is; the Info column sums its reports up."""
    with_int, dropped = single(ethernet(MARKED) + bytes(1)), single(ethernet(PLAIN) + bytes(1), flags="D")
    payload = group(with_int, dropped, b"\x33" + bytes(3))
    capture = tshark.write("ports.pcap", frame_batch([outer(payload), outer(payload, 41000)]))
    columns = ("-T", "fields", "-e", "_ws.col.Protocol", "-e", "_ws.col.Info")
    first, second = tshark.run(capture, *columns).splitlines()
    assert first.split("\t") == [
        "INT report",
        "2.0 int, sequence 42, node 7, path 1 → 2 → 3; 2.0 drop, sequence 42, node 7; "
        "refused: unknown type at report header",
    ]
    assert second.startswith("UDP\t")
    assert tshark.run(capture, *columns, report_ports="41000").splitlines()[1] == first
    filters = ("-T", "fields", "-e", "frame.number", "-Y")
    for expression in (
        "hopscope.int.hop.node_id == 2", "hopscope.report.sequence == 42 && hopscope.report.dropped",
        'hopscope.damage.unknown_type && hopscope.error.place == "report header"',
        "hopscope.int.hop.hop_latency > 29 && hopscope.int.hop.hop_latency < 31", "hopscope.int && dns",
    ):  # fmt: skip
        assert tshark.run(capture, *filters, expression).split() == ["1"], expression


# ------------------------------------------------------------------------------------------------------ DTA

DTA_NAMES = {
    "redundancy": "redundancy", "key": "key", "data": "data", "counter": "counter", "listID": "list",
    "seqnum": "sequence", "immediate": "immediate", "retransmitable": "retransmit",
}  # fmt: skip
OPCODES = {"keywrite": 1, "append": 2, "keyincrement": 3}


@pytest.mark.shared
def test_dta_of_its_generators(tshark: Tshark, shared: Path) -> None:
    """DTA packets of the published generators, which have the base header of 3 bytes."""
    expected = json.loads((shared / "dta/dta_generators.json").read_text())["packets"]
    for preferences in ({}, {"dta_form": "3 bytes"}):
        shown = tshark.frames(shared / "dta/dta_generators.pcap", **preferences)
        for layers, packet in zip(shown, expected, strict=True):
            want = packet["expect"]
            tree = value_of(layers, "hopscope.dta")
            if want["op"] not in OPCODES:
                assert tree is None
                continue
            got = fields(tree, "hopscope.dta.")
            assert (got["form"], got["opcode"]) == (3, OPCODES[want["op"]])
            assert {key: got[name] for key, name in DTA_NAMES.items() if key in want} == {
                key: want[key] for key in DTA_NAMES if key in want
            }


def _header(header: Header, **values: int) -> bytes:
    out = bytearray()
    push(out, header, values)
    return bytes(out)


DTA = (
    (1, layout.DTA_KEY_WRITE, {"redundancy": 2, "key": 0x01020304, "data": 0xDEADBEEF}),
    (2, layout.DTA_APPEND, {"list": 3, "data": 77}),
    (3, layout.DTA_KEY_INCREMENT, {"redundancy": 1, "key": 7, "counter": 1 << 40 | 7}),
    (4, layout.DTA_POSTCARD, {"key": 9, "hop": 5, "data": 0xFFFFFFFF}),
)


def _udp(payload: bytes, port: int) -> bytes:
    return ethernet(ipv4(udp(payload, port, sport=40041), outer=True))


def test_dta_in_both_forms(tshark: Tshark) -> None:
    """Every primitive with both base headers, told by their length or by preference; acknowledgments."""
    want, frames = [], []
    for opcode, header, values in DTA:
        for form, base in ((2, layout.DTA_2), (3, layout.DTA_3)):
            frames.append(_udp(_header(base, opcode=opcode, immediate=1) + _header(header, **values), 40040))
            want.append({"form": form, "opcode": opcode, "immediate": 1, **values})
            if form == 3:
                want[-1] |= {"sequence": 0, "retransmit": 0}
    frames.append(_udp(_header(layout.DTA_ACK, sequence=200, nack=1), 40044))
    want.append({"sequence": 200, "nack": 1})
    shown = tshark.frames(tshark.write("dta.pcap", frame_batch(frames)))
    assert [fields(value_of(one, "hopscope.dta"), "hopscope.dta.") for one in shown] == want
    cut = [frame[:size] for frame in frames for size in range(42, len(frame))]
    cut.append(_udp(b"\x09rest", 40040))
    text = tshark.run(
        tshark.write("cut.pcap", frame_batch(cut)), "-T", "fields", "-e", "hopscope.error.reason"
    )
    assert set(text.split()) == {"truncated", "unknown_type"}


def test_the_guide_names_what_there_is(tshark: Tshark) -> None:
    """Every filter and preference in docs/guides/wireshark.md exists, and every preference is there."""
    guide = (Path(__file__).parents[2] / "docs/guides/wireshark.md").read_text("utf-8")
    named = set(re.findall(r"\bhopscope(?:\.[a-z_0-9]+)+", guide)) - {"hopscope.lua", "hopscope.toml"}
    fields_of = {line.split("\t")[2] for line in tshark.about("fields") if "\thopscope" in line}
    preferences = {
        line[1:].split(":")[0] for line in tshark.about("currentprefs") if line[1:10] == "hopscope."
    }
    assert preferences
    assert named <= fields_of | preferences
    assert preferences <= named
