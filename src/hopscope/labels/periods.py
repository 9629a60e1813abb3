"""Sums of every port's labels over a period, for history."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..wire.records import Records

Ints = npt.NDArray[np.int64]

PORT_PERIOD = np.dtype(
    [
        ("row", "<i8"),  # of the table
        ("labels", "<u8"),
        ("latency", "<u8"),  # mean, ns
        ("highest_latency", "<u8"),
        ("occupancy", "<u8"),  # mean, bytes
        ("highest_occupancy", "<u8"),
    ]
)
"""Labels of one port in a period."""
_MEASURES = ("latency_ns", "occupancy")


class Periods:
    """Sums of the current period, by row of the table."""

    def __init__(self, rows: int) -> None:
        self._labels = np.zeros(rows, np.uint64)
        self._sums = {name: np.zeros(rows, np.uint64) for name in _MEASURES}
        self._highest = {name: np.zeros(rows, np.uint32) for name in _MEASURES}

    def take(self, rows: Ints, labels: Records) -> None:
        """Add LABEL records of these rows, including late ones."""
        np.add.at(self._labels, rows, np.uint64(1))
        for name in _MEASURES:
            np.add.at(self._sums[name], rows, labels[name].astype(np.uint64))
            np.maximum.at(self._highest[name], rows, labels[name])

    def forget(self, rows: Ints) -> None:
        """Forget the state of these rows, which are given to other ports."""
        self._labels[rows] = 0
        for name in _MEASURES:
            self._sums[name][rows] = 0
            self._highest[name][rows] = 0

    def close(self) -> Records:
        """End the period and begin the next; returns PORT_PERIOD [ports with labels]."""
        rows = np.flatnonzero(self._labels)
        made = np.zeros(len(rows), PORT_PERIOD)
        made["row"], made["labels"] = rows, self._labels[rows]
        for name, short in zip(_MEASURES, ("latency", "occupancy"), strict=True):
            made[short] = self._sums[name][rows] // self._labels[rows]
            made[f"highest_{short}"] = self._highest[name][rows]
        self.forget(rows)
        return made
