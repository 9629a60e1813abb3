"""Experiments: run every combination of the swept values with several seeds; write tables and plots."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

from ....base.errors import HopscopeError
from ...topology import is_file
from .events import KINDS as EVENTS
from .events import Event
from .files import (
    ExperimentError,
    Journal,
    Row,
    SpecificationError,
    check_columns,
    run_key,
    write_csv,
    write_intervals,
    write_parquet,
)
from .plots import write_plot, write_timeline
from .run import build, columns, events_in, simulate_run
from .settings import Experiment, Run

Progress = Callable[[float, int], object]
"""Called with the number of finished runs (including the finished part of the
current one), and of all runs.
"""
MAX_INTERVALS = 5_000_000
"""Maximum telemetry intervals written for all runs; each takes 32 bytes of memory."""


@dataclass(slots=True)
class Results:
    """Results of an experiment."""

    rows: list[Row]
    """One per run, in the order of the file: its number from 1, parameters, then measures."""
    parquet: Path
    csv: Path
    picture: Path | None = None
    """None if nothing is swept, or matplotlib is missing."""
    intervals: list[Path] = field(default_factory=list)
    """Parquet, CSV and plot of the telemetry intervals, if requested."""
    resumed: int = 0
    """Runs that were already finished."""

    @property
    def files(self) -> list[Path]:
        """All files written."""
        return [self.parquet, self.csv, *([self.picture] if self.picture else []), *self.intervals]


def run_experiment(
    experiment: Experiment, folder: Path, *, fresh: bool = False, progress: Progress | None = None
) -> Results:
    """Run all unfinished runs, and write NAME.parquet, NAME.csv and NAME.png into `folder`.

    Finished runs are kept in NAME.runs.jsonl; `fresh` ignores them. With `experiment.intervals`, also writes
    NAME.intervals.parquet, .csv and .png. Raises SpecificationError, before any run, if a setting cannot be
    simulated; ExperimentError for other failures.
    """
    runs = experiment.runs()
    x, y, by = axes(experiment)
    events = _check(experiment, runs, x, y, by)
    with_intervals = experiment.experiment.intervals
    name = experiment.experiment.name
    identity = _identifier(runs)
    journal = Journal(folder / f"{name}.runs.jsonl", fresh)
    try:
        needed = {*columns(runs[0].settings), *(["intervals"] if with_intervals else [])}
        waiting = [run for run in runs if not needed <= {*journal.done.get(run_key(identity(run)), ())}]
        resumed = len(runs) - len(waiting)
        notify: Callable[[float], object] = (
            (lambda done: progress(done, len(runs))) if progress else _ignore_progress
        )
        notify(resumed)
        for done, (run, measures) in enumerate(
            _simulated(waiting, experiment.experiment.processes, lambda share: notify(resumed + share)),
            resumed,
        ):
            journal.put(identity(run), measures)
            notify(done + 1)
    finally:
        journal.close()
    found = [(run.parameters(), dict(journal.done[run_key(identity(run))])) for run in runs]
    intervals = [measures.pop("intervals", {}) for _, measures in found]
    rows = [{"run": n} | parameters | measures for n, (parameters, measures) in enumerate(found, 1)]
    rows = [{column: row.get(column) for column in _all_columns(rows)} for row in rows]
    results = Results(rows, folder / f"{name}.parquet", folder / f"{name}.csv", resumed=resumed)
    write_parquet(results.parquet, rows)
    write_csv(results.csv, rows)
    picture = folder / f"{name}.png"
    if x and write_plot(picture, rows, x, y, by, name):
        results.picture = picture
    if with_intervals:
        files = [folder / f"{name}.intervals.{kind}" for kind in ("parquet", "csv", "png")]
        swept = list(experiment.sweep)
        write_intervals(files[0], files[1], rows, [*swept, "seed"], intervals)
        curves = [key for key in swept if key.split(".")[0] not in EVENTS]
        drawn = write_timeline(files[2], rows, intervals, events, experiment.plot.over_time, curves, name)
        results.intervals = files if drawn else files[:2]
    return results


def _identifier(runs: Sequence[Run]) -> Callable[[Run], Row]:
    """A function that returns what a finished run is known by: its parameters, and the digest of the file of
    its topology.
    """
    digests = {
        name: {"topology": blake2b(Path(name).read_bytes(), digest_size=8).hexdigest()}
        for name in {run.settings.network.topology for run in runs}
        if is_file(name)
    }
    return lambda run: run.parameters() | digests.get(run.settings.network.topology, {})


def _ignore_progress(done: float) -> None:
    """Ignore progress."""


def _check(
    experiment: Experiment, runs: Sequence[Run], x: str, y: Sequence[str], by: Sequence[str]
) -> list[list[Event]]:
    """Events of every run. Raises SpecificationError if a run cannot be simulated, before the others take
    hours.
    """
    seeds, events = experiment.experiment.seeds, []
    try:
        check_columns([*runs[0].parameters()], columns(runs[0].settings), x, y, by)
        check_intervals(experiment, runs)
        for run in runs[::seeds]:
            events += [events_in(run, build(run).topology)] * seeds
    except HopscopeError as error:
        raise SpecificationError(str(error)) from error
    return events


def check_intervals(experiment: Experiment, runs: Sequence[Run]) -> None:
    """Raise ExperimentError if the telemetry intervals would not fit into memory."""
    if experiment.experiment.intervals:
        times = [run.settings.experiment for run in runs]
        count = sum(max(1, round(item.seconds / item.telemetry)) for item in times)
        if count > MAX_INTERVALS:
            raise ExperimentError(
                f"experiment.intervals: found {count:,} telemetry intervals in {len(runs):,} runs, expected "
                f"at most {MAX_INTERVALS:,}; use a longer experiment.telemetry, or fewer seconds, seeds or "
                "values"
            )


def axes(experiment: Experiment) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Columns of the plot: x, y, and those that distinguish curves; x is empty if nothing is swept."""
    plot, swept = experiment.plot, list(experiment.sweep)
    x = plot.x or (swept[0] if swept else "")
    by = tuple(key for key in swept if key != x) if plot.by is None else plot.by
    return x, plot.y, by


def _simulated(
    runs: Sequence[Run], processes: int, notify: Callable[[float], object]
) -> Iterator[tuple[Run, dict[str, Any]]]:
    """Runs and their measures as they finish; with one process, they run in this one. `notify` is called with
    the number of finished runs, including the finished part of a run in this process.
    """
    here = runs if processes == 1 else runs[:1]  # the first run compiles the kernels that the others load
    for done, run in enumerate(here):
        yield run, simulate_run(run, lambda share, done=done: notify(done + share))  # type: ignore[misc]
    others = runs[len(here) :]
    if not others:
        return
    context = multiprocessing.get_context("spawn")
    todo = iter(others)
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        pending: dict[Future[dict[str, Any]], Run] = {}
        try:
            while True:
                for run in todo:
                    pending[pool.submit(simulate_run, run)] = run
                    if len(pending) >= 2 * processes:
                        break
                if not pending:
                    return
                for ended in wait(pending, return_when=FIRST_COMPLETED).done:
                    yield pending.pop(ended), ended.result()
        except BrokenProcessPool as error:
            raise ExperimentError(
                "a process of the experiment was killed (out of memory?): start it again to resume; "
                "experiment.processes = 1 needs less memory"
            ) from error
        finally:
            for item in pending:
                item.cancel()


def _all_columns(rows: Sequence[Row]) -> list[str]:
    """The columns of all rows; they differ, because the number of label counts depends on MAX_hop."""
    return list(dict.fromkeys(column for row in rows for column in row))
