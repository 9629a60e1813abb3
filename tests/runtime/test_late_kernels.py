"""No role calls a kernel for the first time once it is ready: frames would wait until it is loaded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.processes.late_kernels import ROLES

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]
TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def late() -> dict[str, list[str]]:
    """Kernels that each role called too late, in a process of its own that had called none before."""
    if os.geteuid():
        if os.environ.get("HOPSCOPE_REQUIRE_TOOLS") == "1":
            pytest.fail("network namespaces need root")
        pytest.skip("network namespaces need root")
    paths = os.pathsep.join([str(TESTS), str(TESTS.parent / "src"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "support.processes.late_kernels"], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": paths}, check=False,
    )  # fmt: skip
    assert not done.returncode, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"role"')]
    return {line["role"]: line["late"] for line in lines}


@pytest.mark.parametrize("role", ROLES)
def test_nothing_is_compiled_once_frames_come(role: str, late: dict[str, list[str]]) -> None:
    """With traffic of all kinds the role's loop loads no kernel."""
    assert late[role] == []
