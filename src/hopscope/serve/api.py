"""The HTTP application: routes, errors as one line of JSON, and the guard in front."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from ..base.errors import HopscopeError, described
from ..base.log import logger, raised_at
from ..base.names import Names
from ..base.version import VERSION
from ..direct.collectors.group import CollectorGroup
from ..direct.stores.store import StoreError
from ..present.text import UnreadableError
from ..settings.configuration.errors import did_you_mean, expected
from ..settings.serve import ServeSettings
from .access import pages
from .access.guard import Guard
from .context import Context
from .description import ABOUT, Application
from .live.answers import ask
from .live.hub import Hub
from .overview.snapshot import Poller, Rows
from .routes import (
    access,
    alarms,
    bottleneck,
    control,
    direct,
    fabric,
    flows,
    health,
    labels,
    limits,
    live,
    overview,
    silences,
    state,
    system,
)
from .routes.history import distributions, events, evidence, queries, series, sql
from .routes.router import PREFIX
from .scope import ClusterScope
from .static import mount, no_page

log = logger("serve")


def create_app(
    settings: ServeSettings,
    folder: Path,
    names: Names | None = None,
    stores: Path | None = None,
    collectors: CollectorGroup | Callable[[], CollectorGroup] | None = None,
    cluster: ClusterScope | None = None,
    overview_rows: Rows | None = None,
) -> FastAPI:
    """The application for the data folder `folder`; serve `app.state.guarded`, which authenticates.

    `stores`: the folder of the stores, if it is not `direct` in the data folder. `collectors`: the collectors
    that share the keys, or a function that returns them; None: this one has all keys. `cluster`: the cluster
    of this collector. `overview_rows`: numbers of rows of the overview's tables, if they differ from its
    page's.
    """
    context = Context(settings, folder, names or Names(), stores or folder / "direct", collectors, cluster)

    poller = Poller(context, overview_rows)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        following = poller.start()
        yield
        following.cancel()
        hub.close()
        context.close()

    app = Application(
        title="Hopscope",
        version=VERSION,
        description=ABOUT,
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,  # FastAPI's page loads scripts from the internet
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.context = context
    app.state.closing = context.closing
    hub = app.state.hub = Hub(partial(ask, app))
    app.state.overview = poller
    for part in (
        access,
        overview,
        flows,
        state,
        alarms,
        bottleneck,
        events,
        evidence,
        silences,
        limits,
        distributions,
        series,
        labels,
        control,
        direct,
        fabric,
        queries,
        sql,
        system,
        health,
        live,
    ):
        app.router.routes += part.router.routes
    mount(app)
    pages.mount(app, context.access)
    for path in ("/api/{rest:path}", "/healthz", "/readyz", "/metrics"):
        app.add_api_route(
            path, _nowhere, methods=["GET", "POST", "PUT", "PATCH", "DELETE"], include_in_schema=False
        )
    app.add_api_route("/{rest:path}", no_page, methods=["GET", "HEAD"], include_in_schema=False)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(HopscopeError, _unavailable)
    for kind in (StoreError, UnreadableError):
        app.add_exception_handler(kind, _rejected)
    app.add_exception_handler(Exception, _failed)
    app.state.guarded = Guard(_LoggedOnce(app), context.access)
    return app


class _LoggedOnce:
    """The application without the errors that `_failed` has answered and logged: Starlette re-raises them,
    and uvicorn would log each again.
    """

    def __init__(self, app: FastAPI) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self.app(scope, receive, send)
        except Exception:
            if scope["type"] != "http":
                raise


async def _nowhere(request: Request) -> JSONResponse:
    """Answer 404, or 405 if the path has a route for another method."""
    allowed = {
        method
        for route in request.app.routes
        if isinstance(route, APIRoute) and route.include_in_schema
        if route.path_regex.match(request.url.path)
        for method in route.methods or ()
    }
    if not allowed:
        return _line(404, f"not found: {PREFIX}/openapi.json lists all paths")
    names = ", ".join(sorted(allowed | ({"HEAD"} if "GET" in allowed else set())))
    answer = _line(405, f"{request.method} is not allowed here, expected {names}")
    answer.headers["allow"] = names
    return answer


def _line(status: int, text: str) -> JSONResponse:
    return JSONResponse({"error": " ".join(text.split())}, status)


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    """Say which parameter is wrong, and what was expected."""
    assert isinstance(error, RequestValidationError)
    body = [field.field_info.annotation for field in request.scope["route"].dependant.body_params]
    keys = [key for model in body for key in getattr(model, "model_fields", ())]
    return _line(400, "; ".join(_reason(each, keys) for each in error.errors()[:3]))


def _reason(error: dict[str, Any], keys: Sequence[str]) -> str:
    """One line about one error; `keys` are the keys that the body may have."""
    place: Sequence[object] = error["loc"]
    where = ".".join(str(part) for part in place[1:]) or str(place[0])
    given = error.get("input")
    if error["type"] == "missing":
        return f"{where}: not given, expected a value"
    if error["type"] == "extra_forbidden":
        return f"{where}: unknown key{did_you_mean(where, keys)}"
    if isinstance(given, bytes):
        return f"{where}: found no JSON, expected JSON with the header `Content-Type: application/json`"
    return f"{where}: {expected(error)}, found {str(given)[:60]!r}"


async def _http(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    answer = _line(error.status_code, str(error.detail))
    answer.headers.update(error.headers or {})
    return answer


async def _rejected(_: Request, error: Exception) -> JSONResponse:
    """400 for a parameter that cannot be read."""
    return _line(400, str(error))


async def _unavailable(_: Request, error: Exception) -> JSONResponse:
    """503 for unreadable history or regions, or an absent collector, lake or cluster."""
    return _line(503, str(error))


async def _failed(request: Request, error: Exception) -> JSONResponse:
    """Count an error, and log it once per cause and period: live values are read twice per second."""
    context: Context = request.app.state.context
    context.access.count("serve_failures_total")
    what, at = described(error), raised_at(error)
    cause = f"{type(error).__name__} {at}"
    log.error("request failed", path=request.url.path, error=what, at=at, repeats=cause, at_most=1)
    return _line(500, "internal error: see the collector's log")
