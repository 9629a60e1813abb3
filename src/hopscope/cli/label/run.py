"""`hopscope label run`: a sweep that a file describes, with a table and a plot of its results."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ...base.errors import HopscopeError
from ..options.declare import argument, option

if TYPE_CHECKING:
    from ...fabric.labelling.experiment.settings import Experiment


def run(
    file: Annotated[Path, argument("EXPERIMENT.toml", "Experiment file.")],
    output: Path | None = option("--output -o FOLDER", "Folder of the results; default: the file's folder."),
    fresh: bool = option("--fresh", "Ignore the results of earlier runs.", False),
) -> None:
    """Simulate labelling (INT-label) at every point of a sweep; writes Parquet, CSV and a plot.

    The file describes the network, failures and the sweep; see docs/guides/label-plan.md. An interrupted run
    continues when started again.
    """
    from ...fabric.labelling.experiment.files import SpecificationError
    from ...fabric.labelling.experiment.sweep import run_experiment

    experiment = read(file)
    try:
        with _progress() as progress:
            results = run_experiment(experiment, output or file.parent, fresh=fresh, progress=progress)
    except SpecificationError as error:
        raise HopscopeError(f"{file}: {error}") from error
    runs = len(results.rows)
    again = f", {results.resumed:,} of them finished before" if results.resumed else ""
    print(f"{runs:,} {'run' if runs == 1 else 'runs'}{again}")
    for path in results.files:
        print(path)


def read(file: Path) -> Experiment:
    """The experiment that a file describes. Raises HopscopeError with a line for each mistake."""
    from pydantic import ValidationError

    from ...fabric.labelling.experiment.settings import Experiment
    from ...settings.configuration.errors import error_lines
    from ...settings.configuration.file import read_toml
    from ...settings.configuration.lines import with_lines

    try:
        return Experiment.model_validate(read_toml(file))
    except ValidationError as error:
        lines = (f"{file}: {line}" for line in error_lines(error, Experiment))
        raise HopscopeError("\n".join(with_lines(file, lines))) from error


@contextmanager
def _progress() -> Iterator[Callable[[float, int], object] | None]:
    """A function of completed and total runs that draws a progress bar on a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

    times = (TimeElapsedColumn(), "passed,", TimeRemainingColumn(), "left")
    columns = (BarColumn(), MofNCompleteColumn(), *times)
    with Progress("runs", *columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("runs", total=None, visible=False)  # until the total is known
        yield lambda done, total: progress.update(task, completed=done, total=total, visible=True)
