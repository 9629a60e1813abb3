"""Limits: settings to tables and back, in a region that another process changes."""

from __future__ import annotations

import time
from pathlib import Path

from hopscope.detect.records import INHERITED, METRICS, NEVER, NO_NODE, Metric
from hopscope.detect.thresholds import (
    CONTROL_FILE,
    create_control,
    open_control,
    read_change,
    read_limits,
    read_tables,
    set_limits,
    to_settings,
    to_switch_table,
    to_switches,
    to_table,
)
from hopscope.settings.limits import (
    LimitSettings,
    MetricLimits,
    SwitchLimits,
    SwitchMetricLimits,
    ThresholdSettings,
)

SETTINGS = ThresholdSettings(
    hop_latency=MetricLimits(change=0, raise_above=7, clear_below=7), queue_occupancy=MetricLimits()
)
SWITCHES = (
    SwitchLimits(node=4),
    SwitchLimits(node=9, hop_latency=SwitchMetricLimits(change="never", raise_above=9)),
)


def test_table_and_back() -> None:
    """None is NEVER and 0 is 0; metrics without limits never cause an event."""
    table = to_table(SETTINGS)
    assert len(table) == METRICS
    assert table[Metric.HOP_LATENCY].tolist() == (0, 7, 7)
    assert table[Metric.QUEUE_OCCUPANCY].tolist() == (NEVER, NEVER, NEVER)
    assert table[Metric.FLOW_PATH].tolist() == (NEVER, NEVER, NEVER)
    assert to_settings(table) == SETTINGS


def test_switches_and_back() -> None:
    """Switches are in order of their ids; what one does not set is INHERITED, `never` is NEVER."""
    table = to_switch_table(SWITCHES[::-1])
    assert table["node_id"][:3].tolist() == [4, 9, NO_NODE]
    nothing = (INHERITED,) * 3
    assert table["limits"][0].tolist() == [nothing] * 5
    assert table["limits"][1].tolist() == [(NEVER, 9, INHERITED), *[nothing] * 4]
    assert to_switches(table) == SWITCHES


def test_changed_by_another_mapping(tmp_path: Path) -> None:
    """What the owner of the region sets is what its readers see, and who did."""
    owner = create_control(tmp_path / CONTROL_FILE, LimitSettings(general=SETTINGS))
    reader = open_control(tmp_path, LimitSettings())
    assert read_limits(reader) == LimitSettings(general=SETTINGS)
    assert read_change(reader) is None
    begin = time.time_ns()
    changes = int(reader["changes"][0])
    for switches in (SWITCHES, SWITCHES[1:]):
        after = LimitSettings(
            general=SETTINGS.model_copy(update={"queue_occupancy": MetricLimits(change=3)}), switches=switches
        )
        set_limits(owner, after, "uid 7 – ä" * 99)
        assert read_limits(reader) == after
    thresholds, _ = read_tables(reader)
    assert thresholds[Metric.HOP_LATENCY].tolist() == (0, 7, 7)
    assert not reader["thresholds"].flags.writeable
    assert reader["changes"][0] == changes + 4
    change = read_change(reader)
    assert change is not None
    assert begin <= change.time_ns <= time.time_ns()
    assert change.author.startswith("uid 7 – äuid 7")
