"""Limits of the sink by switch and measure: conversion between settings and tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ...settings.sink import SinkLimits, SinkSettings, SinkSwitch, SinkThresholds
from ..records import NEVER
from .records import MEASURES, SINK_LIMIT, Measure

Table = npt.NDArray[np.void]
Nodes = npt.NDArray[np.uint32]
SWITCH_MEASURES = tuple(SinkThresholds.model_fields)
"""Measures with limits per switch, by name."""
MAX_CHANGE = np.uint64(1 << 40)
"""A T above any difference: values are at most 64 times 2^32."""


def to_tables(settings: SinkSettings) -> tuple[Table, Nodes]:
    """SINK_LIMIT [1 + switches], and the node ids of the switches, uint32 [switches], ascending."""
    switches = sorted(settings.switches, key=lambda switch: switch.node)
    table = np.full(2 * MEASURES * (1 + len(switches)), NEVER, np.uint64).view(SINK_LIMIT)
    _put(table[0], Measure.END_TO_END, settings.end_to_end)
    for row, switch in zip(table, (None, *switches), strict=True):
        for name in SWITCH_MEASURES:
            own: SinkLimits | None = getattr(switch, name) if switch else None
            _put(row, Measure[name.upper()], own or getattr(settings.thresholds, name))
    return table, np.array([switch.node for switch in switches], np.uint32)


def _put(row: np.void, measure: Measure, limits: SinkLimits) -> None:
    for field in ("change", "above"):
        value = getattr(limits, field)
        row[field][measure] = NEVER if value is None else value


def _get(row: np.void, measure: Measure) -> SinkLimits:
    found = {field: int(row[field][measure]) for field in ("change", "above")}
    return SinkLimits(**{field: value for field, value in found.items() if value != NEVER})


def to_settings(table: Table, nodes: Nodes) -> SinkSettings:
    """Settings from tables; absent limits get their defaults."""

    def of(row: np.void) -> dict[str, Any]:
        return {name: _get(row, Measure[name.upper()]) for name in SWITCH_MEASURES}

    return SinkSettings(
        thresholds=SinkThresholds(**of(table[0])),
        end_to_end=_get(table[0], Measure.END_TO_END),
        switches=tuple(
            SinkSwitch(node=int(node), **of(row)) for node, row in zip(nodes, table[1:], strict=True)
        ),
    )


def as_json(settings: SinkSettings) -> dict[str, Any]:
    """Limits by measure, and in `switches` by node id; null: never, or the common limit."""
    return {
        **settings.thresholds.model_dump(),
        "end_to_end": settings.end_to_end.model_dump(),
        "switches": {str(switch.node): switch.model_dump(exclude={"node"}) for switch in settings.switches},
    }


def for_kernel(table: Table, scale: float = 1.0) -> npt.NDArray[np.uint64]:
    """Limits for `sink_kernel`, uint64 [rows * MEASURES * 3]: T, 2T, above, multiplied by `scale`.

    A limit of 0 is scaled as if it were 1.
    """
    limits = np.stack([table["change"], table["above"]])
    if scale > 1:
        raised = np.ceil(np.maximum(limits, 1).astype(np.float64) * scale)
        finite = np.minimum(raised, 2.0**62).astype(np.uint64)
        limits = np.where(limits == NEVER, limits, finite)
    span = np.minimum(limits[0], MAX_CHANGE)
    return np.stack([span, span * np.uint64(2), limits[1]], axis=-1).reshape(-1)


def overrides(nodes: Nodes) -> npt.NDArray[np.uint64]:
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
