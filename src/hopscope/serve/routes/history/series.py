"""Routes of values over time: at one place, at all places, bursts, and distributions."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar

from fastapi import HTTPException, Query, Request

from ....detect.distributions.quantiles import By
from ....present import distributions as shown
from ....present.events import when, wide
from ....present.history import SharedHistory
from ....present.series import over_time
from ....present.series.bursts import Search, bursts
from ....present.series.heat_map import Sort, find_highest
from ....present.series.objects import alarm_object, burst_object, place_object
from ....present.series.places import DROP, Buckets, limits_at, unit_of
from ....present.series.samples import Samples
from ....present.text import UnreadableError, parse_span
from ...context import Context, Ctx
from ...models import distributions as d
from ...models import series as s
from ...scope import asks_cluster
from .. import show
from ..parameters import FlowId, Moment, NodeName, moment
from ..router import api_router

router = api_router("series")

A = TypeVar("A")
Work = Callable[[SharedHistory, threading.Event], A]
_MIN_SECONDS, _MAX_SECONDS = 2.0, 30.0
"""Bounds of the time for which an answer is cached, a quarter of its buckets' width."""
MAX_CELLS = 8000
"""Maximum of rows times buckets of a heat map, so that its answer stays below 100 KB."""
PortNumber = Annotated[int | None, Query(ge=0, lt=2**30, description="Egress port, or ifIndex")]
QueueNumber = Annotated[int | None, Query(ge=0, lt=2**30, description="Queue or buffer")]
BucketCount = Annotated[int, Query(ge=1, le=500, description="Approximate number of buckets")]
Since = Annotated[
    str | None,
    Query(max_length=60, description="RFC 3339, ns since 1970, or 5m; default: 15 minutes before `until`"),
]
Nodes = Annotated[list[str] | None, Query(max_length=64, description="Node ids or names; repeatable")]
Above = Annotated[int | None, Query(ge=0, lt=2**63, description="Use values above this instead of alarms")]
Span = Annotated[str | None, Query(max_length=30, description="A duration such as 500us, 20ms or 5s")]


@router.get("/series", summary="Values of one place over time")
async def series(
    context: Ctx,
    request: Request,
    metric: s.SeriesMetric,
    node: NodeName = None,
    port: PortNumber = None,
    queue: QueueNumber = None,
    flow: FlowId = None,
    since: Since = None,
    until: Moment = None,
    buckets: BucketCount = 120,
) -> s.Series:
    """Lowest, highest and latest value by bucket, and alarms. They are from events, and from live values
    sampled since clients began to ask. An event is stored when a value changes by more than T (`change`).
    """
    over = _buckets(since, until, buckets)
    node_id = None if node is None else context.node(node)
    if node_id is None and flow is None:
        raise HTTPException(400, "node: not given, expected a node, or a flow")
    if metric == "flow_latency" and flow is None:
        raise HTTPException(400, "flow: not given, expected the id of a flow")
    port = None if metric == "buffer_occupancy" else port
    asked = over_time.SeriesQuery(metric, node_id, port, queue, None if flow is None else int(flow, 16))
    samples = _samples(context, request)
    limits = await _limits(context, metric, node_id)

    def make(past: SharedHistory) -> s.Series:
        found = over_time.series(past.history(), asked, over, samples)
        names = context.names
        return s.Series(
            **_bounds(metric, over, found.sampled_ns),
            **limits,
            node=None if node_id is None else show.node(names, node_id),
            port=None if node_id is None or port is None else show.port(names, node_id, port),
            queue=queue,
            lowest=[wide(value) for value in found.lowest],
            highest=[wide(value) for value in found.highest],
            latest=[wide(value) for value in found.latest],
            events=found.events,
            before=wide(found.before),
            alarms=[s.Alarm.model_validate(alarm_object(each)) for each in found.alarms],
            alarm_count=found.alarm_count,
            truncated=found.truncated,
        )

    return await context.query(request, _kept(context, request, make, over))


@router.get("/heatmap", summary="The places with the highest values, over time")
async def heatmap(
    context: Ctx,
    request: Request,
    metric: s.MetricName = "queue_occupancy",
    node: Nodes = None,
    since: Since = None,
    until: Moment = None,
    buckets: BucketCount = 120,
    rows: Annotated[int, Query(ge=1, le=200)] = 40,
    sort: Sort = "peak",
) -> s.HeatMap:
    """Highest value of each place by bucket. `sort`: by highest value, by number of events, or by place (of
    the places with the highest values).
    """
    if rows * buckets > MAX_CELLS:
        raise HTTPException(400, f"rows: expected at most {MAX_CELLS:,} rows times buckets")
    over = _buckets(since, until, buckets)
    nodes = [context.node(each) for each in node or ()]
    samples = None if metric == DROP else _samples(context, request)
    limits = await _limits(context, metric, nodes[0] if len(nodes) == 1 else None)

    def make(past: SharedHistory) -> s.HeatMap:
        history = past.history()
        total, found, sampled_ns = find_highest(history, metric, over, rows, sort, samples, nodes)
        return s.HeatMap(
            **_bounds(metric, over, sampled_ns),
            **limits,
            total=total,
            items=[
                s.HeatRow(
                    **place_object(context.names, each.place),
                    peak=wide(each.peak),
                    events=each.events,
                    values=[wide(value) for value in each.values],
                )
                for each in found
            ],
        )

    return await context.query(request, _kept(context, request, make, over))


@router.get("/bursts", summary="Bursts: when a port or queue was above its limit, and due to whose traffic")
async def find_bursts(
    context: Ctx,
    request: Request,
    metric: s.MetricName | None = None,
    node: NodeName = None,
    port: PortNumber = None,
    since: Since = None,
    until: Moment = None,
    above: Above = None,
    min_duration: Span = None,
    max_duration: Span = None,
    sort: Literal["start", "peak", "duration"] = "start",
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> s.Bursts:
    """Periods from the event that raised an alarm to the one that cleared it; with `above`, from the first
    stored value above it to the next one that is not. `max_duration` leaves out bursts that have not ended.
    """
    if metric == DROP:
        raise HTTPException(400, "metric: drop has no limit, expected a different metric")
    if above is not None and metric is None:
        raise HTTPException(400, "metric: not given, expected the metric of `above`")
    start, end = _range(since, until)
    search = Search(
        start,
        end,
        metric,
        above,
        shortest_ns=_span("min_duration", min_duration) or 0,
        longest_ns=_span("max_duration", max_duration),
        node=None if node is None else context.node(node),
        port=port,
        sort=sort,
        limit=limit,
    )

    def make(past: SharedHistory) -> s.Bursts:
        total, found, truncated = bursts(past.history(), search)
        items = [s.Burst.model_validate(burst_object(context.names, each)) for each in found]
        return s.Bursts(since=when(start), until=when(end), total=total, items=items, truncated=truncated)

    return await context.query(request, _kept(context, request, make))


@router.get("/distributions/history", summary="Distributions of one place by time, with quantiles")
async def distribution_history(
    context: Ctx,
    request: Request,
    measure: d.MeasureName = "hop_latency",
    node: NodeName = None,
    port: PortNumber = None,
    queue: QueueNumber = None,
    since: Since = None,
    until: Moment = None,
    buckets: BucketCount = 60,
) -> s.DistributionHistory:
    """Quantiles by bucket. A period of history (`distributions.period_seconds`) counts in the bucket in which
    it begins, so buckets may be empty.
    """
    over = _buckets(since, until, buckets)
    node_id = None if node is None else context.node(node)
    if node_id is None and (port is not None or queue is not None):
        raise HTTPException(400, "node: not given, expected the node of the port or queue")
    chosen: dict[str, Any] = {
        "start": over.start_ns,
        "end": over.end_ns,
        "nodes": () if node_id is None else (node_id,),
        "ports": () if port is None else (port,),
        "queues": () if queue is None else (queue,),
        "measures": (measure,),
        "by": _view(node_id, port, queue),
    }

    def make(past: SharedHistory) -> s.DistributionHistory:
        history = past.history()
        found = history.distributions(**chosen, bucket_ns=over.width_ns)
        whole = history.distributions(**chosen)
        items = [shown.distribution_object(each, context.names, bins=False) for each in found]
        return s.DistributionHistory(
            measure=measure,
            unit="ns" if measure in ("hop_latency", "end_to_end") else None,
            since=when(over.start_ns),
            until=when(over.end_ns),
            bucket_ns=over.width_ns,
            items=[d.Distribution.model_validate(each) for each in items],
            whole=d.Distribution.model_validate(shown.distribution_object(whole[0], context.names))
            if whole
            else None,
        )

    return await context.query(request, _kept(context, request, make, over))


def _kept(
    context: Context, request: Request, make: Callable[[SharedHistory], A], over: Buckets | None = None
) -> Work[A]:
    """Work for a query that many viewers ask again and again: it is done once for all of them."""
    seconds = _MIN_SECONDS if over is None else min(_MAX_SECONDS, max(_MIN_SECONDS, over.width_ns / 4e9))
    return context.keeping(request, seconds, make, over and over.start_ns)


def _view(node: int | None, port: int | None, queue: int | None) -> By:
    if node is None:
        return "network"
    if queue is not None:
        return "queue"
    return "switch" if port is None else "port"


def _range(since: str | None, until: str | None) -> tuple[int, int]:
    now_ns = time.time_ns()
    start, end = moment("since", since), moment("until", until)
    end = now_ns if end is None else end
    start = end - 15 * 60 * 10**9 if start is None else start
    if start >= end:
        raise HTTPException(400, "since: expected a time before `until`")
    return start, end


def _buckets(since: str | None, until: str | None, count: int) -> Buckets:
    return Buckets.of(*_range(since, until), count)


def _span(name: str, text: str | None) -> int | None:
    try:
        return None if text is None else parse_span(text)
    except UnreadableError as error:
        raise HTTPException(400, f"{name}: {error}") from None


def _samples(context: Context, request: Request) -> Samples | None:
    """Samples of live values; None for a cluster, since only those of this collector are known."""
    return None if asks_cluster(request) else context.samples


async def _limits(context: Context, metric: str, node: int | None) -> dict[str, Any]:
    in_force = await context.run(context.state.limits)
    found = None if in_force is None else limits_at(in_force.limits, metric, node)
    names = ("change", "raise_above", "clear_below")
    return {name: None if found is None else wide(getattr(found, name)) for name in names}


def _bounds(metric: str, over: Buckets, sampled_ns: int | None) -> dict[str, Any]:
    return {
        "metric": metric,
        "unit": unit_of(metric),
        "since": when(over.start_ns),
        "until": when(over.end_ns),
        "bucket_ns": over.width_ns,
        "sampled_since": when(sampled_ns),
    }
