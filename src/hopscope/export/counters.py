"""Counters and health of every destination, in a region that `/metrics` and `hopscope top` read."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..memory.region import Region, RegionError
from ..wire.records import Records

EXPORTS = (
    ("sent_total", "Batches, or messages with alerts, accepted by a destination."),
    ("events_total", "Events in these batches; alerts in these messages."),
    ("flows_total", "States of live flows accepted by a destination."),
    ("distributions_total", "Distributions accepted by a destination."),
    ("samples_total", "Samples of metrics in these batches."),
    ("retried_total", "Retries after a failure."),
    ("connections_total", "Connections made to a destination."),
    ("bytes_total", "Bytes sent to a destination, after any compression."),
    ("filtered_total", "Events that a destination does not want."),
    ("replayed_total", "Events read from history, because the ring no longer had them."),
    ("suppressed_total", "Alarms that did not last `for_seconds` and were not sent."),
    ("silenced_total", "Alerts that a silence of the console suppressed."),
    ("unlisted_total", "Alerts that a message only counts, because it already lists `listed` others."),
)
"""Counters of a destination, as `hopscope_export_*`."""
LOST = (
    ("queue_full_total", "queue_full", "more than `queue_rounds` rounds waited"),
    ("failed_total", "failed", "the destination rejected them"),
    ("expired_total", "expired", "deleted, or not taken by the disk, before they were sent"),
    ("stopped_total", "stopped", "they still waited when the collector stopped"),
)
"""Reasons for lost events and samples: counter, label in `hopscope_export_lost_total`, meaning. State cannot
be lost, since it is read again.
"""
NAMES = tuple(dict.fromkeys(row[0] for row in (*EXPORTS, *LOST)))
DESTINATION = np.dtype(
    [
        ("name", "S64"),
        ("kind", "S16"),
        ("place", "S128"),
        ("ok", "<u8"),
        ("since_ns", "<i8"),
        ("problem", "S240"),
        *((name, "<u8") for name in NAMES),
    ]
)
"""One destination: name, kind, place without a password, health, counters."""
FILE_NAME = "export.counters"
KIND = "export"
VERSION = 6


@dataclass(frozen=True, slots=True)
class Health:
    """Whether a destination accepts its data."""

    ok: bool
    since_ns: int
    """Start of the present state of health, ns since the epoch."""
    problem: str
    """The problem in one line; empty: none."""


class DestinationRow:
    """A DESTINATION [1] that one process writes, from any of its threads."""

    def __init__(self, row: Records) -> None:
        self._row = row

    def count(self, name: str, more: int = 1) -> None:
        """Add to a counter."""
        with _COUNTING:
            self._row[name] += np.uint64(more)

    def healthy(self, ok: bool, problem: str) -> None:
        """Set the health, and the time at which it changed."""
        row = self._row[0]
        if bool(row["ok"]) != ok or not row["since_ns"]:
            row["since_ns"] = time.time_ns()
        row["ok"], row["problem"] = ok, problem.encode()[:240]

    @property
    def ok(self) -> bool:
        """Whether the last delivery was accepted."""
        return bool(self._row["ok"][0])

    @property
    def place(self) -> str:
        """The place, without a password."""
        return bytes(self._row["place"][0]).decode("utf-8", "replace")


class DestinationLabel(NamedTuple):
    """A destination as shown to users."""

    kind: str
    place: str
    """Address, without a password."""
    name: str
    """Name in the settings."""


def open_counters(folder: Path, destinations: Sequence[DestinationLabel]) -> Region:
    """A region with a DESTINATION for each; earlier rows with the same kind and name are continued."""
    known = {(bytes(row["kind"]), bytes(row["name"])): row for row in read_counters(folder)}
    rows = np.zeros(len(destinations), DESTINATION)
    for at, destination in enumerate(destinations):
        kind, place, name = (text.encode() for text in destination)
        rows[at] = known.get((kind, name), rows[at])
        rows["name"][at], rows["kind"][at], rows["place"][at] = name, kind, place
    region = _region(folder / "regions" / FILE_NAME, len(rows))
    region["destinations"][:] = rows
    return region


def _region(path: Path, count: int) -> Region:
    """The existing region, if it has the same number of rows, which needs no disk space; or a new one."""
    arrays = {"destinations": (DESTINATION, count)}
    try:
        region = Region.attach(path, KIND, VERSION, writable=True)
    except RegionError:  # none yet
        return Region.create(path, KIND, VERSION, arrays)
    if region.has_arrays(arrays):
        return region
    region.close()
    return Region.create(path, KIND, VERSION, arrays)


def read_counters(folder: Path) -> Records:
    """DESTINATION [destinations]; empty if nothing is exported."""
    try:
        with Region.attach(folder / "regions" / FILE_NAME, KIND, VERSION) as region:
            return region["destinations"].copy()
    except RegionError:
        return np.empty(0, DESTINATION)


def health_of(row: np.void) -> Health:
    """The health of a DESTINATION."""
    return Health(bool(row["ok"]), int(row["since_ns"]), bytes(row["problem"]).decode("utf-8", "replace"))


def lost_of(row: np.void) -> int:
    """Events and samples that did not reach a DESTINATION."""
    return sum(int(row[name]) for name, *_ in LOST)


def names_of(rows: Records) -> list[str]:
    """The name of each DESTINATION, as in the settings."""
    return [bytes(name).decode() for name in rows["name"]]


_COUNTING = threading.Lock()
