"""The parts of a dashboard: panels, with queries for each kind of database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class Source(StrEnum):
    """A kind of database that Grafana reads; the value is the name on the command line."""

    PROMETHEUS = "prometheus"
    """Queried in PromQL; also VictoriaMetrics, Mimir and Thanos."""
    INFLUXDB = "influxdb"
    """Queried in InfluxQL."""
    CLICKHOUSE = "clickhouse"


class Plot(StrEnum):
    """A kind of panel."""

    TIME_SERIES = "timeseries"
    STAT = "stat"
    TABLE = "table"
    HEATMAP = "heatmap"
    """Drawn from histogram buckets in PromQL, otherwise from single values."""
    STATUS_HISTORY = "status-history"
    """A row for each series, coloured by value: a heat map by place and time."""
    STATE_TIMELINE = "state-timeline"


@dataclass(frozen=True)
class Query:
    """A query with Grafana's variables and macros; `legend` names its series in PromQL and InfluxQL."""

    text: str
    legend: str = ""


@dataclass(frozen=True)
class Panel:
    """One panel; it is left out of the dashboard of a database for which it has no queries."""

    title: str
    about: str
    """Shown when the pointer is on the title."""
    plot: Plot
    prom: Query | Sequence[Query] = ()
    influx: Query | Sequence[Query] = ()
    click: Query | Sequence[Query] = ()
    unit: str = "short"
    """Grafana's identifier of the unit of all values, or of `value` in a table."""
    value: str = ""
    """Tables only: name of the column with the value."""
    width: int = 12
    """Columns of Grafana's grid, which has 24."""
    height: int = 8
    alarm: float | None = None
    """Values from this one on are red; None: there is no such value."""
    stacked: bool = False

    @property
    def queries(self) -> Mapping[Source, Sequence[Query]]:
        """Its queries, by the databases for which it has some."""
        given = zip(Source, (self.prom, self.influx, self.click), strict=True)
        return {source: [each] if isinstance(each, Query) else each for source, each in given if each}


@dataclass(frozen=True)
class Dashboard:
    """One dashboard; `name` is the name of its file and the last part of its identifier."""

    name: str
    title: str
    about: str
    panels: Sequence[Panel]
    variables: Sequence[str] = field(default_factory=tuple)
    """Names of its variables, keys of `variables.VARIABLES`."""
