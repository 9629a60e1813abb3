"""Snapshots: rows of a table that another process writes, each one consistent.

A writer makes a row's version odd, changes the row, and makes it even again.  A reader copies version, row
and version: equal and even means whole.  There is one version per row, since one for a whole table would
starve its readers.  A row that stays odd was left so by a killed writer, and is not returned.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from .region import barrier

Array = npt.NDArray[Any]
TRIES = 64
PATIENT = 16
"""Tries after which each further one waits half a millisecond: the writer may have lost its processor."""
CHUNK = 1024
"""Rows that are copied between two looks at their versions: short, so that few are changed meanwhile."""


def snapshot_rows(rows: Array, versions: Array) -> Array:
    """Copy of `rows` [n, …] in which every row is consistent by `versions` [n]; torn rows are left out."""
    _, (copy,) = consistent(versions, lambda at: (rows[at],), np.arange(len(rows)))
    return copy


def consistent(
    versions: Array, read: Callable[[Array], tuple[Array, ...]], rows: Array, tries: int = TRIES
) -> tuple[Array, tuple[Array, ...]]:
    """Read some rows of several arrays: (row numbers that were consistent, arrays as `read` gave them).

    `read(numbers)` copies the rows with these numbers, each array's first axis being the rows.
    """
    kept: list[Array] = []
    parts: list[tuple[Array, ...]] = []
    for at in range(0, max(len(rows), 1), CHUNK):  # once at least: the result has dtypes even without rows
        pending = rows[at : at + CHUNK]
        for attempt in range(tries):
            if attempt >= PATIENT:
                time.sleep(0.0005)
            before = versions[pending]
            barrier()
            copies = read(pending)
            barrier()
            good = (versions[pending] == before) & (before & 1 == 0)
            kept.append(pending[good])
            parts.append(tuple(copy[good] for copy in copies))
            pending = pending[~good]
            if not len(pending):
                break
    numbers = np.concatenate(kept)
    order = np.argsort(numbers, kind="stable")
    return numbers[order], tuple(np.concatenate(columns)[order] for columns in zip(*parts, strict=True))
