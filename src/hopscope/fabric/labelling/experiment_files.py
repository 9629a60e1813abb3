"""Files of an experiment: finished runs as they come, then Parquet, CSV and a picture.

`NAME.runs.jsonl` has one finished run a line, so that an experiment which was stopped goes on where it was.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from ...errors import HopscopeError

Row = dict[str, Any]
Key = str


class ExperimentError(HopscopeError):
    """An experiment cannot be run or written: what was found, and what to do."""


def key_of(parameters: Mapping[str, Any]) -> Key:
    """What tells a run from all others."""
    return json.dumps(parameters, sort_keys=True)


class Journal:
    """Finished runs on disk: those of before, and more as they come."""

    def __init__(self, path: Path, fresh: bool = False) -> None:
        """Open a journal; `fresh` forgets what is in it. ExperimentError: it is none."""
        self.path = path
        self.done: dict[Key, Row] = {}
        """Measures of finished runs by the key of their parameters."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            whole = 0 if fresh else self._read()
            self._file: TextIO = path.open("a", encoding="utf-8")
            self._file.truncate(whole)  # a line that was cut off is run again
        except OSError as error:
            raise ExperimentError(f"{path}: {error.strerror}") from error

    def _read(self) -> int:
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return 0
        whole = content.rfind(b"\n") + 1
        for number, line in enumerate(content[:whole].splitlines(), 1):
            try:
                found = json.loads(line)
                self.done[key_of(found["run"])] = dict(found["measures"])
            except (ValueError, KeyError, TypeError) as error:
                raise ExperimentError(
                    f"{self.path}: line {number} is no finished run: move the file away, or run with --fresh"
                ) from error
        return whole

    def put(self, parameters: Mapping[str, Any], measures: Row) -> None:
        """A run has ended: its line is on disk before this returns."""
        self._file.write(json.dumps({"run": parameters, "measures": measures}) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.done[key_of(parameters)] = measures

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def write_csv(path: Path, rows: Sequence[Row]) -> None:
    """One line a run; missing values are empty."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def write_parquet(path: Path, rows: Sequence[Row]) -> None:
    """One row a run; missing values are null."""
    import duckdb

    columns = list(rows[0])
    kinds = ", ".join(f"{_quoted(name)} {_kind([row[name] for row in rows])}" for name in columns)
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE results ({kinds})")
        marks = ", ".join("?" * len(columns))
        connection.executemany(f"INSERT INTO results VALUES ({marks})", [list(row.values()) for row in rows])
        target = str(path).replace("'", "''")
        connection.execute(f"COPY results TO '{target}' (FORMAT parquet)")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _kind(values: Sequence[object]) -> str:
    known = [value for value in values if value is not None]
    if known and all(isinstance(value, bool) for value in known):
        return "BOOLEAN"
    if known and all(isinstance(value, int) for value in known):
        return "BIGINT"
    return "DOUBLE" if all(isinstance(value, (int, float)) for value in known) else "VARCHAR"


def write_plot(
    path: Path, rows: Sequence[Row], x: str, y: Sequence[str], by: Sequence[str], title: str
) -> bool:
    """A panel for each of `y` over `x`, a curve for each combination of `by`; bars are standard deviations
    over what is not told apart, the seeds. False: matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return False
    figure = Figure(figsize=(1 + 5 * len(y), 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, measure in zip(figure.subplots(1, len(y), squeeze=False)[0], y, strict=True):
        for name, points in _curves(rows, x, measure, by).items():
            at = sorted(points) if _numbers(points) else list(points)
            mean = [float(np.mean(points[one])) for one in at]
            bars = [float(np.std(points[one], ddof=1)) if len(points[one]) > 1 else 0.0 for one in at]
            axes.errorbar(at, mean, bars, marker="o", markersize=3, capsize=2, label=name)
        axes.set_xlabel(x)
        axes.set_ylabel(measure)
        axes.grid(True, alpha=0.3)
        if by:
            axes.legend(title=", ".join(by), alignment="left", fontsize=8, title_fontsize=8)
    figure.suptitle(title, fontsize=11)
    figure.savefig(path, dpi=110)
    return True


def _curves(
    rows: Sequence[Row], x: str, measure: str, by: Sequence[str]
) -> dict[str, dict[Any, list[float]]]:
    """Curve to x to the values there; what has no value is left out."""
    curves: dict[str, dict[Any, list[float]]] = {}
    for row in rows:
        if row[measure] is not None:
            name = ", ".join(str(row[column]) for column in by)
            curves.setdefault(name, {}).setdefault(row[x], []).append(float(row[measure]))
    return curves


def _numbers(values: object) -> bool:
    return all(isinstance(value, (int, float)) for value in values)  # type: ignore[attr-defined]


def check_columns(
    parameters: Sequence[str], measures: Sequence[str], x: str, y: Sequence[str], by: Sequence[str]
) -> None:
    """ExperimentError: one of the picture's columns is none of the results', or no number on the y axis."""
    every = [*parameters, *measures]
    for key, asked, there in (("x", (x,) if x else (), every), ("y", y, measures), ("by", by, every)):
        for column in asked:
            if column not in there:
                raise ExperimentError(f"plot.{key}: no column {column!r}; there are {', '.join(there)}")
