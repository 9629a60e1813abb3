"""The headers and constants of the P4 programs are those of `wire/`."""

from __future__ import annotations

import runpy
from pathlib import Path

PROGRAMS = Path(__file__).parents[2] / "p4"


def test_the_generated_files_are_current() -> None:
    """`include/wire.p4` and `hashes.p4` are what `generate.py` makes of today's declarations."""
    files = runpy.run_path(str(PROGRAMS / "generate.py"))["FILES"]
    for name, make in files.items():
        made = (PROGRAMS / "include" / name).read_text("utf-8")
        assert made == make(), f"{name}: run python p4/generate.py"
