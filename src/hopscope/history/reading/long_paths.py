"""Paths of more than PATH_PART nodes: the nodes in their further records are added
to the row of the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt

from ...detect.records import PATH_PART
from .filters import HEAD
from .table import Table

LongPaths = Callable[[], str | None]
"""Returns a SELECT of all events that may be further records, or None if there are none."""
MAX_RECORDS = 255 // PATH_PART
"""Largest number of further records of a path."""
_MAX_RANGES = 200
_TYPES = {"shard": "USMALLINT", "sequence": "UBIGINT"}


def add_long_paths(
    table: Table,
    cursor: duckdb.DuckDBPyConnection,
    shard: Sequence[str],
    find: Callable[[Table, npt.NDArray[np.intp]], str | None],
) -> Table:
    """Complete long paths: add the nodes in their further records to the row of their first record.

    `shard`: the columns of the table that identify a shard. `find(table, rows)` returns a SELECT of the
    events that may be further records of these rows, or None if there are none.
    """
    names = (*shard, "sequence")
    paths = table["path"].tolist()
    begins = np.flatnonzero([path is not None and len(path) == PATH_PART for path in paths])
    if not len(begins) or (found := find(table, begins)) is None:
        return table
    keys = [np.ma.getdata(table[name])[begins].tolist() for name in names]
    places = dict(zip(zip(*keys, strict=True), begins.tolist(), strict=True))
    first = f"{', '.join(shard)}, sequence - hop // {PATH_PART}"
    first_records = ", ".join(
        f"unnest($k{i}::{_TYPES.get(name, 'VARCHAR')}[])" for i, name in enumerate(names)
    )
    parts = cursor.execute(
        f"""SELECT {first}, path FROM ({found}) WHERE NOT {HEAD}
        AND {_within(np.array(keys[-1], np.uint64) + np.uint64(1))}
        AND ({first}) IN (SELECT {first_records}) ORDER BY hop""",
        {f"k{i}": values for i, values in enumerate(keys)},
    ).fetchall()
    for *key, path in parts:
        at = places[tuple(key)]
        paths[at] = np.append(paths[at], np.array(path, np.uint32))
    column: npt.NDArray[Any] = np.empty(len(paths), object)
    for at, path in enumerate(paths):
        column[at] = path
    table.columns["path"] = np.ma.masked_array(column, mask=[path is None for path in paths])
    return table


def _within(begins: npt.NDArray[np.uint64]) -> str:
    """A SQL condition for the sequences of further records; those of a path begin at one of `begins`."""
    ends = begins + np.uint64(MAX_RECORDS)
    if len(begins) > _MAX_RANGES:
        return f"sequence BETWEEN {begins.min()} AND {ends.max()}"
    ranges = zip(begins.tolist(), ends.tolist(), strict=True)
    return f"({' OR '.join(f'sequence BETWEEN {begin} AND {end}' for begin, end in ranges)})"
