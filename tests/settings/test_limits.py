"""Limits: what a switch does not set is that of all; contradictions are named; all print as they are read."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopscope.cli.config import toml_lines
from hopscope.settings.collector import Settings
from hopscope.settings.configuration.errors import ConfigError
from hopscope.settings.configuration.file import load, parse_set
from hopscope.settings.limits import (
    LIMITS,
    SWITCH_METRICS,
    LimitSettings,
    MetricLimits,
    SwitchLimits,
    SwitchMetricLimits,
    ThresholdSettings,
)

number = st.integers(0, 2**63 - 1)
never = st.one_of(st.none(), number)


@st.composite
def metric_limits(draw: Any) -> MetricLimits:
    above, below = draw(never), draw(never)
    if above is None or below is None:
        return MetricLimits(change=draw(never), raise_above=above)
    return MetricLimits(change=draw(never), raise_above=max(above, below), clear_below=min(above, below))


@st.composite
def own_limits(draw: Any) -> SwitchMetricLimits:
    """Inherited, never, or a number; hysteresis is set or switched off as a whole, or inherited."""
    change = draw(st.one_of(st.just("never"), never))
    limits = draw(metric_limits())
    if draw(st.booleans()):
        return SwitchMetricLimits(change=change)
    above: Any = "never" if limits.raise_above is None else limits.raise_above
    below: Any = "never" if limits.clear_below is None else limits.clear_below
    return SwitchMetricLimits(change=change, raise_above=above, clear_below=below)


general = st.builds(ThresholdSettings, **{name: metric_limits() for name in ThresholdSettings.model_fields})
switches = st.lists(
    st.builds(
        SwitchLimits, node=st.integers(0, 2**32 - 2), **{name: own_limits() for name in SWITCH_METRICS}
    ),
    max_size=3,
    unique_by=lambda switch: switch.node,
)


@given(general=general, switches=switches)
def test_settings_print_as_they_are_read(general: ThresholdSettings, switches: list[SwitchLimits]) -> None:
    """TOML that `config show` and `limits show --toml` print is accepted, and means the same limits."""
    tree = {
        "detect": {
            "thresholds": general.model_dump(),
            "switches": [switch.given() for switch in switches],
        }
    }
    read = Settings.model_validate(tomllib.loads("\n".join(toml_lines(tree, {}))))
    assert read.limits == LimitSettings(general=general, switches=tuple(switches))
    assert Settings.model_validate(read.model_dump(mode="json")) == read


@given(general=general, switches=switches)
def test_what_a_switch_does_not_set_is_that_of_all(
    general: ThresholdSettings, switches: list[SwitchLimits]
) -> None:
    """Limit by limit, not metric by metric."""
    for switch in switches:
        for metric in SWITCH_METRICS:
            resolved = switch.resolved(general, metric)
            for name in LIMITS:
                own = getattr(getattr(switch, metric), name)
                expected = getattr(getattr(general, metric), name) if own is None else own
                assert getattr(resolved, name) == (None if expected == "never" else expected)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            ["detect.thresholds.hop_latency.clear_below=4"],
            "--set detect.thresholds.hop_latency.clear_below: detect.thresholds.hop_latency: found "
            "clear_below = 4 without raise_above, expected clear_below to be at most raise_above",
        ),
        (
            ["detect.switches=[{node = 7}, {node = 7}]"],
            "--set detect.switches: found two with node = 7, expected one each",
        ),
        (
            ["detect.switches=[{node = 7, hop_latency = {raise_above = 3}}]",
             "detect.thresholds.hop_latency.raise_above=9", "detect.thresholds.hop_latency.clear_below=5"],
            "--set detect.switches: hop_latency of switch 7, with what it inherits: found clear_below = 5 "
            "with raise_above = 3, expected clear_below to be at most raise_above",
        ),
        (
            ["detect.switches=[{node = 7, hop_latency = {change = -1}}]"],
            "--set detect.switches: detect.switches[0].hop_latency.change: found -1, expected at least 0",
        ),
        (
            ["sink.enabled=true", "detect.thresholds.buffer_occupancy.raise_above=1"],
            "--set detect.thresholds.buffer_occupancy.raise_above: detect.thresholds.buffer_occupancy: found "
            "limits, expected none in a sink, which compares flow_latency, hop_latency, queue_occupancy, "
            "link_utilization",
        ),
        (
            ["sink.enabled=true", "detect.enabled=false"],
            "--set detect.enabled: found false, expected true in a sink: it writes events only",
        ),
    ],
)  # fmt: skip
def test_contradictions_are_named(changes: list[str], line: str) -> None:
    """One line with the source, the key, and both values; never the word None."""
    with pytest.raises(ConfigError) as error:
        load(None, [parse_set(change) for change in changes], environment={})
    assert str(error.value) == line


def test_a_collector_has_limits_that_a_sink_does_not_compare(tmp_path: Path) -> None:
    """The same file serves both if it sets only what both compare."""
    file = tmp_path / "both.toml"
    file.write_text("[detect.thresholds.hop_latency]\nraise_above = 5\n[[detect.switches]]\nnode = 7\n")
    for flags in ([], [("sink", "sink.enabled", True)]):
        assert load(file, flags, environment={}).settings.limits.general.hop_latency.raise_above == 5
