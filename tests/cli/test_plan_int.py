"""`hopscope plan int`: text, JSON, picture, and mistakes in a line."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from support.processes import command
from support.processes.command import Run


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `hopscope plan int` on a terminal of 100 columns: exit status, stdout, stderr."""
    monkeypatch.setenv("COLUMNS", "100")
    return partial(command.run, "plan", "int")


def test_a_plan_is_printed_with_the_next_step(run: Run) -> None:
    """Links, MTU, reports, and the command that sizes the collectors for them."""
    status, out, _ = run(
        "--packets", "50M/s", "--sample", "100", "--fields", "node_id, ports,hop_latency,queue_occupancy"
    )
    assert status == 0
    assert out.startswith("INT-MD, Report 2.0, 5 hops: 16 B of headers and 16 B per hop in a packet\n")
    assert "instructions 0xf000" in out
    assert "links need 1596 B for packets of 1500 B; otherwise hosts send at most 1404 B" in out
    words = out.splitlines()[-1].removeprefix("collectors: hopscope ").split()
    assert words == ["plan", "cluster", "--reports", "500000/s", "--hops", "5"]
    assert command.run(*words)[1].startswith("500,000 reports/s")


def test_a_long_path_has_at_most_eight_rows(run: Run) -> None:
    """The first and the last link among them; a packet that leaves no room for data is said."""
    status, out, _ = run("--hops", "64", "--fields", "node_id", "--size", "64", "--mtu", "270")
    rows = [line.split()[0] for line in out.splitlines() if " B " in line and line[0].isdigit()]
    assert status == 0
    assert rows == ["1", "10", "19", "28", "37", "46", "55", "64"]
    assert "none" in out
    assert "an MTU of 270 B is too small for INT over so many hops" in out


def test_large_figures_have_no_exponents(run: Run) -> None:
    """Rates in Tbit/s, and traffic that INT multiplies."""
    _, out, _ = run("--traffic", "1T", "--size", "64", "--hops", "20")
    assert [line.split()[-2:] for line in out.splitlines() if line.startswith(("packets", "reports"))] == [
        ["1", "Tbit/s"], ["10.8", "Tbit/s"],
    ]  # fmt: skip
    assert "957 %" in out
    assert "e+" not in out


def test_packets_are_unchanged_with_xd(run: Run) -> None:
    """There is no table of links, and one report of each switch."""
    _, out, _ = run("--mode", "xd", "--hops", "4", "--packets", "1M/s")
    assert out.startswith("INT-XD, Report 2.0, 4 hops: packets are unchanged\n")
    assert "largest packet" not in out
    assert "4 M/s" in out


def test_traffic_is_on_the_wire_with_json_and_a_picture(run: Run, tmp_path: Path) -> None:
    """10 Gbit/s of packets of 962 bytes, 1,000 with Ethernet, are 1.25 million per second."""
    pytest.importorskip("matplotlib")
    picture = tmp_path / "plan.png"
    status, out, _ = run("--traffic", "10G", "--size", "962", "--plot", str(picture), "--json")
    found = json.loads(out)
    assert status == 0
    assert found["demand"]["packets"] == found["reports"] == 1_250_000
    assert found["links"][-1]["inserted"] == 256
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--traffic", "1G", "--packets", "5"), "--traffic and --packets exclude each other"),
        (("--packets", "many"), "--packets many: expected times per second, such as 10/s or 50M/s"),
        (("--fields", "latency"), "field 'latency': expected node_id, ports"),
        (("--size", "1"), "size: found 1, expected 28 to 65535"),
    ],
)
def test_mistakes_are_one_line(run: Run, words: tuple[str, ...], text: str) -> None:
    """What is wrong, and what was expected."""
    status, out, err = run(*words)
    assert (status, out) == (2, "")
    assert text in err
    assert err.count("\n") == 1
