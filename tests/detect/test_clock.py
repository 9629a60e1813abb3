"""A capture is cut where a worker would have looked at its clock."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hopscope.detect.clock import TICK_NS, CaptureClock
from hopscope.library.batches import Reports
from hopscope.library.interface import detect_events
from hopscope.settings.detect import DetectSettings
from hopscope.wire.records import FRAME, FrameBatch

SECOND = 1_000_000_000


def test_every_report_is_in_one_part() -> None:
    """Parts follow each other, none is longer than a look, and ticks go on as the clock does."""
    times = np.sort(np.random.default_rng(1).integers(0, 100 * SECOND, 1000))
    clock = CaptureClock(DetectSettings())
    following, ticked = 0, 0
    for half in (times[:500], times[500:], times[:0]):
        at = 0
        for ticks, start, end in clock.cut(half):
            assert start == at < end
            assert half[end - 1] - half[start] < TICK_NS
            assert ticked <= min(ticks)
            assert ticks == sorted(ticks)
            assert ticks[-1] == half[start]
            at, ticked = end, ticks[-1]
        following += at
    assert following == 1000
    assert clock.newest_ns == times[-1]


@pytest.mark.kernel
def test_a_pause_of_a_capture_is_a_pause(make: Any) -> None:
    """In one batch, a flow that pauses for two minutes is pushed, silent, gone, and new again, in time."""
    times = [0, 1, 2, 120, 121]
    batch = make.batch(
        [make.Report(make.path(1), 0, second * SECOND, sequence=i) for i, second in enumerate(times)]
    )
    settings = DetectSettings(flow_rows=16, ports=16, sources=16)
    frames = FrameBatch(np.zeros(0, np.uint8), np.zeros(0, FRAME))
    records = detect_events([Reports(batch, frames)], settings).records
    records = records[records["metric"] <= 1]  # one event for each kind
    found = [(make.events_of([records[i : i + 1]])[0]) for i in range(len(records))]
    told = [(event.kind, event.time // SECOND) for event in found]
    assert told == [
        ("new_key", 0),
        ("silent", 7),
        ("push", 13),
        ("flow_record", 2),
        ("returned", 120),
        ("new_key", 120),
    ]
