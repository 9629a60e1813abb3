"""`hopscope plan label` and `hopscope label run`: tables, JSON, pictures, and mistakes told in a line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hopscope.base.errors import HopscopeError
from hopscope.base.quantities import bit_rate, per_second, seconds
from support.processes import command
from support.processes.command import Run


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `hopscope plan label` on a terminal of 80 columns: exit status, stdout, stderr."""
    monkeypatch.setenv("COLUMNS", "80")
    return command.run


ASKED = ("plan", "label", "--resolution", "10/s", "--coverage", "0.999", "--rate", "5Mbps", "--delay", "2ms")


def test_a_plan_by_theory(run: Run) -> None:
    """The interval comes first; a row for every coverage; nothing is cut off at 80 columns."""
    status, out, err = run(*ASKED, "--topology", "none")
    assert (status, err) == (0, "")
    assert out.startswith("label every 90 ms: 99.9 % of ports updated 10 times per second\n")
    assert [line.split()[0] for line in out.splitlines()[2:6]] == ["90", "99", "99.9", "99.99"]
    assert "…" not in out
    assert "simulated" not in out


@pytest.mark.kernel
def test_a_plan_is_simulated(run: Run, tmp_path: Path) -> None:
    """JSON has the simulation beside theory: coverage at least as expected, and labels as the mean field has
    them; the picture is one.
    """
    picture = tmp_path / "plan.png"
    status, out, _ = run(
        *ASKED, "--topology", "leaf-spine:2x2x2", "--simulate", "10s", "-f", "json", "--plot", str(picture)
    )
    assert status == 0
    plan = json.loads(out)
    assert plan["best"]["interval"] == pytest.approx(0.09)
    assert plan["simulated"]["slowest"] >= plan["best"]["coverage"] - 0.001
    assert plan["simulated"]["labelled"] == pytest.approx(plan["simulated"]["labelled_theory"], rel=0.15)
    assert plan["simulated"]["seconds"] == pytest.approx(10)
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--resolution", "often"), "--resolution often: expected times per second, such as 10/s"),
        (("--rate", "5 apples"), "--rate 5 apples: expected bits per second"),
        (("--delay", "2m"), "--delay 2m: expected a time, such as 2ms"),
        (("--coverage", "2"), "coverage 2: expected a share between 0 and 1"),
        (("--algorithm", "base-c"), "--algorithm base-c: expected base-a or base-b"),
        (("--resolution", "1000/s"), "this coverage allows "),
        (("--topology", "fat-tree:16"), "fat-tree:16 has 1,024 hosts, at most 128 are simulated"),
        (("--hops", "3"), "--topology fat-tree:4 has paths of 5 switches; use --hops 5"),
        (("--delay", "10s"), "to arrive, and at most 5 s are simulated"),
        (("--delay", "50ms", "--rate", "1Gbps"), "in flight at a time, and at most 500,000 are simulated"),
        (("--chance", "f9"), "--chance f9: expected one of f1, f2, f2-listing, f3"),
        (("--simulate", "1s"), "10 telemetry intervals, expected 20 or more"),
        (("--topology", "none", "--plot", "plan.xyz"), "--plot plan.xyz: expected a file named ."),
    ],
)
def test_mistakes_are_reported_in_a_line(run: Run, flags: tuple[str, ...], said: str) -> None:
    """Status 2, one line, and what is expected."""
    status, out, err = run(*ASKED, "--topology", "fat-tree:4", *flags)
    assert (status, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_what_is_no_quick_simulation_is_planned(run: Run) -> None:
    """Where no simulation was asked for: the plan, one line why none stands beside it; null in JSON."""
    for flags in (("--delay", "10s"), ("--rate", "100Gbps")):
        status, out, err = run("plan", "label", *flags)
        assert (status, err) == (0, "")
        assert out.startswith("label every")
        assert out.splitlines()[-1].startswith("not simulated: ")
        assert json.loads(run("plan", "label", *flags, "-f", "json")[1])["simulated"] is None


@pytest.mark.kernel
def test_labels_that_are_long_under_way_are_waited_for(run: Run) -> None:
    """Labels take half a second and more: ports whose ways are all as long are covered, others overtaken."""
    flags = ("--topology", "leaf-spine:4x2x4", "--delay", "200ms", "--simulate", "3s", "--chance", "f2")
    status, out, _ = run("plan", "label", *flags, "-f", "json")
    plan = json.loads(out)
    assert (status, plan["demand"]["chance"]) == (0, "f2")
    assert plan["simulated"]["slowest"] > 0.995
    assert 0.9 < plan["simulated"]["coverage"] < 0.999


def test_quantities_take_units() -> None:
    """Times, rates and frequencies as people write them."""
    assert [seconds("", text) for text in ("2ms", "50us", "0.1 s", "3", "7ns")] == pytest.approx(
        [0.002, 50e-6, 0.1, 3, 7e-9]
    )
    assert [bit_rate("", text) for text in ("5Mbps", "1.5 Gbit/s", "10k", "5e6", "2Tb/s")] == pytest.approx(
        [5e6, 1.5e9, 1e4, 5e6, 2e12]
    )
    assert [per_second("", text) for text in ("10/s", "20 Hz", "4")] == [10, 20, 4]
    for text in ("", "-1ms", "ms", "1e999s", "nan"):
        with pytest.raises(HopscopeError):
            seconds("--delay", text)


EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "label-ratio.toml"


@pytest.mark.kernel
def test_the_example_of_an_experiment_runs(run: Run, tmp_path: Path) -> None:
    """Shortened to a second and one seed, it writes its table and its picture, and names them."""
    file = tmp_path / "short.toml"
    text = EXAMPLE.read_text().replace("seeds = 5", "seeds = 1").replace("seconds = 10", "seconds = 1")
    file.write_text(text.replace("[experiment]", "[experiment]\nprocesses = 1"))
    status, out, err = run("label", "run", str(file), "--output", str(tmp_path / "results"))
    assert (status, err) == (0, "")
    assert out.splitlines()[0] == "12 runs"
    assert [Path(line).name for line in out.splitlines()[1:]] == [
        f"label-ratio.{kind}" for kind in ("parquet", "csv", "png")
    ]
    assert (
        "12 runs, 12 of them finished before"
        in run("label", "run", str(file), "-o", str(tmp_path / "results"))[1]
    )


@pytest.mark.kernel
def test_the_example_with_events_runs(run: Run, tmp_path: Path) -> None:
    """As it stands in docs/examples: with the controller's feedback, ports are missed for a shorter time."""
    import duckdb

    status, out, err = run("label", "run", str(EXAMPLE.with_stem("label-failure")), "-o", str(tmp_path))
    assert (status, err) == (0, "")
    names = [Path(line).name.removeprefix("label-failure.") for line in out.splitlines()[1:]]
    assert names == ["parquet", "csv", "png", "intervals.parquet", "intervals.csv", "intervals.png"]
    query = f"""SELECT "adaptive.mode", mean(silence), min(coverage_after)
        FROM '{tmp_path}/label-failure.parquet' WHERE "loss.0.share" = 0.8 GROUP BY 1 ORDER BY 1"""
    (_, without, after), (_, feedback, _) = duckdb.execute(query).fetchall()
    assert feedback < without
    assert after == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[failure]]\nnode = "spine-9"\n', "failure[0].node: found 'spine-9', expected a switch of paper"),
        ("[sweep]\nlabelling.intervall = [1]\n", "sweep: labelling.intervall cannot be swept; did you mean"),
        ("[experiment]\nsecond = 3\n", "experiment.second: no such setting"),
        ("[experiment\n", "Expected ']'"),
    ],
)
def test_mistakes_in_an_experiment_are_reported(run: Run, tmp_path: Path, text: str, said: str) -> None:
    """A line with the file, the key and what is expected."""
    file = tmp_path / "wrong.toml"
    file.write_text(text)
    status, _, err = run("label", "run", str(file))
    assert status == 2
    assert err.startswith(f"hopscope: {file}:")
    assert said in err
