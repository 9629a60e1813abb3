"""Changes of limits: what is given is set, what a switch does not set follows, nonsense changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from hopscope.runtime.supervisor.limits import changed_limits, reset_limits
from hopscope.settings.limits import (
    LimitSettings,
    MetricLimits,
    SwitchLimits,
    SwitchMetricLimits,
    ThresholdSettings,
    as_json,
)

LIMITS = LimitSettings(
    general=ThresholdSettings(
        hop_latency=MetricLimits(change=5),
        queue_occupancy=MetricLimits(change=3, raise_above=7, clear_below=2),
    ),
    switches=(SwitchLimits(node=9, hop_latency=SwitchMetricLimits(raise_above=1)), SwitchLimits(node=4)),
)


def test_changes() -> None:
    """Given limits are set and others stay; a new switch has only what is given; null is never."""
    changes: dict[str, Any] = {
        "general": {"flow_latency": {"change": None}},
        "switches": {"7": {"queue_occupancy": {"change": None}}, "9": {"hop_latency": {"change": 2}}},
    }
    after = changed_limits(LIMITS, changes, sink=True)
    found = as_json(after)
    assert found["general"]["flow_latency"]["change"] is None
    assert found["general"]["hop_latency"] == {"change": 5, "raise_above": None, "clear_below": None}
    assert found["switches"] == {
        "7": {"queue_occupancy": {"change": None}},
        "9": {"hop_latency": {"change": 2, "raise_above": 1}},
    }


def test_a_switch_follows_the_general_limits() -> None:
    """A later change of the limits of all is one of every switch that has no limit of its own."""
    before = changed_limits(LIMITS, {"switches": {"7": {"queue_occupancy": {"change": 1}}}}, sink=True)
    changes = {"general": {"queue_occupancy": {"change": None, "raise_above": 99}}}
    after = changed_limits(before, changes, sink=True)
    resolved = {
        switch.node: switch.resolved(after.general, "queue_occupancy").model_dump()
        for switch in after.switches
    }
    assert resolved == {
        7: {"change": 1, "raise_above": 99, "clear_below": 2},
        9: {"change": None, "raise_above": 99, "clear_below": 2},
    }


def test_a_limit_of_a_switch_is_taken_away() -> None:
    """One limit by "general", all of them by null; a switch without any is not kept."""
    one = changed_limits(LIMITS, {"switches": {"9": {"hop_latency": {"raise_above": "general"}}}}, sink=True)
    both = changed_limits(LIMITS, {"switches": {"9": None, "4": None}}, sink=True)
    assert one.switches == both.switches == ()


def test_reset() -> None:
    """All limits, or those that are named, are those of the settings again."""
    changes: dict[str, Any] = {
        "general": {"hop_latency": {"change": 1}, "queue_occupancy": {"change": 1}},
        "switches": {"9": None, "7": {"hop_latency": {"change": 1}}},
    }
    changed = changed_limits(LIMITS, changes, sink=True)
    assert reset_limits(changed, LIMITS, {}) == LIMITS
    some = as_json(reset_limits(changed, LIMITS, {"metrics": ["hop_latency"], "switches": ["9"]}))
    assert some["general"]["hop_latency"]["change"] == 5
    assert some["general"]["queue_occupancy"]["change"] == 1
    assert some["switches"].keys() == {"7", "9"}
    with pytest.raises(ValueError, match="speed: unknown metric"):
        reset_limits(changed, LIMITS, {"metrics": ["speed"]})


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ([], "expected limits by metric"),
        ({"hop_latency": {"change": 1}}, "hop_latency: unknown; expected limits by metric"),
        ({"general": {"speed": {"change": 1}}}, "speed: unknown metric; known are flow_latency"),
        ({"general": {"hop_latency": {"rise": 1}}}, "hop_latency.rise: unknown limit; known are change"),
        ({"general": {"hop_latency": {"raise_above": -1}}}, "general.hop_latency.raise_above: found -1"),
        ({"general": {"hop_latency": {"clear_below": 1}}}, "found clear_below = 1 without raise_above"),
        ({"general": {"hop_latency": {"change": "general"}}}, "found 'general', expected a whole number"),
        ({"general": {"hop_latency": 1}}, "expected limits by metric"),
        ({"general": {"buffer_occupancy": {"change": 1}}}, "buffer_occupancy: unknown metric"),
        ({"switches": {"x": {}}}, "found 'x'"),
        ({"switches": {"4294967295": {}}}, "4294967295"),
        ({"switches": {"7": {"flow_latency": {"change": 1}}}}, "switches.7.flow_latency: unknown metric"),
        ({"switches": {"7": {"queue_occupancy": {"raise_above": 1}}}}, "of switch 7, with what it inherits"),
        ({"switches": [1]}, "expected limits by metric"),
    ],
)
def test_wrong_changes_are_rejected(changes: Any, line: str) -> None:
    """A change that makes no sense is one clear line."""
    with pytest.raises(ValueError, match=r"^[^\n]+$") as error:
        changed_limits(LIMITS, changes, sink=True)
    assert line in str(error.value)


def test_a_collector_compares_more_metrics() -> None:
    """Buffers and congestion have limits in a collector, of all switches and of one; a sink rejects them."""
    limits = {"buffer_occupancy": {"change": 1}}
    after = as_json(changed_limits(LIMITS, {"general": limits, "switches": {"7": limits}}, sink=False))
    assert after["general"]["buffer_occupancy"]["change"] == 1
    assert after["switches"]["7"] == limits
    with pytest.raises(ValueError, match=r"switches\.7\.buffer_occupancy: unknown metric"):
        changed_limits(LIMITS, {"switches": {"7": limits}}, sink=True)
