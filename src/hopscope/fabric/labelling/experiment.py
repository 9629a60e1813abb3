"""Experiments: every combination of what is swept, several seeds each, into a table and a picture."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .experiment_files import (
    ExperimentError,
    Journal,
    Row,
    check_columns,
    key_of,
    write_csv,
    write_parquet,
    write_plot,
)
from .experiment_run import build, columns, perform
from .experiment_settings import Experiment, Run

Progress = Callable[[int, int], object]
"""Told how many runs have ended, of how many."""


@dataclass(frozen=True, slots=True)
class Results:
    """What an experiment has given."""

    rows: list[Row]
    """One for each run, in the order of the file: parameters, then measures."""
    parquet: Path
    csv: Path
    picture: Path | None
    """None where nothing is swept, or matplotlib is missing."""
    resumed: int
    """Runs that were found finished."""


def run_experiment(
    experiment: Experiment, folder: Path, *, fresh: bool = False, progress: Progress | None = None
) -> Results:
    """Run what is not finished yet, and write NAME.parquet, NAME.csv and NAME.png into `folder`.

    Finished runs are kept in NAME.runs.jsonl as they come; `fresh` runs all anew.  ExperimentError or
    FabricError: something cannot be run as the file says.
    """
    runs = experiment.runs()
    x, y, by = axes(experiment)
    check_columns([*runs[0].parameters()], columns(runs[0].settings), x, y, by)
    for run in runs[:: experiment.experiment.seeds]:
        build(run)  # what cannot be simulated is told before hours of others
    name = experiment.experiment.name
    journal = Journal(folder / f"{name}.runs.jsonl", fresh)
    try:
        waiting = [run for run in runs if key_of(run.parameters()) not in journal.done]
        done = len(runs) - len(waiting)
        resumed = done
        if progress:
            progress(done, len(runs))
        for run, measures in _performed(waiting, experiment.experiment.processes):
            journal.put(run.parameters(), measures)
            done += 1
            if progress:
                progress(done, len(runs))
    finally:
        journal.close()
    rows = [run.parameters() | journal.done[key_of(run.parameters())] for run in runs]
    rows = [{column: row.get(column) for column in _all_columns(rows)} for row in rows]
    parquet, table = folder / f"{name}.parquet", folder / f"{name}.csv"
    write_parquet(parquet, rows)
    write_csv(table, rows)
    picture = (
        folder / f"{name}.png" if x and write_plot(folder / f"{name}.png", rows, x, y, by, name) else None
    )
    return Results(rows, parquet, table, picture, resumed)


def axes(experiment: Experiment) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Columns of the picture: x, those of y, those that make curves; x is empty where nothing is swept."""
    plot, swept = experiment.plot, list(experiment.sweep)
    x = plot.x or (swept[0] if swept else "")
    by = tuple(key for key in swept if key != x) if plot.by is None else plot.by
    return x, plot.y, by


def _performed(runs: Sequence[Run], processes: int) -> Iterator[tuple[Run, dict[str, Any]]]:
    """Runs and their measures as they end; in this process where one is enough."""
    if processes == 1 or len(runs) < 2:
        yield from ((run, perform(run)) for run in runs)
        return
    first, *others = runs  # compiles what the others load
    yield first, perform(first)
    context = multiprocessing.get_context("spawn")
    todo = iter(others)
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        pending: dict[Future[dict[str, Any]], Run] = {}
        try:
            while True:
                for run in todo:
                    pending[pool.submit(perform, run)] = run
                    if len(pending) >= 2 * processes:
                        break
                if not pending:
                    return
                for ended in wait(pending, return_when=FIRST_COMPLETED).done:
                    yield pending.pop(ended), ended.result()
        except BrokenProcessPool as error:
            raise ExperimentError(
                "a process of the experiment was killed (out of memory?): start it again, it goes on where "
                "it was; experiment.processes = 1 needs less memory"
            ) from error
        finally:
            for one in pending:
                one.cancel()


def _all_columns(rows: Sequence[Row]) -> list[str]:
    """Columns of all rows: runs with another MAX_hop count up to another number of labels."""
    return list(dict.fromkeys(column for row in rows for column in row))
