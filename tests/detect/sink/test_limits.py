"""Limits, quotas and adaptive thresholds of the sink: what is configured and changed is what is in force."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hopscope.detect.records import NEVER
from hopscope.detect.sink.adaptive import AdaptiveThresholds
from hopscope.detect.sink.limits import METRICS, for_kernel
from hopscope.detect.sink.quota import Buckets
from hopscope.detect.switch_limits import overrides, resolve
from hopscope.detect.thresholds import to_switch_table, to_table
from hopscope.settings.limits import MetricLimits, SwitchLimits, SwitchMetricLimits, ThresholdSettings
from hopscope.settings.sink import AdaptSettings, SinkSettings

SECOND = 1_000_000_000
GENERAL = ThresholdSettings(
    hop_latency=MetricLimits(change=5),
    queue_occupancy=MetricLimits(raise_above=7, clear_below=3),
    link_utilization=MetricLimits(),
    flow_latency=MetricLimits(change=0, raise_above=9),
)
SWITCHES = (
    SwitchLimits(
        node=9,
        hop_latency=SwitchMetricLimits(raise_above=1),
        queue_occupancy=SwitchMetricLimits(clear_below="never"),
    ),
    SwitchLimits(node=4),
)


def tables() -> Any:
    return resolve(to_table(GENERAL), to_switch_table(SWITCHES))


def test_switches_inherit_each_limit() -> None:
    """Switches are in order of their ids; each limit that one does not set is that of all."""
    table, nodes = tables()
    assert nodes.tolist() == [4, 9]
    table = table[:, METRICS]
    assert table["change"].tolist() == [[5, NEVER, NEVER, 0]] * 3
    assert table["raise_above"].tolist() == [[NEVER, 7, NEVER, 9]] * 2 + [[1, 7, NEVER, 9]]
    assert table["clear_below"].tolist() == [[NEVER, 3, NEVER, NEVER]] * 2 + [[NEVER] * 4]


def test_raised_limits() -> None:
    """Raised limits are rounded up, 0 counts as 1, and never stays never."""
    table, _ = tables()
    first = for_kernel(table, 1.25)[:16].reshape(4, 4)
    assert first[:, 2].tolist() == [NEVER, 9, NEVER, 12]
    assert first[:, 3].tolist() == [NEVER, 4, NEVER, NEVER]
    assert first[[0, 3], 0].tolist() == [7, 2]
    assert for_kernel(table)[12:16].tolist() == [0, 0, 9, NEVER]


def test_overrides_hold_every_switch() -> None:
    """The table of switches has a place for each, and room between them."""
    nodes = np.arange(1, 4000, 7, dtype=np.uint32)
    table = overrides(nodes)
    rows = {int(entry) & 0xFFFFFFFF: int(entry) >> 32 for entry in table[table > 0]}
    assert rows == {node: row for row, node in enumerate(nodes.tolist(), 1)}
    assert len(table) >= 2 * len(nodes)
    assert overrides(nodes[:0]).tolist() == [0]


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


def test_adaptive_off() -> None:
    """Switched off, nothing moves them."""
    adaptive = AdaptiveThresholds(AdaptSettings(events_per_second=1))
    assert [adaptive.step(k * SECOND, 1000) for k in range(5)] == [None] * 5
