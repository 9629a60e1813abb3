"""`hopscope sink` over capture files, and its one line for a mistake."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from hopscope.capture.pcap.reader import read
from hopscope.capture.pcap.writer import PcapWriter
from hopscope.wire.craft.frames import craft
from support.processes import command
from support.processes.command import Run

SMALL = (
    "--set", "detect.flow_rows=16", "--set", "detect.ports=64", "--set", "detect.sources=16",
    "--set", "sink.ring_evictions=1024", "--set", "distributions.queues=16",
)  # fmt: skip


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `hopscope sink` with arguments: exit status, stdout, stderr."""
    monkeypatch.setenv("COLUMNS", "200")
    return command.run


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), "INPUT: found none"),
        (("nosuch0", "nosuch1", "-o", "nosuch2"), "--output nosuch2: expected one INPUT"),
        (("lo", "-o", "lo"), "--output lo: found the INPUT"),
        (("--pair", "eth1"), "--pair eth1: expected two interfaces"),
        (("--pair", "eth1:eth1"), "--pair eth1:eth1: expected two interfaces"),
        (("eth1", "--report-when", "event"), "--report-when event: found without --report-to HOST:PORT"),
        (("eth1", "--report-version", "1.0"), "--report-version 1.0: found without --report-to HOST:PORT"),
        (("eth1", "--pair", "eth1:eth2"), "eth1: found twice"),
        (("eth1", "--events"), "expected with a capture file"),
        (("eth1", "--int-port", "5"), "expected with a capture file"),
        (("in.pcap", "--workers", "2"), "a capture file is read by one process"),
        (("missing.pcap",), "missing.pcap"),
        (("eth1", "--report-to", "nowhere"), "sink.report.to"),
        (("missing.pcap", "--report-to", "udp://127.0.0.1:7"), "missing.pcap: cannot be read"),
    ],
)
def test_a_mistake_is_one_line(run: Run, arguments: tuple[str, ...], expected: str) -> None:
    """It says what was found and what was expected, and ends with 2."""
    status, out, err = run("sink", *arguments)
    assert (status, out, len(err.splitlines())) == (2, "", 1), err
    assert expected in err


def test_an_output_that_is_not_there(run: Run, tmp_path: Path) -> None:
    """The error comes at once, before anything is compiled or read. What a killed collector of another test
    left may be removed before it.
    """
    status, _, err = run("sink", "lo", "-o", "nosuch0", "--data", tmp_path / "data", "--no-serve")
    lines = [line for line in err.splitlines() if "; a killed collector " not in line]
    assert (status, lines) == (2, ["hopscope: nosuch0: this machine has no such interface"])


@pytest.mark.parametrize(
    ("output", "expected"),
    [("in.pcap", "found the file that is read"), ("lo", "found an interface"), ("-", "found with --events")],
)
def test_an_output_that_would_be_spoiled(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str, expected: str
) -> None:
    """The input is not written over, an interface is no file name, events do not go into a capture."""
    monkeypatch.chdir(tmp_path)
    Path("in.pcap").write_bytes(b"as it was")
    status, out, err = run("sink", "in.pcap", "-o", output, "--events")
    assert (status, out, len(err.splitlines())) == (2, "", 1), err
    assert f"--output {output}: {expected}" in err
    assert Path("in.pcap").read_bytes() == b"as it was"


@pytest.mark.kernel
def test_all_counted_events_are_printed(run: Run, tmp_path: Path) -> None:
    """Without a data folder, too: alarms of flows and queues end with the file, at its last packet's time,
    and events in the ring are counted once, whatever their types.
    """
    hop = {"node_id": 3, "hop_latency": 90, "queue_id": 1, "queue_occupancy": 90}
    flows = [{"proto": 17, "sport": port} for port in (1, 2, 3)]
    made = craft([{"int": {"instructions": "0xb000"}, "flow": flow, "hops": [hop]} for flow in flows])
    made.frames["time_ns"] = 1_700_000_000 * 10**9
    with PcapWriter(tmp_path / "in.pcap") as capture:
        capture.write(made)
    limits = [
        part
        for metric in ("hop_latency", "queue_occupancy")
        for limit in ("raise_above=50", "clear_below=10")
        for part in ("--set", f"detect.thresholds.{metric}.{limit}")
    ]
    ports = ("--int-port", "5", *SMALL, *limits)
    status, text, err = run("sink", tmp_path / "in.pcap", "--events", "-f", "json", *ports)
    assert status == 0, err
    counted = json.loads(err.splitlines()[-1])
    events = [json.loads(line) for line in text.splitlines()]
    assert {
        key.removeprefix("events_total."): count
        for key, count in counted.items()
        if key.startswith("events_total.")
    } == Counter(event["kind"] for event in events)
    alarms = [(event["kind"], event["metric"]) for event in events if event["kind"] in ("raised", "cleared")]
    assert Counter(alarms) == {
        (kind, metric): count
        for kind in ("raised", "cleared")
        for metric, count in (("hop_latency", 3), ("queue_occupancy", 1))
    }
    assert {event["time"] for event in events if event["kind"] == "cleared"} == {
        "2023-11-14T22:13:20.000000000Z"
    }
    assert counted["sink_ring_events_total"] == 3
    assert counted["sink_events_total.latency_above"] == counted["sink_events_total.occupancy_above"] == 3


@pytest.mark.kernel
@pytest.mark.shared
def test_a_capture_goes_through(run: Run, shared: Path, tmp_path: Path) -> None:
    """INT packets of another program leave without INT, their flows and hops are counted, and history has
    what was found; ordinary traffic leaves as it came.
    """
    source = shared / "int_2_1" / "scapy_int_vectors_udp_tcp.pcap"
    out = tmp_path / "out.pcap"
    status, text, err = run(
        "sink", source, "-o", out, "--dialect", "scapy", "--data", tmp_path / "data", "-f", "json", *SMALL
    )
    assert status == 0, err
    counted = json.loads(text)
    packets = sum(len(batch) for batch in read(source))
    assert counted["forwarded_frames_total"] == counted["frames_total"] == packets
    assert 0 < counted["stripped_packets_total"] <= packets
    status, text, _ = run("decode", out, "--packets", "--dialect", "scapy")
    left = [json.loads(line) for line in text.splitlines()]
    assert len(left) == packets - counted["stripped_packets_total"]  # INT-MX alone
    status, text, _ = run("query", "events", "--data", tmp_path / "data", "-f", "json")
    assert status == 0
    assert {json.loads(line)["kind"] for line in text.splitlines()} == {"new_key", "flow_record"}

    traffic = shared / "traffic" / "tcpreplay_test.pcap"
    status, text, _ = run("sink", traffic, "-o", out, *SMALL)
    assert status == 0
    assert [bytes(b.arena[f["offset"] : f["offset"] + f["length"]]) for b in read(out) for f in b.frames] == [
        bytes(b.arena[f["offset"] : f["offset"] + f["length"]]) for b in read(traffic) for f in b.frames
    ]

    reports = (
        shared / "report_2_0" / "bmv2_19_reports.pcapng"
    )  # on their way to a collector: packets like others
    status, text, _ = run("sink", reports, "-o", out, "-f", "json", *SMALL)
    counted = json.loads(text)
    assert (status, counted["forwarded_frames_total"]) == (0, counted["other_frames_total"])
    assert "reports_total" not in counted
