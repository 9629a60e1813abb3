"""Experiments: what a file may say, what is run again, what is written; and measures of a real run."""

import csv
import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from hopscope.fabric.labelling.experiment import sweep as whole
from hopscope.fabric.labelling.experiment.files import ExperimentError, Journal
from hopscope.fabric.labelling.experiment.run import EVENT_MEASURES, MEASURES, build, columns, simulate_run
from hopscope.fabric.labelling.experiment.series import SERIES
from hopscope.fabric.labelling.experiment.settings import Experiment, Run, sweepable
from hopscope.fabric.topology import FabricError

FILE: dict[str, Any] = {
    "experiment": {"name": "small", "seeds": 2, "seconds": 1, "warm_up": 0.25, "processes": 1},
    "network": {"topology": "leaf-spine:2x2x2"},
    "sweep": {"labelling": {"interval": [0.02, 0.05], "algorithm": ["base-a", "base-b"]}},
    "plot": {"y": ["coverage", "bandwidth"]},
}


def drawn(run: Run, progress: Callable[[float], object] | None = None) -> dict[str, Any]:
    """Measures without a simulation, distinguished by the run."""
    interval = run.settings.labelling.interval
    return dict.fromkeys(columns(run.settings), run.seed + interval)


def test_every_combination_is_run_with_every_seed() -> None:
    """In the order of the file; what is not swept is as the file says."""
    runs = Experiment.model_validate(FILE).runs()
    found = [(r.settings.labelling.interval, r.settings.labelling.algorithm, r.seed) for r in runs]
    assert found == [(t, a, s) for t in (0.02, 0.05) for a in ("base-a", "base-b") for s in (1, 2)]
    assert {run.settings.network.topology for run in runs} == {"leaf-spine:2x2x2"}
    assert set(runs[0].parameters()) == {*sweepable(), "seed"}


@pytest.mark.parametrize("host_rate", [0, 10**9])
def test_hosts_may_send_faster_than_switches(host_rate: int) -> None:
    """`network.host_rate` is the rate of ports that hosts send from, and of no others; 0: as all."""
    file = {"network": {"topology": "paper", "rate": 1e6, "host_rate": host_rate}}
    simulation = build(Run(Experiment.model_validate(file), 1))
    hosts = simulation.topology.ports["switch"] < 0
    assert set(simulation.ports["ps_per_byte"][~hosts].tolist()) == {8_000_000}
    assert set(simulation.ports["ps_per_byte"][hosts].tolist()) == {8000 if host_rate else 8_000_000}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sweep": {"labelling": {"intervall": [1]}}}, "did you mean labelling.interval"),
        ({"sweep": {"labelling.interval": [0.1, 0]}}, "labelling.interval: found 0, expected more than 0"),
        ({"sweep": {"labelling.interval": 0.1}}, r"expected a list of values such as \[0.1\]"),
        ({"sweep": {"labelling.interval": []}}, "found an empty list"),
        ({"sweep": {"network.loss": [0.1, 0.1]}}, "twice"),
        ({"sweep": {"experiment.seeds": [1]}}, "cannot be swept"),
        ({"sweep": {"network.loss": [n / 1e3 for n in range(999)], "adaptive.k": [*range(1, 200)]}}, "most"),
        ({"experiment": {"name": "../up"}}, "match pattern"),
        ({"traffic": {"rat": 1}}, "Extra inputs"),
        ({"sweep": {"network.loss": [0, 0.0]}}, "twice"),
        ({"network": {"propagation_ns": 10**18}}, "less than or equal to 1000000000"),
        ({"experiment": {"telemetry": 1e-9}}, "greater than 0.000001"),
        ({"plot": {"y": []}}, "at least 1 item"),
    ],
)
def test_mistakes_say_what_is_expected(change: dict[str, Any], said: str) -> None:
    """Before anything is run: which key, what was found, what to write."""
    with pytest.raises(ValidationError, match=said):
        Experiment.model_validate(change)


def test_results_have_a_row_for_each_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CSV and Parquet agree, parameters first; the picture is one; the progress ends with all runs."""
    import duckdb

    monkeypatch.setattr(whole, "simulate_run", drawn)
    told: list[tuple[float, int]] = []
    results = whole.run_experiment(
        Experiment.model_validate(FILE), tmp_path, progress=lambda done, total: told.append((done, total))
    )
    assert told == [(done, 8) for done in range(9)]
    with results.csv.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["labelling.interval"], row["seed"], row["coverage"]) for row in rows[:3]] == [
        ("0.02", "1", "1.02"), ("0.02", "2", "2.02"), ("0.02", "1", "1.02"),
    ]  # fmt: skip
    table = duckdb.execute(
        f"SELECT \"labelling.interval\", seed, coverage FROM '{results.parquet}'"
    ).fetchall()
    assert table == [(row["labelling.interval"], row["seed"], row["coverage"]) for row in results.rows]
    assert results.picture is not None
    assert results.picture.read_bytes().startswith(b"\x89PNG")


def test_an_experiment_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped in the third run, with half a line written: two runs are kept, six are made, and the results
    are those of one go; with other seeds only the new ones are run.
    """
    asked: list[Run] = []

    def stopped(run: Run, progress: object = None) -> dict[str, Any]:
        asked.append(run)
        if len(asked) == 3:
            raise KeyboardInterrupt
        return drawn(run)

    monkeypatch.setattr(whole, "simulate_run", stopped)
    experiment = Experiment.model_validate(FILE)
    with pytest.raises(KeyboardInterrupt):
        whole.run_experiment(experiment, tmp_path)
    with (tmp_path / "small.runs.jsonl").open("a") as file:
        file.write('{"run": {"labell')
    results = whole.run_experiment(experiment, tmp_path)
    assert (results.resumed, len(asked)) == (2, 9)
    assert [row["coverage"] for row in results.rows[:3]] == [1.02, 2.02, 1.02]
    more = Experiment.model_validate(FILE | {"experiment": FILE["experiment"] | {"seeds": 3}})
    assert whole.run_experiment(more, tmp_path).resumed == 8
    assert whole.run_experiment(more, tmp_path, fresh=True).resumed == 0


def test_runs_of_a_changed_topology_are_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of a file's earlier content are not taken for finished, until it has that content again."""
    monkeypatch.setattr(whole, "simulate_run", lambda run, progress=None: drawn(run))
    network = tmp_path / "own.toml"
    text = 'switches = ["a", "b"]\nlinks = ["a - b"]\nhosts = 2\n'
    network.write_text(text)
    experiment = Experiment.model_validate(FILE | {"network": {"topology": str(network)}, "traffic": {}})
    runs = len(whole.run_experiment(experiment, tmp_path).rows)
    assert whole.run_experiment(experiment, tmp_path).resumed == runs
    network.write_text(text + 'rate = "2.5G"\n')
    assert whole.run_experiment(experiment, tmp_path).resumed == 0
    network.write_text(text)
    assert whole.run_experiment(experiment, tmp_path).resumed == runs


def test_a_file_that_is_not_a_journal_is_rejected(tmp_path: Path) -> None:
    """A foreign file is neither read nor changed."""
    path = tmp_path / "small.runs.jsonl"
    path.write_text('{"run": {}}\n')
    with pytest.raises(ExperimentError, match="line 1 is not a finished run; move the file away"):
        Journal(path)
    assert path.read_text() == '{"run": {}}\n'


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"plot": {"y": ["cover"]}}, "plot.y: unknown column 'cover'"),
        ({"plot": {"x": "labelling.rate"}}, "plot.x: unknown column"),
        ({"traffic": {"senders": ["h"]}}, "traffic.senders: leaf-spine:2x2x2 has no host 'h'"),
        ({"network": {"topology": "ring:4"}}, "unknown topology 'ring:4'"),
        ({"traffic": {"size": 1501}}, "traffic.size 1501 exceeds network.mtu 1500"),
        ({"experiment": {"seconds": 1e9}}, "use a longer experiment.telemetry, or fewer experiment.seconds"),
        ({"adaptive": {"mode": "shift", "k": 1e-9}}, "adaptive.k 1e-09: a port is late after 2e-11 s"),
    ],
)
def test_impossible_settings_are_reported_before_the_first_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], said: str
) -> None:
    """No run has begun when the error comes."""
    monkeypatch.setattr(whole, "simulate_run", lambda run, progress: pytest.fail("a run has begun"))
    with pytest.raises(Exception, match=said):
        whole.run_experiment(Experiment.model_validate(FILE | change), tmp_path)


@pytest.mark.kernel
def test_a_run_measures_what_its_simulation_has() -> None:
    """Counts after the warm-up add up; the same seed gives the same row; with 0 … MAX_hop labels are all."""
    run = Experiment.model_validate(FILE).runs()[2]
    row = simulate_run(run)
    assert list(row) == columns(run.settings)
    assert {name for name in MEASURES if name in row} | {"packets_by_labels"} == set(MEASURES)
    assert row == simulate_run(run)
    by_labels = [row[f"packets_with_{n}"] for n in range(6)]
    assert sum(by_labels) == row["packets"] == pytest.approx(1250, abs=2)  # two hosts, 625 packets per second
    assert sum(by_labels[1:]) == row["labelled_packets"]
    carried = sum(n * packets for n, packets in enumerate(by_labels))
    assert row["labels_per_packet"] == pytest.approx(carried / row["labelled_packets"])
    assert abs(row["labels"] - carried) <= 5  # (some are on the path to the controller)
    assert row["lost"] == 0
    assert row["coverage_min"] <= row["coverage"] <= 1
    assert row["resolution"] <= row["resolution_worst"]
    assert json.loads(json.dumps(row)) == row


@pytest.mark.kernel
def test_coverage_is_that_of_intervals_after_the_warm_up() -> None:
    """0.25 s of warm-up are three intervals of 0.1 s; the mean over the ten that follow is the row's."""
    from hopscope.fabric.labelling.simulation import measures

    run = Experiment.model_validate(FILE).runs()[0]
    simulation = build(run)
    simulation.run(1.3)
    expected = measures.coverage(simulation.received, simulation.active, 0.1)[3:]
    assert len(expected) == 10
    assert simulate_run(run)["coverage"] == pytest.approx(float(np.mean(expected)))


@pytest.mark.kernel
def test_labels_in_flight_at_the_end_count_when_written() -> None:
    """With 50 ms a switch, coverage at the switches is that at the network's usual delay, though labels of
    the last interval arrive after the run's end.
    """
    slow = FILE | {"network": FILE["network"] | {"pipeline_ns": 50_000_000}}
    at_once, late = (simulate_run(Experiment.model_validate(file).runs()[0]) for file in (FILE, slow))
    assert late["coverage_at_switch"] == at_once["coverage_at_switch"] == 1
    assert late["coverage"] <= 1


@pytest.mark.kernel
def test_pro_counters_loss() -> None:
    """With the controller's feedback the ports are reported more often than without (3.2)."""
    file = FILE | {"experiment": {"seconds": 2}, "network": FILE["network"] | {"loss": 0.5}, "sweep": {}}
    plain = simulate_run(Experiment.model_validate(file).runs()[0])
    pro = simulate_run(Experiment.model_validate(file | {"adaptive": {"mode": "shift"}}).runs()[0])
    assert pro["coverage"] > plain["coverage"] + 0.02
    assert pro["lost"] == pytest.approx(plain["lost"], abs=0.05)


def test_the_guide_has_every_key_and_every_measure() -> None:
    """What a file may say and what results hold stands in docs/guides/label-plan.md, and its examples are the
    files that are run.
    """
    docs = Path(__file__).parents[3] / "docs"
    guide = (docs / "guides" / "label-plan.md").read_text()
    lines = [line for line in guide.splitlines() if line.startswith("| `")]
    table = {line.split("`")[1]: line for line in lines}
    for key in sweepable({"failure": 1, "loss": 1}):
        section, *place, name = key.split(".")
        assert f"`{name}`" in table[f"[[{section}]]" if place else f"[{section}]"], key
    every = [*MEASURES.items(), *EVENT_MEASURES.items(), *SERIES.items()]
    assert {f"| `{name}` | {word} |" for name, word in every} <= {*lines}
    for shown, name in zip(guide.split("```toml\n")[1:], ("ratio", "failure"), strict=True):
        found = tomllib.loads(shown.split("```")[0])
        assert found == tomllib.loads((docs / "examples" / f"label-{name}.toml").read_text())
        assert Experiment.model_validate(found).runs()


def test_patterns_of_traffic() -> None:
    """Flows of measured sizes are near their load; senders have as many destinations as they are given, and
    tracked packets a label of every switch; too many paths are rejected with what to set.
    """
    network = {"topology": "leaf-spine:2x2x4", "rate": 1e8}
    flows = {"pattern": "flows", "flows": 20, "load": 0.1, "sizes": "data-mining"}
    row = simulate_run(
        Experiment.model_validate(FILE | {"network": network, "traffic": flows, "sweep": {}}).runs()[0]
    )
    assert 0.2 < row["packets"] * 1500 * 8 / (8 * 1e8 * 0.1) < 2  # of 1 s, with packets shorter than 1,500 B
    few = {"destinations": 1, "tracked": 1, "rate": 1e6}
    row = simulate_run(Experiment.model_validate(FILE | {"traffic": few, "sweep": {}}).runs()[0])
    assert row["labelled_packets"] == row["packets"] > 200
    assert row["ports"] <= 2 * 3
    many: dict[str, Any] = {
        "network": {"topology": "fat-tree:32"},
        "traffic": {"pattern": "uniform"},
        "sweep": {},
    }
    with pytest.raises(FabricError, match=r"traffic\.destinations"):
        build(Experiment.model_validate(FILE | many).runs()[0])
