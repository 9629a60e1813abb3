"""Routes about flows: search, groups, one flow with its paths and hops over time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from fastapi import HTTPException, Path, Query, Request

from ...detect.records import NO_NODE
from ...present.events import flow_key, flow_object, node_object, when, wide
from ...present.flows import groups as grouping
from ...present.flows.hops import (
    FlowValues,
    flow_values,
    gauges_at,
    live_object,
    past_object,
    series_objects,
)
from ...present.flows.paths import path_at, path_object, path_periods
from ...present.flows.rows import FlowRows, State, Sums, flow_rows, live_sums, past_flows
from ...present.flows.search import FlowSearch, parse_search
from ...present.history import SharedHistory
from ...present.select import FlowFilter, order_of
from ..context import Context, Ctx
from ..models import common as m
from ..models import flows as f
from . import show
from .parameters import Limit, Moment, NodeName, Offset, Order, Text, moment
from .router import api_router

router = api_router("flows", "/flows")

KEPT_SECONDS = 5.0
"""How long flows from history are cached."""
KEPT_VALUES_SECONDS = 2.0
"""How long the events of one flow are cached."""
FlowSort = Literal["latency", "mean_latency", "packets", "last_seen", "first_seen", "hops"]
FlowId = Annotated[str, Path(pattern="^[0-9a-fA-F]{16}$", description="16 hexadecimal digits")]
SearchText = Annotated[
    str,
    Query(
        max_length=400,
        description="Words, all of which must match: `10.0.0.0/8`, `10.1.2.3:443`, `tcp`, `A > B`, `src:A`, "
        "`dst:B`, `port:443`, `leaf-1` or `node:7` (on the path), `egress:3`, `id:…`, `path:…`",
    ),
]
States = Annotated[State, Query(description="`past`: flows that have left the flow table, from history")]
Since = Annotated[
    str,
    Query(max_length=60, description="Start of the time range of past flows: RFC 3339, ns since 1970, or 5m"),
]
Until = Annotated[str | None, Query(max_length=60, description="Its end")]
ABSENT = "no flow has this id, neither in the flow table nor in history"
T = TypeVar("T")


@router.get("", summary="Flows, live and past")
async def flows(
    context: Ctx,
    request: Request,
    q: SearchText = "",
    state: States = "live",
    since: Since = "15m",
    until: Until = None,
    sort: FlowSort = "latency",
    order: Order = "desc",
    src: Text = None,
    dst: Text = None,
    prefix: Annotated[
        str | None, Query(max_length=100, description="Network that contains source or destination")
    ] = None,
    port: Annotated[int | None, Query(ge=0, le=65535, description="Source or destination port")] = None,
    proto: Annotated[str | None, Query(max_length=20, description="Number or name")] = None,
    node: NodeName = None,
    offset: Offset = 0,
    limit: Limit = 100,
) -> m.FlowPage:
    """Flows of the flow tables, and flows from history with events in the time range; sorted and paged.
    Sorting by latency uses the highest latency of a past flow.
    """
    chosen = FlowFilter(src, dst, proto, port=port, prefixes=() if prefix is None else (prefix,))
    search = _search(context, q).narrowed(chosen, None if node is None else context.node(node))

    start_ns, end_ns = moment("since", since), moment("until", until)

    def page(found: FlowRows, past: SharedHistory | None) -> m.FlowPage:
        at = order_of(found.records, sort, order == "desc", offset, limit)
        live = found.records[at[at < found.live]]
        sums: dict[int, Sums] = {}
        if past is not None and len(live):
            sums = context.kept.of(
                ("flows", search, since, until, live["flow_id"].tobytes()),
                KEPT_SECONDS,
                lambda: live_sums(past.own(), live, search, start_ns, end_ns),
            )
        items = [
            show.flow(row, sums.get(int(row["flow_id"])))
            if each < found.live
            else show.flow(row, found.sums(each), live=False)
            for each, row in zip(at.tolist(), found.records[at], strict=True)
        ]
        truncated = found.past.truncated
        return m.FlowPage(total=len(found.records), offset=offset, items=items, truncated=truncated)

    return await _found(context, request, search, state, since, until, page)


@router.get("/groups", summary="Flows by a common property")
async def groups(
    context: Ctx,
    request: Request,
    by: grouping.By,
    q: SearchText = "",
    state: States = "live",
    since: Since = "15m",
    until: Until = None,
    sort: grouping.Sort = "packets",
    offset: Offset = 0,
    limit: Limit = 100,
) -> f.FlowGroups:
    """The largest groups of matching flows. Groups by path, switch or port have live flows only; by switch or
    port, a flow is in the group of each of its hops.
    """

    def page(found: FlowRows, _: SharedHistory | None) -> f.FlowGroups:
        made = grouping.group(found, by, context.state)
        items = [
            grouping.group_object(made, at, by, found, context.state, context.names)
            for at in made.order(sort)[offset : offset + limit].tolist()
        ]
        return f.FlowGroups.model_validate(
            {
                "total": len(made),
                "offset": offset,
                "flows": len(found.records),
                "packets": wide(int(found.records["packets"].sum())),
                "items": items,
                "truncated": found.past.truncated,
            }
        )

    which: State = "live" if by in grouping.OF_PATHS else state
    return await _found(context, request, _search(context, q), which, since, until, page)


@router.get("/{flow_id}", summary="One flow with its path", responses={404: {"model": m.Error}})
async def flow(context: Ctx, flow_id: FlowId) -> m.FlowDetail:
    """A live flow and its hops, from the source to the sink; past flows are only in history."""

    def work() -> m.FlowDetail | None:
        row = context.state.flow(int(flow_id, 16))
        return None if row is None else show.flow_detail(row, context.state.hops_of(row), context.names)

    detail = await context.run(work)
    if detail is None:
        raise HTTPException(
            404, "no live flow has this id; events of past flows are under /api/v0/events?flow="
        )
    return detail


@router.get("/{flow_id}/paths", summary="Paths of a flow over time", responses={404: {"model": m.Error}})
async def paths(
    context: Ctx, request: Request, flow_id: FlowId, since: Moment = None, until: Moment = None
) -> f.FlowPaths:
    """The present path, and every path in history, with the time of each change."""
    start_ns, end_ns = moment("since", since), moment("until", until)

    def work(past: SharedHistory, _: threading.Event) -> f.FlowPaths:
        number = int(flow_id, 16)
        found, truncated = context.kept.of(
            ("paths", number, since, until),
            KEPT_VALUES_SECONDS,
            lambda: path_periods(past.history(), number, start_ns, end_ns),
        )
        row = context.state.flow(int(flow_id, 16))
        values = _values(context, past, number)
        if row is None and values.flow is None and not found:
            raise HTTPException(404, ABSENT)
        return f.FlowPaths.model_validate(
            {
                **_head(row, values),
                "path": None if row is None else _path_now(context, row),
                "items": [path_object(each, context.names) for each in found],
                "truncated": truncated,
            }
        )

    return await context.query(request, work)


@router.get("/{flow_id}/hops", summary="Latency of a flow by hop", responses={404: {"model": m.Error}})
async def hops(
    context: Ctx, request: Request, flow_id: FlowId, at: Moment = None, since: Moment = None
) -> f.FlowHops:
    """Latency of each hop, now or as stored at a moment, with the stored value, its age, and how much the
    true value may differ (T); also the hop's queue and link. `since`: start of the range for lowest and
    highest.
    """
    at_ns, _ = moment("at", at), moment("since", since)

    def work(past: SharedHistory, _: threading.Event) -> f.FlowHops:
        number = int(flow_id, 16)
        row = context.state.flow(int(flow_id, 16)) if at_ns is None else None
        values = _values(context, past, number, since, None if at_ns is None else at_ns + 1)
        if row is None and values.flow is None:
            raise HTTPException(
                404, ABSENT if at_ns is None else "history has nothing of this flow before `at`"
            )
        then = time.time_ns() if row is not None else at_ns
        if then is None:
            then = values.last_ns or 0
        force = context.state.limits()
        every = values if at_ns is None else _values(context, past, number)
        if row is not None:
            shown = live_object(row, context.state.hops_of(row), values, force, context.names, then)
        else:
            nodes = _path_at(context, past, number, then)
            gauges = gauges_at(past.history(), nodes, then)
            shown = past_object(nodes, values, gauges, force, context.names, then)
        change = None if force is None else force.change
        return f.FlowHops.model_validate(
            {
                **_head(row, every),
                "time": when(then),
                "limits_changed": None if change is None else when(change.time_ns),
                **shown,
                "truncated": values.truncated,
            }
        )

    return await context.query(request, work)


@router.get(
    "/{flow_id}/series", summary="Latency of a flow by hop over time", responses={404: {"model": m.Error}}
)
async def series(
    context: Ctx, request: Request, flow_id: FlowId, since: Moment = None, until: Moment = None
) -> f.FlowSeries:
    """Values that detection stored for the flow and for each of its hops."""
    _, end_ns = moment("since", since), moment("until", until)

    def work(past: SharedHistory, _: threading.Event) -> f.FlowSeries:
        values = _values(context, past, int(flow_id, 16), since, end_ns)
        row = context.state.flow(int(flow_id, 16))
        if row is None and values.flow is None:
            raise HTTPException(404, ABSENT)
        head = _head(row, values)
        return f.FlowSeries.model_validate(
            {
                "flow": head["flow"],
                "last_seen": head["last_seen"],
                "items": series_objects(values, context.state.limits(), context.names),
                "truncated": values.truncated,
            }
        )

    return await context.query(request, work)


async def _found(
    context: Context, request: Request, search: FlowSearch, state: State, since: str, until: str | None,
    page: Callable[[FlowRows, SharedHistory | None], T],
) -> T:  # fmt: skip
    """An answer from the matching flows; history is only read if past flows are requested."""
    start_ns, end_ns = moment("since", since), moment("until", until)
    if state == "live":
        return await context.scan(lambda: page(flow_rows(context.state, search), None))

    def work(past: SharedHistory, _: threading.Event) -> T:
        found = context.kept.of(
            ("flows", search, since, until),
            KEPT_SECONDS,
            lambda: past_flows(past.own(), context.state, search, start_ns, end_ns),
        )
        return page(flow_rows(context.state, search, state, found), past)

    return await context.query(request, work)


def _search(context: Context, text: str) -> FlowSearch:
    return parse_search(text, context.names.find_node, context.names.nodes.values())


def _values(
    context: Context, past: SharedHistory, number: int, start: str | None = None, end_ns: int | None = None
) -> FlowValues:
    return context.kept.of(
        ("values", number, start, end_ns),
        KEPT_VALUES_SECONDS,
        lambda: flow_values(past.history(), number, moment("since", start), end_ns),
    )


def _path_now(context: Context, row: np.void) -> list[dict[str, Any]] | None:
    nodes = context.state.hops_of(row)["node_id"]
    return [node_object(context.names, node) for node in nodes[nodes != NO_NODE].tolist()] or None


def _path_at(context: Context, past: SharedHistory, number: int, at_ns: int) -> tuple[int, ...]:
    """Nodes of the last path in history at a moment."""
    return context.kept.of(
        ("path at", number, at_ns), KEPT_SECONDS, lambda: path_at(past.history(), number, at_ns)
    )


def _head(row: np.void | None, values: FlowValues) -> dict[str, Any]:
    """Fields that all answers about one flow have in common."""
    if row is not None:
        return {"flow": flow_object(row), "state": "live", "last_seen": when(row["last_ns"])}
    return {
        "flow": None if values.flow is None else flow_key(values.flow),
        "state": "past",
        "last_seen": when(values.last_ns),
    }
