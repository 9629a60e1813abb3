"""Limits by metric: from the configuration to the table that detection reads, and back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ..config import MetricLimits, ThresholdSettings
from ..memory.region import Region, barrier
from .records import METRICS, NEVER, STATE_VERSION, THRESHOLD, Metric

Table = npt.NDArray[np.void]
CONTROL_FILE = "control.region"
KIND = "control"
ARRAYS = {"thresholds": (THRESHOLD, METRICS), "changes": (np.uint64, 1)}


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
    """The settings that a table stands for."""
    limits: dict[str, Any] = {}
    for name in ThresholdSettings.model_fields:
        row = table[Metric[name.upper()]]
        fields = {field: int(row[field]) for field in ("change", "raise_above", "clear_below")}
        limits[name] = MetricLimits(**{key: value for key, value in fields.items() if value != NEVER})
    return ThresholdSettings(**limits)


def create_control(path: Path | None, settings: ThresholdSettings) -> Region:
    """Make the region with the limits in force, in a file or (None) in private memory."""
    region = Region.create(path, KIND, STATE_VERSION, ARRAYS)
    region["thresholds"][:] = to_table(settings)
    return region


def open_control(folder: Path | None, settings: ThresholdSettings) -> Region:
    """Map the region of a folder, read-only, or make it from the settings where there is none."""
    if folder is None:
        return create_control(None, settings)
    path = folder / CONTROL_FILE
    return Region.attach(path, KIND, STATE_VERSION) if path.exists() else create_control(path, settings)


def set_limits(region: Region, limits: Mapping[str, Any]) -> None:
    """Put other limits in force: {metric: {change, raise_above, clear_below}}, null for never.

    Detection follows with its next batch.  ValueError for limits that make no sense, and nothing is changed.
    """
    settings = limits_as_json(region)
    for metric, values in limits.items():
        if metric not in settings:
            raise ValueError(f"no metric '{metric}' has limits; those that have: {', '.join(settings)}")
        settings[metric] = dict(values)
    table, changes = to_table(ThresholdSettings.model_validate(settings)), region["changes"]
    changes[0] |= np.uint64(1)
    barrier()
    region["thresholds"][:] = table
    barrier()
    changes[0] += np.uint64(1)


def limits_as_json(region: Region) -> dict[str, dict[str, int | None]]:
    """Limits in force, by metric."""
    return cast("dict[str, dict[str, int | None]]", to_settings(read_limits(region)).model_dump())


def read_limits(region: Region) -> Table:
    """A copy of the limits in force, THRESHOLD[METRICS], whole even while they are changed."""
    changes = region["changes"]
    for _ in range(1000):
        before = changes[0]
        barrier()
        table = region["thresholds"].copy()
        barrier()
        if before & 1 == 0 and changes[0] == before:
            break
    return table
