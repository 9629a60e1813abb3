"""`hopscope simulate`: captures, real time, names, and mistakes told in a line."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.utils import rdpcap

from hopscope.base.errors import HopscopeError
from hopscope.base.names import Names
from hopscope.capture.pcap.reader import read
from hopscope.cli.simulate.command import parse_rate
from hopscope.wire.decode.plain import decode_plain
from support.processes.command import hopscope
from support.waiting import HANG_SECONDS

QUICK = ("--flows", "100", "--rate", "2000", "--duration", "0.1")


def simulate(*arguments: str, status: int = 0, process: bool = False) -> CompletedProcess[str]:
    if process:
        command = [sys.executable, "-m", "hopscope", "simulate", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_SECONDS, check=False)
    else:
        done = hopscope("simulate", *arguments)
    assert done.returncode == status, done.stderr
    return done


@pytest.mark.kernel
def test_a_capture(tmp_path: Path) -> None:
    """A capture has the reports that the summary counts, a source for each switch, and names that fit."""
    capture, names = tmp_path / "fabric.pcap", tmp_path / "names.toml"
    fault = "lossy-port@0.02,node=agg-1-0,port=1,duration=0.05,loss=0.1"
    done = simulate(*QUICK, "-o", str(capture), "--names", str(names), "--fault", fault, "--format", "json")
    *told, end = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(one["kind"], one["fault"], one["begins"]) for one in told] == [
        ("fault", "lossy-port", True),
        ("fault", "lossy-port", False),
    ]
    reports = np.concatenate([decode_plain(batch).reports for batch in read(capture)])
    begin = int(reports["time_ns"].min()) // 10**9 * 10**9
    times = [one["time_ns"] - begin for one in (*told, end)]
    assert times == [20_000_000, 70_000_000, round(end["seconds"] * 1e9)], "not the times of the capture"
    assert end["kind"] == "end"
    assert len(reports) == end["reports"] == end["datagrams"]
    assert int((reports["drop_reason"] > 0).sum()) == end["drop_reports"] > 0
    assert {int(lo) & 0xFFFFFF00 for lo in reports["source_lo"]} == {0x0AFF0000}
    assert Names.load(names).node(11) == "agg-1-0"


@pytest.mark.kernel
def test_an_own_topology(tmp_path: Path) -> None:
    """Names, a fault and reports have the ids and ports of the file; a mistake is told with its line."""
    file, capture, names = tmp_path / "own.toml", tmp_path / "own.pcap", tmp_path / "names.toml"
    text = 'links = ["left:9 - right:8"]\nhosts = 2\nswitches = { left = 70000, right = 5 }\n'
    file.write_text(text)
    fault = "lossy-port@0,node=left,port=9,duration=1,loss=0.2"
    simulate(*QUICK, "-t", str(file), "-o", str(capture), "--names", str(names), "--fault", fault)
    known = Names.load(names)
    assert known.nodes == {70000: "left", 5: "right"}
    assert known.port(70000, 9) == "to right"
    batches = [decode_plain(batch) for batch in read(capture)]
    hops = np.concatenate([batch.hops for batch in batches])
    assert set(hops["node_id"].tolist()) == {70000, 5}
    assert set(hops["egress_port"][hops["node_id"] == 70000].tolist()) == {9, 1, 2}
    reports = np.concatenate([batch.reports for batch in batches])
    assert set(reports["node_id"][reports["drop_reason"] > 0].tolist()) == {70000}
    file.write_text(text.replace("left:9", "lest:9"))
    done = simulate(*QUICK, "-t", str(file), "-o", str(capture), status=2)
    assert (
        f"{file}:1: links: lest:9 - right:8: lest is no switch of the file: did you mean left?" in done.stderr
    )


def test_the_demo_takes_no_file(tmp_path: Path) -> None:
    """Its faults have places in the tiers of a fabric; this comes before what else is wrong."""
    done = hopscope("demo", "--topology", str(tmp_path / "own.toml"), "--duration", "5")
    assert done.returncode == 2
    assert "whose tiers tell the demo where to put its faults" in done.stderr


@pytest.mark.kernel
def test_the_same_seed_gives_the_same_file(tmp_path: Path) -> None:
    """Two runs write equal files."""
    files = [tmp_path / "one.pcap", tmp_path / "two.pcap"]
    for file in files:
        simulate(*QUICK, "-o", str(file), "--report-version", "1.0", "--topology", "leaf-spine:2x2")
    assert files[0].read_bytes() == files[1].read_bytes() != b""


@pytest.mark.e2e
def test_real_time() -> None:
    """Reports arrive over loopback, from an address of each sink, as many as the summary says."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * 1024 * 1024)
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(0.2)
        done = simulate(
            *QUICK, "--to", f"udp://127.0.0.1:{receiver.getsockname()[1]}", "--format", "json", process=True
        )
        sources, count = set(), 0
        try:
            while True:
                payload, (source, _) = receiver.recvfrom(65536)
                assert payload[0] >> 4 == 2
                sources.add(source)
                count += 1
        except TimeoutError:
            pass
    assert count == json.loads(done.stdout.splitlines()[-1])["datagrams"] > 50
    assert sources <= {f"127.0.1.{i + 1}" for i in range(20)}
    assert len(sources) > 4


@pytest.mark.e2e
def test_a_port_where_nobody_listens() -> None:
    """Unreachable datagrams are counted, and the exit status is 1."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    done = simulate(*QUICK, "--to", f"udp://127.0.0.1:{port}", status=1, process=True)
    assert "port unreachable: at least " in done.stderr
    done = simulate(*QUICK, "--to", f"udp://127.0.0.1:{port}", "--format", "json", status=1, process=True)
    assert json.loads(done.stdout.splitlines()[-1])["unreachable"] > 0


@pytest.mark.kernel
@pytest.mark.parametrize("mode", ["mx", "xd"])
def test_postcards_are_read(mode: str, tmp_path: Path) -> None:
    """No postcard of a simulated fabric is refused, and every one is read."""
    capture = tmp_path / "fabric.pcap"
    simulate(*QUICK, "-o", str(capture), "--mode", mode)
    reports = np.concatenate([decode_plain(batch).reports for batch in read(capture)])
    assert len(reports) > 100
    assert not reports["reason"].any()


def test_rates() -> None:
    """Link rates with and without a suffix."""
    assert [parse_rate(t) for t in ("1G", "2.5g", "100Mbps", "64000")] == [10**9, 25 * 10**8, 10**8, 64000]
    for text in ("", "fast", "-1G", "0", "G", "1", "infG"):
        with pytest.raises(HopscopeError, match="link-rate"):
            parse_rate(text)


@pytest.mark.parametrize("number", ["nan", "inf"])
def test_numbers_without_measure(number: str) -> None:
    """A number that is none, in an option without bounds, is an error of that option."""
    done = simulate("-o", "x.pcap", "--load", number, status=2)
    assert f"Invalid value for '--load': {number} is no finite number" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "nothing to do"),
        (("-o", "x.pcap", "--to", "udp://127.0.0.1:1"), "not both"),
        (("--topology", "ring:4", "-o", "x.pcap"), "unknown topology"),
        (("--fault", "flood@1", "-o", "x.pcap"), "fault 'flood@1': expected"),
        (("--fault", "slow-hop@5,node=edge-0-0,port=1", "--duration", "5", "-o", "x.pcap"), "begins at 5 s"),
        (("--fault", "slow-hop@10,node=edge-0-0,port=1", "-o", "x.pcap"), "begins at 10 s"),
        (("--sizes", "tiny", "-o", "x.pcap"), "web-search or data-mining"),
        (("--to", "tcp://127.0.0.1:1"), "--to tcp://127.0.0.1:1: expected udp://HOST:PORT"),
        (("--to", "mirror://lo"), "--to mirror://lo: expected udp://HOST:PORT"),
        (("--to", "udp://127.0.0.1:1", "--packets"), "--packets: expected --output FILE"),
        (("-o", "x.pcap", "--mode", "mx", "--packets"), "and --mode md"),
        (("-o", "/nowhere/at/all.pcap", "--duration", "0.1"), "/nowhere/at/all.pcap"),
    ],
)
def test_mistakes(arguments: tuple[str, ...], message: str) -> None:
    """A mistake is one line on stderr and exit status 2."""
    done = simulate(*arguments, status=2)
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.kernel
@pytest.mark.parametrize("version", ["2.0", "1.0", "0.5"])
def test_packets_are_those_that_reports_are_about(version: str, tmp_path: Path) -> None:
    """The INT packets of a run have the flows, times and hops of its reports; lengths and checksums are right
    by scapy; `sink` strips all of them, and leaves right checksums.
    """
    files = [tmp_path / name for name in ("reports.pcap", "packets.pcap", "stripped.pcap")]
    arguments = ("--topology", "leaf-spine:2x2", *QUICK, "--report-version", version)
    simulate(*arguments, "-o", str(files[0]))
    done = simulate(*arguments, "-o", str(files[1]), "--packets")
    of_reports, of_packets = (
        [json.loads(line) for line in hopscope("decode", file, *more).stdout.splitlines()]
        for file, more in ((files[0], ()), (files[1], ("--packets",)))
    )
    assert f"wrote     {len(of_packets):,} packets with INT" in done.stderr
    keys = ("time_ns", "flow", "hops")
    assert [[p[key] for key in keys] for p in of_packets] == [[r[key] for key in keys] for r in of_reports]
    done = hopscope("sink", files[1], "-o", files[2])
    assert f"{len(of_packets)} of them stripped of telemetry" in done.stdout, done.stderr
    packets, stripped = (rdpcap(str(file)) for file in files[1:])
    assert len(packets) == len(stripped) == len(of_packets) > 100
    for packet in (*packets[:50], *stripped[:50]):
        assert len(packet) == 14 + packet[IP].len
        again = Ether(bytes(packet))
        del again[IP].chksum
        if TCP in packet:
            del again[TCP].chksum
        assert bytes(again) == bytes(packet)
