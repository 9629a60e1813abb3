"""Limits by metric: conversion between settings and tables, and the control region."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ..memory.region import Region, barrier
from ..settings.collector import MetricLimits, ThresholdSettings
from ..settings.sink import MAX_SWITCHES, SinkSettings
from .records import METRICS, NEVER, NO_NODE, STATE_VERSION, THRESHOLD, Metric
from .sink import limits as sink_limits
from .sink.records import SINK_LIMIT

Table = npt.NDArray[np.void]
CONTROL_FILE = "control.region"
KIND = "control"
ARRAYS = {
    "thresholds": (THRESHOLD, METRICS),
    "changes": (np.uint64, 1),  # odd while limits are written
    "sink_limits": (SINK_LIMIT, 1 + MAX_SWITCHES),
    "sink_nodes": (np.uint32, MAX_SWITCHES),  # ascending; sink_limits[1 + i] are those of sink_nodes[i]
}


def to_table(settings: ThresholdSettings) -> Table:
    """THRESHOLD[METRICS]."""
    table = np.full(METRICS, NEVER, np.uint64).repeat(3).view(THRESHOLD)
    for name in type(settings).model_fields:
        limits: MetricLimits = getattr(settings, name)
        row = table[Metric[name.upper()]]
        for field in ("change", "raise_above", "clear_below"):
            value = getattr(limits, field)
            row[field] = NEVER if value is None else value
    return table


def to_settings(table: Table) -> ThresholdSettings:
    """Settings from a table."""
    limits: dict[str, Any] = {}
    for name in ThresholdSettings.model_fields:
        row = table[Metric[name.upper()]]
        fields = {field: int(row[field]) for field in ("change", "raise_above", "clear_below")}
        limits[name] = MetricLimits(**{key: value for key, value in fields.items() if value != NEVER})
    return ThresholdSettings(**limits)


def create_control(
    path: Path | None, settings: ThresholdSettings, sink: SinkSettings | None = None
) -> Region:
    """Create the region of the current limits, in a file or (None) in private memory."""
    region = Region.create(path, KIND, STATE_VERSION, ARRAYS)
    region["thresholds"][:] = to_table(settings)
    set_sink_limits(region, sink or SinkSettings())
    return region


def open_control(
    folder: Path | None, settings: ThresholdSettings, sink: SinkSettings | None = None
) -> Region:
    """Map the region of a folder, read-only, or create it from the settings if there is none."""
    if folder is None:
        return create_control(None, settings, sink)
    path = folder / CONTROL_FILE
    return Region.attach(path, KIND, STATE_VERSION) if path.exists() else create_control(path, settings, sink)


def set_limits(region: Region, limits: Mapping[str, Any]) -> None:
    """Set limits: {metric: {change, raise_above, clear_below}}, null for never.

    Detection uses them from its next batch on. Raises ValueError for invalid limits, without changes.
    """
    settings = limits_as_json(region)
    for metric, values in limits.items():
        if metric not in settings:
            raise ValueError(f"unknown metric '{metric}'; known are {', '.join(settings)}")
        settings[metric] = dict(values)
    table = to_table(ThresholdSettings.model_validate(settings))
    with _changing(region):
        region["thresholds"][:] = table


def set_sink_limits(region: Region, settings: SinkSettings) -> None:
    """Set the limits of `settings` for sinks, which use them from their next batch on."""
    limits, nodes = sink_limits.to_tables(settings)
    with _changing(region):
        region["sink_limits"][: len(limits)] = limits
        region["sink_nodes"][: len(nodes)] = nodes
        region["sink_nodes"][len(nodes) :] = NO_NODE


def limits_as_json(region: Region) -> dict[str, dict[str, int | None]]:
    """Current limits by metric."""
    return cast("dict[str, dict[str, int | None]]", to_settings(read_limits(region)).model_dump())


def read_limits(region: Region) -> Table:
    """A consistent copy of the current limits, THRESHOLD[METRICS]."""
    return _whole(region, "thresholds")[0]


def read_sink_limits(region: Region) -> tuple[Table, npt.NDArray[np.uint32]]:
    """A consistent copy of the sinks' current limits: SINK_LIMIT [1 + switches], and the switches' node ids,
    ascending.
    """
    limits, nodes = _whole(region, "sink_limits", "sink_nodes")
    count = int(np.searchsorted(nodes, np.uint32(NO_NODE)))
    return limits[: count + 1], nodes[:count]


@contextmanager
def _changing(region: Region) -> Iterator[None]:
    changes = region["changes"]
    changes[0] |= np.uint64(1)
    barrier()
    yield
    barrier()
    changes[0] += np.uint64(1)


def _whole(region: Region, *names: str) -> list[npt.NDArray[Any]]:
    """Consistent copies of arrays."""
    changes = region["changes"]
    for _ in range(1000):
        before = changes[0]
        barrier()
        copies = [region[name].copy() for name in names]
        barrier()
        if before & 1 == 0 and changes[0] == before:
            break
    return copies
