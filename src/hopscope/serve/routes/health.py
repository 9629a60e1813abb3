"""Routes for liveness, readiness, and metrics for Prometheus."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Response

from ..context import Context, Ctx
from ..models import collector as c
from ..models.common import Error
from ..readiness import everything

router = APIRouter(tags=["health"])


@router.get("/healthz", summary="Liveness")
async def healthz() -> dict[str, str]:
    """Always answers ok; needs no token."""
    return {"status": "ok"}


@router.get("/readyz", summary="Readiness of every component", responses={503: {"model": c.Ready}})
async def readyz(context: Ctx, response: Response) -> c.Ready:
    """200 if all required components are ready, otherwise 503; the components state why."""
    ready = await context.shared("health", _ready, context)
    if not ready.ready:
        response.status_code = 503
    return ready


@router.get(
    "/metrics",
    summary="Prometheus metrics",
    response_class=Response,
    responses={401: {"model": Error}, 503: {"model": Error}},
)
async def metrics(context: Ctx, accept: Annotated[str, Header(include_in_schema=False)] = "") -> Response:
    """Text format 0.0.4, or OpenMetrics 1.0 with exemplars if the `Accept` header asks for it.

    No label of a series identifies a flow, unless `serve.top_flows` enables it.
    """
    from .. import prometheus  # loads the client library, which only scrapes need

    openmetrics = prometheus.accepts_openmetrics(accept)
    text = await context.shared(
        "metrics",
        prometheus.render_openmetrics if openmetrics else prometheus.render,
        context.state,
        context.names,
        context.folder,
        context.stores,
        context.settings.top_flows,
    )
    return Response(text, media_type=prometheus.OPENMETRICS_TYPE if openmetrics else prometheus.CONTENT_TYPE)


def _ready(context: Context) -> c.Ready:
    needed, more = everything(context.state, context.folder, context.stores, context.access.certificate)
    return c.Ready(
        ready=all(part.ready for part in needed),
        components=[c.Component.model_validate(part, from_attributes=True) for part in (*needed, *more)],
    )
