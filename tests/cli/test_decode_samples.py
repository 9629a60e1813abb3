"""`hopscope decode` and `replay` on captures of sFlow, IPFIX and NetFlow 9."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

import hopscope as library
from hopscope.detect.records import Kind, Metric
from support.packets import ipfix_make, sflow_make
from support.packets.by_hand import ethernet, ipv4, outer, pcap, udp
from support.packets.ipfix_make import message, packet_9, record, set_of, template
from support.processes.command import hopscope

pytestmark = pytest.mark.kernel
FLOW = {"src": "198.51.100.1", "dst": "203.0.113.9", "proto": 17, "sport": 4000, "dport": 53}
PACKET = sflow_make.raw(ethernet(ipv4(udp(bytes(40)))))
TEMPLATE, DATA = set_of(2, template(256, ipfix_make.FLOW)), set_of(256, record())
STATUS = [(8, 4), (12, 4), (89, 1)]
DROP = bytes([198, 51, 100, 1, 203, 0, 113, 9, 0x81])
SMALL = ("--set", "detect.flow_rows=16", "--set", "detect.ports=64", "--set", "detect.push_seconds=0")


def sflow(*samples: bytes, sequence: int, uptime: int = 5000) -> bytes:
    return outer(sflow_make.datagram(*samples, sequence=sequence, uptime=uptime), 6343)


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Samples and flow records, one datagram of each that is damaged, and data without a template."""
    queue = (
        sflow_make.number(1036, 2),
        sflow_make.number(1039, 9000),
        sflow_make.number(1040, 4096),
    )
    frames = [
        sflow(sflow_make.flow(PACKET, *queue, rate=64), sflow_make.discard(PACKET, reason=259), sequence=7),
        sflow(sflow_make.counters(sflow_make.interface(5, 0)), sequence=8, uptime=6000),
        sflow(sflow_make.counters(sflow_make.interface(5, 10**8)), sequence=9, uptime=7000),
        outer(message(TEMPLATE + DATA, exported=1), 4739),
        outer(packet_9(set_of(0, template(300, STATUS)), set_of(300, DROP)), 9995),
        outer(packet_9(set_of(301, DROP), sequence=1), 2055),
        outer(message(set_of(4, b"")), 4739),
        outer(b"\0\0\0\4" + bytes(40), 6343),
        outer(b"noise", 53),
    ]
    path = tmp_path / "mixed.pcap"
    path.write_bytes(pcap(frames))
    return path


def objects(done: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.splitlines()]


def test_objects_are_as_documented(mixed: Path) -> None:
    """A sample, a discarded packet, a utilisation, flow records, empty datagrams and damage; the summary
    counts them apart from reports, and the first counter sample of an interface, too.
    """
    done = hopscope("decode", str(mixed))
    sample, discard, empty, link, record_, drop, early, bad_set, bad_version = objects(done.stdout)
    place = {"time_ns": sample["time_ns"], "source": "192.0.2.1"}
    agent = {"node_id": 0xC0000207, "hw_id": 0}
    assert sample == {
        "packet": 0, "index": 0, **place,
        "report": {
            "version": "sflow-5", "kind": "inner", **agent, "sequence": 7, "dropped": False, "packets": 64,
            "metadata": {
                "ingress_port": 3, "egress_port": 4, "hop_latency": 9000, "queue_id": 2,
                "queue_occupancy": 4096,
            },
        },
        "flow": FLOW,
    }  # fmt: skip
    assert discard["report"] == {
        "version": "sflow-5", "kind": "drop", **agent, "sequence": 7, "dropped": True, "drop_reason": 131,
        "metadata": {"ingress_port": 3, "egress_port": 4},
    }  # fmt: skip
    assert (empty["packet"], empty["report"]["metadata"], "flow" in empty) == (1, {}, False)
    assert link["report"]["metadata"] == {"ingress_port": 0, "egress_port": 5, "tx_utilization": 800}
    exporter = {"node_id": 0xC0000201, "hw_id": 1}
    assert record_["report"] == {
        "version": "ipfix", "kind": "inner", **exporter, "dropped": False, "packets": 10,
        "metadata": {"ingress_port": 3, "egress_port": 4, "hop_latency": 25_000},
    }  # fmt: skip
    assert record_["flow"] == FLOW
    assert drop["report"] == {
        "version": "netflow-9", "kind": "drop", **exporter, "dropped": True, "drop_reason": 129,
        "metadata": {},
    }  # fmt: skip
    assert (early["packet"], early["report"]["metadata"], "flow" in early) == (5, {}, False)
    assert bad_set["error"] == {
        "reason": "unknown_type", "at": "ipfix", "detail": "set 4, which is reserved (byte 58)"
    }  # fmt: skip
    assert (bad_set["packet"], bad_set["index"]) == (6, 0)
    assert bad_version["error"]["detail"] == "sFlow version 4, expected 5 (byte 42)"
    assert done.stderr == (
        "9 packets: 0 reports, 4 sFlow samples, 2 flow records, 2 rejected (1 unknown_version, "
        "1 unknown_type), 1 other\n"
        "hopscope: 1 data set of IPFIX or NetFlow 9 not read: no template for them within 60 s\n"
    )


def test_csv_and_table(mixed: Path) -> None:
    """The same values under the columns of reports; a table shows the node as the path."""
    done = hopscope("decode", str(mixed), "--format", "csv").stdout
    first, second, *_ = csv.DictReader(io.StringIO(done))
    assert (first["report.version"], first["report.packets"]) == ("sflow-5", "64")
    assert (first["report.metadata.hop_latency"], first["flow.sport"]) == ("9000", "4000")
    assert second["report.drop_reason"] == "131"
    rows = hopscope("decode", str(mixed), "--format", "table", "--dialect", "bmv2").stdout.splitlines()
    assert rows[1].endswith("  3221225991  9.00 µs")
    assert "sflow-5 drop" in rows[2]


def test_limit_and_filters(mixed: Path) -> None:
    """They count and choose samples as they do reports."""
    done = hopscope("decode", str(mixed), "--limit", "2")
    assert done.stderr.startswith("1 packet: 0 reports, 2 sFlow samples, 0 rejected, 0 other; --limit left")
    done = hopscope("decode", str(mixed), "--limit", "3")  # the third row is a sample without a value
    assert done.stderr.startswith("2 packets: 0 reports, 3 sFlow samples, 0 rejected, 0 other; --limit left")
    kinds = [one["report"]["kind"] for one in objects(hopscope("decode", mixed, "--kind", "drop").stdout)]
    assert kinds == ["drop", "drop"]
    node = hopscope("decode", mixed, "--node", "3221225991").stdout
    assert [one["packet"] for one in objects(node)] == [0, 0, 1, 2]


def test_ports(mixed: Path, tmp_path: Path) -> None:
    """Options replace the ports; a port is for one format only, and that of an option is for its format."""
    other = tmp_path / "other.pcap"
    other.write_bytes(pcap([outer(sflow_make.datagram(sflow_make.flow(PACKET)), 2055)]))
    assert "1 rejected" in hopscope("decode", other).stderr  # read as NetFlow
    assert "1 sFlow sample" in hopscope("decode", other, "--sflow-port", "2055").stderr
    assert "1 report," in hopscope("decode", other, "--port", "2055").stderr
    none = hopscope("decode", mixed, "--sflow-port", "0", "--ipfix-port", "0")
    assert "9 other" in none.stderr
    twice = hopscope("decode", other, "--sflow-port", "2055", "--port", "2055")
    assert (twice.returncode, twice.stderr) == (
        2, "hopscope: found port 2055 for two formats, expected one format for each port\n"
    )  # fmt: skip


def test_damage_is_no_hint_at_a_dialect(mixed: Path) -> None:
    """Other versions of sFlow and NetFlow have nothing to do with the dialect of reports."""
    for command in ("decode", "replay"):
        assert "dialect" not in hopscope(command, mixed).stderr


def test_replay_counts_what_a_listener_counts(mixed: Path, tmp_path: Path) -> None:
    """Counters of samples, sets and damage; node ids are those of the listeners in the settings."""
    config = tmp_path / "hopscope.toml"
    config.write_text('[[listen]]\nkind = "sflow"\nnodes = { "192.0.2.7" = 7 }\n')
    done = hopscope("replay", mixed, "--format", "json", "--events", "--config", config, *SMALL)
    *events, counters = objects(done.stdout)
    expected = {
        "frames_total": 9, "reports_total": 7, "other_frames_total": 1, "sflow_samples_total.flow": 1,
        "sflow_samples_total.counter": 2, "sflow_samples_total.discarded": 1, "ipfix_records_total.flow": 2,
        "ipfix_early_sets_total": 1, "ipfix_waiting_sets": 1, "rejected_reports_total.unknown_type": 1,
        "rejected_headers_total.ipfix": 1, "rejected_headers_total.report_header": 1,
    }  # fmt: skip
    assert {name: counters.get(name, 0) for name in expected} == expected
    links = [one for one in events if one.get("metric") == Metric.LINK_UTILIZATION.label]
    assert [(one["node"]["id"], one["port"]["id"], one["value"]) for one in links] == [(7, 5, 800)]
    assert sum(one["kind"] == Kind.DROP.label for one in events) == 2
    text = hopscope("replay", mixed, *SMALL)
    assert text.stdout.startswith("received   7 reports, those of samples included, in 9 frames")
    assert "sampled    4 samples of sFlow, 2 flow records of IPFIX and NetFlow 9\n" in text.stdout
    assert "1 data set of IPFIX or NetFlow 9 not read" in text.stderr


@pytest.mark.parametrize("kind", ["ipfix", "ipfix+tcp"])
def test_replay_has_the_node_ids_of_exporters_over_udp_and_tcp(
    mixed: Path, tmp_path: Path, kind: str
) -> None:
    """`nodes` of both kinds of listeners name the exporter."""
    config = tmp_path / "hopscope.toml"
    config.write_text(f'[[listen]]\nkind = "{kind}"\nnodes = {{ "192.0.2.1" = 77 }}\n')
    done = hopscope("replay", mixed, "--format", "json", "--events", "--config", config, *SMALL)
    assert 77 in {one["node"]["id"] for one in objects(done.stdout) if one.get("node")}


def test_the_library_reads_the_same(mixed: Path) -> None:
    """Rows of versions 105, 109 and 110, in small and large files, and again at each iteration."""
    capture = library.read(mixed, nodes={"192.0.2.7": 7}, frames_per_batch=2)
    for _ in range(2):
        found = [one for batch in capture for one in batch]
        assert [one["report"]["node_id"] for one in found[:4]] == [7] * 4
    assert found[0]["report"]["metadata"]["hop_latency"] == 9000
    events = library.detect_events(capture)
    assert events.by_kind()["drop"] == 2
    assert [len(batch) for batch in library.read(mixed, sflow_ports=[], ipfix_ports=[6343])] == [4]
    with pytest.raises(library.HopscopeError, match="ipfix_ports: 0 is no UDP port"):
        library.read(mixed, ipfix_ports=[0])
    with pytest.raises(library.HopscopeError, match=r"nodes: 'leaf-7' does not appear to be .*expected add"):
        library.read(mixed, nodes={"leaf-7": 7})
