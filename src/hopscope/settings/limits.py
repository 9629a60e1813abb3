"""Limits by metric, of all switches and of single ones, which inherit what they do not set."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, GetCoreSchemaHandler, model_validator
from pydantic_core import core_schema

from .section import LIMIT_SCHEMA, MAX_LIMIT, Limit, Section

MAX_SWITCHES = 4096
"""Maximum switches with limits of their own."""
LIMITS = ("change", "raise_above", "clear_below")
"""The limits of a metric."""
SWITCH_METRICS = (
    "hop_latency",
    "queue_occupancy",
    "queue_congestion",
    "link_utilization",
    "buffer_occupancy",
)
"""Metrics with limits by switch."""
SINK_METRICS = ("flow_latency", "hop_latency", "queue_occupancy", "link_utilization")
"""Metrics that a sink compares."""


class MetricLimits(Section):
    """Limits of one metric: times in ns, occupancy and utilisation in the unit that the source sends."""

    change: Limit = None
    """Change threshold: a value that differs by more than this from the stored one (in a sink: from that of
    the flow's previous packet) becomes an event; `never`: no change does."""
    raise_above: Limit = None
    """Alarm threshold: a value above it becomes an event; `never`: none does."""
    clear_below: Limit = None
    """Hysteresis: an alarm is raised once above `raise_above` and cleared below this value. Without it, every
    report above `raise_above` becomes an event."""

    @model_validator(mode="after")
    def _ordered(self) -> MetricLimits:
        check_order(self.raise_above, self.clear_below)
        return self


def check_order(raise_above: int | None, clear_below: int | None) -> None:
    """Raise ValueError if an alarm would be cleared above the value that raises it."""
    if clear_below is None or (raise_above is not None and clear_below <= raise_above):
        return
    above = "without raise_above" if raise_above is None else f"with raise_above = {raise_above}"
    raise ValueError(
        f"found clear_below = {clear_below} {above}, expected clear_below to be at most raise_above"
    )


class ThresholdSettings(Section):
    """Limits by metric."""

    flow_latency: MetricLimits = MetricLimits(change=50_000)
    """Sum of a flow's hop latencies; in a sink, of a packet's."""
    hop_latency: MetricLimits = MetricLimits(change=20_000)
    """Latency of one hop of a flow."""
    queue_occupancy: MetricLimits = MetricLimits(change=500)
    """Occupancy of a queue."""
    queue_congestion: MetricLimits = MetricLimits(change=500)
    """Congestion status of a queue (INT 0.5); not in a sink."""
    link_utilization: MetricLimits = MetricLimits(change=100)
    """Utilisation of an egress port's link."""
    buffer_occupancy: MetricLimits = MetricLimits(change=500)
    """Occupancy of a buffer (INT 2.x); not in a sink."""


class _OwnOrInherited:
    """Takes a limit, or the word `never`, which stays a word: None means that the limit is inherited."""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        number = handler.generate_schema(Annotated[int, Field(ge=0, le=MAX_LIMIT)] | None)
        return core_schema.no_info_wrap_validator_function(
            lambda value, validate: value if value == "never" else validate(value),
            number,
            serialization=core_schema.plain_serializer_function_ser_schema(lambda value: value),
        )

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        return LIMIT_SCHEMA


OwnLimit = Annotated[int | Literal["never"] | None, _OwnOrInherited()]
"""Limit of a metric at one switch; None: that of all switches."""


class SwitchMetricLimits(Section):
    """Limits of one metric at one switch. Each that is not set is that of all switches."""

    change: OwnLimit = None
    """Change threshold; `never`: no change becomes an event."""
    raise_above: OwnLimit = None
    """Alarm threshold; `never`: no value becomes an event."""
    clear_below: OwnLimit = None
    """Hysteresis; `never`: every report above `raise_above` becomes an event."""


class SwitchLimits(Section):
    """Limits of one switch. Each that is not set is that of all switches, also if that changes later."""

    node: Annotated[int, Field(ge=0, le=2**32 - 2)]
    """Its node id."""
    hop_latency: SwitchMetricLimits = SwitchMetricLimits()
    """Latency of one hop of a flow."""
    queue_occupancy: SwitchMetricLimits = SwitchMetricLimits()
    """Occupancy of a queue."""
    queue_congestion: SwitchMetricLimits = SwitchMetricLimits()
    """Congestion status of a queue (INT 0.5); not in a sink."""
    link_utilization: SwitchMetricLimits = SwitchMetricLimits()
    """Utilisation of an egress port's link."""
    buffer_occupancy: SwitchMetricLimits = SwitchMetricLimits()
    """Occupancy of a buffer (INT 2.x); not in a sink."""

    def given(self) -> dict[str, Any]:
        """What is set, as in a configuration file."""
        tree = self.model_dump(exclude_none=True)
        return {name: value for name, value in tree.items() if value != {}}

    def resolved(self, general: ThresholdSettings, metric: str) -> MetricLimits:
        """Limits of a metric in force at this switch. Raises ValueError if they contradict each other."""
        inherited, own = getattr(general, metric), getattr(self, metric)
        found: dict[str, Any] = {}
        for name in LIMITS:
            value = getattr(own, name)
            found[name] = getattr(inherited, name) if value is None else None if value == "never" else value
        check_order(found["raise_above"], found["clear_below"])
        return MetricLimits.model_construct(**found)


class LimitSettings(Section):
    """All limits of a collector or sink."""

    general: ThresholdSettings = ThresholdSettings()
    """Those of all switches."""
    switches: tuple[SwitchLimits, ...] = Field(default=(), max_length=MAX_SWITCHES)
    """Switches with limits of their own."""

    @model_validator(mode="after")
    def _consistent(self) -> LimitSettings:
        nodes = [switch.node for switch in self.switches]
        if len(set(nodes)) < len(nodes):
            twice = next(node for node in nodes if nodes.count(node) > 1)
            raise ValueError(f"detect.switches: found two with node = {twice}, expected one each")
        for switch in self.switches:
            for metric in SWITCH_METRICS:
                try:
                    switch.resolved(self.general, metric)
                except ValueError as error:
                    inherited = f"{metric} of switch {switch.node}, with what it inherits"
                    raise ValueError(f"detect.switches: {inherited}: {error}") from None
        return self


def check_sink(limits: LimitSettings) -> None:
    """Raise ValueError for limits of a metric that a sink does not compare."""
    for metric in ThresholdSettings.model_fields:
        default = ThresholdSettings.model_fields[metric].default
        if metric not in SINK_METRICS and getattr(limits.general, metric) not in (default, MetricLimits()):
            raise ValueError(
                f"detect.thresholds.{metric}: found limits, expected none in a sink, which compares "
                f"{', '.join(SINK_METRICS)}"
            )
    for switch in limits.switches:
        for metric in SWITCH_METRICS:
            if metric not in SINK_METRICS and getattr(switch, metric) != SwitchMetricLimits():
                raise ValueError(
                    f"detect.switches: {metric} of switch {switch.node}: found limits, expected none in a "
                    f"sink, which compares {', '.join(SINK_METRICS)}"
                )


def as_json(limits: LimitSettings) -> dict[str, Any]:
    """Limits by metric in `general`, in `switches` by node id what a switch has itself; null: never."""
    switches = {}
    for switch in limits.switches:
        own = switch.given()
        node = str(own.pop("node"))
        switches[node] = {
            metric: {name: None if value == "never" else value for name, value in values.items()}
            for metric, values in own.items()
        }
    return {"general": limits.general.model_dump(), "switches": switches}
