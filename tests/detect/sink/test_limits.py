"""Limits, quotas and adaptive thresholds of the sink: what is configured and changed is what is in force."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopscope.detect.records import NEVER
from hopscope.detect.sink.adaptive import AdaptiveThresholds
from hopscope.detect.sink.limits import as_json, for_kernel, overrides, to_settings, to_tables
from hopscope.detect.sink.quota import Buckets
from hopscope.detect.thresholds import create_control, open_control, read_sink_limits, set_sink_limits
from hopscope.runtime.control import changed_sink_limits
from hopscope.settings.collector import ThresholdSettings
from hopscope.settings.sink import AdaptSettings, SinkLimits, SinkSettings, SinkSwitch, SinkThresholds

SECOND = 1_000_000_000
SETTINGS = SinkSettings(
    thresholds=SinkThresholds(
        hop_latency=SinkLimits(change=5), queue_occupancy=SinkLimits(above=7), link_utilization=SinkLimits()
    ),
    end_to_end=SinkLimits(change=0, above=9),
    switches=(SinkSwitch(node=9, hop_latency=SinkLimits(above=1)), SinkSwitch(node=4)),
)


def test_tables_stand_for_settings() -> None:
    """Switches are in order of their ids; what one does not say is as for all; tables go back to settings."""
    table, nodes = to_tables(SETTINGS)
    assert nodes.tolist() == [4, 9]
    assert table["change"].tolist() == [[5, NEVER, NEVER, 0], [5, NEVER, NEVER, NEVER], [NEVER] * 4]
    assert table["above"].tolist() == [[NEVER, 7, NEVER, 9], [NEVER, 7, NEVER, NEVER], [1, 7, NEVER, NEVER]]
    again, same = to_tables(to_settings(table, nodes))
    assert np.array_equal(again, table)
    assert np.array_equal(same, nodes)


def test_raised_limits() -> None:
    """Raised limits are rounded up, 0 counts as 1, and never stays never."""
    table, _ = to_tables(SETTINGS)
    first = for_kernel(table, 1.25)[:12].reshape(4, 3)
    assert first[:, 2].tolist() == [NEVER, 9, NEVER, 12]
    assert first[[0, 3], 0].tolist() == [7, 2]
    assert for_kernel(table)[9:12].tolist() == [0, 0, 9]


def test_overrides_hold_every_switch() -> None:
    """The table of switches has a place for each, and room between them."""
    nodes = np.arange(1, 4000, 7, dtype=np.uint32)
    table = overrides(nodes)
    rows = {int(entry) & 0xFFFFFFFF: int(entry) >> 32 for entry in table[table > 0]}
    assert rows == {node: row for row, node in enumerate(nodes.tolist(), 1)}
    assert len(table) >= 2 * len(nodes)
    assert overrides(nodes[:0]).tolist() == [0]


def test_control_region(tmp_path: Path) -> None:
    """What the supervisor sets is what a worker reads, also with fewer switches than before."""
    path = tmp_path / "control.region"
    owner = create_control(path, ThresholdSettings(), SETTINGS)
    worker = open_control(tmp_path, ThresholdSettings())
    assert read_sink_limits(worker)[1].tolist() == [4, 9]
    before = int(worker["changes"][0])
    set_sink_limits(owner, changed_sink_limits(SETTINGS, {"switches": {"9": None}}))
    table, nodes = read_sink_limits(worker)
    assert nodes.tolist() == [4]
    assert len(table) == 2
    assert worker["changes"][0] == before + 2


def test_changes() -> None:
    """Given limits are set and others stay; a new switch begins with the limits of all."""
    changes: dict[str, Any] = {
        "end_to_end": {"above": None},
        "switches": {"7": {"queue_occupancy": {"change": 1}}, "9": {"hop_latency": {"change": 2}}},
    }
    found = as_json(changed_sink_limits(SETTINGS, changes))
    assert found["end_to_end"] == {"change": 0, "above": None}
    assert found["hop_latency"] == {"change": 5, "above": None}
    assert found["switches"]["7"]["hop_latency"] == {"change": 5, "above": None}
    assert found["switches"]["7"]["queue_occupancy"] == {"change": 1, "above": 7}
    assert found["switches"]["9"]["hop_latency"] == {"change": 2, "above": 1}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ([], "expected limits by metric"),
        ({"speed": {"above": 1}}, "speed: unknown metric"),
        ({"hop_latency": {"rise": 1}}, "hop_latency.rise: unknown limit"),
        ({"hop_latency": {"above": -1}}, "found -1"),
        ({"hop_latency": 1}, "expected limits by metric"),
        ({"switches": {"x": {}}}, "found 'x'"),
        ({"switches": {"4294967295": {}}}, "4294967295"),
        ({"switches": {"7": {"end_to_end": {"above": 1}}}}, "switches.7.end_to_end: unknown metric"),
        ({"switches": [1]}, "expected limits by metric"),
    ],
)
def test_wrong_changes_are_rejected(changes: Any, told: str) -> None:
    """A change that makes no sense is one clear line."""
    with pytest.raises(ValueError, match=told):
        changed_sink_limits(SETTINGS, changes)


def test_buckets() -> None:
    """A bucket holds per second's worth, is refilled by the time that passed, and never by the past."""
    tokens = np.zeros(2, np.uint64)
    buckets = Buckets(tokens, [3, 0])
    assert tokens.tolist() == [3, 0]
    tokens[:] = 0
    given = []
    for k in range(11):
        buckets.refill(k * SECOND // 10)
        given.append(int(tokens[0]))
        tokens[:] = 0
    assert sum(given) == 3
    buckets.refill(0)
    assert tokens[0] == 0
    buckets.refill(100 * SECOND)
    assert tokens.tolist() == [3, 0]


def test_rates_have_a_bound() -> None:
    """The highest rates fit their buckets; higher ones are rejected by the settings, and do not overflow."""
    tokens = np.zeros(2, np.uint64)
    rates = SinkSettings(quota=10**9, journal_events=10**9)
    buckets = Buckets(tokens, [rates.quota, rates.journal_events])
    tokens[:] = 0
    buckets.refill(0)
    buckets.refill(2**62)
    assert tokens.tolist() == [10**9, 10**9]
    for name in ("quota", "journal_events"):
        with pytest.raises(ValueError, match=name):
            SinkSettings.model_validate({name: 2**63})


def test_adaptive_steps() -> None:
    """Limits rise by a step a period up to the highest, stay in between, and fall again."""
    adaptive = AdaptiveThresholds(
        AdaptSettings(enabled=True, events_per_second=100, factor=2, max_factor=6, step_seconds=1)
    )
    now = 0

    def second(events: int) -> tuple[float, float] | None:
        nonlocal now
        now += SECOND
        return adaptive.step(now, events)

    assert adaptive.step(now, 10_000) is None
    assert second(0) == (1, 2)  # of the 10,000 before
    assert second(101) == (2, 4)
    assert adaptive.step(now + SECOND // 2, 500) is None
    assert second(0) == (4, 6)
    assert second(500) is None
    assert [second(60) for _ in range(20)] == [None] * 20
    assert [second(49) for _ in range(10)] == [None] * 9 + [(6, 4)]
    adaptive.note_lag()
    assert second(0) == (4, 6)
    for expected in ((6, 4), (4, 2), (2, 1)):
        assert [second(0) for _ in range(10)] == [None] * 9 + [expected]
    assert [second(0) for _ in range(30)] == [None] * 30


def test_adaptive_without_time_between_steps() -> None:
    """A period shorter than a nanosecond is one: two calls at one moment are no division by zero."""
    adaptive = AdaptiveThresholds(AdaptSettings(enabled=True, events_per_second=1, step_seconds=1e-12))
    assert [adaptive.step(5, 9), adaptive.step(5, 9), adaptive.step(6, 9)] == [None, None, (1.0, 1.25)]


def test_adaptive_off() -> None:
    """Switched off, nothing moves them."""
    adaptive = AdaptiveThresholds(AdaptSettings(events_per_second=1))
    assert [adaptive.step(k * SECOND, 1000) for k in range(5)] == [None] * 5
