"""`hopscope decode`: what it prints, where, and how it ends."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopscope.capture.pcap.reader import PcapWriter, read
from hopscope.cli.application import build
from hopscope.cli.decode import command
from hopscope.cli.output.printer import Format
from hopscope.fabric.simulation import Simulation, SimulationModel
from hopscope.fabric.switch import ReportModel
from hopscope.fabric.topology import parse_topology
from hopscope.wire.decode.plain import decode_plain
from hopscope.wire.dialect import Dialect
from hopscope.wire.records import FRAME, FrameBatch, Link, ReportBatch
from support.packets.by_hand import ethernet, ipv4, pcap, udp
from support.processes.command import hopscope
from support.waiting import HANG_SECONDS

HEAVY = (
    "numba",
    "llvmlite",
    "rich",
    "fastapi",
    "uvicorn",
    "websockets",
    "duckdb",
    "prometheus_client",
    "pandas",
)
IMPORT = "import sys; from hopscope.cli import main"


def objects(*words: str) -> list[dict[str, Any]]:
    """What decode prints."""
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        status = build()(["decode", *words], standalone_mode=False)
    assert not status
    return [json.loads(line) for line in out.getvalue().splitlines()]


def report(node: int = 7, sequence: int = 42, path: tuple[int, ...] = (5, 4), sport: int = 4000) -> bytes:
    """UDP payload of a Report 2.0 on an IPv4/UDP packet with INT-MD 2: ids and latencies, newest first."""
    stack = b"".join(hop.to_bytes(4, "big") + (hop * 100).to_bytes(4, "big") for hop in path)
    words = (12 + len(stack)) // 4
    shim = bytes([0x10, words, 0, 0])
    header = b"\x20\x00\x02\x05\xa0\x00" + bytes(6)
    udp_length = 8 + len(shim) + len(header) + len(stack)
    udp = sport.to_bytes(2, "big") + (53).to_bytes(2, "big") + udp_length.to_bytes(2, "big") + bytes(2)
    ip = b"\x45\x5c" + (20 + udp_length).to_bytes(2, "big") + bytes(4) + b"\x40\x11\0\0"
    ip += bytes([198, 51, 100, 1]) + bytes([203, 0, 113, 9])
    inner = ip + udp + shim + header + stack
    group = (2 << 28 | 1 << 22 | sequence).to_bytes(4, "big") + node.to_bytes(4, "big")
    return group + bytes([0x14, len(inner) // 4 + 2, 0, 0x20]) + bytes(8) + inner


HEAD = bytes.fromhex("11000040 00000009 00000001 5ad88132")
"""A Telemetry Report 1.0 up to its packet."""
INTCOLLECTOR = HEAD + ethernet(
    ipv4(
        udp(
            bytes.fromhex(
                "01000b00 00000803ff000000"  # shim, INT 1.0 as version 0
                "00000004 00050003 00000190 00050258 000002bc 5ad9f940 000503e8 00000001"
            ),
            5000,
        )
    )
)
"""A Telemetry Report 1.0 of one hop, as INTCollector's generator writes it."""


def capture(path: Path, payloads: list[bytes], port: int = 32766) -> Path:
    frames = np.zeros(len(payloads), FRAME)
    frames["length"] = frames["wire_length"] = [len(one) for one in payloads]
    frames["offset"] = np.cumsum(frames["length"]) - frames["length"]
    frames["time_ns"] = 1_700_000_000_000_000_000
    frames["link"], frames["port"], frames["source_lo"] = Link.UDP_PAYLOAD, port, 0xFFFF_C000_0201
    with PcapWriter(path) as writer:
        writer.write(FrameBatch(np.frombuffer(b"".join(payloads), np.uint8), frames))
    return path


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Three reports, one of them cut short, by nodes 7, 8 and 9."""
    whole = [report(), report(8, 43, (6,), 4001), report(9, 44)]
    return capture(tmp_path / "small.pcap", [whole[0], whole[1], whole[2][:50]])


def test_json_is_as_documented(small: Path) -> None:
    """Every key of a report, in path order, and of a damaged one; the summary goes to stderr."""
    first, second, damaged = objects(str(small))
    assert first == {
        "packet": 0,
        "index": 0,
        "time_ns": 1_700_000_000_000_000_000,
        "source": "192.0.2.1",
        "report": {
            "version": "2.0",
            "kind": "int",
            "node_id": 7,
            "hw_id": 1,
            "sequence": 42,
            "dropped": False,
            "congested": False,
            "tracked": True,
            "intermediate": False,
            "metadata": {},
        },
        "flow": {"src": "198.51.100.1", "dst": "203.0.113.9", "proto": 17, "sport": 4000, "dport": 53},
        "int": {
            "version": "2",
            "mode": "md",
            "carrier": "udp",
            "npt": 0,
            "instructions": "0xa000",
            "hop_words": 2,
            "remaining_hops": 5,
            "hops_exceeded": False,
            "mtu_exceeded": False,
        },
        "hops": [{"node_id": 4, "hop_latency": 400}, {"node_id": 5, "hop_latency": 500}],
    }
    assert second["hops"] == [{"node_id": 6, "hop_latency": 600}]
    assert (damaged["packet"], damaged["index"]) == (2, 0)
    assert set(damaged["error"]) == {"reason", "at", "detail"}
    assert damaged["error"]["reason"] == "truncated"
    summary = hopscope("decode", str(small)).stderr
    assert summary == "3 packets: 2 reports, 1 rejected (1 truncated), 0 other\n"


def test_a_cold_start_imports_nothing_heavy(small: Path) -> None:
    """A small capture is decoded without Numba, web framework, database or table library."""
    code = f"{IMPORT}\ntry:\n main()\nfinally:\n print(sorted(set({HEAVY!r}) & set(sys.modules)))"
    command = [sys.executable, "-c", code, "decode", str(small)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


def test_ports(tmp_path: Path) -> None:
    """Reports are looked for on --port, or on every port that is known; elsewhere nothing is printed."""
    elsewhere = capture(tmp_path / "elsewhere.pcap", [report()], port=7777)
    done = hopscope("decode", str(elsewhere))
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == (
        "1 packet: 0 reports, 0 rejected, 1 other\n"
        "hopscope: no reports found; --port N reads reports on a port of your own, --sflow-port N sFlow, "
        "--ipfix-port N IPFIX, --packets reads packets that carry INT, IOAM or IFA, `hopscope label decode` "
        "reads labels\n"
    )
    done = hopscope("decode", str(elsewhere), "--port", "1", "--packets")
    assert "found; other --port numbers, `hopscope label decode` reads labels\n" in done.stderr
    assert len(objects(str(elsewhere), "--port", "1", "--port", "7777")) == 1
    assert len(objects(str(capture(tmp_path / "known.pcap", [report()], port=54321)))) == 1


def test_a_hint_at_other_dialects(tmp_path: Path) -> None:
    """Refusals that another dialect may not have are followed by how to find it, unless one was named."""
    path = tmp_path / "odd.pcap"
    path.write_bytes(pcap([ethernet(ipv4(udp(b"\xf0" + bytes(40), 32766)))]))
    hint = "hopscope: these may be in another dialect: --dialect auto proposes one\n"
    for command_ in ("decode", "replay"):
        assert hopscope(command_, str(path)).stderr.endswith(hint)
    listener = ("--set", "listen=udp://127.0.0.1:32766?dialect=bmv2")
    for words in (("--dialect", "bmv2"), ("--dialect", "auto"), listener):
        assert hint not in hopscope("decode", str(path), *words).stderr
    assert hint in hopscope("decode", str(path), *listener, "--dialect", "spec").stderr


def test_a_hint_where_another_dialect_finds_hops(tmp_path: Path) -> None:
    """A Report 1.0 of INTCollector's generator reads like a drop of 0.5, without hops: the dialect that finds
    its hop is named. A drop of 0.5 has no hint.
    """
    path, drop = tmp_path / "1.0.pcap", tmp_path / "0.5.pcap"
    path.write_bytes(pcap([ethernet(ipv4(udp(INTCOLLECTOR, 54321)))]))
    drop.write_bytes(pcap([ethernet(ipv4(udp(HEAD + bytes(8) + ethernet(ipv4(udp(b"", 53))), 54321)))]))
    hint = "hopscope: these reports have no hops; --dialect intcollector finds 1 in the first of them\n"
    for command_ in ("decode", "replay"):
        assert hopscope(command_, str(path)).stderr.endswith(hint)
        assert "have no hops" not in hopscope(command_, str(drop)).stderr
    assert "have no hops" not in hopscope("decode", str(path), "--dialect", "intcollector").stderr
    path.write_bytes(pcap([ethernet(ipv4(udp(report(), 32766)))]))
    for words in (("--dialect", "fabric-tna"), ("--set", "listen=udp://127.0.0.1:32766?dialect=fabric-tna")):
        assert "finds" not in hopscope("decode", str(path), *words).stderr


def test_a_capture_is_read_as_the_listeners_of_the_settings_read_it(tmp_path: Path) -> None:
    """Dialect and port are the listener's; --dialect takes precedence. Listeners with several dialects are an
    error that names --dialect, with which the ports are still read.
    """
    path = tmp_path / "1.0.pcap"
    path.write_bytes(pcap([ethernet(ipv4(udp(INTCOLLECTOR, 40000)))]))
    dialect = "listen=udp://127.0.0.1:40000?dialect=intcollector"
    [found] = objects(str(path), "--set", dialect)
    assert len(found["hops"]) == 1
    assert "hops" not in objects(str(path), "--set", dialect, "--dialect", "spec")[0]
    hops = '"hops_total": 1,'
    assert hops in hopscope("replay", str(path), "--set", dialect, "--format", "json").stdout
    several = 'listen=["udp://127.0.0.1:40000?dialect=intcollector", "udp://127.0.0.1:40001"]'
    mirrors = 'listen=["mirror://eth1?dialect=intcollector", "mirror://eth2"]'
    for command_, listen in (("decode", several), ("replay", several), ("sink", mirrors)):
        failed = hopscope(command_, str(path), "--set", listen)
        assert failed.returncode == 2
        assert failed.stderr == (
            "hopscope: listen: found dialects intcollector, spec, expected one for all reports of a file: "
            "choose it with --dialect\n"
        )
    assert len(objects(str(path), "--set", several, "--dialect", "intcollector")[0]["hops"]) == 1


@pytest.mark.parametrize(
    ("words", "packets"),
    [
        (["--flow", "198.51.100.1"], [0, 1]),
        (["--flow", "198.51.100.1,203.0.113.9,udp,4001,53"], [1]),
        (["--flow", "sport=4000"], [0]),
        (["--flow", ",,tcp"], []),
        (["--prefix", "203.0.113.0/24"], [0, 1]),
        (["--prefix", "10.0.0.0/8"], []),
        (["--node", "6"], [1]),
        (["--node", "7", "--node", "8"], [0, 1]),
        (["--node", "5"], [0]),
        (["--kind", "int"], [0, 1]),
        (["--kind", "error"], [2]),
        (["--kind", "drop", "--kind", "error"], [2]),
        (["-n", "1"], [0]),
        (["-n", "2", "--kind", "int,error"], [0, 1]),
    ],
)
def test_filters(small: Path, words: list[str], packets: list[int]) -> None:
    """Flow, prefix, node, kind and limit choose reports, and several of them together."""
    assert [found["packet"] for found in objects(str(small), *words)] == packets


def test_names(small: Path, tmp_path: Path) -> None:
    """Nodes are found and shown by the names that a file gives them."""
    names = tmp_path / "names.csv"
    names.write_text("node_id,port,name\n6,,leaf-6\n8,,spine-8\n")
    done = hopscope("decode", str(small), "--names", str(names), "--node", "leaf-6", "--format", "table")
    assert "leaf-6" in done.stdout
    assert "spine-8" in done.stdout


def test_csv_and_table(small: Path) -> None:
    """CSV has one column a key, hops joined by blanks; a table has a header and one line a report."""
    rows = list(csv.DictReader(io.StringIO(hopscope("decode", str(small), "-f", "csv").stdout)))
    assert rows[0]["flow.src"] == "198.51.100.1"
    assert rows[0]["hops.node_id"] == "4 5"
    assert rows[0]["report.tracked"] == "true"
    assert rows[0]["hops.queue_id"] == ""
    assert rows[2]["error.reason"] == "truncated"
    header, first, _, damaged = hopscope("decode", str(small), "-f", "table").stdout.splitlines()
    assert header.split()[:3] == ["packet", "time", "source"]
    assert "198.51.100.1:4000 → 203.0.113.9:53 udp" in first
    assert "4 → 5" in first
    assert "truncated at" in damaged


def test_standard_input_and_gzip(small: Path) -> None:
    """`-` reads standard input, and gzip is understood in both places."""
    raw = small.read_bytes()
    expected = objects(str(small))
    for stdin in (raw, gzip.compress(raw)):
        piped = hopscope("decode", "-", stdin=stdin)
        assert [json.loads(line) for line in piped.stdout.splitlines()] == expected
    small.write_bytes(gzip.compress(raw))
    assert objects(str(small)) == expected


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (None, "cannot be read (No such file or directory)"),
        (b"", "is empty"),
        (b"hello, this is no capture at all", "is neither pcap nor pcapng"),
        (b"\xd4\xc3\xb2\xa1", "is cut in the middle of the file's header"),
    ],
)
def test_unreadable_files(tmp_path: Path, content: bytes | None, line: str) -> None:
    """Exit status 2 and one line on stderr, nothing on stdout."""
    path = tmp_path / "a.pcap"
    if content is not None:
        path.write_bytes(content)
    done = hopscope("decode", str(path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"hopscope: {path}: {line}\n"


def test_a_cut_file_is_read_to_the_cut(small: Path) -> None:
    """Whole reports are printed, the damage is told in one line, and the exit status is 1."""
    small.write_bytes(small.read_bytes()[:-10])
    done = hopscope("decode", str(small))
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == 2
    assert done.stderr.splitlines()[0].startswith("2 packets: 2 reports")
    assert done.stderr.splitlines()[1].startswith(f"hopscope: {small}: is cut in the middle of a record")


def test_frames_of_another_link_type_are_named(small: Path) -> None:
    """The link type is on stderr, also of `replay`, in place of advice about ports; other frames are read."""
    raw = small.read_bytes()
    small.write_bytes(raw[:20] + (105).to_bytes(4, "little") + raw[24:])
    line = f"hopscope: {small}: 3 frames of link type 105, which is not read; Ethernet, raw IP, "
    for command_ in ("decode", "replay"):
        done = hopscope(command_, str(small))
        assert done.returncode == 0
        assert done.stderr.splitlines()[-1].startswith(line)
        assert "no reports found" not in done.stderr


def test_names_of_the_settings(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `hopscope.toml` in the current folder names nodes, as for other commands; --names comes first."""
    for name in ("one", "two"):
        (tmp_path / f"{name}.toml").write_text(f'[nodes]\n5 = "{name}"\n')
    (tmp_path / "hopscope.toml").write_text('names = "one.toml"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOPSCOPE_CONFIG", raising=False)
    assert "4 → one" in hopscope("decode", str(small), "-f", "table").stdout
    assert "4 → two" in hopscope("decode", str(small), "-f", "table", "--names", "two.toml").stdout


@pytest.mark.parametrize(
    "words",
    [
        ["--links", "x"],
        ["--flow", "x"],
        ["--prefix", "10.0.0"],
        ["--node", "leaf"],
        ["--kind", "x"],
        ["--dialect", "x"],
        ["--int-dscp", "64"],
        ["--int-port", "x"],
        ["--marker", "112233445566778899"],
        ["--flow", "1.1.1.1,,,,99999"],
    ],
)
def test_mistakes_are_one_line(small: Path, words: list[str]) -> None:
    """A flag that cannot be read ends with status 2 and one line that names it."""
    done = hopscope("decode", str(small), *words)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert re.match(rf"hopscope: {words[0]}[: ]", line)


def test_a_dialect_of_ones_own(small: Path, tmp_path: Path) -> None:
    """--config brings dialects by name, and `auto` asks them too: here the one that knows the port."""
    config = tmp_path / "hopscope.toml"
    config.write_text("[dialects.lab]\nports = [7777]\n")
    elsewhere = capture(tmp_path / "elsewhere.pcap", [report()], port=7777)
    (found,) = objects(str(elsewhere), "--config", str(config), "--dialect", "lab")
    assert found["hops"]
    done = hopscope("decode", str(elsewhere), "--config", str(config), "--dialect", "auto")
    assert done.stdout == hopscope("decode", str(elsewhere), "--port", "7777").stdout
    assert done.stderr.startswith("hopscope: dialect auto: lab, which reads 1 report with 2 hops\n")
    done = hopscope("decode", str(small), "--dialect", "lab")
    assert done.stderr.startswith(
        "hopscope: --dialect lab: unknown dialect 'lab'; known are spec, report-0.5, "
    )


def test_int_where_the_command_line_says(tmp_path: Path) -> None:
    """--int-dscp and --int-port say where INT is, instead of the dialect."""
    path = capture(tmp_path / "int.pcap", [report()])
    assert objects(str(path))[0]["hops"]
    assert "hops" not in objects(str(path), "--int-dscp", "0x2a")[0]


def test_a_locale_without_arrows(small: Path) -> None:
    """What standard output cannot encode is a question mark."""
    for form in ("table", "json", "csv"):
        done = subprocess.run(
            [sys.executable, "-c", f"{IMPORT}; main()", "decode", str(small), "--format", form],
            capture_output=True,
            env={**os.environ, "PYTHONIOENCODING": "ascii"},
            timeout=HANG_SECONDS,
            check=True,
        )
        assert done.stdout.isascii()
        assert (b"198.51.100.1:4000 ? 203.0.113.9:53" in done.stdout) == (form == "table")


@pytest.mark.parametrize("words", [("decode", "{file}"), ("replay", "{file}"), ("config", "show")])
def test_closed_output(small: Path, words: tuple[str, ...]) -> None:
    """With `>&-` a command does its work, and what it would print is nowhere."""
    command_ = " ".join(words).format(file=small)
    done = subprocess.run(
        ["sh", "-c", f"exec {sys.executable} -c '{IMPORT}; main()' {command_} >&-"],
        capture_output=True,
        timeout=HANG_SECONDS,
    )
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr


def test_ctrl_c_while_modules_are_imported(small: Path) -> None:
    """It ends the command by the signal, without a traceback; here at the import of Typer."""
    interrupt = (
        "import os, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # where tests run, it may be ignored
        "class Finder:\n"
        "    def find_spec(self, name, *more):\n"
        "        if name == 'typer': os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
        "from hopscope.cli import main\n"
        "main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", interrupt, "decode", str(small)], capture_output=True, timeout=HANG_SECONDS
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")


def test_a_broken_pipe_is_silent(tmp_path: Path) -> None:
    """A reader that goes away ends the program without a word."""
    path = capture(tmp_path / "many.pcap", [report()] * 2000)
    with subprocess.Popen(
        [sys.executable, "-c", f"{IMPORT}; main()", "decode", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(HANG_SECONDS) == 0


@pytest.mark.kernel
def test_large_inputs_are_decoded_by_the_compiled_decoder(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Behind the first frames the compiled decoder goes on, and what is printed stays the same."""
    raw = small.read_bytes()
    path = tmp_path / "repeated.pcap"
    path.write_bytes(raw[:24] + raw[24:] * 40)
    build()(["decode", str(path)], standalone_mode=False)
    scalar = capsys.readouterr()
    monkeypatch.setattr(command, "FIRST_BATCH", 10)
    monkeypatch.setattr(command, "PLAIN_FRAMES", 25)
    build()(["decode", str(path)], standalone_mode=False)
    assert capsys.readouterr() == scalar
    assert len(scalar.out.splitlines()) == 120


def test_progress_on_a_terminal(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large file shows how far it is, on stderr and only where that is a terminal; the line is removed."""
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal, os.fdopen(ours, "rb", buffering=0) as seen:
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setattr(sys, "stdout", io.StringIO())
        monkeypatch.setattr(command, "_LARGE_BYTES", 1)
        monkeypatch.setattr(command, "_PROGRESS_SECONDS", 0.0)
        build()(["decode", str(small)], standalone_mode=False)
        text = ""
        while "\x1b[K" not in text and select.select([seen], [], [], 5)[0]:  # what is written comes in parts
            text += seen.read(4096).decode()
    assert "100 % · 3 packets" in text
    assert "\r\x1b[K" in text


def test_every_shared_capture_prints_or_refuses(shared: Path) -> None:
    """No capture of others makes it fail, and background traffic prints nothing."""
    for path in sorted(shared.rglob("*.pcap*")):
        printed = objects(str(path))
        assert {row["packet"] for row in printed} <= set(range(sum(len(batch) for batch in read(path))))
        if path.parent.name == "traffic":
            assert printed == []


def test_the_shared_reports(shared: Path) -> None:
    """The values that the captures' README names."""
    (onos,) = objects(str(shared / "report_0_5/src__test__resources__int_report.pcap"))
    assert onos["source"] == "10.0.3.5"
    assert onos["report"]["hw_id"] == 1
    assert onos["flow"] == {"src": "10.0.1.1", "dst": "10.0.2.3", "proto": 6, "sport": 63804, "dport": 1234}
    assert [hop["node_id"] for hop in onos["hops"]] == [1, 3, 2]
    bmv2 = objects(str(shared / "report_2_0/bmv2_19_reports.pcapng"))
    assert len(bmv2) == 19
    for found in bmv2:
        assert all(hop["hop_latency"] == hop["egress_time"] - hop["ingress_time"] for hop in found["hops"])


def test_join_makes_paths_of_postcards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Postcards of one packet are one object with their hops; a table and CSV have them, too."""
    simulation = Simulation(
        parse_topology("leaf-spine:2x2x2"), SimulationModel(report=ReportModel(mode="xd"), seed=3)
    )
    batch = next(reports for reports in simulation.run(0.01) if len(reports))
    path = tmp_path / "postcards.pcap"
    with PcapWriter(path) as writer:
        writer.write(simulation.frames(batch))

    def decoded(frames: FrameBatch, dialect: Dialect) -> ReportBatch:
        found = decode_plain(frames, dialect)
        found.reports["packet_id"] = batch.reports["packet_id"][frames.first_packet :][: len(found)]
        return found

    monkeypatch.setattr("hopscope.wire.decode.plain.decode_plain", decoded)
    alone = objects(str(path))
    joined = objects(str(path), "--join", "20")
    whole = [one for one in joined if one.get("path") == "complete"]
    assert whole
    assert all(len(one["hops"]) == 3 and "report" not in one and "source" not in one for one in whole)
    assert sum(len(one.get("hops", [1])) for one in joined) == len(alone)
    out = io.StringIO()
    for form in Format:
        with redirect_stdout(out), redirect_stderr(io.StringIO()):
            build()(["decode", str(path), "--join", "20", "-f", form], standalone_mode=False)
    assert "complete path" in out.getvalue()


@pytest.mark.parametrize(
    ("limit", "counted"),
    [
        ("1", "1 packet: 1 report, 0 rejected, 0 other"),
        ("2", "2 packets: 2 reports, 0 rejected, 0 other"),
        ("3", "3 packets: 2 reports, 1 rejected (1 truncated), 0 other"),
    ],
)
def test_the_summary_ends_where_reading_ends(small: Path, limit: str, counted: str) -> None:
    """With --limit it counts the packets up to that of the last printed report."""
    assert hopscope("decode", str(small), "-n", limit).stderr == f"{counted}; --limit left the rest unread\n"
