"""tshark with the generated dissector shows IFA as our own decoder reads it, and the packets around it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hopscope.library.samples import sample
from hopscope.wire.craft.frames import craft
from hopscope.wire.dialect import DEFAULT, DIALECTS
from hopscope.wire.wireshark.dissector import dissector
from oracle.ifa import IfaForm, insert_ifa
from oracle.insert import insert_int
from support.packets.packet_cases import TUNNELS, Packet
from support.packets.strip_cases import HOPS, SPEC, mutants
from support.packets.tshark import Tshark, assert_capture_agrees
from support.packets.wire_cases import frame_batch

PACKETS = replace(DIALECTS["spec"], packets=True)
FORMS = (IfaForm(), IfaForm(nodes=0), IfaForm(nodes=31), IfaForm(inband=False))


def _frames() -> list[bytes]:
    """TCP and UDP over IPv4 and IPv6, with tags and options, and around tunnels."""
    packets = [
        Packet(version, protocol, b"payload", 0, options, True, tags, tunnels=tunnels)
        for version in (4, 6) for protocol in (6, 17) for options in (False, True)
        for tags in (0, 1) for tunnels in ((), *((name,) for name in TUNNELS))
        if not any(name.startswith("gre") or name == "ip_in_ip" for name in tunnels)
    ]  # fmt: skip
    return [
        insert_ifa(packet.frame(), FORMS[number % 4], 14 + 4 * packet.tags)
        for number, packet in enumerate(packets)
    ]


def test_the_sample(tshark: Tshark) -> None:
    """Every field of every packet of the sample, and no INT-label: both use IP protocol 253."""
    capture = Path(str(sample("ifa")))
    assert assert_capture_agrees(tshark, capture, PACKETS) == 200
    assert not tshark.run(capture, "-Y", "hopscope.label")
    assert len(tshark.run(capture, "-Y", "tcp || udp").splitlines()) == 200


def test_packets_with_ifa(tshark: Tshark) -> None:
    """Packets of every form, and mutants of them, have the same fields, or the same damage."""
    frames = _frames()
    frames += mutants(frames, 5, 2000)
    capture = tshark.write("ifa.pcap", frame_batch(frames))
    assert assert_capture_agrees(tshark, capture, PACKETS) > 1000


def test_cut_packets(tshark: Tshark) -> None:
    """Cut at every byte from the IP header on."""
    frames = [frame[:end] for frame in _frames()[::29] for end in range(34, min(len(frame), 200))]
    capture = tshark.write("cut.pcap", frame_batch(frames))
    assert assert_capture_agrees(tshark, capture, PACKETS)


@pytest.mark.parametrize("version", ["0.5", "1.0", "2.0"])
def test_reports_about_packets_with_ifa(tshark: Tshark, version: str) -> None:
    """A report may bring a packet with IFA."""
    hops = [{"node_id": node, "hop_latency": 9, "queue_occupancy": node} for node in (7, 8)]
    objects: list[dict[str, Any]] = [
        {"flow": {"proto": proto}, "int": {"version": "ifa"}, "hops": hops, "report": {"version": version}}
        for proto in (6, 17)
    ]
    batch = craft([{**one, "packet": number} for number, one in enumerate(objects)], DEFAULT)
    assert assert_capture_agrees(tshark, tshark.write("reports.pcap", batch), PACKETS) == 2


def test_wireshark_reads_the_packet_without_ifa(tshark: Tshark) -> None:
    """Its own dissectors get the TCP or UDP header and the payload, and find a right checksum."""
    plain = [Packet(version, protocol).frame() for version in (4, 6) for protocol in (6, 17)]
    capture = tshark.write("whole.pcap", frame_batch([insert_ifa(frame, IfaForm()) for frame in plain]))
    options = ("-o", "tcp.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE")
    names = ("tcp.checksum.status", "udp.checksum.status", "tcp.payload", "udp.payload")
    shown = tshark.run(capture, *options, "-T", "fields", *(x for name in names for x in ("-e", name)))
    payload = b"payload".hex()
    assert shown.splitlines() == [f"1\t\t{payload}\t", f"\t1\t\t{payload}"] * 2


def test_int_and_ifa_in_one_capture(tshark: Tshark) -> None:
    """Each is shown as what it is."""
    frames = [
        insert_int(Packet().frame(), HOPS, 0xA000, dialect=SPEC),
        insert_ifa(Packet().frame(), FORMS[0]),
    ]
    capture = tshark.write("both.pcap", frame_batch(frames))
    assert assert_capture_agrees(tshark, capture, PACKETS) == 2
    lines = tshark.run(capture, "-T", "fields", "-e", "hopscope.int.layout").splitlines()
    assert lines == ["2", "ifa"]


def test_another_protocol(tshark: Tshark, tmp_path: Path) -> None:
    """With a dialect that has another IP protocol for IFA, that is read, and 253 is not."""
    own = replace(PACKETS, name="own", ifa_protocol=200)
    tshark._script.write_text(dissector({"own": own}), "utf-8")
    frames = [insert_ifa(Packet().frame(), IfaForm(protocol=protocol)) for protocol in (200, 253)]
    capture = tshark.write("own.pcap", frame_batch(frames))
    packets = json.loads(tshark.run(capture, "-T", "json", "-2"))
    layers = [packet["_source"]["layers"] for packet in packets]
    assert ["hopscope.int" in one for one in layers] == [True, False]
    assert ["udp" in one for one in layers] == [True, False]
    assert ["hopscope.label" in one for one in layers] == [False, True]
