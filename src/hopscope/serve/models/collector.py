"""Models of the collector itself: counters, queries, health."""

from __future__ import annotations

from .common import ClusterModel, Model, Time, Wide


class CounterValue(Model):
    """One counter."""

    name: str
    label: dict[str, str] | None
    help: str
    value: Wide | float
    """Value in the unit that the name states: a whole number, except for seconds and ratios."""
    per_second: float
    """Over the last seconds."""


class Summary(ClusterModel):
    """The collector at a glance."""

    time: Time
    workers: int
    flows: int
    switches: int
    sources: int
    silent_sources: int
    reports_per_second: float
    lost_per_second: float
    rejected_per_second: float
    events_per_second: float
    reports: Wide
    lost: Wide
    lost_at_most: bool = False
    """Whether `lost` is an upper bound, because that of some source is (see `Source`)."""
    moved: Wide = 0
    """Missing here, but received by other members of the cluster; not included in `lost`."""
    rejected: Wide
    kernel_drops: Wide
    events: Wide
    values: Wide
    """Metric values in all reports: what would be stored without detection."""
    busy_ratio: float
    """Mean over workers of the time spent on reports, 0 to 1."""
    ns_per_report: float | None
    counters: list[CounterValue]


class Component(Model):
    """Health of one part."""

    name: str
    ready: bool
    detail: str
    advice: str
    """What to do; empty: nothing."""


class Ready(Model):
    """Whether all required components are ready."""

    ready: bool
    components: list[Component]
