"""The batch encoder against the scalar codec, and what it sends against scapy."""

from __future__ import annotations

import ipaddress
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hopscope.wire.decode.plain import decode_plain
from hopscope.wire.encode.encoder import encode_reports, mapped_v4, new_hops, new_reports
from hopscope.wire.records import HOP, Carried, FrameBatch, Link, Mode, ReportBatch
from oracle.encode import encode_scalar
from support.packets.wire_cases import frames_of, report_batches

pytestmark = pytest.mark.kernel
SLOW = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])


@SLOW
@given(
    report_batches(),
    st.booleans(),
    st.booleans(),
    st.sampled_from([Link.ETHERNET, Link.UDP_PAYLOAD]),
    st.booleans(),
)
def test_equal(reports: ReportBatch, inner_ip: bool, check: bool, link: Link, six: bool) -> None:
    """Both encoders write the same bytes and the same frame records."""
    collector = "2001:db8::1" if six else "192.0.2.254"
    number = int(ipaddress.ip_address(collector)) | (0 if six else 0xFFFF << 32)
    options: dict[str, Any] = {"link": link, "inner_ip": inner_ip, "udp_checksum": check}
    fast = encode_reports(reports, collector=collector, **options)
    slow = encode_scalar(reports, collector=number, **options)
    assert fast.arena.tobytes() == slow.arena.tobytes()
    assert (fast.frames == slow.frames).all()


@SLOW
@given(report_batches())
def test_decoding_is_the_inverse(reports: ReportBatch) -> None:
    """What was encoded is decoded: the flow, the path with the values that the bitmap names, the report's
    own.
    """
    decoded = decode_plain(encode_reports(reports))
    for sent, got in zip(reports.reports, decoded.reports, strict=True):
        names = [
            "version",
            "hw_id",
            "src_hi",
            "src_lo",
            "dst_hi",
            "dst_lo",
            "proto",
            "ip_version",
            "time_ns",
            "index",
        ]
        if sent["proto"] != 50:
            names += ["sport", "dport", "int_version"]
        if sent["int_version"]:
            names += ["hop_count", "instructions", "int_mode"]
            names += ["remaining_hops"] if sent["int_mode"] == Mode.MD else []
        if sent["version"] != 20:
            names += ["sequence"] if sent["index"] == 0 else []
        for name in names:
            if name in ("hw_id", "time_ns") and sent["index"]:
                continue  # a group has one
            assert sent[name] == got[name], name
        if not sent["int_version"]:
            continue
        for hop in range(int(sent["hop_count"])):
            a, b = reports.hops[int(sent["first_hop"]) + hop], decoded.hops[int(got["first_hop"]) + hop]
            null = a["null"] & b["present"]
            assert null & ~b["null"] == 0
            known = b["present"] & ~null
            if known & 1:
                assert a["node_id"] == b["node_id"]
            if known & 2:
                assert (a["ingress_port"], a["egress_port"]) == (b["ingress_port"], b["egress_port"])
            if known & 8:
                assert (a["queue_id"], a["queue_occupancy"]) == (b["queue_id"], b["queue_occupancy"])
            if known & 64:
                assert a["l2_egress_port"] == b["l2_egress_port"]


def _three_hops(count: int, version: int, proto: int = 17) -> ReportBatch:
    rows = new_reports(count, version)
    rows["int_version"], rows["instructions"], rows["hop_count"] = 20, 0xFF00, 3
    rows["first_hop"] = np.arange(count) * 3
    rows["proto"], rows["sport"], rows["dport"] = proto, 4000, 53
    rows["src_lo"] = mapped_v4(np.full(count, 0xC6336401, np.uint32))
    hops = new_hops(count * 3, 0xFF00)
    hops["node_id"] = np.arange(count * 3)
    return ReportBatch(rows, hops)


@pytest.mark.parametrize("version", [5, 10, 20])
@pytest.mark.parametrize("proto", [6, 17])
@pytest.mark.parametrize("check", [False, True])
def test_scapy_agrees(version: int, proto: int, check: bool) -> None:
    """scapy finds the lengths and checksums of outer and inner headers right."""
    layers = pytest.importorskip("scapy.layers.l2")
    inet = pytest.importorskip("scapy.layers.inet")
    batch = _three_hops(2, version, proto)
    for frame in frames_of(encode_reports(batch, udp_checksum=check)):
        seen = layers.Ether(frame)
        rebuilt = layers.Ether(frame)
        del rebuilt[inet.IP].chksum, rebuilt[inet.IP].len, rebuilt[inet.UDP].len
        if check:
            del rebuilt[inet.UDP].chksum
        assert bytes(rebuilt) == frame
        assert seen[inet.UDP].dport == 32766
        inner = bytes(seen[inet.UDP].payload)[{5: 12, 10: 16, 20: 20}[version] :]
        packet = layers.Ether(inner.rstrip(b"") if version != 20 else inner)
        ip = packet[inet.IP]
        assert (ip.src, ip.proto, ip.tos >> 2) == ("198.51.100.1", proto, 0x17)
        assert ip.len == len(inner) - 14 - (2 if version == 20 else 0)  # 2.0 pads to whole words
        again = packet.copy()
        del again[inet.IP].chksum
        assert bytes(again[inet.IP])[10:12] == inner[24:26]
        if proto == 17:
            assert packet[inet.UDP].len == ip.len - 20


def test_refusals() -> None:
    """What does not fit a header is a ValueError that names the row."""
    for name, value, text in (
        ("hw_id", 64, "report 1: hw_id"),
        ("version", 7, "report 1: version"),
        ("int_version", 3, "report 1: no such INT version"),
        ("hop_count", 30, "report 1: its stack"),
        ("hop_words", 5, "report 1: hop_words is below"),
        ("first_hop", 5000, "report 1: its hops end"),
    ):
        batch = _three_hops(3, 20)
        batch.hops = np.zeros(200, HOP)
        batch.reports[name][1] = value
        with pytest.raises(ValueError, match=text):
            encode_reports(batch)


def test_a_long_report_must_be_the_last_of_its_group() -> None:
    """255 words end a datagram, so they cannot be followed by another report."""
    batch = _three_hops(2, 20)
    batch.reports["hop_count"], batch.reports["first_hop"] = 22, 0
    batch.reports["ip_version"] = 6
    batch.reports["index"] = [0, 1]
    batch.reports["proto"] = 6
    batch.hops = new_hops(30, 0xFF00)
    batch.reports["carried"] |= np.uint8(Carried.OWN_HOP)
    batch.hops["present"] = 0x1FF
    with pytest.raises(ValueError, match="report 0 takes"):
        encode_reports(batch)
    batch.reports["index"] = 0
    frames: FrameBatch = encode_reports(batch)
    decoded = decode_plain(frames)
    assert decoded.reports["hop_count"].tolist() == [22, 22]


def test_tshark_agrees(tmp_path: Path, tool: Callable[..., str]) -> None:
    """tshark finds every outer checksum good, over IPv4 and IPv6, and no malformed packet."""
    batch = _three_hops(4, 20)
    batch.reports["source_hi"][2:], batch.reports["source_lo"][2:] = 0x20010DB8 << 32, 5
    frames = frames_of(encode_reports(batch, udp_checksum=True))
    capture = tmp_path / "reports.pcap"
    raw = struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    capture.write_bytes(raw + b"".join(struct.pack("<IIII", 0, 0, len(f), len(f)) + f for f in frames))
    fields = ["ip.checksum.status", "udp.checksum.status", "udp.length", "_ws.malformed"]
    command = [tool("tshark"), "-r", str(capture), "-T", "fields", "-E", "separator=,"]
    command += ["-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE"]
    command += [part for name in fields for part in ("-e", name)]
    seen = subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=300
    ).stdout.splitlines()
    length = len(frames[0]) - 34
    assert seen == [f"1,1,{length},"] * 2 + [f",1,{length},"] * 2
