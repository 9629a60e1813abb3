"""Limits: settings to table and back, in a region that another process changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from hopscope.detect.records import METRICS, NEVER, Metric
from hopscope.detect.thresholds import (
    CONTROL_FILE,
    create_control,
    limits_as_json,
    open_control,
    read_limits,
    set_limits,
    to_settings,
    to_table,
)
from hopscope.settings.collector import MetricLimits, ThresholdSettings

SETTINGS = ThresholdSettings(
    hop_latency=MetricLimits(change=0, raise_above=7, clear_below=7), queue_occupancy=MetricLimits()
)


def test_table_and_back() -> None:
    """None is NEVER and 0 is 0; metrics without limits never cause an event."""
    table = to_table(SETTINGS)
    assert len(table) == METRICS
    assert table[Metric.HOP_LATENCY].tolist() == (0, 7, 7)
    assert table[Metric.QUEUE_OCCUPANCY].tolist() == (NEVER, NEVER, NEVER)
    assert table[Metric.FLOW_PATH].tolist() == (NEVER, NEVER, NEVER)
    assert to_settings(table) == SETTINGS


def test_changed_by_another_mapping(tmp_path: Path) -> None:
    """What the owner of the region sets is what its readers see; metrics that are not named keep theirs."""
    owner = create_control(tmp_path / CONTROL_FILE, SETTINGS)
    reader = open_control(tmp_path, ThresholdSettings())
    set_limits(owner, {"queue_occupancy": {"change": 3, "raise_above": None, "clear_below": None}})
    assert limits_as_json(reader)["queue_occupancy"] == {
        "change": 3,
        "raise_above": None,
        "clear_below": None,
    }
    assert read_limits(reader)[Metric.HOP_LATENCY].tolist() == (0, 7, 7)
    assert not reader["thresholds"].flags.writeable


def test_nonsense_changes_nothing(tmp_path: Path) -> None:
    """An unknown metric, or limits that contradict each other, are an error, and what was in force stays."""
    owner = create_control(None, SETTINGS)
    before = read_limits(owner)
    with pytest.raises(ValueError, match="unknown metric 'speed'; known are flow_latency"):
        set_limits(owner, {"speed": {"change": 1}})
    with pytest.raises(ValueError, match="hop_latency"):
        set_limits(owner, {"hop_latency": {"clear_below": 5}})
    with pytest.raises(ValueError, match="change"):
        set_limits(owner, {"hop_latency": {"change": -5}})
    assert (read_limits(owner) == before).all()
