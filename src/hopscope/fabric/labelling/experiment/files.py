"""Files of an experiment: a journal of finished runs, then Parquet, CSV and a plot.

`NAME.runs.jsonl` has one finished run per line, so that a stopped experiment can be resumed.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
import numpy.typing as npt

from ....base.errors import HopscopeError

if TYPE_CHECKING:
    import duckdb

Row = dict[str, Any]
Intervals = Sequence[Mapping[str, npt.NDArray[np.float64]]]
"""For each run, its columns per telemetry interval."""
INTEGER_COLUMNS = ("ports", "labels")
"""Columns of integers."""
Key = str


class ExperimentError(HopscopeError):
    """An experiment cannot be run or written; the message says what was found, and what to do."""


class SpecificationError(ExperimentError):
    """A setting in the file of an experiment cannot be simulated: key, found, expected."""


def run_key(parameters: Mapping[str, Any]) -> Key:
    """Unique key of a run."""
    return json.dumps(parameters, sort_keys=True)


class Journal:
    """The finished runs on disk, earlier ones and new ones."""

    def __init__(self, path: Path, discard: bool = False) -> None:
        """Open a journal; `discard`: ignore its content. Raises ExperimentError if the file is not a
        journal.
        """
        self.path = path
        self.done: dict[Key, Row] = {}
        """Measures of finished runs by the key of their parameters."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            size = 0 if discard else self._read()
            self._file: TextIO = path.open("a", encoding="utf-8")
            self._file.truncate(size)  # an incomplete line is run again
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
                self.done[run_key(found["run"])] = _compact(dict(found["measures"]))
            except (ValueError, KeyError, TypeError) as error:
                raise ExperimentError(
                    f"{self.path}: line {number} is not a finished run; move the file away, or run with "
                    "--fresh"
                ) from error
        return whole

    def put(self, parameters: Mapping[str, Any], measures: Row) -> None:
        """Record a finished run; it is on disk when this returns."""
        self._file.write(json.dumps({"run": parameters, "measures": measures}) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.done[run_key(parameters)] = _compact(measures)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _compact(measures: Row) -> Row:
    """Measures with the columns of intervals as arrays, which need less memory. Raises ValueError if they are
    malformed.
    """
    if "intervals" not in measures:
        return measures
    columns = {name: np.asarray(values, np.float64) for name, values in dict(measures["intervals"]).items()}
    if {column.ndim for column in columns.values()} != {1} or len({len(c) for c in columns.values()}) != 1:
        raise ValueError("columns of intervals are lists of one length")
    return measures | {"intervals": columns}


def write_csv(path: Path, rows: Sequence[Row]) -> None:
    """One line per run; missing values are empty."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def write_parquet(path: Path, rows: Sequence[Row]) -> None:
    """One row per run; missing values are null."""
    import duckdb

    with duckdb.connect() as connection:
        _put_rows(connection, rows)
        connection.execute(f"COPY results TO {_text(path)} (FORMAT parquet)")


def write_intervals(
    parquet: Path, table: Path, rows: Sequence[Row], columns: Sequence[str], intervals: Intervals
) -> None:
    """One row per telemetry interval, starting with "run" and these columns of the run."""
    import duckdb

    lengths = [len(next(iter(run.values()))) for run in intervals]
    whole: dict[str, npt.NDArray[Any]] = {
        "run": np.repeat([row["run"] for row in rows], lengths),
        "interval": np.concatenate([np.arange(length) for length in lengths]),
        "time": np.concatenate(
            [
                np.round(np.arange(n) * row["experiment.telemetry"], 9)
                for n, row in zip(lengths, rows, strict=True)
            ]
        ),
    } | {name: np.concatenate([run[name] for run in intervals]) for name in intervals[0]}
    own = []
    for name in intervals[0]:
        kind, column = "BIGINT" if name in INTEGER_COLUMNS else "DOUBLE", _quoted(name)
        own.append(f"CAST(nullif(i.{column}, 'nan') AS {kind}) AS {column}")
    shown = [f"r.{_quoted(name)}" for name in ("run", *columns)] + ["i.interval", "i.time", *own]
    query = f"SELECT {', '.join(shown)} FROM whole i JOIN results r USING (run) ORDER BY r.run, i.interval"
    with duckdb.connect() as connection:
        _put_rows(connection, rows)
        connection.register("whole", whole)
        connection.execute(f"COPY ({query}) TO {_text(parquet)} (FORMAT parquet)")
        connection.execute(f"COPY (SELECT * FROM {_text(parquet)}) TO {_text(table)} (HEADER)")


def _put_rows(connection: duckdb.DuckDBPyConnection, rows: Sequence[Row]) -> None:
    columns = list(rows[0])
    kinds = ", ".join(f"{_quoted(name)} {_kind([row[name] for row in rows])}" for name in columns)
    connection.execute(f"CREATE TABLE results ({kinds})")
    marks = ", ".join("?" * len(columns))
    connection.executemany(f"INSERT INTO results VALUES ({marks})", [list(row.values()) for row in rows])


def _text(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _kind(values: Sequence[object]) -> str:
    known = [value for value in values if value is not None]
    if known and all(isinstance(value, bool) for value in known):
        return "BOOLEAN"
    if known and all(isinstance(value, int) for value in known):
        return "BIGINT"
    return "DOUBLE" if all(isinstance(value, (int, float)) for value in known) else "VARCHAR"


def check_columns(
    parameters: Sequence[str], measures: Sequence[str], x: str, y: Sequence[str], by: Sequence[str]
) -> None:
    """Raise ExperimentError if a column of the plot is unknown, or a y column is not numeric."""
    every = [*parameters, *measures]
    for key, chosen, known in (("x", (x,) if x else (), every), ("y", y, measures), ("by", by, every)):
        for column in chosen:
            if column not in known:
                raise ExperimentError(f"plot.{key}: unknown column {column!r}; known are {', '.join(known)}")
