"""Limits in force: the control region, which the supervisor writes and all other processes read."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..memory.region import Region, barrier
from ..settings.limits import (
    LIMITS,
    MAX_SWITCHES,
    LimitSettings,
    MetricLimits,
    SwitchLimits,
    SwitchMetricLimits,
    ThresholdSettings,
)
from .records import INHERITED, METRICS, NEVER, NO_NODE, SWITCH_METRICS, SWITCH_THRESHOLDS, THRESHOLD, Metric

Table = npt.NDArray[np.void]
CONTROL_FILE = "control.region"
KIND = "control"
CONTROL_VERSION = 6
AUTHOR_BYTES = 256
ARRAYS = {
    "changes": (np.uint64, 1),  # odd while limits are written
    "thresholds": (THRESHOLD, METRICS),
    "switches": (SWITCH_THRESHOLDS, MAX_SWITCHES),
    "changed_ns": (np.int64, 1),  # time of the last change since the start; 0: none
    "author": (np.uint8, AUTHOR_BYTES),  # author of the last change, UTF-8
    "sink": (np.uint8, 1),  # 1: workers are sinks
}


@dataclass(frozen=True, slots=True)
class Change:
    """The last change of limits while the collector ran."""

    time_ns: int
    """Nanoseconds since the epoch."""
    author: str
    """User, process and HTTP client that made the change."""


def to_table(settings: ThresholdSettings) -> Table:
    """Settings as a table, THRESHOLD [METRICS]."""
    table = np.full(METRICS, NEVER, np.uint64).repeat(3).view(THRESHOLD)
    for name in type(settings).model_fields:
        table[Metric[name.upper()]] = _row(getattr(settings, name), NEVER)
    return table


def to_settings(table: Table) -> ThresholdSettings:
    """Settings from a table."""
    names = ThresholdSettings.model_fields
    return ThresholdSettings(**{name: MetricLimits(**_limits(table[Metric[name.upper()]])) for name in names})


def to_switch_table(switches: tuple[SwitchLimits, ...]) -> Table:
    """SWITCH_THRESHOLDS [MAX_SWITCHES], ascending by node id."""
    table = np.zeros(MAX_SWITCHES, SWITCH_THRESHOLDS)
    table["node_id"] = NO_NODE
    for row, switch in zip(table, sorted(switches, key=lambda switch: switch.node), strict=False):
        row["node_id"] = switch.node
        for at, metric in enumerate(SWITCH_METRICS):
            row["limits"][at] = _row(getattr(switch, metric.label), INHERITED)
    return table


def to_switches(table: Table) -> tuple[SwitchLimits, ...]:
    """Settings from a table of switches."""
    return tuple(
        SwitchLimits(
            node=int(row["node_id"]),
            **{
                metric.label: SwitchMetricLimits(**_limits(limits, never="never"))
                for metric, limits in zip(SWITCH_METRICS, row["limits"], strict=True)
            },
        )
        for row in table[table["node_id"] != NO_NODE]
    )


def _row(limits: MetricLimits | SwitchMetricLimits, absent: int) -> tuple[int, ...]:
    values = (getattr(limits, name) for name in LIMITS)
    return tuple(absent if value is None else NEVER if value == "never" else value for value in values)


def _limits(row: np.void, never: str | None = None) -> dict[str, Any]:
    values = {name: int(row[name]) for name in LIMITS}
    return {name: never if value == NEVER else value for name, value in values.items() if value != INHERITED}


def create_control(path: Path | None, limits: LimitSettings, *, sink: bool = False) -> Region:
    """Create the region of the limits in force, in a file or (None) in private memory."""
    region = Region.create(path, KIND, CONTROL_VERSION, ARRAYS)
    region["sink"][0] = sink
    _write(region, limits)
    return region


def open_control(folder: Path | None, limits: LimitSettings) -> Region:
    """Map the region of a folder, read-only, or create it from the settings if it does not exist."""
    if folder is None:
        return create_control(None, limits)
    path = folder / CONTROL_FILE
    return attach_control(path) if path.exists() else create_control(path, limits)


def attach_control(path: Path) -> Region:
    """Map an existing region, read-only. Raises RegionError."""
    return Region.attach(path, KIND, CONTROL_VERSION)


def set_limits(region: Region, limits: LimitSettings, author: str) -> None:
    """Put limits into force. Workers use them from their next batch on."""
    with _changing(region):
        _write(region, limits)
        region["changed_ns"][0] = time.time_ns()
        name = author.encode()[:AUTHOR_BYTES]
        region["author"][: len(name)] = np.frombuffer(name, np.uint8)
        region["author"][len(name) :] = 0


def read_limits(region: Region) -> LimitSettings:
    """The limits in force."""
    thresholds, switches = read_tables(region)
    return LimitSettings(general=to_settings(thresholds), switches=to_switches(switches))


def read_tables(region: Region) -> tuple[Table, Table]:
    """A consistent copy of the limits of all switches, THRESHOLD [METRICS], and of SWITCH_THRESHOLDS."""
    thresholds, switches = _whole(region, "thresholds", "switches")
    return thresholds, switches


def read_change(region: Region) -> Change | None:
    """The last change; None: there was none since the collector started."""
    time_ns, author = _whole(region, "changed_ns", "author")
    if not time_ns[0]:
        return None
    return Change(int(time_ns[0]), author.tobytes().rstrip(b"\0").decode(errors="replace"))


def _write(region: Region, limits: LimitSettings) -> None:
    region["thresholds"][:] = to_table(limits.general)
    region["switches"][:] = to_switch_table(limits.switches)


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
