"""Packets of others: the values that the captures' README gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from wire_cases import frame_batch, read_capture

from hopscope.wire.as_json import report_objects
from hopscope.wire.buffer import Buffer
from hopscope.wire.decode import decode_scalar
from hopscope.wire.dialect import Dialect
from hopscope.wire.errors import WireError
from hopscope.wire.int_header import pull_md, pull_shim
from hopscope.wire.own_metadata import pull_own_0_5
from hopscope.wire.report import pull_report_0_5

pytestmark = pytest.mark.shared


def _objects(path: Path) -> list[dict[str, Any]]:
    batch = frame_batch(read_capture(path))
    return list(report_objects(decode_scalar(batch), batch))


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
        decoded = decode_scalar(frame_batch(frames))
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
    (one,) = report_objects(decode_scalar(batch, dialect), batch, dialect)
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
    (one,) = report_objects(decode_scalar(batch), batch)
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
            own = pull_own_0_5(buf, head.next_protocol)
            assert (own.hop.node_id, own.hop.ingress_port, own.hop.egress_port, own.queue_id) == (1, 1, 1, 1)
            assert own.drop_reason == (1 if raw is drop else None)
        assert buf.at == len(raw)
        for cut in range(len(raw)):
            buf = Buffer(raw[:cut])
            with pytest.raises(WireError):
                pull_own_0_5(buf, pull_report_0_5(buf).next_protocol)
        batch = frame_batch([raw[:cut] for cut in range(len(raw) + 1)], 255)
        assert (
            decode_scalar(batch).reports["reason"].all()
        )  # also whole: the packet that it announces is missing
    for cut in range(12):
        buf = Buffer(md[:cut])
        with pytest.raises(WireError):
            pull_md(buf, pull_shim(buf))


def test_dialects_that_wait(shared: Path) -> None:
    """Files of INTCollector and GEANT need dialects of their own; until then they give reports or reasons."""
    for name in ("report_0_5/e2e_v0_5.pcap", "report_1_0/e2e_v1_0.pcap", "report_1_0/generator_v1_0.pcap"):
        frames = read_capture(shared / name)
        assert len(_objects(shared / name)) == len(frames)


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
        objects = list(report_objects(decode_scalar(batch), batch))
        assert {one["error"]["reason"] for one in objects} == {"truncated"}
        assert all(one["error"]["detail"] for one in objects)
        assert len(objects) == whole - 38  # before, the port is not there
