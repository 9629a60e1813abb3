"""Models of limits."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .common import Body, ClusterModel, Model, Node, Port, Time

Value = Annotated[int, Field(ge=0, lt=2**63)] | None
OwnValue = Annotated[int, Field(ge=0, lt=2**63)] | Literal["general"] | None


class MetricLimits(Body):
    """Limits of one metric; null: never."""

    change: Value
    """T: a value that differs by more than this from the stored one (in a sink: from that of the flow's
    previous packet) is an event."""
    raise_above: Value
    """A value above it is an event."""
    clear_below: Value
    """With it an alarm is raised once, and cleared below this."""


class MetricChanges(Body):
    """Limits to change; absent ones stay, null means never."""

    change: Value = None
    raise_above: Value = None
    clear_below: Value = None


class SwitchChanges(Body):
    """Limits of one metric at one switch; "general" takes one away, so that it is that of all switches."""

    change: OwnValue = None
    raise_above: OwnValue = None
    clear_below: OwnValue = None


class LimitChanges(Body):
    """Limits to change; absent ones stay, null means never."""

    general: dict[str, MetricChanges] = Field(default={}, max_length=16)
    """Of all switches, by metric."""
    switches: dict[str, dict[str, SwitchChanges] | None] = Field(default={}, max_length=4096)
    """By node id and metric; null takes away all that a switch has itself."""


class LimitProposal(Body):
    """Limits of one metric as they would be; absent ones stay, null means never."""

    metric: str = Field(max_length=60)
    node: str | None = Field(default=None, max_length=200)
    """Node id or name, for the limits of one switch; null: of all."""
    change: OwnValue = None
    raise_above: OwnValue = None
    clear_below: OwnValue = None


class EventCounts(Model):
    """Events by kind."""

    change: int
    raised: int
    cleared: int
    threshold: int
    other: int
    """New keys and pushes, which do not depend on limits."""
    total: int


class PlacePreview(Model):
    """Events of one place."""

    node: Node
    port: Port | None
    queue: int | None
    had: int
    would: int


class LimitPreview(ClusterModel):
    """How many events of a metric there were, and how many other limits would have made."""

    metric: str
    unit: str | None
    since: Time
    """Of events from here on: later than asked for if there are more than are read."""
    until: Time
    in_force: MetricLimits
    """Of all switches, or of the one that is asked about."""
    proposed: MetricLimits
    had: EventCounts
    would: EventCounts
    """By comparing the values that history has with the limits proposed."""
    at_least: int
    """There would have been at least as many events."""
    exact: bool
    """`would` is exact: the limits are those in force, or every value was stored."""
    lower_bound: bool
    """There may have been more, since values that made no event are not stored: T or a limit is lower than
    that in force, or every report above the limit would be an event."""
    limits_changed: Time | None
    """Limits were changed in that time: events before it were made with others than `in_force`."""
    items: list[PlacePreview]
    """The ten places with the most events."""


class LastChange(Model):
    """Who changed limits last."""

    time: Time
    by: str
    """User, process and HTTP client."""


class Limits(Model):
    """Limits of all switches, and of those that have their own."""

    general: dict[str, MetricLimits]
    """Of all switches, by metric."""
    switches: dict[str, dict[str, dict[str, Value]]]
    """By node id and metric, what a switch has itself; absent limits are those of all switches."""
    changed: LastChange | None
    """The last change since the collector started."""
