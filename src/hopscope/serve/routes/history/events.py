"""Routes of events, flows in history, and the live feed."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from functools import partial
from typing import Annotated

from fastapi import Depends, Header, HTTPException, Query, Request
from fastapi.responses import StreamingResponse

from ....lake.cursor import PATTERN
from ....operators.silences import first_match
from ....present.events import when
from ....present.feed import parse_cursor
from ....present.history import SharedHistory
from ....present.select import KINDS, METRICS, EventFilter, FlowFilter, labelled
from ...access.identity import still_authorized
from ...context import Ctx, client_of
from ...live.stream import stream
from ...models import common as m
from ..parameters import FlowId, Moment, NodeName, Ports, moment
from ..router import api_router

router = api_router()

Kinds = Annotated[list[str] | None, Query(max_length=32, description="Repeat it, or separate by commas")]
Metrics = Annotated[list[str] | None, Query(max_length=32, description="Repeat it, or separate by commas")]
Prefix = Annotated[str | None, Query(max_length=100, description="Network of source or destination")]
After = Annotated[
    str | None,
    Query(pattern=rf"^(\d{{1,19}}-\d{{1,5}}-\d{{1,20}}|{PATTERN})$", description="`next` of a page"),
]
DESCRIPTION = "Server-sent events: `hello`, then `event` with an Event, and `lost` with how many were missed."


async def _chosen(
    context: Ctx, kind: Kinds = None, metric: Metrics = None, node: NodeName = None, port: Ports = None,
    flow: FlowId = None, prefix: Prefix = None,
) -> EventFilter:  # fmt: skip
    """The filter for these parameters. Raises UnreadableError."""
    return EventFilter(
        kinds=labelled("kind", kind or (), KINDS),
        metrics=labelled("metric", metric or (), METRICS),
        nodes=() if node is None else (context.node(node),),
        flow_id=None if flow is None else int(flow, 16),
        flow=None if prefix is None else FlowFilter.parse("", (prefix,)),
        ports=tuple(port or ()),
    )


Chosen = Annotated[EventFilter, Depends(_chosen)]
"""The filter for the parameters that all routes of events have."""


@router.get("/events", summary="Events in history, including the newest", tags=["events"])
async def events(
    context: Ctx,
    request: Request,
    chosen: Chosen,
    since: Moment = None,
    until: Moment = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 100,
    oldest_first: bool = False,
    after: After = None,
) -> m.EventPage:
    """Events by time, kind, metric, switch, port, flow and prefix. Events are shown once they are on disk."""
    chosen = replace(chosen, start_ns=moment("since", since), end_ns=moment("until", until))

    def work(past: SharedHistory, _: threading.Event) -> m.EventPage:
        rows, following = past.events(chosen, limit, oldest_first, after)
        silences = context.silences.all()
        for row in rows if silences else ():
            silence = first_match(silences, row)
            row["silence"] = None if silence is None else silence.id
        to_disk = context.state.to_disk()
        return m.EventPage(
            items=[m.Event.model_validate(row) for row in rows],
            next=following,
            waiting=to_disk.waiting if to_disk.failing else 0,
        )

    return await context.query(request, work, "events")


@router.get("/events/histogram", summary="Number of events over time", tags=["events"])
async def histogram(
    context: Ctx,
    request: Request,
    chosen: Chosen,
    since: Annotated[str, Query(max_length=60, description="RFC 3339, ns since 1970, or 5m")] = "15m",
    until: Moment = None,
    buckets: Annotated[int, Query(ge=1, le=1000, description="Approximate number of buckets")] = 100,
) -> m.EventHistogram:
    """Events by kind, in buckets of time that begin at multiples of their length."""
    start_ns, end_ns = moment("since", since) or 0, moment("until", until) or time.time_ns()
    if end_ns <= start_ns:
        raise HTTPException(400, "since: expected a time before `until`")
    chosen = replace(chosen, start_ns=start_ns, end_ns=end_ns)
    seconds = _round((end_ns - start_ns) / 1e9 / buckets)

    def make(past: SharedHistory) -> m.EventHistogram:
        counts = sorted(past.counts(chosen, seconds).items())
        items = [m.EventCount(time=begin, kind=kind, count=count) for (begin, kind), count in counts]
        return m.EventHistogram(since=when(start_ns), until=when(end_ns), bucket_seconds=seconds, items=items)

    return await context.query(request, context.keeping(request, 0.0, make))


def _round(seconds: float) -> float:
    """The next of 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30 s, and whole minutes, hours or days."""
    steps = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 43_200)
    days = 86_400.0 * max(1, -(-seconds // 86_400))
    return next((float(step) for step in steps if step >= 0.99 * seconds), days)


@router.get("/history/flows", summary="Flows in history, with packets and means", tags=["history"])
async def past_flows(
    context: Ctx,
    request: Request,
    since: Moment = None,
    until: Moment = None,
    node: NodeName = None,
    port: Ports = None,
    flow: FlowId = None,
    prefix: Prefix = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 100,
) -> m.PastFlows:
    """Flows that have events, the most recent first. The worst hop is known once a flow has left."""
    chosen = await _chosen(context, None, None, node, port, flow, prefix)
    chosen = replace(chosen, start_ns=moment("since", since), end_ns=moment("until", until))

    def work(past: SharedHistory, _: threading.Event) -> m.PastFlows:
        rows, truncated = past.flows(chosen, limit, context.state)
        return m.PastFlows(items=[m.PastFlow.model_validate(row) for row in rows], truncated=truncated)

    return await context.query(request, work)


@router.get(
    "/events/live",
    summary="Live feed of events",
    description=DESCRIPTION + " A client that reconnects with Last-Event-ID continues where it stopped.",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {}}}},
    tags=["events"],
)
async def live(
    context: Ctx,
    request: Request,
    chosen: Chosen,
    last_event_id: Annotated[str | None, Header(max_length=2000, description="SHARD-SEQUENCE,…")] = None,
) -> StreamingResponse:
    """Events as they happen."""
    client = client_of(request)
    context.reject_further_stream(client)
    frames = stream(
        context, client, chosen, parse_cursor(last_event_id), partial(still_authorized, request.scope)
    )
    return StreamingResponse(frames, media_type="text/event-stream", headers={"cache-control": "no-store"})
