"""Limits of the sink as its kernels take them, by measure."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..records import NEVER, THRESHOLD, Metric
from .records import MEASURES

Table = npt.NDArray[np.void]
METRICS = (Metric.HOP_LATENCY, Metric.QUEUE_OCCUPANCY, Metric.LINK_UTILIZATION, Metric.FLOW_LATENCY)
"""Metric of each Measure."""
MAX_CHANGE = np.uint64(1 << 40)
"""A threshold T that no difference exceeds: values are at most 64 times 2^32."""


def for_kernel(table: Table, scale: float = 1.0) -> npt.NDArray[np.uint64]:
    """Limits for `sink_kernel`, uint64 [rows * MEASURES * 4]: T, 2T, above, below, multiplied by `scale`.

    `table` is THRESHOLD [rows, Metric], see `switch_limits.resolve`. A limit of 0 is scaled as if it were 1.
    """
    table = table[:, METRICS]
    limits = np.stack([table[name] for name in THRESHOLD.names or ()])
    if scale > 1:
        raised = np.ceil(np.maximum(limits, 1).astype(np.float64) * scale)
        finite = np.minimum(raised, 2.0**62).astype(np.uint64)
        limits = np.where(limits == NEVER, limits, finite)
    change, above, below = limits.reshape(3, -1, MEASURES)
    span = np.minimum(change, MAX_CHANGE)
    columns = np.stack([span, span * np.uint64(2), above, below], axis=-1, dtype=np.uint64)
    return columns.reshape(-1)


def bounds_of(limits: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint32]:
    """The lowest limits of all switches, uint32 [8]: T of node id and measures, then their `above`."""
    span, _, above, _ = limits.reshape(-1, MEASURES, 4).min(axis=0).T
    bounds = np.zeros((2, MEASURES), np.uint64)
    bounds[0, 1:], bounds[1, 1:], bounds[1, 0] = span[:-1], above[:-1], NEVER
    return np.minimum(bounds, 0xFFFFFFFF).astype(np.uint32).reshape(-1)
