"""Routes about open alarms: since when, and which flows they affect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import Query

from ...base.names import Names
from ...detect.records import Kind, Metric
from ...operators.silences import Silence, first_match
from ...present.alarm_state import FlowsAt, place_of
from ...present.alarms import OpenAlarm
from ...present.events import event_object, flow_object, when, wide
from ...present.select import METRICS, labelled
from ...present.severity import severity_of_kind
from ..context import Context, Ctx
from ..models import alarms as a
from .parameters import Limit, NodeName, Offset, Order
from .router import api_router
from .silences import acknowledged

router = api_router("events")
Severity = Literal["info", "warning", "critical"]


@router.get("/alarms", summary="Open alarms")
async def alarms(
    context: Ctx,
    metric: Annotated[list[str] | None, Query(max_length=32, description="Repeat it, or use commas")] = None,
    node: NodeName = None,
    severity: Severity | None = None,
    silenced: Annotated[
        Literal["show", "hide"], Query(description="Whether to show silenced alarms")
    ] = "show",
    sort: Literal["since", "key"] = "since",
    order: Order = "desc",
    offset: Offset = 0,
    limit: Limit = 100,
) -> a.AlarmPage:
    """Alarms by metric and place, with the flows through the place. For hop latency, the row of a port has
    the alarms of all its flows. Alarms begin with `raised` or `silent`, and end with `cleared` or `returned`.
    """
    metrics = labelled("metric", metric or (), METRICS)
    node_id = None if node is None else context.node(node)

    def work() -> a.AlarmPage:
        rows = [
            each
            for each in context.alarms.read()
            if not metrics or each.event["metric"] in metrics
            if node_id is None or each.event["node_id"] == node_id
            if severity in (None, severity_of_kind(int(each.event["kind"])))
        ]
        silences = context.silences.all()
        silent = {each.key for each in rows if _silence_of(each, context, silences) is not None}
        if silenced == "hide":
            rows = [each for each in rows if each.key not in silent]
        rows.sort(key=lambda each: each.key)
        if sort == "since":
            rows.sort(key=lambda each: each.since_ns or 0, reverse=order == "desc")
        elif order == "desc":
            rows.reverse()
        items = shown(context, rows[offset : offset + limit], silences)
        return a.AlarmPage(total=len(rows), offset=offset, silenced=len(silent), items=items)

    return await context.of_alarms(work)


def shown(
    context: Context, rows: list[OpenAlarm], silences: Sequence[Silence] | None = None
) -> list[a.Alarm]:
    """Alarms as the API shows them, with the flows at their places, acknowledgements and silences."""
    flows = context.alarms.flows(rows)
    silences = context.silences.all() if silences is None else silences
    noted = context.acknowledgements.by_key()
    found = []
    for row in rows:
        one = _alarm(row, context.names, flows.get(place_of(row.event) or (0, None, None)))
        known, silence = noted.get(row.key), _silence_of(row, context, silences)
        if known is not None and known.is_of(row.since_ns):
            one.acknowledged = acknowledged(known)
        one.silence = None if silence is None else silence.id
        found.append(one)
    return found


def _silence_of(row: OpenAlarm, context: Context, silences: Sequence[Silence]) -> Silence | None:
    return first_match(silences, event_object(row.event, context.names)) if silences else None


def _alarm(row: OpenAlarm, names: Names, flows: FlowsAt | None) -> a.Alarm:
    event = event_object(row.event, names)
    kind, metric = int(row.event["kind"]), int(row.event["metric"])
    value, peak = row.now, row.peak
    if metric == Metric.HOP_LATENCY:
        value = flows.worst[0][0] if flows is not None and flows.worst else None
        peak = max(peak, value or 0)
        event["flow"] = None  # it is only that of the first alarm
    return a.Alarm.model_validate(
        {
            **{name: event[name] for name in ("kind", "metric", "unit", "node", "port", "queue", "flow")},
            "key": row.key,
            "id": None if row.since_ns is None else event["id"],
            "severity": severity_of_kind(kind),
            "source": event["source"],
            "since": when(row.since_ns),
            "value": wide(value),
            "peak": wide(peak),
            "limit": None if row.since_ns is None or kind == Kind.SILENT else event["previous"],
            "unit": "ns" if kind == Kind.SILENT else event["unit"],
            "alarms": max(1, len(row.alarms)),
            "flows": None if flows is None else flows.count,
            "acknowledged": None,
            "silence": None,
            "worst": [
                {"flow": flow_object(each), "latency_ns": latency}
                for latency, each in (flows.worst or () if flows is not None else ())
            ],
        }
    )
