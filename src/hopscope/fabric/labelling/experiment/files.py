"""Files of an experiment: finished runs as they come, then Parquet, CSV and a picture.

`NAME.runs.jsonl` has one finished run a line, so that an experiment which was stopped goes on where it was.
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
"""Columns of the telemetry intervals of each run."""
WHOLE = ("ports", "labels")
"""Those that count."""
Key = str


class ExperimentError(HopscopeError):
    """An experiment cannot be run or written: what was found, and what to do."""


class DemandError(ExperimentError):
    """What the file of an experiment asks for cannot be: its key, what was found, what is expected."""


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
                self.done[key_of(found["run"])] = _compact(dict(found["measures"]))
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
        self.done[key_of(parameters)] = _compact(measures)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _compact(measures: Row) -> Row:
    """Measures with the columns of intervals as arrays, which are smaller; ValueError: they are none."""
    if "intervals" not in measures:
        return measures
    columns = {name: np.asarray(one, np.float64) for name, one in dict(measures["intervals"]).items()}
    if {column.ndim for column in columns.values()} != {1} or len({len(c) for c in columns.values()}) != 1:
        raise ValueError("columns of intervals are lists of one length")
    return measures | {"intervals": columns}


def write_csv(path: Path, rows: Sequence[Row]) -> None:
    """One line a run; missing values are empty."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def write_parquet(path: Path, rows: Sequence[Row]) -> None:
    """One row a run; missing values are null."""
    import duckdb

    with duckdb.connect() as connection:
        _put_rows(connection, rows)
        connection.execute(f"COPY results TO {_text(path)} (FORMAT parquet)")


def write_intervals(
    parquet: Path, table: Path, rows: Sequence[Row], columns: Sequence[str], intervals: Intervals
) -> None:
    """One row a telemetry interval of a run, which begin with "run" and these columns of the run."""
    import duckdb

    lengths = [len(next(iter(one.values()))) for one in intervals]
    whole: dict[str, npt.NDArray[Any]] = {
        "run": np.repeat([row["run"] for row in rows], lengths),
        "interval": np.concatenate([np.arange(length) for length in lengths]),
        "time": np.concatenate(
            [
                np.round(np.arange(n) * row["experiment.telemetry"], 9)
                for n, row in zip(lengths, rows, strict=True)
            ]
        ),
    } | {name: np.concatenate([one[name] for one in intervals]) for name in intervals[0]}
    own = []
    for name in intervals[0]:
        kind, column = "BIGINT" if name in WHOLE else "DOUBLE", _quoted(name)
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
    """ExperimentError: one of the picture's columns is none of the results', or no number on the y axis."""
    every = [*parameters, *measures]
    for key, asked, there in (("x", (x,) if x else (), every), ("y", y, measures), ("by", by, every)):
        for column in asked:
            if column not in there:
                raise ExperimentError(f"plot.{key}: no column {column!r}; there are {', '.join(there)}")
