"""The wheel, installed into a clean environment, starts on an empty cache without compiling anything."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from hopscope.runtime.warmup import STEPS
from support.processes.clean_install import environment, run
from support.waiting import HANG_SECONDS

pytestmark = [pytest.mark.wheel, pytest.mark.timeout(900)]


def test_wheel_carries_what_a_warm_up_loads(installed: Path, tmp_path: Path) -> None:
    """No more, no less: `hopscope warmup` compiles nothing, and every file is in a list of a step."""
    shipped = next((installed / "clean").rglob("hopscope/compiled"))
    steps = list(shipped.glob("*/steps/*"))
    assert len(steps) == len(STEPS)
    listed = {name for step in steps for name in step.read_text().splitlines()}
    files = {str(path.relative_to(shipped)) for path in shipped.rglob("*") if path.is_file()}
    assert files == listed | {str(step.relative_to(shipped)) for step in steps}
    cache = tmp_path / "cache"
    run(installed / "clean/bin/hopscope", "warmup", cwd=tmp_path, cache=cache)
    assert not compiled(cache)


def compiled(cache: Path) -> list[str]:
    """Files that were compiled into a cache: whatever is not a list of a step's files."""
    return [path.name for path in cache.rglob("*") if path.is_file() and path.parent.name != "steps"]


def test_wheel_decodes_and_replays(installed: Path, tmp_path: Path) -> None:
    """What is published simulates a network, decodes its reports and replays them: nothing is compiled."""
    hopscope, capture, cache = installed / "clean/bin/hopscope", tmp_path / "reports.pcap", tmp_path / "cache"
    run(hopscope, "simulate", "--duration", "0.1", "--output", capture, cwd=tmp_path, cache=cache)
    lines = run(hopscope, "decode", capture, "--format", "json", cwd=tmp_path, cache=cache).splitlines()
    reports = [json.loads(line) for line in lines]
    assert reports, "the simulated capture holds no reports"
    assert not [report for report in reports if "error" in report]
    assert all(report["hops"] for report in reports if report["report"]["kind"] == "int")
    run(hopscope, "replay", capture, cwd=tmp_path, cache=cache)
    assert not compiled(cache)


def test_wheel_collects_and_checks(installed: Path, tmp_path: Path) -> None:
    """A collector starts on an empty cache without compiling, and `check` says that all is compiled."""
    hopscope, cache = installed / "clean/bin/hopscope", tmp_path / "cache"
    words = ["collect", "--listen", "udp://127.0.0.1:0", "--data", str(tmp_path / "data"), "--no-serve"]
    with (tmp_path / "log").open("w") as log:
        collector = subprocess.Popen(
            [str(hopscope), *words], cwd=tmp_path, env=environment(cache), stderr=log, stdout=log
        )
    try:
        for _ in range(10 * int(HANG_SECONDS)):
            text = (tmp_path / "log").read_text()
            if '"collecting"' in text or "collecting" in text:
                break
            assert collector.poll() is None, text
            time.sleep(0.1)
        else:
            pytest.fail(f"it does not collect: {text}")
    finally:
        collector.send_signal(signal.SIGINT)
        collector.wait(HANG_SECONDS)
    assert not compiled(cache)
    assert "compiling" not in text
    free = ("--set", 'listen=["udp://127.0.0.1:0"]', "--set", "serve.port=0")  # others use the usual ports
    findings = run(hopscope, "check", *free, "--format", "json", cwd=tmp_path, cache=cache)
    kernels = [json.loads(line) for line in findings.splitlines() if "kernels of" in line]
    assert kernels
    assert {finding["found"] for finding in kernels} == {"compiled"}
