"""`hopscope bench`: its rows and its plot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hopscope.cli.application import build
from hopscope.runtime import measure


def test_rows_and_plot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One row for each case; detection comes on top of decoding; what is measured causes no events."""
    cases = (measure.Case(1, 8, 100), measure.Case(6, 8, 100))
    speeds: list[measure.Speed] = []

    def once(case: measure.Case, rounds: int) -> measure.Speed:
        assert rounds > 1
        speeds.append(speed := original(case, 3, batches=2))
        return speed

    original = measure.measure
    monkeypatch.setattr(measure, "QUICK_CASES", cases)
    monkeypatch.setattr(measure, "measure", once)
    picture = tmp_path / "bench.svg"
    found = CliRunner().invoke(build(), ["bench", "--quick", "--format", "json", "--plot", str(picture)])
    assert found.exit_code == 0, found.output
    rows = [json.loads(line) for line in found.stdout.splitlines()]
    assert [(row["hops"], row["fields"], row["flows"]) for row in rows] == [(1, 8, 100), (6, 8, 100)]
    for row, speed in zip(rows, speeds, strict=True):
        assert row["decode_detect_ns"] == round(speed.both_ns, 1)
        assert row["million_per_second"] == round(1000 / speed.both_ns, 2)
        assert speed.events == 0
    assert "decode and detect" in picture.read_text()


def test_a_plot_of_an_unknown_format(tmp_path: Path) -> None:
    """It is said before anything is measured."""
    found = CliRunner().invoke(build(), ["bench", "--plot", str(tmp_path / "bench.txt")])
    assert found.exit_code != 0
    assert not found.stdout
