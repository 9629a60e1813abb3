"""Snapshots: consistent rows of a table that another process writes.

A writer makes a row's version odd, changes the row, and makes it even again.  A reader copies version, row
and version: equal and even means consistent. Each row has its own version, since one for the table would
starve its readers. A row that stays odd was left by a killed writer, and is not returned.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from .region import barrier

Array = npt.NDArray[Any]


class Versions(Protocol):
    """Versions by numbers of rows."""

    def __getitem__(self, numbers: Array, /) -> Array: ...


TRIES = 64
SPIN_TRIES = 16
"""Tries after which each further one waits half a millisecond, since the writer may not be running."""
CHUNK = 1024
"""Rows copied between two checks of their versions; few, so that few change meanwhile."""


def snapshot_rows(rows: Array, versions: Array) -> Array:
    """Copy of the rows of `rows` [n, …] that are consistent by `versions` [n]."""
    _, (copy,) = consistent(versions, lambda at: (rows[at],), np.arange(len(rows)))
    return copy


def rows_at(rows: Array, numbers: Array) -> Array:
    """The same as `rows[numbers]` for records of whole words in one piece: NumPy copies fields of records one
    by one, 100,000 flows in 150 ms, and words in 25 ms.
    """
    words = rows.view(np.uint64).reshape(len(rows), rows.itemsize // 8)
    return words.take(numbers, axis=0).view(rows.dtype).reshape(len(numbers))


def rows_where(rows: Array, mask: Array) -> Array:
    """The same as `rows[mask]` for such records."""
    return rows_at(rows, np.flatnonzero(mask))


def joined(parts: Sequence[Array]) -> Array:
    """The same as `np.concatenate` for records, each copied at once."""
    whole: Array = np.concatenate(
        [part.view(f"V{part.itemsize}") if part.dtype.names else part for part in parts]
    )
    return whole.view(parts[0].dtype)


def consistent(
    versions: Versions, read: Callable[[Array], tuple[Array, ...]], rows: Array, tries: int = TRIES
) -> tuple[Array, tuple[Array, ...]]:
    """Read some rows of several arrays: (numbers of the consistent rows, arrays as returned by `read`).

    `read(numbers)` copies the rows with these numbers; the first axis of each array is the rows.
    """
    kept: list[Array] = []
    parts: list[tuple[Array, ...]] = []
    for at in range(
        0, max(len(rows), 1), CHUNK
    ):  # at least once, so that the result has dtypes even without rows
        pending = rows[at : at + CHUNK]
        for attempt in range(tries):
            if attempt >= SPIN_TRIES:
                time.sleep(0.0005)
            before = versions[pending]
            barrier()
            copies = read(pending)
            barrier()
            good = (versions[pending] == before) & (before & 1 == 0)
            if good.all():  # usual; another copy of the rows costs as much as the first
                kept.append(pending)
                parts.append(copies)
                break
            kept.append(pending[good])
            parts.append(tuple(copy[good] for copy in copies))
            pending = pending[~good]
    if len(kept) == 1:
        return kept[0], parts[0]
    numbers = np.concatenate(kept)
    found = tuple(joined(columns) for columns in zip(*parts, strict=True))
    if (numbers[1:] >= numbers[:-1]).all():
        return numbers, found
    order = np.argsort(numbers, kind="stable")
    return numbers[order], tuple(column[order] for column in found)
