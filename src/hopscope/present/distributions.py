"""Distributions as JSON objects of the API and of queries, and reduced to a drawing's width."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..detect.distributions.quantiles import NO_BOUND, QUANTILES, Distribution
from ..detect.sink.records import Measure
from .events import Naming, node_object, port_object, when, wide

_TIMES = (Measure.HOP_LATENCY, Measure.END_TO_END)


def unit(measure: Measure) -> str | None:
    """Unit of a measure's values; None: the unit that the switches use."""
    return "ns" if measure in _TIMES else None


def distribution_object(one: Distribution, names: Naming, *, bins: bool = True) -> dict[str, Any]:
    """A distribution as JSON. Every key is present, and null if it does not apply. `bins`: also the counts of
    bins.
    """
    return {
        "measure": one.measure.label,
        "unit": unit(one.measure),
        "node": None if one.node is None else node_object(names, one.node),
        "port": port_object(names, one.node, one.port),
        "queue": one.queue,
        "since": when(one.since_ns),
        "until": when(one.until_ns),
        "count": wide(one.count),
        "mean": one.mean,
        "highest": one.highest,
        "quantiles": [quantile_object(one, q) for q in QUANTILES],
        "bins": [
            {"lower": wide(low), "upper": None if high == NO_BOUND else wide(high), "count": wide(count)}
            for low, high, count in zip(
                one.lower.tolist(), one.upper.tolist(), one.counts.tolist(), strict=True
            )
        ]
        if bins
        else None,
    }


def quantile_object(one: Distribution, q: float) -> dict[str, Any]:
    """A quantile and its bounds, which are null if there are no values, or no bound."""
    found = one.quantile(q)
    return {
        "q": q,
        "lower": None if found is None else wide(found.lower),
        "upper": None if found is None else wide(found.upper),
        "estimate": None if found is None else found.estimate,
    }


def columns(one: Distribution, width: int) -> list[tuple[float, float, float]]:
    """A histogram of at most `width` columns, equally wide on a logarithmic scale; (from, to, values) for
    each.

    The values of a bin that is wider than a column are spread evenly over the bin.
    """
    if not one.count:
        return []
    low = one.lower.astype(float)
    end = np.minimum(one.upper.astype(float), max(float(one.highest), float(low[-1]))) + 1
    first, last = math.log2(low[0] + 1), math.log2(float(end.max()) + 1)
    scale = np.exp2(np.linspace(first, last, width + 1)) - 1
    starts, ends = np.maximum(low[:, None], scale[:-1]), np.minimum(end[:, None], scale[1:])
    spans = np.log2(np.maximum(ends, starts) + 1) - np.log2(starts + 1)
    whole = np.log2(end + 1) - np.log2(low + 1)
    counts = (spans / whole[:, None] * one.counts[:, None]).sum(axis=0)
    return list(zip(scale[:-1].tolist(), scale[1:].tolist(), counts.tolist(), strict=True))
