"""Models of the collector itself: counters, queries, health."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from .models import ClusterModel, Model, Time, Wide


class CounterValue(Model):
    """One counter."""

    name: str
    label: dict[str, str] | None
    help: str
    value: Wide | float
    """In the unit of the name: a whole number, except seconds and ratios."""
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
    rejected: Wide
    kernel_drops: Wide
    events: Wide
    values: Wide
    """Metric values in all reports: what would be stored without detection."""
    busy_ratio: float
    """Mean over workers of the time spent on reports, 0 to 1."""
    ns_per_report: float | None
    counters: list[CounterValue]


class Query(Model):
    """A read-only SQL query over history."""

    model_config = ConfigDict(extra="forbid")
    sql: str = Field(min_length=1, max_length=20_000)
    """One SELECT; the tables are described in the documentation."""
    limit: int = Field(default=1000, ge=1, le=1_000_000)
    """Maximum number of rows; the configuration may allow fewer."""


class Table(ClusterModel):
    """Rows of a query."""

    columns: list[str]
    rows: list[list[object]]
    truncated: bool
    """The result has more rows than the limit."""


class Component(Model):
    """Health of one part."""

    name: str
    ready: bool
    detail: str


class Ready(Model):
    """Whether everything that is needed answers."""

    ready: bool
    components: list[Component]
