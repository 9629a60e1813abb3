"""Routes of distributions of values in any time window."""

from __future__ import annotations

import threading
from typing import Annotated

from fastapi import Query, Request

from ....detect.distributions.quantiles import By
from ....present.distributions import distribution_object
from ....present.history import SharedHistory
from ...context import Ctx
from ...models import distributions as d
from ..parameters import Moment, Ports, moment
from ..router import api_router

router = api_router("distributions")

Nodes = Annotated[list[str] | None, Query(max_length=64, description="Node ids or names; repeatable")]
Queues = Annotated[list[int] | None, Query(max_length=64, description="Queue ids; repeatable")]
Measures = Annotated[list[d.MeasureName] | None, Query(max_length=4, description="Measures; repeatable")]


@router.get("/distributions", summary="Distributions with quantiles")
async def distributions(
    context: Ctx,
    request: Request,
    since: Moment = None,
    until: Moment = None,
    measure: Measures = None,
    node: Nodes = None,
    port: Ports = None,
    queue: Queues = None,
    by: By = "switch",
    bins: bool = True,
    offset: Annotated[int, Query(ge=0, le=10_000_000)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> d.DistributionPage:
    """Distributions merged by queue, port, switch or over the network, including present counts.

    A time window is extended to whole periods (`distributions.period_seconds`); `since` and `until` of the
    answer state the covered time. End-to-end latency belongs to no place.
    """
    start, end = (moment(name, text) for name, text in (("since", since), ("until", until)))
    nodes = [context.node(each) for each in node or ()]

    def work(past: SharedHistory, _: threading.Event) -> d.DistributionPage:
        found = past.history().distributions(
            start=start,
            end=end,
            nodes=nodes,
            ports=port or (),
            queues=queue or (),
            measures=measure or (),
            by=by,
        )
        shown = [
            distribution_object(each, context.names, bins=bins) for each in found[offset : offset + limit]
        ]
        return d.DistributionPage(
            total=len(found), offset=offset, items=[d.Distribution.model_validate(each) for each in shown]
        )

    return await context.query(request, work)
