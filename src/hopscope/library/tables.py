"""Converts records to columns and tables for NumPy, Arrow, pandas and Polars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..base.errors import HopscopeError
from ..base.extras import install_command
from ..wire.address import address
from ..wire.records import Records

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

Columns = dict[str, npt.NDArray[Any]]
Readable = dict[str, npt.NDArray[Any] | list[str] | list[str | None]]
"""Columns of numbers (or of lists of numbers) as arrays; columns of text as lists."""


def columns(records: Records) -> Columns:
    """Every field of the records as a column: a view, with raw numbers as they were sent."""
    return {name: records[name] for name in records.dtype.names or () if not name.startswith("reserved")}


def readable(records: Records, labels: dict[str, type] | None = None) -> Readable:
    """Columns for people: addresses as text instead of two halves, and the names of codes in `labels`."""
    table: Readable = {}
    for name, column in columns(records).items():
        if name.endswith("_lo"):
            continue
        if name.endswith("_hi"):
            table[name[:-3]] = _addresses(column, records[f"{name[:-3]}_lo"])
        elif labels and name in labels:
            table[name] = _labels(column, labels[name])
        else:
            table[name] = np.ascontiguousarray(column)
    return table


def to_arrow(table: Readable) -> pyarrow.Table:
    """A pyarrow.Table of these columns; HopscopeError if pyarrow is missing."""
    try:
        import pyarrow
    except ImportError as error:
        raise HopscopeError(f"pyarrow is not installed: {install_command('arrow')}") from error

    def array(column: npt.NDArray[Any] | list[str] | list[str | None]) -> pyarrow.Array[Any]:
        if isinstance(column, list):
            return pyarrow.array(column, pyarrow.string())
        values = pyarrow.from_numpy_dtype(column.dtype)
        if column.ndim == 2:
            return pyarrow.array(list(column), pyarrow.list_(values))
        return pyarrow.array(column, values)

    return pyarrow.table({name: array(column) for name, column in table.items()})


def to_pandas(table: Readable) -> pandas.DataFrame:
    """A pandas.DataFrame of these columns; HopscopeError if pandas is missing."""
    try:
        import pandas
    except ImportError as error:
        raise HopscopeError(f"pandas is not installed: {install_command('pandas')}") from error

    def series(column: npt.NDArray[Any] | list[str] | list[str | None]) -> pandas.Series[Any]:
        if isinstance(column, list):
            return pandas.Series(column, dtype="str")
        return pandas.Series(list(column), dtype="object") if column.ndim == 2 else pandas.Series(column)

    return pandas.DataFrame({name: series(column) for name, column in table.items()})


def to_polars(table: Readable) -> polars.DataFrame:
    """A polars.DataFrame of these columns; HopscopeError if Polars is missing."""
    try:
        import polars
    except ImportError as error:
        raise HopscopeError(f"Polars is not installed: {install_command('polars')}") from error

    def series(name: str, column: npt.NDArray[Any] | list[str] | list[str | None]) -> polars.Series:
        return polars.Series(name, column, polars.String if isinstance(column, list) else None)

    return polars.DataFrame({name: series(name, column) for name, column in table.items()})


def _addresses(high: npt.NDArray[np.uint64], low: npt.NDArray[np.uint64]) -> list[str]:
    pairs = np.empty(len(high), [("high", "<u8"), ("low", "<u8")])
    pairs["high"], pairs["low"] = high, low
    distinct, inverse = np.unique(pairs, return_inverse=True)
    texts = [address(int(pair["high"]), int(pair["low"])) for pair in distinct]
    return [texts[i] for i in inverse]


def _labels(column: npt.NDArray[Any], codes: Any) -> list[str]:
    names = {int(code): code.name.lower() for code in codes}
    return [names.get(int(value), str(value)) for value in column]
