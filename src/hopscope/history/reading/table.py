"""The result of a query: NumPy columns, plain Python rows, or a data frame of an installed library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt

from ...base.extras import install_command
from ..errors import HistoryError

_SMALL = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"}
_LARGE = {"HUGEINT", "UHUGEINT", "BIGNUM"}


@dataclass(slots=True)
class Table:
    """Columns of one length, in order. A column with missing values is a masked array."""

    columns: dict[str, npt.NDArray[Any]]
    truncated: bool = False
    """Whether there are more rows than the limit."""
    after: str | None = None
    """The argument `after` for the next page of events; None if there is none."""
    types: tuple[str, ...] = ()
    """DuckDB type of each column of a SQL query; empty if DuckDB was not asked."""

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        return self.columns[name]

    def __repr__(self) -> str:
        return f"<Table: {len(self):,} rows of {', '.join(self.columns)}>"

    def rows(self) -> list[dict[str, Any]]:
        """Rows as dicts of JSON values: times as ISO 8601 text in UTC, None for missing values."""
        return [dict(zip(self.columns, values, strict=True)) for values in zip(*self.lists(), strict=True)]

    def lists(self) -> list[list[Any]]:
        """Columns as lists of JSON values, as in `rows`."""
        return [plain(column) for column in self.columns.values()]

    def to_arrow(self) -> Any:
        """pyarrow.Table; HistoryError without pyarrow."""
        pyarrow = _installed("pyarrow", "arrow")

        arrays = {}
        for name, column in self.columns.items():
            if isinstance(column, np.ma.MaskedArray) and column.dtype != object:
                arrays[name] = pyarrow.array(np.ma.getdata(column), mask=np.ma.getmaskarray(column))
            else:
                arrays[name] = pyarrow.array(_listed(column))
        return pyarrow.table(arrays)

    def to_pandas(self) -> Any:
        """pandas.DataFrame, with nullable types for missing integers; HistoryError without pandas."""
        pandas = _installed("pandas", "pandas")

        frame = {}
        for name, column in self.columns.items():
            if isinstance(column, np.ma.MaskedArray) and column.dtype.kind in "iu":
                mask = np.ma.getmaskarray(column)
                frame[name] = pandas.array(
                    column.filled(0),
                    dtype=f"{'U' if column.dtype.kind == 'u' else ''}Int{column.dtype.itemsize * 8}",
                )
                frame[name][mask] = pandas.NA
            else:
                frame[name] = _listed(column)
        return pandas.DataFrame(frame)

    def to_polars(self) -> Any:
        """polars.DataFrame; HistoryError without polars."""
        polars = _installed("polars", "polars")

        series = []
        for name, column in self.columns.items():
            if isinstance(column, np.ma.MaskedArray) and column.dtype.kind in "iu":
                kind = getattr(
                    polars, f"{'U' if column.dtype.kind == 'u' else ''}Int{column.dtype.itemsize * 8}"
                )
                series.append(polars.Series(name, column.tolist(), dtype=kind))
            elif column.dtype == object:
                series.append(polars.Series(name, _python(column), strict=False))
            else:
                series.append(polars.Series(name, _listed(column)))
        return polars.DataFrame(series)


def _installed(module: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise HistoryError(f"{module} is not installed: {install_command(extra)}") from error


def fetch(
    cursor: duckdb.DuckDBPyConnection,
    select: str,
    limit: int | None,
    described: Sequence[tuple[str, str]] | None = None,
) -> Table:
    """Run a SELECT and return at most `limit` rows, in its order.

    `described`: names and types of the columns; None: ask DuckDB, which takes as long as planning the query.

    DuckDB converts an integer column with a NULL, or wider than 64 bits, to float64. Such columns are
    selected as values and mask, or as text, so that 64-bit flow ids stay exact.
    """
    if described is None:
        found = cursor.execute(f"SELECT * FROM (\n{select}\n) LIMIT 0").description or []
        # DuckDB 2 has quotes in the type of a column of NULL
        described = [(name, str(kind).replace('"NULL"', "NULL")) for name, kind, *_ in found]
    selected = []
    for i, (_, kind) in enumerate(described):
        if kind in _SMALL:
            selected += [f"coalesce(c{i}, 0::{kind}) AS c{i}", f"c{i} IS NULL AS m{i}"]
        elif kind in _LARGE or kind.startswith("DECIMAL"):
            selected.append(f"c{i}::VARCHAR AS c{i}")
        else:
            selected.append(f"c{i}")
    names = ", ".join(f"c{i}" for i in range(len(described)))
    rows = "" if limit is None else f" LIMIT {limit + 1}"
    got = cursor.execute(f"SELECT {', '.join(selected)} FROM (\n{select}\n) AS q({names}){rows}").fetchnumpy()
    columns: dict[str, npt.NDArray[Any]] = {}
    for i, (name, kind) in enumerate(described):
        column = got[f"c{i}"]
        if f"m{i}" in got and got[f"m{i}"].any():
            column = np.ma.masked_array(column, mask=got[f"m{i}"])
        elif kind in _LARGE:
            column = _converted(column, int)
        elif kind.startswith("DECIMAL"):
            column = _converted(column, float)
        columns[_unused(name, columns)] = column if limit is None else column[:limit]
    truncated = limit is not None and len(next(iter(got.values()), ())) > limit
    return Table(columns, truncated, types=tuple(kind for _, kind in described))


def _unused(name: str, columns: dict[str, Any]) -> str:
    """A unique name for a column, since SQL allows duplicate names."""
    number = 1
    unused = name
    while unused in columns:
        unused = f"{name}_{number}"
        number += 1
    return unused


def _converted(column: npt.NDArray[Any], kind: type) -> npt.NDArray[Any]:
    out = np.empty(len(column), dtype=object)
    out[:] = [None if value is None else kind(value) for value in _python(column)]
    return out


def _python(column: npt.NDArray[Any]) -> list[Any]:
    """Values as Python objects, None for missing ones."""
    return [value.tolist() if isinstance(value, np.ndarray) else value for value in column.tolist()]


def _listed(column: npt.NDArray[Any]) -> Any:
    return _python(column) if column.dtype == object or isinstance(column, np.ma.MaskedArray) else column


def plain(column: npt.NDArray[Any]) -> list[Any]:
    """A column as JSON values, as in `Table.rows`."""
    if column.dtype.kind == "M":
        missing = np.ma.getmaskarray(column) | np.isnat(np.ma.getdata(column))
        texts = np.datetime_as_string(np.ma.getdata(column)).tolist()
        return [None if gone else f"{text}Z" for text, gone in zip(texts, missing.tolist(), strict=True)]
    if column.dtype.kind == "m":
        column = column.astype("timedelta64[us]")
    return [_plain(value) for value in column.tolist()]


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    if isinstance(value, np.ndarray):
        return [_plain(item) for item in value.tolist()]
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (bytes, bytearray)):
        return value.hex()
    return str(value)
