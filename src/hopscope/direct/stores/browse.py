"""Contents of a store that can be listed without keys: lists with entries, and counters that are not 0."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from ..primitives.append_layout import AppendLayout
from ..primitives.key_increment import KeyIncrementLayout
from .store import Store, StoreError

MAX_BYTES = 1 << 30
"""Size of the largest store whose counters are all read."""
_AT_A_TIME = 1 << 20
"""Counters that are processed together: sorting all counters of the largest store would take 4 GB."""


def entries_of(store: Store, first: int, number: int) -> npt.NDArray[np.uint64]:
    """Number of entries that each of these lists has had, modulo 2^32, uint64 [lists]. Raises StoreError."""
    from ..primitives.append_reader import ListsReader

    if not isinstance(store.layout, AppendLayout):
        raise StoreError(f"a store of {store.layout.name} has no lists")
    last = min(first + number, store.layout.lists)
    reader = ListsReader(store, np.arange(first, max(first, last)), "new")
    return reader.tails["entries"].astype(np.uint64)


def counters_of(
    store: Store, order: Literal["highest", "index"], offset: int, limit: int
) -> tuple[int, npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
    """Number of counters that are not 0, and numbers and values of a page of these, int64 and uint64
    [counters].

    A counter belongs to all keys that hash to it; its number says nothing about them. Raises StoreError.
    """
    layout = store.layout
    if not isinstance(layout, KeyIncrementLayout):
        raise StoreError(f"a store of {layout.name} has no counters")
    if layout.nbytes > MAX_BYTES:
        raise StoreError(f"the store has more than {MAX_BYTES >> 30} GiB: ask for keys")
    values = store.memory.view(np.uint64)[: layout.slots]
    total, most = 0, offset + limit
    first = np.zeros(0, np.int64)
    for at in range(0, len(values), _AT_A_TIME):
        found = at + np.flatnonzero(values[at : at + _AT_A_TIME])
        total += len(found)
        if order == "index":
            found = found[: most - len(first)]
        first = np.append(first, found)
        if len(first) > 2 * most + _AT_A_TIME:
            first = _highest(values, first)[:most]
    page = (_highest(values, first) if order == "highest" else first)[offset:most]
    return total, page, values[page].copy()


def _highest(values: npt.NDArray[np.uint64], numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Numbers of counters by value, the highest first."""
    return numbers[np.lexsort((numbers, values[numbers]))[::-1]]
