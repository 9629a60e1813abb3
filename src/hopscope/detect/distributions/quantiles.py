"""Distributions for queries: counts of bins, merged over queues, shards and periods, and quantiles.

Only the bin of a value is known, so a quantile is an interval: the k-th smallest value lies between the k-th
smallest lower edge and the k-th smallest upper edge. That holds for any bins, also if the settings have
changed them. In logarithmic bins the edges differ by at most LOG_ERROR.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from ..records import MAX_LATENCY
from ..sink.records import Measure

NO_BOUND = 0xFFFFFFFFFFFFFFFF
"""Upper edge of the last bin."""
LOG_ERROR = 0.25
"""Width of logarithmic bins as a share of their lowest value, upper bound."""
QUANTILES = (0.5, 0.9, 0.99, 0.999)
"""Quantiles shown in tables."""
By = Literal["queue", "port", "switch", "network"]
VIEWS: tuple[By, ...] = ("queue", "port", "switch", "network")
BinCounts = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Quantile:
    """Interval of a quantile."""

    lower: int
    """Lower bound."""
    upper: int | None
    """Upper bound; None: unknown."""
    estimate: float
    """Interpolation in its bin: the error is at most the bin's width."""


@dataclass(slots=True)
class Distribution:
    """Histogram of a measure at a queue, port or switch, or in the whole network."""

    measure: Measure
    lower: BinCounts
    """Lowest value of each bin, uint64 [bins], ascending, without empty bins."""
    upper: BinCounts
    """Highest value of each bin, uint64 [bins]; NO_BOUND: unbounded."""
    counts: BinCounts
    """Values in each bin, uint64 [bins]."""
    sum: int
    """Sum of all values."""
    highest: int
    """Upper bound of all values. In a time window in which the maximum did not rise, this may be the maximum
    of an earlier time.
    """
    node: int | None = None
    port: int | None = None
    """None: all ports, or unknown."""
    queue: int | None = None
    since_ns: int | None = None
    """Start of the covered window, ns since the epoch; None: the first value."""
    until_ns: int | None = None
    """Its end; None: still open."""

    @property
    def count(self) -> int:
        """Number of values."""
        return int(self.counts.sum())

    @property
    def mean(self) -> float | None:
        """Mean: exact for a finished distribution, within the precision of the bins while values are added.
        None without values.
        """
        count = self.count
        if not count:
            return None
        min_value = float(self.lower.astype(float) @ self.counts) / count
        max_value = float(np.minimum(self.upper, np.uint64(self._max())).astype(float) @ self.counts) / count
        return min(max(self.sum / count, min_value), max_value)

    def quantile(self, q: float) -> Quantile | None:
        """Interval of the smallest value that at least a share `q` of all values do not exceed; None without
        values.

        Raises ValueError unless q is from 0 to 1.
        """
        if not 0 <= q <= 1:
            raise ValueError(f"found a quantile of {q:g}, expected 0 to 1")
        count = self.count
        if not count:
            return None
        k = np.uint64(max(1, math.ceil(q * count - 1e-9)))
        below = np.cumsum(self.counts)
        at = int(np.searchsorted(below, k))
        order = np.argsort(self.upper, kind="stable")
        last = int(order[np.searchsorted(np.cumsum(self.counts[order]), k)])
        lower = int(self.lower[at])
        max_value = self._max()
        upper = max(lower, min(int(self.upper[last]), max_value))
        if upper == NO_BOUND:
            return Quantile(lower, None, float(lower))
        share = 0.5
        if at == last:
            share = (int(k) - int(below[at] - self.counts[at]) - 0.5) / int(self.counts[at])
        return Quantile(lower, upper, lower + (upper - lower) * share)

    def _max(self) -> int:
        """`highest`, or NO_BOUND if it has reached MAX_LATENCY, where it stops."""
        stopped = self.measure == Measure.END_TO_END and self.highest >= MAX_LATENCY
        return NO_BOUND if stopped else self.highest


def merged(parts: Sequence[Distribution]) -> Distribution:
    """Merge one or more distributions of one measure; the place of the result is what all have in common."""
    first = parts[0]
    if len(parts) == 1:
        return first
    edges = np.stack([np.concatenate([p.lower for p in parts]), np.concatenate([p.upper for p in parts])])
    (lower, upper), place = np.unique(edges, axis=1, return_inverse=True)
    counts = np.zeros(len(lower), np.uint64)
    np.add.at(counts, place.reshape(-1), np.concatenate([part.counts for part in parts]))
    starts = [part.since_ns for part in parts]
    ends = [part.until_ns for part in parts]
    return Distribution(
        first.measure,
        lower,
        upper,
        counts,
        sum(part.sum for part in parts),
        max(part.highest for part in parts),
        _same([part.node for part in parts]),
        _same([part.port for part in parts]),
        _same([part.queue for part in parts]),
        since_ns=None if None in starts else min(start for start in starts if start is not None),
        until_ns=None if None in ends else max(end for end in ends if end is not None),
    )


def grouped(parts: Iterable[Distribution], by: By) -> list[Distribution]:
    """Merge by queue, egress port, switch, or over the whole network; end-to-end latency has no place.

    Sorted by measure, node, port and queue; unknown ports come last.
    """
    groups: dict[tuple[object, ...], list[Distribution]] = {}
    named = len(VIEWS) - 1 - VIEWS.index(by)
    for part in parts:
        place = (part.node, part.port, part.queue)[:named]
        groups.setdefault((part.measure, *place), []).append(part)
    found = []
    for group in groups.values():
        distribution = merged(group)
        places = [distribution.node, distribution.port, distribution.queue][:named] + [None] * (3 - named)
        found.append(replace(distribution, node=places[0], port=places[1], queue=places[2]))
    return sorted(found, key=_order)


def _order(distribution: Distribution) -> tuple[int, ...]:
    return (
        distribution.measure,
        *(1 << 32 if n is None else n for n in (distribution.node, distribution.port, distribution.queue)),
    )


def _same(values: list[int | None]) -> int | None:
    return values[0] if len(set(values)) == 1 else None
