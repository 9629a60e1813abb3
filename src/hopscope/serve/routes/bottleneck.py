"""Routes of latency attribution, for the network and for a flow."""

from __future__ import annotations

import threading
from typing import Annotated, Literal

from fastapi import Path, Query, Request

from ...present.bottleneck import answer as attribution
from ...present.bottleneck.objects import flow_object_of, network_object
from ...present.history import SharedHistory
from ..context import Ctx
from ..models import common as m
from ..models.bottleneck import FlowBottlenecks, NetworkBottlenecks
from ..scope import asks_cluster
from .parameters import Moment, moment
from .router import api_router

router = api_router("bottleneck")


@router.get(
    "/bottleneck", summary="Latency and loss by switch, port and queue", responses={400: {"model": m.Error}}
)
async def network(
    context: Ctx,
    request: Request,
    since: Moment = None,
    until: Moment = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="Maximum number of places of each kind")] = 20,
) -> NetworkBottlenecks:
    """Switches with port and queue, by their share of the latency of all packets in a time window, and of the
    drops in it. Without `since`, live state is used from its beginning, and history for the hour before its
    newest event (`history_since`). For a cluster only history is used, not live flows and gauges.
    """
    start_ns, end_ns = moment("since", since), moment("until", until)

    def make(past: SharedHistory) -> NetworkBottlenecks:
        state = None if asks_cluster(request) else context.state
        found = attribution.network(state, past.history(), start_ns, end_ns, limit)
        return NetworkBottlenecks.model_validate(network_object(found, context.names))

    return await context.query(request, context.keeping(request, 0.0, make))


@router.get("/flows/{flow_id}/bottleneck", summary="Latency of a flow by hop")
async def flow(
    context: Ctx,
    request: Request,
    flow_id: Annotated[str, Path(pattern="^[0-9a-fA-F]{16}$", description="16 hexadecimal digits")],
    by: Annotated[
        Literal["latest", "mean"], Query(description="Latency by which hops are sorted")
    ] = "latest",
) -> FlowBottlenecks:
    """The hops of a flow by their share of its latency, each compared with the usual latency at its place;
    for a flow that has left, by its values in history.
    """
    number = int(flow_id, 16)

    def work(past: SharedHistory, _: threading.Event) -> FlowBottlenecks:
        from ...history.query import Flow

        row = context.state.flow(number)
        found = attribution.flow(context.state, past.history(), row, Flow(flow_id=number), by)
        return FlowBottlenecks.model_validate(flow_object_of(found, context.names))

    return await context.query(request, work)
