"""Three processes with bad relays between them: the benchmark's own checks, on a small run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.e2e
def test_every_primitive_survives_bad_relays() -> None:
    """20,000 reports, 1 % of all packets lost, late and doubled: every store is as it should be."""
    command = [sys.executable, "relay.py", "--reports", "20000", "--rate", "5000", "--seconds", "0"]
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "bench"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        command, cwd=ROOT / "bench", env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
        check=False, timeout=400,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("holds:") == 11
    assert "FAILS" not in done.stdout
