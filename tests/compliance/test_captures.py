"""Packets of others: the values that the captures' README gives."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopscope.capture.pcap.reader import PcapReader
from hopscope.wire.buffer import Buffer
from hopscope.wire.decode.as_json import report_objects
from hopscope.wire.decode.decoder import Decoder
from hopscope.wire.decode.evidence import decide
from hopscope.wire.decode.plain import decode_plain
from hopscope.wire.dialect import DIALECTS, Dialect
from hopscope.wire.errors import WireError
from hopscope.wire.telemetry.int_header import pull_md, pull_shim
from oracle.report import pull_report_0_5
from oracle.report_metadata import pull_metadata_0_5
from support.packets.wire_cases import assert_same, frame_batch, read_capture

pytestmark = pytest.mark.shared


def _objects(path: Path) -> list[dict[str, Any]]:
    batch = frame_batch(read_capture(path))
    return list(report_objects(decode_plain(batch), batch))


def test_bmv2_report_0_5(shared: Path) -> None:
    """ONOS/bmv2, Report 0.5 with INT 0.5 over TCP."""
    (one,) = _objects(shared / "report_0_5/src__test__resources__int_report.pcap")
    assert one == {
        "packet": 0, "index": 0, "time_ns": 0, "source": "10.0.3.5",
        "report": {
            "version": "0.5", "kind": "int", "hw_id": 1, "sequence": 0, "dropped": False, "congested": False,
            "tracked": True, "ingress_time": 0, "metadata": {},
        },
        "flow": {"src": "10.0.1.1", "dst": "10.0.2.3", "proto": 6, "sport": 63804, "dport": 1234},
        "int": {
            "version": "0.5", "mode": "md", "carrier": "tcp", "instructions": "0x8000", "hop_words": 1,
            "remaining_hops": 29, "hops_exceeded": False,
        },
        "hops": [{"node_id": 1}, {"node_id": 3}, {"node_id": 2}],
    }  # fmt: skip


def test_bmv2_report_2_0(shared: Path) -> None:
    """bmv2, Report 2.0 with INT 2.x over UDP, lengths and checksums 0: all 19 reports as the capture's JSON
    has them.
    """
    expected = json.loads((shared / "report_2_0/bmv2_19_reports.expected.json").read_text())
    objects = _objects(shared / "report_2_0/bmv2_19_reports.pcapng")
    assert len(objects) == len(expected) == 19
    for one, want in zip(objects, expected, strict=True):
        head, inner, told = want["report"], want["inner"], want["int"]
        assert one["report"] == {
            "version": "2.0", "kind": "int", "node_id": head["node"], "hw_id": head["hw_id"],
            "sequence": head["seq"],
            "dropped": False, "congested": False, "tracked": True, "intermediate": False, "metadata": {},
        }  # fmt: skip
        assert one["flow"] == {key: inner[key] for key in ("src", "dst", "proto", "sport", "dport")}
        assert one["int"] == {
            "version": "2", "mode": "md", "carrier": "udp", "npt": 0, "instructions": told["bitmap"],
            "hop_words": told["hopml"], "remaining_hops": told["rem"], "hops_exceeded": bool(told["E"]),
            "mtu_exceeded": bool(told["M"]),
        }  # fmt: skip
        assert one["hops"] == [
            {
                "node_id": hop["switch_id"],
                "ingress_port": hop["l1_ports"][0], "egress_port": hop["l1_ports"][1],
                "hop_latency": hop["hop_latency"],
                "queue_id": hop["queue_occ"][0], "queue_occupancy": hop["queue_occ"][1],
                "ingress_time": hop["ig_ts"], "egress_time": hop["eg_ts"],
                "l2_ingress_port": hop["l2_ports"][0], "l2_egress_port": hop["l2_ports"][1],
                "tx_utilization": hop["tx_util"],
            }
            for hop in reversed(told["hops"])
        ]  # fmt: skip
        assert all(hop["egress_time"] - hop["ingress_time"] == hop["hop_latency"] for hop in one["hops"])


def test_traffic_has_no_reports(shared: Path) -> None:
    """Ordinary background traffic passes untouched."""
    for path in sorted((shared / "traffic").glob("*.pcap")):
        frames = read_capture(path)
        decoded = decode_plain(frame_batch(frames))
        assert len(decoded) == 0
        assert decoded.other == len(frames)


def _scapy_vector(shared: Path, number: int) -> bytes:
    vectors = json.loads((shared / "int_2_1/scapy_int_vectors_udp_tcp.json").read_text())
    return bytes.fromhex(next(vector["hex"] for vector in vectors if vector["n"] == number))


SCAPY_HOPS = [
    {"node_id": 0xA11, "ingress_port": 10, "egress_port": 11, "l2_ingress_port": 1, "l2_egress_port": 2},
    {"node_id": 0xB22, "ingress_port": 20, "egress_port": 21, "l2_ingress_port": 5, "l2_egress_port": 6},
]


@pytest.mark.parametrize("number", [1, 2, 3, 4, 9, 11])
def test_scapy_int_2_1(shared: Path, number: int) -> None:
    """INT-MD 2.1 over UDP and TCP, IPv4 and IPv6, marked by DSCP or by port, inside a Report 2.0 of ours."""
    inner = _scapy_vector(shared, number)
    inner += bytes(-len(inner) % 4)
    payload = bytes.fromhex("204000010000000713000020") + inner
    payload = payload[:8] + bytes([0x03, len(inner) // 4, 0, 0x20]) + inner
    batch = frame_batch([payload], 255)
    dialect = Dialect("scapy", int_ports=(0x4568,))
    (one,) = report_objects(decode_plain(batch, dialect), batch, dialect)
    assert one["int"] | {"carrier": "", "npt": 0} == {
        "version": "2", "mode": "md", "carrier": "", "npt": 0, "instructions": "0xfe00", "hop_words": 10,
        "remaining_hops": 7, "hops_exceeded": False, "mtu_exceeded": False,
        "domain_id": 0x7777, "ds_instruction": "0x8888", "ds_flags": "0x9999",
    }  # fmt: skip
    for hop, want in zip(one["hops"], SCAPY_HOPS, strict=True):
        assert {key: hop[key] for key in want} == want
    if number in (9, 11):
        assert one["flow"]["dport"] == 0x2344  # NPT 1 keeps the packet's own port


@pytest.mark.parametrize("number", [5, 6, 7, 8])
def test_mx_has_no_hops(shared: Path, number: int) -> None:
    """INT-MX: the header, and no hops."""
    inner = _scapy_vector(shared, number)
    inner += bytes(-len(inner) % 4)
    batch = frame_batch(
        [bytes.fromhex("2040000100000007") + bytes([0x03, len(inner) // 4, 0, 0x20]) + inner], 255
    )
    (one,) = report_objects(decode_plain(batch), batch)
    assert (one["int"]["mode"], one["int"]["instructions"]) == ("mx", "0xfe00")
    assert one["hops"] == []


def _java(shared: Path) -> list[bytes]:
    lines = (shared / "report_0_5/java_unit_test_vectors.hex").read_text().splitlines()
    return [bytes.fromhex(line) for line in lines if not line.startswith("#")]


def test_java_vectors(shared: Path) -> None:
    """Bare headers of ONOS's unit tests: their values, and every truncated prefix is rejected."""
    plain, drop, local, md = _java(shared)
    for raw in (plain, drop, local):
        buf = Buffer(raw)
        head = pull_report_0_5(buf)
        assert (head.version, head.flags, head.hw_id, head.sequence, head.ingress_time) == (
            1,
            7,
            1,
            0xAB,
            0xCD,
        )
        if raw is not plain:
            own = pull_metadata_0_5(buf, head.next_protocol)
            assert (own.hop.node_id, own.hop.ingress_port, own.hop.egress_port, own.queue_id) == (1, 1, 1, 1)
            assert own.drop_reason == (1 if raw is drop else None)
        assert buf.at == len(raw)
        for cut in range(len(raw)):
            buf = Buffer(raw[:cut])
            with pytest.raises(WireError):
                pull_metadata_0_5(buf, pull_report_0_5(buf).next_protocol)
        batch = frame_batch([raw[:cut] for cut in range(len(raw) + 1)], 255)
        assert (
            decode_plain(batch).reports["reason"].all()
        )  # also whole: the packet that it announces is missing
    for cut in range(12):
        buf = Buffer(md[:cut])
        with pytest.raises(WireError):
            pull_md(buf, pull_shim(buf))


@lru_cache(8)
def _decoder(name: str) -> Decoder:
    return Decoder(DIALECTS[name], frames=8)


def _read(path: Path, name: str) -> list[dict[str, Any]]:
    """The objects under a named dialect; both decoders must give the same."""
    batch = frame_batch(read_capture(path))
    plain = decode_plain(batch, DIALECTS[name])
    assert_same(plain, _decoder(name).decode(batch))
    return list(report_objects(plain, batch, DIALECTS[name]))


def _expected(path: Path) -> list[dict[str, Any]]:
    return [packet["expect"] for packet in json.loads(path.with_suffix(".json").read_text())["packets"]]


@pytest.mark.kernel
@pytest.mark.parametrize("version", ["0.5", "1.0"])
def test_intcollector(shared: Path, version: str) -> None:
    """INTCollector's end-to-end packets say what its own test asserts."""
    name = version.replace(".", "_")
    path = shared / f"report_{name}/e2e_v{name}.pcap"
    found, expected = _read(path, "intcollector"), _expected(path)
    for one, want in zip(found, expected, strict=True):
        hops = {str(hop["node_id"]): hop for hop in one["hops"]}
        assert one["report"]["version"] == one["int"]["version"] == version
        assert list(hops) == ["6", "5", "4"]
        assert one["flow"] == {
            "src": "10.0.0.1", "dst": "10.0.0.2", "proto": 17, "sport": 5000, "dport": 5000,
        }  # fmt: skip
        if "flow_latency" in want:
            assert sum(hop["hop_latency"] for hop in one["hops"]) == want["flow_latency"]
        if "sink_time" in want:
            assert one["report"]["ingress_time"] == want["sink_time"]
        for node, value in want.get("hop_latency", {}).items():
            stored = [hops[node]["hop_latency"], hops[node]["egress_time"]]
            assert value in (stored, stored[0])
        for key, value in want.get("tx_util", {}).items():
            node, port = key.split(",")
            assert (hops[node]["egress_port"], hops[node]["tx_utilization"]) == (int(port), value)
        for key, value in want.get("queue_occupancy_16_16", {}).items():
            node, queue = key.split(",")
            assert (hops[node]["queue_id"], hops[node]["queue_occupancy"]) == (int(queue), value)
        for key, value in want.get("queue_congestion_16_16", {}).items():
            node, queue = key.split(",")
            assert (hops[node]["queue_id"], hops[node]["queue_congestion"]) == (int(queue), value)
    first = {hop["node_id"]: hop for hop in found[0]["hops"]}
    assert [first[node]["hop_latency"] for node in (4, 5, 6)] == [400, 4, 4]
    queues = [(first[node]["queue_id"], first[node]["queue_occupancy"]) for node in (4, 5, 6)]
    assert queues == [(5, 600), (5, 6), (5, 6)]
    assert [one["hops"][-1]["tx_utilization"] for one in found] == [1, 1, 1000]


@pytest.mark.kernel
def test_geant_generator(shared: Path) -> None:
    """The words that GEANT's generator wrote, 8 a hop, newest hop first."""
    path = shared / "report_1_0/generator_v1_0.pcap"
    for one, want in zip(_read(path, "geant"), _expected(path), strict=True):
        assert len(one["hops"]) == want["hops"]
        words = [
            word
            for hop in reversed(one["hops"])
            for word in (
                hop["node_id"], hop["ingress_port"] << 16 | hop["egress_port"], hop["hop_latency"],
                hop["queue_id"] << 24 | hop["queue_occupancy"], hop["ingress_time"], hop["egress_time"],
                hop["l2_ingress_port"] << 16 | hop["l2_egress_port"], hop["tx_utilization"],
            )
        ]  # fmt: skip
        assert words == want["metadata_words"]


@pytest.mark.kernel
def test_bmv2_dialect(shared: Path) -> None:
    """The 19 reports of bmv2 are the same under the dialect of such programs."""
    path = shared / "report_2_0/bmv2_19_reports.pcapng"
    assert _read(path, "bmv2") == _read(path, "spec")


@pytest.mark.kernel
def test_scapy_packets(shared: Path) -> None:
    """All 16 packets that carry INT themselves: MD and MX, UDP and TCP, IPv4 and IPv6, DSCP and port."""
    path = shared / "int_2_1/scapy_int_vectors_udp_tcp.pcap"
    vectors = json.loads(path.with_suffix(".json").read_text())
    for one, vector in zip(_read(path, "scapy"), vectors, strict=True):
        mode = "mx" if "MX" in vector["test"] else "md"
        carrier = "udp" if "UDP" in vector["test"] else "tcp"
        assert not {"report", "source"} & set(one)
        assert (one["int"]["mode"], one["int"]["carrier"]) == (mode, carrier)
        assert one["int"]["npt"] == int("L4_DPORT" in vector["test"])
        assert one["int"].items() >= {
            "instructions": "0xfe00", "domain_id": 0x7777, "ds_instruction": "0x8888", "ds_flags": "0x9999",
        }.items()  # fmt: skip
        assert (":" in one["flow"]["src"]) == ("IPv6" in vector["test"])
        assert (one["flow"]["sport"], one["flow"]["dport"]) == (0x1064, 0x2344)
        wanted = SCAPY_HOPS if mode == "md" else []
        assert [{key: hop[key] for key in SCAPY_HOPS[0]} for hop in one["hops"]] == wanted
        if mode == "md":
            assert one["int"]["hop_words"] == 10


@pytest.mark.kernel
@pytest.mark.parametrize("name", DIALECTS)
def test_traffic_has_no_reports_in_any_dialect(shared: Path, name: str) -> None:
    """Ordinary background traffic holds no report and no INT, whatever is looked for."""
    for path in sorted((shared / "traffic").glob("*.pcap")):
        assert _read(path, name) == []


def test_every_truncation_is_told(shared: Path) -> None:
    """A captured report cut before the end of its stack is refused as truncated, or is no frame to a report
    port.
    """
    for name, whole in (
        ("report_0_5/src__test__resources__int_report.pcap", 136),
        ("report_2_0/bmv2_19_reports.pcapng", 252),
    ):
        frame = read_capture(shared / name)[0]
        batch = frame_batch([frame[:cut] for cut in range(whole)])
        objects = list(report_objects(decode_plain(batch), batch))
        assert {one["error"]["reason"] for one in objects} == {"truncated"}
        assert all(one["error"]["detail"] for one in objects)
        assert len(objects) == whole - 38  # before, the port is not there


def test_every_capture_says_what_it_is(shared: Path) -> None:
    """Whatever is in the folder: every frame of telemetry is read, or rejected by name, and other traffic is
    said to be without telemetry.
    """
    found = {}
    for path in sorted(shared.rglob("*.pcap*")):
        frames = list(PcapReader(path))
        proposal, _ = decide(iter(frames), tuple(replace(one, packets=True) for one in DIALECTS.values()))
        rows = np.concatenate([decode_plain(batch, proposal.dialect).reports for batch in frames])
        rejected = int(np.count_nonzero(rows["reason"]))
        found[f"{path.parent.name}/{path.name}"] = (len(np.unique(rows["packet"])), rejected)
        said = "no report and no INT in the first" in proposal.lines[0]
        assert said == (not len(rows)), (path, proposal.lines)
    assert {name: counts for name, counts in found.items() if any(counts)} == {
        "int_2_1/scapy_int_vectors_udp_tcp.pcap": (16, 0),
        "report_0_5/e2e_v0_5.pcap": (3, 0),
        "report_0_5/src__test__resources__int_report.pcap": (1, 0),
        "report_1_0/e2e_v1_0.pcap": (3, 0),
        "report_1_0/generator_v1_0.pcap": (6, 0),
        "report_2_0/bmv2_19_reports.pcapng": (19, 0),
    }
