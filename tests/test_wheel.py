"""The wheel, installed into a clean environment, decodes a capture that the project made itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.wheel, pytest.mark.timeout(900)]
ROOT = Path(__file__).resolve().parents[1]


def run(*command: str | Path, cwd: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def test_wheel_decodes_a_capture(tmp_path: Path) -> None:
    """What is published works without the source tree: it simulates a network and decodes its reports."""
    run(sys.executable, "-m", "build", "--wheel", "--outdir", tmp_path, ROOT, cwd=tmp_path)
    (wheel,) = tmp_path.glob("hopscope-*.whl")
    run(sys.executable, "-m", "venv", "clean", cwd=tmp_path)
    run(tmp_path / "clean/bin/python", "-m", "pip", "install", "--quiet", wheel, cwd=tmp_path)
    hopscope = tmp_path / "clean/bin/hopscope"
    capture = tmp_path / "reports.pcap"
    run(hopscope, "simulate", "--duration", "0.1", "--output", capture, cwd=tmp_path)
    lines = run(hopscope, "decode", capture, "--format", "json", cwd=tmp_path).splitlines()
    reports = [json.loads(line) for line in lines]
    assert reports, "the simulated capture holds no reports"
    assert not [report for report in reports if "error" in report]
    assert all(report["hops"] for report in reports if report["report"]["kind"] == "int")
