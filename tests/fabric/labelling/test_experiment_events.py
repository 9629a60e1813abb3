"""Events of experiments: how a file names them, what is simulated then, what is measured around them."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from hopscope.base.errors import HopscopeError
from hopscope.fabric.labelling.experiment import sweep as whole
from hopscope.fabric.labelling.experiment.events import (
    FailureSettings,
    LossSettings,
    events_of,
    port_rows,
    schedule,
)
from hopscope.fabric.labelling.experiment.files import Journal, SpecificationError
from hopscope.fabric.labelling.experiment.run import build, columns, events_in, simulate_run
from hopscope.fabric.labelling.experiment.series import around_events, longest_silence, recovery
from hopscope.fabric.labelling.experiment.settings import Experiment, Run
from hopscope.fabric.labelling.simulation.records import RECEIVED_LABEL
from hopscope.fabric.records import PS
from hopscope.fabric.topology import LeafSpine, parse_topology
from hopscope.wire.records import Records

FABRIC = LeafSpine(2, 2, 2)
FILE: dict[str, Any] = {
    "experiment": {"name": "small", "seeds": 1, "seconds": 2, "warm_up": 0.25, "processes": 1},
    "network": {"topology": "leaf-spine:2x2x2"},
    "traffic": {"pattern": "uniform", "rate": 4e6},
    "failure": [{"node": "spine-1", "at": 0.5, "until": 1.0, "reroute": 0.1}],
}


def named(topology: Any, node: int | str, port: int | str) -> list[str]:
    """Ports that are meant, as `leaf-0 to spine-1`."""
    rows = port_rows(topology, node, port, "loss[0]")
    return [f"{topology.switch_name(topology.ports[r]['node_id'])} {topology.port_name(r)}" for r in rows]


def test_ports_are_named_as_elsewhere() -> None:
    """By name or number of the switch, and number, neighbour or class of the port."""
    assert named(FABRIC, "leaf-1", 3) == named(FABRIC, 2, "to spine-0") == ["leaf-1 to spine-0"]
    assert named(FABRIC, "leaf-1", "up") == named(FABRIC, "2", "between")
    assert named(FABRIC, "spine-*", "down") == [
        f"spine-{s} to leaf-{leaf}" for leaf in (0, 1) for s in (0, 1)
    ]
    assert named(FABRIC, "leaf-0", "hosts") == ["leaf-0 to host-0-0", "leaf-0 to host-0-1"]
    assert len(named(FABRIC, "*", "all")) == 2 * 4 + 2 * 2
    assert {len(named(parse_topology("paper"), "leaf-1", kind)) for kind in ("up", "down")} == {2}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"failure": [{"node": "spine-9"}]},
            r"failure\[0\].node: found 'spine-9', expected a switch of leaf-",
        ),
        (
            {"loss": [{"node": "leaf-0", "port": 9, "share": 1}]},
            r"loss\[0\].port: found 9, expected a port of",
        ),
        (
            {"loss": [{"node": "spine-*", "port": "up", "share": 1}]},
            r"found 'up', .* 1 to 2, a peer such as "
            r"'to leaf-1'",
        ),
        (
            {"failure": [{"node": 1, "at": 2}]},
            r"failure\[0\].at: found 2, expected less than experiment.secon",
        ),
        (
            {"failure": [{"node": 1, "at": 1, "until": 1}]},
            r"failure\[0\].until: found 1, expected a time after its start, 1",
        ),
        (
            {"failure": [{"node": 1, "until": 9}]},
            r"failure\[0\].until: found 9, expected less than .*'never'",
        ),
        (
            {"sweep": {"failure.0.until": [0.7, 0.2]}},
            r"until: found 0.2, expected a time after its start, 0.5",
        ),
        ({"sweep": {"network.topology": ["paper"]}}, r"node: found 'spine-1x', expected a switch of paper"),
        (
            {"experiment": {"intervals": True, "seconds": 9e5, "telemetry": 0.1}},
            r"experiment.intervals: found 27,000,000",
        ),
    ],
)
def test_impossible_events_are_reported_before_the_first_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], said: str
) -> None:
    """One line with the key, what was found and what is expected; no run has begun."""
    monkeypatch.setattr(whole, "simulate_run", lambda run, progress: pytest.fail("a run has begun"))
    if "network.topology" in change.get("sweep", {}):
        change = change | {"failure": [{"node": "spine-1x"}]}
    with pytest.raises(SpecificationError, match=said) as caught:
        whole.run_experiment(Experiment.model_validate(FILE | change), tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"failure": {"node": "spine-1"}},
            r"found a table, \[failure\], expected a list of tables, \[\[fail",
        ),
        ({"failure": [{"node": True}]}, "failure.0.node\n  Input should be a valid integer"),
        ({"loss": [{"share": 1.5}]}, "less than or equal to 1"),
        ({"loss": [{}]}, "Field required"),
        ({"sweep": {"loss.0.share": [0.1]}}, r"expected loss.NUMBER.KEY; the file has no \[\[loss\]\]"),
        ({"sweep": {"failure.at": [0.1]}}, r"the file has failure.0 to failure.0, keys are node, port, at"),
        ({"sweep": {"failure.0.at": [-1]}}, "failure.0.at: found -1, expected at least 0"),
        ({"sweep": {"failure.0.node": [[]]}}, r"failure.0.node: found \[\], expected a name"),
    ],
)
def test_mistakes_in_events_say_what_is_expected(change: dict[str, Any], said: str) -> None:
    """When the file is read: which key, what was found, what to write."""
    with pytest.raises(ValidationError, match=said):
        Experiment.model_validate(FILE | change)


def test_events_can_be_swept() -> None:
    """Each run has its own; other tables stay; a file without events has the columns that it had."""
    file = FILE | {
        "loss": [{"share": 0.1}],
        "sweep": {"loss.0.share": [0, 0.5], "failure.0.until": [1, "never"]},
    }
    runs = Experiment.model_validate(file).runs()
    assert [(r.settings.loss[0].share, r.settings.failure[0].until) for r in runs] == [
        (share, until) for share in (0, 0.5) for until in (1, None)
    ]
    assert {run.settings.failure[0].node for run in runs} == {"spine-1"}
    assert runs[0].parameters()["failure.0.node"] == "spine-1"
    plain = Experiment.model_validate(FILE | {"failure": []}).runs()[0]
    assert not [
        key for key in (*plain.parameters(), *columns(plain.settings)) if "failure" in key or "recov" in key
    ]


class Told:
    """A simulation that records calls: (time or None, what, port rows, how)."""

    topology = FABRIC

    def __init__(self, loss: float) -> None:
        self.network = type("Network", (), {"loss": loss})
        self.orders: list[tuple[float | None, str, list[int], float]] = []

    def fail_link(self, *rows: int, at_s: float | None, reroute_s: float) -> None:
        """Note it."""
        self.orders.append((at_s, "fails", sorted(rows), reroute_s))

    def repair_link(self, *rows: int, at_s: float | None, reroute_s: float) -> None:
        """Note it."""
        self.orders.append((at_s, "works", sorted(rows), reroute_s))

    def set_loss(self, rows: Any, chance: float, at_s: float | None) -> None:
        """Note it."""
        self.orders.append((at_s, "loses", sorted(rows), chance))


def test_events_that_overlap() -> None:
    """A link works again when its last failure is over, whichever end names it; of losses the highest
    counts, and afterwards the network's own; what holds from the start is reported without a time.
    """
    link = [FABRIC.port_row("leaf-0", 3), FABRIC.port_row("spine-0", 1)]
    other = [FABRIC.port_row("leaf-1", 3), FABRIC.port_row("spine-0", 2)]
    failures = [
        FailureSettings(node="leaf-0", port=3, at=1, until=3, reroute=0.5),
        FailureSettings(node="spine-0", until=2, reroute=0.1),
    ]
    told: Any = Told(0.0)
    schedule(told, events_of(FABRIC, failures, [], 10), 5.0)
    assert told.orders == [(None, "fails", sorted(link + other), 0.0), (7.0, "works", sorted(other), 0.1),
                           (8.0, "works", sorted(link), 0.5)]  # fmt: skip
    port = [int(link[0])]
    losses = [
        LossSettings(node="leaf-0", port=3, share=0.5, at=1, until=4),
        LossSettings(node=1, port="to spine-0", share=0.2, at=0, until=5),
    ]
    told = Told(0.25)
    schedule(told, events_of(FABRIC, [], losses, 10), 0.0)
    assert told.orders == [(0.0, "loses", port, 0.2), (1.0, "loses", port, 0.5), (4.0, "loses", port, 0.2),
                           (5.0, "loses", port, 0.25)]  # fmt: skip


def labels_of(*heard: tuple[int, float, float]) -> Records:
    """RECEIVED_LABEL of (port, labelled, received), s, in this order."""
    labels = np.zeros(len(heard), RECEIVED_LABEL)
    for name, values in zip(("port", "labelled", "received"), zip(*heard, strict=True), strict=True):
        labels[name] = [round(value * PS) if name != "port" else value for value in values]
    return labels


def test_silence_is_the_longest_time_without_news_of_a_busy_port() -> None:
    """By hand: intervals of 1 s from 2 to 8, where port 0 is busy but in 5 to 6 and reported at 3.5, 4.5 and
    7.9; old news is none. Port 2 has no traffic.
    """
    active = np.ones((8, 3), bool)
    active[5, 0] = active[:, 2] = False
    busy = [(1, at, at + 0.1) for at in np.arange(0, 8, 0.5)]
    labels = labels_of((0, 3.4, 3.5), (0, 4.4, 4.5), (0, 4.0, 7.0), (0, 7.8, 7.9), *busy)
    labels = labels[np.argsort(labels["received"], kind="stable")]
    assert longest_silence(labels, active, 2, 1.0) == pytest.approx(1.9)  # from 6, when it is busy again
    alone = active & (np.arange(3) == 1)
    assert longest_silence(labels, alone, 2, 1.0) == pytest.approx(0.5)
    assert longest_silence(labels[labels["port"] == 1], active, 2, 1.0) == pytest.approx(
        3.0
    )  # port 0 from 2 to 5
    assert np.isnan(longest_silence(labels[:0], active[:, 2:], 2, 1.0))


def test_recovery_waits_for_the_last_port() -> None:
    """By hand: a change at 1.5 s of the measured time, which begins at 2 s. What was written before does not
    count, nor do ports without traffic when routing knows; a port that is not reported makes it infinite.
    """
    active = np.ones((10, 3), bool)
    active[4:, 2] = False
    labels = labels_of((0, 3.4, 3.6), (0, 3.7, 3.8), (1, 4.6, 4.7), (1, 5.0, 5.1))
    assert recovery(labels, active, 2, 1.0, 1.5, 0.0) == pytest.approx(1.2)
    assert recovery(labels, np.ones_like(active), 2, 1.0, 1.5, 0.0) == np.inf
    assert recovery(labels, active, 2, 1.0, 1.5, 7.0) == np.inf  # no interval is left
    events = events_of(FABRIC, [FailureSettings(node=1, at=1.5, until=3)], [], 8)
    row = around_events(labels, active, 2, 1.0, events)
    assert row["recovery_begin"] == pytest.approx(1.2)
    assert row["recovery_end"] is None  # nothing of port 0 afterwards
    shares = [0, 1 / 3, 1 / 2, 1 / 2, 0, 0, 0, 0]  # of the ports reported in 2 to 3, 3 to 4, ...
    assert row["coverage_before"] == pytest.approx(shares[0])
    assert row["coverage_during"] == pytest.approx(np.mean(shares[1:3]))
    assert row["coverage_after"] == pytest.approx(np.mean(shares[3:]))
    never = events_of(FABRIC, [FailureSettings(node=1)], [], 8)
    parts = around_events(labels, active, 2, 1.0, never)
    assert [parts[f"coverage_{part}"] is None for part in ("before", "during", "after")] == [
        True,
        False,
        True,
    ]


@pytest.mark.kernel
def test_a_failure_and_its_traces() -> None:
    """A spine fails from 0.5 to 1 s: packets are lost until routing knows, fewer ports send until it is back,
    and all are reported within the bound of section 4.1, T + T_s, of routing's change.
    """
    file = FILE | {"experiment": FILE["experiment"] | {"intervals": True}}
    run = Experiment.model_validate(file).runs()[0]
    row = simulate_run(run)
    intervals = row.pop("intervals")
    assert list(row) == columns(run.settings)
    lost, ports = np.array(intervals["lost"]), np.array(intervals["ports"])
    assert len(lost) == 20
    assert list(np.nonzero(lost)[0]) == [5]
    assert ports.max() == row["ports"] == 12  # (8 ports of leaves, 4 of spines)
    assert list(np.nonzero(ports == 8)[0]) == [*range(5, 11)]
    assert (row["coverage_before"], row["coverage_after"]) == (1, 1)
    assert row["coverage"] == pytest.approx(np.mean(intervals["coverage"]))
    assert abs(sum(intervals["labels"]) - row["labels"]) <= 1
    bound = 0.05 + 0.02  # T, and more than the packets of a port are apart
    assert 0.02 < row["recovery_begin"] < 0.1 + bound
    assert 0.1 < row["recovery_end"] < 0.1 + bound  # the spine has traffic when routing knows
    assert 0.05 < row["silence"] < 0.1 + bound
    plain = simulate_run(Experiment.model_validate(FILE).runs()[0])
    assert plain == row  # looking at every interval changes nothing


@pytest.mark.kernel
def test_a_loss_holds_for_its_ports_and_its_time() -> None:
    """What a port carries is lost with the share that the file says, and nothing else is."""
    file: dict[str, Any] = FILE | {
        "failure": [],
        "loss": [{"node": "leaf-*", "port": "up", "share": 0.3, "at": 0.5, "until": 1.5}],
    }
    simulation = build(Experiment.model_validate(file).runs()[0])
    simulation.run(0.3 + 0.499)
    assert simulation.counts.lost == 0
    before = simulation.counts.delivered
    simulation.run(0.3 + 1.499)
    between = 2 / 3  # of the packets leave their leaf
    ended = simulation.counts.delivered - before + simulation.counts.lost
    assert simulation.counts.lost / ended == pytest.approx(0.3 * between, abs=0.03)
    lost = simulation.counts.lost
    simulation.run(0.3 + 2)
    assert simulation.counts.lost - lost <= 1
    assert {e.name for e in events_in(Experiment.model_validate(file).runs()[0], FABRIC)} == {
        "leaf-* up loses 0.3"
    }


def drawn(run: Run, progress: object = None) -> dict[str, Any]:
    """Measures without a simulation, and two intervals where they are asked for."""
    row: dict[str, Any] = dict.fromkeys(columns(run.settings), 1.0)
    if run.settings.experiment.intervals:
        row["intervals"] = {"coverage": [0.5, None], "ports": [3, 4], "labels": [1, 2], "lost": [0, 0.25]}
    return row


def test_intervals_are_written_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row for each interval of each run, with what is swept; runs that were finished without them are run
    again, those with them are not; Parquet and CSV agree.
    """
    import duckdb

    monkeypatch.setattr(whole, "simulate_run", drawn)
    file = FILE | {"sweep": {"failure.0.until": [1, "never"], "adaptive.mode": ["off", "shift"]}}
    assert not whole.run_experiment(Experiment.model_validate(file), tmp_path).intervals
    asked = Experiment.model_validate(file | {"experiment": FILE["experiment"] | {"intervals": True}})
    assert [whole.run_experiment(asked, tmp_path).resumed for _ in range(2)] == [0, 4]
    with (tmp_path / "small.intervals.csv").open(newline="") as csv_file:
        rows = list(csv.DictReader(csv_file))
    assert [*rows[0].values()] == ["1", "1.0", "off", "1", "0", "0.0", "0.5", "3", "1", "0.0"]
    assert [*rows[1].values()] == ["1", "1.0", "off", "1", "1", "0.1", "", "4", "2", "0.25"]
    assert [*rows[0]][:6] == ["run", "failure.0.until", "adaptive.mode", "seed", "interval", "time"]
    table = f"SELECT run, coverage, labels FROM '{tmp_path}/small.intervals.parquet'"
    assert duckdb.execute(table).fetchall()[:3] == [(1, 0.5, 1), (1, None, 2), (2, 0.5, 1)]
    assert (tmp_path / "small.intervals.png").read_bytes().startswith(b"\x89PNG")
    assert "never" not in (tmp_path / "small.csv").read_text()  # no time is an empty cell


@pytest.mark.parametrize("columns", ['"x"', "{}", '{"coverage": [1, 2], "ports": [1]}', '{"a": [[1]]}'])
def test_damaged_intervals_are_rejected(tmp_path: Path, columns: str) -> None:
    """A journal whose intervals are no columns of one length is rejected with its line."""
    path = tmp_path / "small.runs.jsonl"
    path.write_text(json.dumps({"run": {}, "measures": {}})[:-2] + f'"intervals": {columns}}}}}\n')
    with pytest.raises(HopscopeError, match="line 1 is not a finished run"):
        Journal(path)
