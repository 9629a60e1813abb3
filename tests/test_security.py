"""SECURITY.md: every line of the threat model has a test; the systemd unit is confined."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_every_line_of_the_threat_model_has_a_test() -> None:
    """The last cell of each row names a test that exists."""
    rows = re.findall(r"^\|(?!---)(?! who).*\| (.*) \|$", (ROOT / "SECURITY.md").read_text(), re.MULTILINE)
    assert len(rows) > 15
    for cell in rows:
        named = re.fullmatch(r"`(tests/[\w/]+\.py)::(test_\w+)`", cell)
        assert named, cell
        assert f"def {named[2]}(" in (ROOT / named[1]).read_text(), cell


def test_the_unit_is_confined() -> None:
    """`systemd-analyze security` rates its exposure below 2.0."""
    if shutil.which("systemd-analyze") is None:
        assert not os.environ.get("HOPSCOPE_REQUIRE_TOOLS")
        pytest.skip("systemd-analyze is not installed")
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager"]
    done = subprocess.run(
        [*command, str(ROOT / "deploy/hopscope.service")], capture_output=True, text=True, check=False
    )
    found = re.search(r"Overall exposure level for hopscope.service: ([\d.]+)", done.stdout)
    assert found, done.stderr
    assert float(found[1]) < 2.0
