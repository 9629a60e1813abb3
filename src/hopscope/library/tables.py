"""Records as columns and tables: what the library gives to NumPy, Arrow, pandas and Polars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..base.errors import HopscopeError
from ..wire.address import address
from ..wire.records import Records

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

Columns = dict[str, npt.NDArray[Any]]


def columns(records: Records) -> Columns:
    """Every field of some records as a column: views, without a copy; raw numbers, as they were sent."""
    return {name: records[name] for name in records.dtype.names or () if not name.startswith("reserved")}


def readable(records: Records, labels: dict[str, type] | None = None) -> dict[str, Any]:
    """Columns for people: addresses as text instead of two halves, codes by their names in `labels`."""
    table: dict[str, Any] = {}
    for name, column in columns(records).items():
        if name.endswith("_lo"):
            continue
        if name.endswith("_hi"):
            table[name[:-3]] = _addresses(column, records[f"{name[:-3]}_lo"])
        elif labels and name in labels:
            table[name] = _labels(column, labels[name])
        elif column.ndim == 2:
            table[name] = list(column)
        else:
            table[name] = np.ascontiguousarray(column)
    return table


def to_arrow(table: dict[str, Any]) -> pyarrow.Table:
    """A pyarrow.Table of these columns; HopscopeError where pyarrow is missing."""
    try:
        import pyarrow
    except ImportError as error:
        raise HopscopeError("pyarrow is not installed: pip install 'hopscope[arrow]'") from error
    return pyarrow.table({name: pyarrow.array(column) for name, column in table.items()})


def to_pandas(table: dict[str, Any]) -> pandas.DataFrame:
    """A pandas.DataFrame of these columns; HopscopeError where pandas is missing."""
    try:
        import pandas
    except ImportError as error:
        raise HopscopeError("pandas is not installed: pip install 'hopscope[pandas]'") from error
    return pandas.DataFrame(table)


def to_polars(table: dict[str, Any]) -> polars.DataFrame:
    """A polars.DataFrame of these columns; HopscopeError where Polars is missing."""
    try:
        import polars
    except ImportError as error:
        raise HopscopeError("Polars is not installed: pip install 'hopscope[polars]'") from error
    return polars.DataFrame({name: polars.Series(name, column) for name, column in table.items()})


def _addresses(high: npt.NDArray[np.uint64], low: npt.NDArray[np.uint64]) -> list[str]:
    pairs = np.empty(len(high), [("high", "<u8"), ("low", "<u8")])
    pairs["high"], pairs["low"] = high, low
    distinct, inverse = np.unique(pairs, return_inverse=True)
    texts = [address(int(pair["high"]), int(pair["low"])) for pair in distinct]
    return [texts[i] for i in inverse]


def _labels(column: npt.NDArray[Any], codes: Any) -> list[str]:
    names = {int(code): code.name.lower() for code in codes}
    return [names.get(int(value), str(value)) for value in column]
