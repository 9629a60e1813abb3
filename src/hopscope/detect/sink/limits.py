"""Limits of the sink as its kernels take them, by switch and measure."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..records import INHERITED, NEVER, NO_NODE, SWITCH_METRICS, THRESHOLD, Metric
from .records import MEASURES

Table = npt.NDArray[np.void]
METRICS = (*SWITCH_METRICS, Metric.FLOW_LATENCY)
"""Metric of each Measure."""
MAX_CHANGE = np.uint64(1 << 40)
"""A T above any difference: values are at most 64 times 2^32."""


def resolve(thresholds: Table, switches: Table) -> tuple[Table, npt.NDArray[np.uint32]]:
    """THRESHOLD [1 + switches, MEASURES] and the switches' node ids, uint32 [switches].

    `thresholds` are THRESHOLD [Metric], `switches` SWITCH_THRESHOLDS. What a switch inherits is filled in.
    """
    switches = switches[switches["node_id"] != NO_NODE]
    table = np.tile(thresholds[list(METRICS)], (1 + len(switches), 1))
    for name in THRESHOLD.names or ():
        own = switches["limits"][name]
        of_all = table[name][1:, : len(SWITCH_METRICS)]
        of_all[:] = np.where(own == INHERITED, of_all, own)
    return table, switches["node_id"].copy()


def for_kernel(table: Table, scale: float = 1.0) -> npt.NDArray[np.uint64]:
    """Limits for `sink_kernel`, uint64 [rows * MEASURES * 4]: T, 2T, above, below, multiplied by `scale`.

    A limit of 0 is scaled as if it were 1.
    """
    limits = np.stack([table[name] for name in THRESHOLD.names or ()])
    if scale > 1:
        raised = np.ceil(np.maximum(limits, 1).astype(np.float64) * scale)
        finite = np.minimum(raised, 2.0**62).astype(np.uint64)
        limits = np.where(limits == NEVER, limits, finite)
    change, above, below = limits.reshape(3, -1, MEASURES)
    span = np.minimum(change, MAX_CHANGE)
    columns = np.stack([span, span * np.uint64(2), above, below], axis=-1, dtype=np.uint64)
    return columns.reshape(-1)


def overrides(nodes: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint64]:
    """Open-addressing table from node id to row: row << 32 | node; of length 1 if empty.

    A lookup per hop costs one access to the L1 cache, and nothing if no switch has its own limits.
    """
    if not len(nodes):
        return np.zeros(1, np.uint64)
    size = 1 << int(2 * len(nodes)).bit_length()
    found = np.zeros(size, np.uint64)
    for row, node in enumerate(nodes.tolist(), 1):
        at = ((node * 0x9E3779B97F4A7C15 & NEVER) >> 32) & (size - 1)
        while found[at]:
            at = (at + 1) & (size - 1)
        found[at] = row << 32 | node
    return found
