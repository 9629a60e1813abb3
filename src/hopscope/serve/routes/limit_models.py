"""Models of limits."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from .models import Model, Time

Value = Annotated[int, Field(ge=0, lt=2**63)] | None
OwnValue = Annotated[int, Field(ge=0, lt=2**63)] | Literal["general"] | None
_STRICT = ConfigDict(extra="forbid")


class MetricLimits(Model):
    """Limits of one metric; null: never."""

    model_config = _STRICT

    change: Value
    """T: a value that differs by more than this from the stored one (in a sink: from that of the flow's
    previous packet) is an event."""
    raise_above: Value
    """A value above it is an event."""
    clear_below: Value
    """With it an alarm is raised once, and cleared below this."""


class MetricChanges(Model):
    """Limits to change; absent ones stay, null means never."""

    model_config = _STRICT

    change: Value = None
    raise_above: Value = None
    clear_below: Value = None


class SwitchChanges(Model):
    """Limits of one metric at one switch; "general" takes one away, so that it is that of all switches."""

    model_config = _STRICT

    change: OwnValue = None
    raise_above: OwnValue = None
    clear_below: OwnValue = None


class LimitChanges(Model):
    """Limits to change; absent ones stay, null means never."""

    model_config = _STRICT

    general: dict[str, MetricChanges] = Field(default={}, max_length=16)
    """Of all switches, by metric."""
    switches: dict[str, dict[str, SwitchChanges] | None] = Field(default={}, max_length=4096)
    """By node id and metric; null takes away all that a switch has itself."""


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
