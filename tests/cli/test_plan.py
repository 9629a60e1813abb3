"""`hopscope plan direct`: tables, JSON, pictures, and mistakes told in a line."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import pytest

from hopscope.direct.stores.spec import parse_store
from support.processes import command
from support.processes.command import Run


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `hopscope plan direct` on a terminal of 80 columns: exit status, stdout, stderr."""
    monkeypatch.setenv("COLUMNS", "80")
    return partial(command.run, "plan", "direct")


FLOWS = ("--flows", "100e6", "--data-bytes", "20", "--success", "0.999")
SWITCHES = ("--switches", "1000", "--rate", "19e6")


def test_memory_for_flows(run: Run) -> None:
    """The table has an alternative per number of copies, and the store that it names can be made."""
    status, out, _ = run(*FLOWS)
    assert status == 0
    assert out.startswith(
        "100 M flows of 20 B, found with 99.9 % on average: 29.8 GiB, 4 copies, checksum of 32"
    )
    assert [line.split()[0] for line in out.splitlines()[2:6]] == ["1", "2", "3", "4"]
    assert "…" not in out
    layout = parse_store(out.split("store: ")[1].split("\n")[0]).layout
    assert layout.nbytes == pytest.approx(29.8 * 2**30, rel=0.01)
    assert "█" in out


def test_collectors_for_switches(run: Run) -> None:
    """A row per primitive with both limits, and the processor's cores."""
    status, out, _ = run(*SWITCHES)
    assert status == 0
    rows = {line.split()[0]: line.split() for line in out.splitlines()[2:7]}
    assert rows["key-write"][4] == "190"
    assert rows["append"][6] == "17"
    assert rows["CPU"][2] == "10,000"
    assert "…" not in out


def test_a_published_system_is_its_rate(run: Run) -> None:
    """A name of Table 1 stands for its rate."""
    given = json.loads(run("--switches", "7", "--system", "netseer", "--format", "json")[1])
    assert given == json.loads(run("--switches", "7", "--rate", "950e3", "--format", "json")[1])


def test_json_has_both_plans_and_times(run: Run) -> None:
    """One object; with a rate, ages are in seconds too."""
    found = json.loads(run(*FLOWS, *SWITCHES, "--format", "json")[1])
    best = found["store"]["best"]
    assert best["survives_seconds"] == pytest.approx(best["survives"] / 19e9)
    assert found["network"]["loads"][0]["limit"] == "messages"
    assert "survives_seconds" not in json.loads(run(*FLOWS, "--format", "json")[1])["store"]["best"]


def test_a_picture(run: Run, tmp_path: Path) -> None:
    """`--plot` writes a picture of what was planned."""
    pytest.importorskip("matplotlib")
    for number, asked in enumerate((FLOWS, SWITCHES, FLOWS + SWITCHES)):
        file = tmp_path / f"{number}.png"
        assert run(*asked, "--plot", str(file))[0] == 0
        assert file.read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A picture without the extra says what to install."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    status, _, err = run(*FLOWS, "--plot", "x.png")
    assert status == 2
    assert "'hopscope[plot]'" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "nothing to plan"),
        (("--switches", "3"), "--switches needs --rate"),
        (("--switches", "3", "--rate", "1", "--system", "netseer"), "exclude each other"),
        (("--switches", "3", "--system", "sonar"), "expected int-postcards, marple-flowlet"),
        (("--switches", "0", "--rate", "1"), "switches: found 0"),
        (("--flows", "-5"), "flows: found -5"),
        (("--flows", "nan"), "'--flows': nan is no finite number"),
        (("--flows", "many"), "'--flows'"),
        (("--flows", "5", "--success", "1.5"), "success: found 1.5"),
        (("--flows", "5", "--wrong", "1e-40"), "64 bits, the longest"),
        (("--flows", "5", "--plot", "x.zip"), "expected a file named"),
        (("--flows", "5", "--plot", "/nowhere/x.png"), "folder /nowhere does not exist"),
    ],
)
def test_mistakes(run: Run, arguments: tuple[str, ...], message: str) -> None:
    """A mistake is exit status 2 and names what is wrong."""
    status, out, err = run(*arguments)
    assert status == 2
    assert message in err
    assert "Traceback" not in err
    assert not out
