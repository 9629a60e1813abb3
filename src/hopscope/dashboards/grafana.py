"""Dashboards as JSON for Grafana, built with the types of grafana-foundation-sdk."""

from __future__ import annotations

import json
from collections.abc import Sequence
from string import ascii_uppercase
from typing import Any

from grafana_foundation_sdk.builders import (
    common as commons,
)
from grafana_foundation_sdk.builders import (
    dashboard as dashboards,
)
from grafana_foundation_sdk.builders import (
    heatmap,
    prometheus,
    stat,
    statetimeline,
    statushistory,
    table,
    timeseries,
)
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.variants import Dataquery
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from .panel import Dashboard, Panel, Plot, Query, Source
from .variables import VARIABLES, Variable

PLUGINS = {
    Source.PROMETHEUS: "prometheus",
    Source.INFLUXDB: "influxdb",
    Source.CLICKHOUSE: "grafana-clickhouse-datasource",
}
"""Grafana's types of data sources; the one for ClickHouse is a plugin that must be installed."""
TAG = "hopscope"
_DATA_SOURCE = "${datasource}"
_POINTS = 200
"""Largest number of points in time of a status history: cells must stay a few pixels wide."""
_PANELS: dict[Plot, Any] = {
    Plot.TIME_SERIES: timeseries.Panel,
    Plot.STAT: stat.Panel,
    Plot.TABLE: table.Panel,
    Plot.HEATMAP: heatmap.Panel,
    Plot.STATUS_HISTORY: statushistory.Panel,
    Plot.STATE_TIMELINE: statetimeline.Panel,
}
_HIDDEN = ("Time", "job", "instance")
_SLOW = models.FieldColorModeId.CONTINUOUS_YL_RD


def uid(source: Source, name: str) -> str:
    """Identifier of a dashboard, the same in every installation."""
    return f"{TAG}-{source}-{name}"


def dashboard_json(dashboard: Dashboard, source: Source, page: str) -> str:
    """The dashboard for a kind of database; `page` is the address of Hopscope's own page."""
    built = (
        dashboards.Dashboard(f"Hopscope / {dashboard.title}")
        .uid(uid(source, dashboard.name))
        .description(dashboard.about)
        .tags([TAG, str(source)])
        .time("now-1h", "now")
        .refresh("30s")
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .link(
            dashboards.DashboardLink("Dashboards")
            .type(models.DashboardLinkType.DASHBOARDS)
            .tags([TAG, str(source)])
            .keep_time(True)
            .include_vars(True)
        )
        .link(
            dashboards.DashboardLink("Hopscope")
            .type(models.DashboardLinkType.LINK)
            .url(page)
            .target_blank(True)
        )
        .with_variable(dashboards.DatasourceVariable("datasource").label("Data source").type(PLUGINS[source]))
    )
    for name in dashboard.variables:
        if (variable := _variable(name, VARIABLES[name], source)) is not None:
            built.with_variable(variable)
    shown = [panel for panel in dashboard.panels if source in panel.queries]
    for number, panel in enumerate(_filled(shown), 1):
        built.with_panel(_panel(panel, source, page).id(number))
    return json.dumps(built.build(), cls=JSONEncoder, indent=1, ensure_ascii=False) + "\n"


def _filled(panels: Sequence[Panel]) -> list[tuple[Panel, int]]:
    """Panels with their widths: the last panel of a row takes the rest of the row."""
    found: list[tuple[Panel, int]] = []
    at = 0
    for number, panel in enumerate(panels):
        following = panels[number + 1].width if number + 1 < len(panels) else 24
        width = panel.width if at + panel.width + following <= 24 else 24 - at
        found.append((panel, width))
        at = (at + width) % 24
    return found


def _variable(name: str, variable: Variable, source: Source) -> Any:
    if not variable.queries:
        if source is Source.PROMETHEUS:
            return None
        return dashboards.TextBoxVariable(name).label(variable.label).default_value("")
    query = variable.queries[source]
    built = (
        dashboards.QueryVariable(name)
        .label(variable.label)
        .datasource(_reference(source))
        .query({"query": query, "refId": name} if source is Source.PROMETHEUS else query)
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.NATURAL_ASC)
        .multi(True)
        .include_all(True)
        .current(models.VariableOption(text=["All"], value=["$__all"], selected=True))
    )
    if source is not Source.CLICKHOUSE:  # its queries use $__conditionalAll instead
        built.all_value(".*")
    if source is Source.PROMETHEUS and variable.regex:
        built.regex(variable.regex)
    return built


def _panel(placed: tuple[Panel, int], source: Source, page: str) -> Any:
    panel, width = placed
    built = (
        _PANELS[panel.plot]()
        .title(panel.title)
        .description(panel.about)
        .datasource(_reference(source))
        .span(width)
        .height(panel.height)
        .targets(
            [
                _Target(_dataquery(panel, query, letter, source))
                for query, letter in zip(panel.queries[source], ascii_uppercase, strict=False)
            ]
        )
    )
    if panel.plot is not Plot.TABLE:
        built.unit(panel.unit)
    _LOOKS[panel.plot](built, panel, source)
    if panel.alarm is not None and panel.plot is not Plot.TABLE:
        built.thresholds(
            dashboards.ThresholdsConfig()
            .mode(models.ThresholdsMode.ABSOLUTE)
            .steps(
                [
                    models.Threshold(value=None, color="green"),
                    models.Threshold(value=panel.alarm, color="red"),
                ]
            )
        )
    if panel.plot is Plot.TABLE:
        _link_flows(built, source, page)
    return built


def _time_series(built: Any, panel: Panel, source: Source) -> None:
    built.fill_opacity(25 if panel.stacked else 5).show_points(common.VisibilityMode.AUTO).min(0)
    built.legend(
        commons.VizLegendOptions()
        .show_legend(True)
        .display_mode(common.LegendDisplayMode.TABLE)
        .placement(common.LegendPlacement.RIGHT)
        .calcs(["max", "lastNotNull"])
    )
    built.tooltip(
        commons.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI).sort(common.SortOrder.DESCENDING)
    )
    if panel.stacked:
        built.stacking(commons.StackingConfig().mode(common.StackingMode.NORMAL))
    if panel.alarm is not None:
        built.thresholds_style(
            commons.GraphThresholdsStyleConfig().mode(common.GraphThresholdsStyleMode.DASHED)
        )


def _stat(built: Any, panel: Panel, source: Source) -> None:
    built.graph_mode(common.BigValueGraphMode.NONE).decimals(0 if panel.unit == "short" else 1)
    built.color_mode(
        common.BigValueColorMode.BACKGROUND if panel.alarm is not None else common.BigValueColorMode.VALUE
    )
    built.reduce_options(
        commons.ReduceDataOptions()
        .calcs(["lastNotNull"])
        .values(source is Source.CLICKHOUSE)  # one value per row of the answer
    ).no_value("0")


def _table(built: Any, panel: Panel, source: Source) -> None:
    built.filterable(True)
    if panel.value:
        built.sort_by([commons.TableSortByFieldState().display_name(panel.value).desc(True)])
        built.override_by_name(
            panel.value,
            [models.DynamicConfigValue("unit", panel.unit), models.DynamicConfigValue("custom.width", 120)],
        )
    if source is Source.PROMETHEUS:
        built.with_transformation(
            models.DataTransformerConfig(
                "organize",
                options={
                    "excludeByName": dict.fromkeys(_HIDDEN, True),
                    "renameByName": {"Value": panel.value, "node_name": "switch"},
                },
            )
        )


def _heatmap(built: Any, panel: Panel, source: Source) -> None:
    built.calculate(source is not Source.PROMETHEUS)
    if source is not Source.PROMETHEUS:
        logarithmic = commons.ScaleDistributionConfig().type(common.ScaleDistribution.LOG).log(2)
        built.calculation(
            commons.HeatmapCalculationOptions().y_buckets(
                commons.HeatmapCalculationBucketConfig().scale(logarithmic)
            )
        )
    built.y_axis(heatmap.YAxisConfig().unit(panel.unit))
    built.color(heatmap.HeatmapColorOptions().scheme("YlOrRd").steps(64))
    built.show_y_histogram()


def _status_history(built: Any, panel: Panel, source: Source) -> None:
    built.show_value(common.VisibilityMode.NEVER).row_height(0.9).max_data_points(_POINTS).min(0)
    built.legend(commons.VizLegendOptions().show_legend(False))
    built.color_scheme(dashboards.FieldColor().mode(_SLOW))


def _state_timeline(built: Any, panel: Panel, source: Source) -> None:
    built.show_value(common.VisibilityMode.NEVER).merge_values(True)
    built.legend(commons.VizLegendOptions().show_legend(False))
    built.color_scheme(dashboards.FieldColor().mode(models.FieldColorModeId.THRESHOLDS))
    if panel.alarm is None:  # 1: good, 0: bad
        built.thresholds(
            dashboards.ThresholdsConfig()
            .mode(models.ThresholdsMode.ABSOLUTE)
            .steps([models.Threshold(value=None, color="red"), models.Threshold(value=1, color="green")])
        )


_LOOKS = {
    Plot.TIME_SERIES: _time_series,
    Plot.STAT: _stat,
    Plot.TABLE: _table,
    Plot.HEATMAP: _heatmap,
    Plot.STATUS_HISTORY: _status_history,
    Plot.STATE_TIMELINE: _state_timeline,
}


def _link_flows(built: Any, source: Source, page: str) -> None:
    """Link a flow's id to its path in these dashboards, and to its events in Hopscope."""
    flow = "${__value.text}"
    links = [
        {
            "title": "Path of the flow",
            "url": f"/d/{uid(source, 'flows')}?var-flow={flow}&${{__url_time_range}}",
        },
        {
            "title": "Events in Hopscope",
            "url": f"{page}/api/v0/events?flow={flow}",
            "targetBlank": True,
        },
    ]
    built.override_by_name("flow", [models.DynamicConfigValue("links", links)])


def _reference(source: Source) -> models.DataSourceRef:
    return models.DataSourceRef(type_val=PLUGINS[source], uid=_DATA_SOURCE)


class _Target:
    """Wraps a finished query as a builder, which the SDK's panels expect."""

    def __init__(self, built: Dataquery) -> None:
        self._built = built

    def build(self) -> Dataquery:
        return self._built


class _PlainQuery(Dataquery):
    """A query to a data source for which the SDK has no type."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields

    def to_json(self) -> dict[str, Any]:
        return self._fields


def _dataquery(panel: Panel, query: Query, letter: str, source: Source) -> Dataquery:
    rows = panel.plot in (Plot.TABLE, Plot.STAT)
    if source is Source.PROMETHEUS:
        layout = {Plot.TABLE: PromQueryFormat.TABLE, Plot.HEATMAP: PromQueryFormat.HEATMAP}
        built = prometheus.Dataquery().ref_id(letter).expr(query.text)
        built.format(layout.get(panel.plot, PromQueryFormat.TIME_SERIES))
        if rows:
            built.instant()
        else:
            built.range()
        if query.legend:
            built.legend_format(query.legend)
        return built.build()
    fields: dict[str, Any] = {"refId": letter, "datasource": _reference(source)}
    if source is Source.INFLUXDB:
        table = panel.plot is Plot.TABLE
        fields |= {"query": query.text, "rawQuery": True, "resultFormat": "table" if table else "time_series"}
        if query.legend:
            fields["alias"] = query.legend
    else:
        fields |= {"editorType": "sql", "rawSql": query.text, "format": int(rows)}
        fields["queryType"] = "table" if rows else "timeseries"
    return _PlainQuery(fields)
