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
    """T: a value that differs by more than this from the stored one (in a sink, from the flow's previous
    packet) is an event.
    """
    raise_above: Value
    """A value above it is an event."""
    clear_below: Value
    """If set, an alarm is raised only once, and cleared by a value below this."""


class MetricChanges(Body):
    """Limits to change; absent ones stay, null means never."""

    change: Value = None
    raise_above: Value = None
    clear_below: Value = None


class SwitchChanges(Body):
    """Limits of one metric at one switch; "general" removes a limit, so that the general one applies."""

    change: OwnValue = None
    raise_above: OwnValue = None
    clear_below: OwnValue = None


class LimitChanges(Body):
    """Limits to change; absent ones stay, null means never."""

    general: dict[str, MetricChanges] = Field(default={}, max_length=16)
    """Limits of all switches, by metric."""
    switches: dict[str, dict[str, SwitchChanges] | None] = Field(default={}, max_length=4096)
    """Limits of single switches, by node id and metric; null removes all limits of a switch."""


class LimitProposal(Body):
    """Proposed limits of one metric; absent ones stay, null means never."""

    metric: str = Field(max_length=60)
    node: str | None = Field(default=None, max_length=200)
    """Node id or name, for the limits of one switch; null: the general limits."""
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
    """How many events of a metric occurred, and how many would have occurred with other limits."""

    metric: str
    unit: str | None
    since: Time
    """Start of the evaluated events: later than requested if there are more than are read."""
    until: Time
    in_force: MetricLimits
    """Limits in force, in general or for the given switch."""
    proposed: MetricLimits
    had: EventCounts
    would: EventCounts
    """Events found by comparing the values in history with the proposed limits."""
    at_least: int
    """Lower bound of the number of events."""
    exact: bool
    """`would` is exact: the limits are those in force, or every value was stored."""
    lower_bound: bool
    """Whether more events are possible, since values that caused no event are not stored: T or a limit is
    lower than the one in force, or every report above the limit would be an event.
    """
    limits_changed: Time | None
    """When limits were changed within that time: earlier events are due to limits other than `in_force`."""
    items: list[PlacePreview]
    """The ten places with the most events."""


class LastChange(Model):
    """The last change of limits."""

    time: Time
    by: str
    """Author: user, process and HTTP client."""


class Limits(Model):
    """General limits, and those of single switches."""

    general: dict[str, MetricLimits]
    """Limits of all switches, by metric."""
    switches: dict[str, dict[str, dict[str, Value]]]
    """Limits of single switches by node id and metric; absent limits are inherited from `general`."""
    changed: LastChange | None
    """The last change since the collector started."""
