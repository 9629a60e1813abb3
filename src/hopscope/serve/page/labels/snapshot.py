"""What the live page shows of labels, at one moment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ....labels.state import LabelRule
from ....present.labels import Labels, spanned
from ....present.tracked import TrackedFlows
from ....wire.records import Records

SECOND_NS = 1_000_000_000
MINUTE_NS = 60 * SECOND_NS


@dataclass(frozen=True, slots=True)
class CoverageSecond:
    """Coverage of the telemetry intervals that began in one second."""

    ago: int
    """Whole seconds before the snapshot."""
    mean: float
    lowest: float


@dataclass(frozen=True, slots=True)
class LabelSnapshot:
    """Ports that label, and their coverage."""

    time_ns: int
    """When the ports were read."""
    about: LabelRule
    ports: Records
    """LABEL_ROW [ports], by switch and port."""
    seconds: tuple[CoverageSecond, ...]
    """The oldest first."""
    covered: float | None
    """Mean coverage of the last minute; None without an active port."""
    active: int
    """Ports with traffic in the newest interval."""
    intervals: int
    """Intervals of the last minute with known coverage."""
    expected_intervals: int
    """Intervals of the last minute, including skipped ones."""
    tracked: Records
    """TRACKED_FLOW [flows], by addresses, protocol and ports."""
    tracked_ns: int
    """When these were read."""


def label_snapshot(labels: Labels, flows: TrackedFlows, now_ns: int, seconds: int) -> LabelSnapshot | None:
    """A snapshot, with coverage of the last `seconds`; None if no labels are collected or have arrived."""
    about, (read_ns, ports) = labels.about(), labels.copy()
    if about is None or not ports["labels"].any():
        return None
    known = labels.coverage(1 + seconds * SECOND_NS // about.telemetry_ns)
    busy = known[(known["active"] > 0) & (known["begin_ns"] > now_ns - seconds * SECOND_NS)]
    share = busy["reported"] / busy["active"]
    ago = (now_ns - busy["begin_ns"]) // SECOND_NS
    points = [
        CoverageSecond(int(a), float(share[ago == a].mean()), float(share[ago == a].min()))
        for a in np.unique(ago)[::-1]
    ]
    tracked_ns, tracked = flows.copy()
    minute_ns = now_ns - MINUTE_NS
    lately = share[busy["begin_ns"] > minute_ns]
    return LabelSnapshot(
        read_ns,
        about,
        ports,
        tuple(points),
        float(lately.mean()) if len(lately) else None,
        int(known["active"][-1]) if len(known) else 0,
        int(np.count_nonzero(known["begin_ns"] > minute_ns)),
        spanned(known, about.telemetry_ns, minute_ns),
        tracked,
        tracked_ns,
    )
