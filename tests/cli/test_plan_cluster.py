"""`hopscope plan cluster`: text, JSON, picture, and mistakes in a line."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from support.processes import command
from support.processes.command import Run


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `hopscope plan cluster` on a terminal of 100 columns: exit status, stdout, stderr."""
    monkeypatch.setenv("COLUMNS", "100")
    return partial(command.run, "plan", "cluster")


def test_a_plan_is_printed_with_its_assumptions(run: Run) -> None:
    """Members, what decides, and the notes."""
    status, out, _ = run("--reports", "50M/s", "--events", "200K/s", "--retention", "90d")
    assert status == 0
    assert out.startswith("50 M reports/s, 200,000 events/s: 26 members of 16 cores; 1 of them may be down")
    assert "detector decides how many members are needed" in out
    assert "34.1 TiB" in out
    assert "simulated" not in out


def test_json_has_the_plan_its_costs_and_the_simulation(run: Run, tmp_path: Path) -> None:
    """Every cost with its source; those given on the command line say so; a picture is written."""
    pytest.importorskip("matplotlib")
    picture = tmp_path / "plan.png"
    status, out, _ = run(
        "--reports", "2M/s", "--members", "10", "--cost", "udp_3=900", "--simulate", "--rounds", "10",
        "--sources", "500", "--plot", str(picture), "--format", "json",
    )  # fmt: skip
    found = json.loads(out)
    assert status == 0
    assert found["members"] == 10
    assert found["costs"]["udp_3"] == {"value": 900.0, "unit": "ns", "source": "--cost"}
    assert "collector.md" in found["costs"]["udp_6"]["source"]
    assert {each["hash"] for each in found["simulated"]["moved"]} == {"resilient", "threshold", "modulo"}
    assert found["demand"]["events"] == 20_000
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_simulation_is_labelled_as_one(run: Run) -> None:
    """It says so, with its seed, and has the expected means beside."""
    status, out, _ = run(
        "--members", "100", "--simulate", "--rounds", "20", "--sources", "500", "--seed", "7"
    )
    assert status == 0
    assert "simulated: 100 members, 500 sources, 20 changes of each kind, seed 7" in out
    assert "kill    member gone" in out


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--reports", "many"), "--reports many: expected times per second, such as 10/s or 50M/s"),
        (("--retention", "3x"), "--retention 3x: expected a time, such as 90d, 12h or 8w"),
        (("--path", "tcp"), "--path tcp: expected udp, trains, ring, xdp"),
        (("--cost", "udp_3"), "--cost udp_3: expected NAME=VALUE"),
        (("--headroom", "2"), "headroom: found 2"),
    ],
)
def test_mistakes_are_one_line(run: Run, words: tuple[str, ...], text: str) -> None:
    """Exit status 2, or 1, and what was expected."""
    status, _, error = run(*words)
    assert status != 0
    assert text in error
