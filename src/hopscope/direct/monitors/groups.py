"""Per-flow state in batches: numbers for keys, and running values over the rows of a number."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .monitor import Bytes

Ints = npt.NDArray[np.int64]


class Numbering:
    """Numbers keys from 0, in the order of their first appearance."""

    def __init__(self, key_bytes: int) -> None:
        self.key_bytes = key_bytes
        self._numbers: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def of(self, keys: Bytes) -> Ints:
        """Number of each key, int64 [keys]; keys uint8 [keys, bytes]."""
        rows = np.ascontiguousarray(keys).view(np.dtype((np.void, self.key_bytes))).reshape(-1)
        distinct, first, which = np.unique(rows, return_index=True, return_inverse=True)
        numbers = np.zeros(len(distinct), np.int64)
        for row in np.argsort(first):
            numbers[row] = self._numbers.setdefault(distinct[row].tobytes(), len(self._numbers))
        return numbers[which.reshape(-1)]

    @property
    def keys(self) -> Bytes:
        """Keys in the order of their numbers, uint8 [keys, bytes]."""
        return np.frombuffer(b"".join(self._numbers), np.uint8).reshape(-1, self.key_bytes)


class Groups:
    """Groups the rows of a batch by their number; results are in the batch's order."""

    def __init__(self, numbers: Ints) -> None:
        self.order = np.argsort(numbers, kind="stable")
        """Rows sorted by number, stable."""
        ordered = numbers[self.order]
        self._begins = np.ones(len(ordered), bool)
        self._begins[1:] = ordered[1:] != ordered[:-1]
        self._group = np.cumsum(self._begins) - 1
        ends = np.ones(len(ordered), bool)
        ends[:-1] = self._begins[1:]
        self.last = self.order[ends]
        """Last row of each of `numbers`."""
        self.first = self._back(self._begins)
        """Whether a row is the first of its number, bool [rows]."""
        self.numbers = ordered[ends]
        """Distinct numbers, ascending."""

    def sums(self, values: npt.ArrayLike) -> Ints:
        """Sum of a number's values up to and including each row, int64 [rows]."""
        ordered = np.asarray(values, np.int64)[self.order]
        total = np.cumsum(ordered)
        before = (total - ordered)[self._begins]
        return self._back(total - before[self._group])

    def totals(self, values: npt.ArrayLike) -> Ints:
        """Sum of all values of each number in `numbers`."""
        return np.asarray(
            np.bincount(self._group, np.asarray(values, np.float64)[self.order], len(self.numbers)), np.int64
        )

    def previous(self, values: npt.NDArray[Any], before: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Value of the previous row with the same number; for the first row of a number, its value in
        `before` [numbers].
        """
        ordered = values[self.order]
        shifted = np.empty_like(ordered)
        shifted[1:] = ordered[:-1]
        shifted[self._begins] = before
        return self._back(shifted)

    def highest_before(self, values: Ints, before: Ints) -> Ints:
        """Maximum of a number's values before each row and its value in `before` [numbers], int64 [rows]."""
        ordered = values[self.order]
        shifted = np.empty_like(ordered)
        shifted[1:] = ordered[:-1]
        shifted[self._begins] = before
        low = int(shifted.min(initial=0))
        span = int(shifted.max(initial=0)) - low + 1
        lifted = np.maximum.accumulate(shifted - low + self._group * span)
        return self._back(lifted - self._group * span + low)

    def _back(self, ordered: npt.NDArray[Any]) -> npt.NDArray[Any]:
        back = np.empty_like(ordered)
        back[self.order] = ordered
        return back


def grown(column: npt.NDArray[Any], count: int) -> npt.NDArray[Any]:
    """A column of state, extended with zeros to at least `count` numbers."""
    if len(column) >= count:
        return column
    larger = np.zeros((max(count, 2 * len(column)), *column.shape[1:]), column.dtype)
    larger[: len(column)] = column
    return larger
