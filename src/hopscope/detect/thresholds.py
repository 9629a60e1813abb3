"""Limits by metric: from the configuration to the table that detection reads, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..config import MetricLimits, ThresholdSettings
from ..memory.region import Region, barrier
from .records import METRICS, NEVER, STATE_VERSION, THRESHOLD, Metric

Table = npt.NDArray[np.void]
CONTROL_FILE = "control.region"
_KIND = "control"
_ARRAYS = {"thresholds": (THRESHOLD, METRICS), "changes": (np.uint64, 1)}


def to_table(settings: ThresholdSettings) -> Table:
    """THRESHOLD[METRICS]; ValueError where `clear_below` has no `raise_above` at or over it."""
    table = np.full(METRICS, NEVER, np.uint64).repeat(3).view(THRESHOLD)
    for name in type(settings).model_fields:
        limits: MetricLimits = getattr(settings, name)
        if limits.clear_below is not None and limits.clear_below > _number(limits.raise_above, -1):
            raise ValueError(
                f"thresholds.{name}: clear_below is {limits.clear_below}, but raise_above is {limits.raise_above}; "
                "an alarm is raised above raise_above and cleared below clear_below, which is not larger"
            )
        row = table[Metric[name.upper()]]
        for field in ("change", "raise_above", "clear_below"):
            row[field] = _number(getattr(limits, field), NEVER)
    return table


def to_settings(table: Table) -> ThresholdSettings:
    """The settings that a table stands for."""
    limits: dict[str, Any] = {}
    for name in ThresholdSettings.model_fields:
        row = table[Metric[name.upper()]]
        fields = {field: int(row[field]) for field in ("change", "raise_above", "clear_below")}
        limits[name] = MetricLimits(**{key: value for key, value in fields.items() if value != NEVER})
    return ThresholdSettings(**limits)


def _number(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value


class Control:
    """The region with the limits in force, which the supervisor writes and every worker reads."""

    def __init__(self, region: Region) -> None:
        self.region = region
        self.thresholds: Table = region["thresholds"]

    @classmethod
    def create(cls, folder: Path | None, settings: ThresholdSettings) -> Control:
        """Make the region in a folder, or (None) in private memory."""
        path = None if folder is None else folder / CONTROL_FILE
        control = cls(Region.create(path, _KIND, STATE_VERSION, _ARRAYS))
        control.thresholds[:] = to_table(settings)
        return control

    @classmethod
    def attach(cls, folder: Path, writable: bool = False) -> Control:
        """Map the region of a folder; RegionError where there is none."""
        return cls(Region.attach(folder / CONTROL_FILE, _KIND, STATE_VERSION, writable))

    @classmethod
    def open(cls, folder: Path | None, settings: ThresholdSettings) -> Control:
        """Map the region of a folder, or make it from the settings where there is none."""
        if folder is not None and (folder / CONTROL_FILE).exists():
            return cls.attach(folder)
        return cls.create(folder, settings)

    def change(self, settings: ThresholdSettings) -> None:
        """Put other limits in force; detection follows with its next batch."""
        table, changes = to_table(settings), self.region["changes"]
        changes[0] |= np.uint64(1)
        barrier()
        self.thresholds[:] = table
        barrier()
        changes[0] += np.uint64(1)

    def read(self) -> Table:
        """A copy of the limits in force, whole even while they are changed."""
        changes = self.region["changes"]
        for _ in range(1000):
            before = changes[0]
            barrier()
            table = self.thresholds.copy()
            barrier()
            if before & 1 == 0 and changes[0] == before:
                break
        return table
