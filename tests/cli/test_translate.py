"""`hopscope translate` and `hopscope direct report`: from a simulated network to answers."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.processes.command import hopscope

pytestmark = pytest.mark.e2e
HOPSCOPE = [sys.executable, "-m", "hopscope"]


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*HOPSCOPE, *words], capture_output=True, text=True, timeout=400)


@pytest.mark.timeout(400)
def test_a_simulated_network_is_asked(tmp_path: Path) -> None:
    """What its switches reported over UDP answers queries; another translator may not write meanwhile; the
    end counts every report.
    """
    command = [
        *HOPSCOPE,
        "translate",
        "--port",
        "0",
        "--data",
        str(tmp_path),
        "--monitor",
        "int-path-tracing",
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            begun = next(line for line in process.stderr if "udp://" in line)
            port = re.search(r"udp://127.0.0.1:(\d+)", begun)
            assert port is not None
            second = run("translate", "--port", "0", "--data", str(tmp_path))
            assert second.returncode == 2
            assert "written by another translator" in second.stderr
            sent = run(
                "direct",
                "report",
                "--to",
                f"udp://127.0.0.1:{port[1]}",
                "--connections",
                "20",
                "--rate",
                "20000",
            )
            reports = re.search(r"([\d,]+) reports sent\n", sent.stderr)
            assert reports is not None, sent.stderr
            key = sent.stderr.split()[-1]
            answer = run("direct", "query", "int-path-tracing", key, "--data", str(tmp_path))
            assert answer.returncode == 0, answer.stdout
            assert "found" in answer.stdout
        finally:
            process.send_signal(signal.SIGINT)
        ended = process.stderr.read()
    assert process.returncode == 0
    assert f"{reports[1]}  dta_translated_total key-write" in ended


def test_where_reports_go_is_checked(tmp_path: Path) -> None:
    """One line says what an address, a monitor, or a store should have been."""
    for words, said in (
        (("direct", "report", "--to", "nowhere"), "expected HOST:PORT"),
        (("direct", "report", "--monitor", "x"), "unknown monitor 'x'"),
        (("translate", "--monitor", "int-postcards:many", "--data", str(tmp_path)), "a number of keys"),
        (("translate", "--store", "x=nothing", "--data", str(tmp_path)), "unknown primitive 'nothing'"),
        (("translate", "--form", "4", "--data", str(tmp_path)), "--form"),
        (("translate", "--to", "nowhere", "--data", str(tmp_path)), "nowhere"),
        (
            ("direct", "serve", "--set", 'direct.nic.hosts=["0.0.0.0"]', "--data", str(tmp_path)),
            "without allow",
        ),
    ):
        done = hopscope(*words)
        assert done.returncode == 2, words
        assert said in done.stderr, words
        assert len([line for line in done.stderr.splitlines() if "compiling" not in line]) == 1, done.stderr
