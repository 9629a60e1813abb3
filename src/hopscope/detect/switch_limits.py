"""Limits by switch in the form that kernels take: inherited limits are filled in."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .records import INHERITED, NEVER, NO_NODE, SWITCH_METRICS, THRESHOLD

Table = npt.NDArray[np.void]


def resolve(thresholds: Table, switches: Table) -> tuple[Table, npt.NDArray[np.uint32]]:
    """THRESHOLD [1 + switches, Metric], and the switches' node ids, uint32 [switches].

    `thresholds` are THRESHOLD [Metric], `switches` SWITCH_THRESHOLDS. Row 0 has the limits of all switches.
    """
    switches = switches[switches["node_id"] != NO_NODE]
    table = np.tile(thresholds, (1 + len(switches), 1))
    for name in THRESHOLD.names or ():
        own, of_all = switches["limits"][name], table[name][1:]
        of_all[:, SWITCH_METRICS] = np.where(own == INHERITED, of_all[:, SWITCH_METRICS], own)
    return table, switches["node_id"].copy()


def overrides(nodes: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint64]:
    """Open-addressing table from node id to row: row << 32 | node; length 1 if no switch has its own limits.

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
