"""Distributions as people ask for them: counts of bins, joined over queues, shards and periods; quantiles.

A value is known by its bin alone, so a quantile is an interval: the k-th smallest value lies between the k-th
smallest of all lower ends and the k-th smallest of all upper ends.  That holds whatever the bins are, also
after the settings have changed them.  In logarithmic bins the ends differ by at most LOG_ERROR.
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
"""Upper edge of a last bin."""
LOG_ERROR = 0.25
"""Logarithmic bins are less wide than this share of their lowest value."""
QUANTILES = (0.5, 0.9, 0.99, 0.999)
"""Quantiles that tables show."""
By = Literal["queue", "port", "switch", "network"]
VIEWS: tuple[By, ...] = ("queue", "port", "switch", "network")
Counts = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Quantile:
    """Where a quantile lies."""

    lower: int
    """It is at least this."""
    upper: int | None
    """It is at most this; None: that is not known."""
    estimate: float
    """By interpolation in its bin: off by at most the bin's width."""


@dataclass(slots=True)
class Distribution:
    """How often the values of a measure fell into which bins, at a queue, a port, a switch or everywhere."""

    measure: Measure
    lower: Counts
    """Lowest value of each bin, uint64 [bins], rising; bins without values are left out."""
    upper: Counts
    """Highest value of each bin, uint64 [bins]; NO_BOUND: it has no end."""
    counts: Counts
    """Values in each bin, uint64 [bins]."""
    sum: int
    """Of all values."""
    highest: int
    """No value is above it; of a time window in which the maximum did not rise, it may be an older one."""
    node: int | None = None
    port: int | None = None
    """None: of all ports, or not known."""
    queue: int | None = None
    since_ns: int | None = None
    """The window that is covered begins here, ns since the epoch; None: with the first value."""
    until_ns: int | None = None
    """… and ends here; None: it goes on."""

    @property
    def count(self) -> int:
        """Values."""
        return int(self.counts.sum())

    @property
    def mean(self) -> float | None:
        """Exact for what is at rest; while values come in, as near as the bins say. None without values."""
        count = self.count
        if not count:
            return None
        least = float(self.lower.astype(float) @ self.counts) / count
        most = float(np.minimum(self.upper, np.uint64(self._most())).astype(float) @ self.counts) / count
        return min(max(self.sum / count, least), most)

    def quantile(self, q: float) -> Quantile | None:
        """Interval of the smallest value that a share `q` of all values do not exceed; None without values.

        ValueError: q is not from 0 to 1.
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
        most = self._most()
        upper = max(lower, min(int(self.upper[last]), most))
        if upper == NO_BOUND:
            return Quantile(lower, None, float(lower))
        share = 0.5
        if at == last:
            share = (int(k) - int(below[at] - self.counts[at]) - 0.5) / int(self.counts[at])
        return Quantile(lower, upper, lower + (upper - lower) * share)

    def _most(self) -> int:
        """`highest`, where it is one."""
        stopped = self.measure == Measure.END_TO_END and self.highest >= MAX_LATENCY
        return NO_BOUND if stopped else self.highest


def merged(parts: Sequence[Distribution]) -> Distribution:
    """All values of some distributions of one measure (at least one); it names what all have in common."""
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
    """Joined by queue, egress port, switch, or over the whole network; the end-to-end latency is of no place.

    In order of measure, node, port and queue; a port that is not known comes last.
    """
    groups: dict[tuple[object, ...], list[Distribution]] = {}
    named = len(VIEWS) - 1 - VIEWS.index(by)
    for part in parts:
        place = (part.node, part.port, part.queue)[:named]
        groups.setdefault((part.measure, *place), []).append(part)
    found = []
    for group in groups.values():
        one = merged(group)
        places = [one.node, one.port, one.queue][:named] + [None] * (3 - named)
        found.append(replace(one, node=places[0], port=places[1], queue=places[2]))
    return sorted(found, key=_order)


def _order(one: Distribution) -> tuple[int, ...]:
    return (one.measure, *(1 << 32 if n is None else n for n in (one.node, one.port, one.queue)))


def _same(values: list[int | None]) -> int | None:
    return values[0] if len(set(values)) == 1 else None
