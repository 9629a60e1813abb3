"""Common parts of all routes of the API: prefix, errors, and the rejection of unknown parameters.

They are passed to each router when it is made. If the application added them by including the router, it
would build every route a second time, which takes 0.2 s of CPU time before the first answer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response
from fastapi.routing import APIRoute

from ...cluster.merge.rules import rule_of
from ...cluster.queries.cluster_answer import ClusterAnswer
from ...settings.configuration.errors import did_you_mean
from ..context import Context
from ..description import ERROR
from ..scope import OF_HISTORY, ClusterQuery, Handler, Scope, asks_cluster, of_member, with_cluster

PREFIX = "/api/v0"
_ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"description": "Invalid parameter", "content": ERROR},
    401: {"description": "A login is needed", "content": ERROR},
    403: {"description": "Not with this role, from this page, or without the CSRF token", "content": ERROR},
    503: {"description": "Collector unavailable", "content": ERROR},
}


def api_router(tag: str | None = None, prefix: str = "") -> APIRouter:
    """A router of the API; its paths begin with `prefix`."""
    return APIRouter(
        prefix=PREFIX + prefix,
        tags=[tag] if tag else None,
        responses=_ERRORS,
        dependencies=[Depends(_known_parameters)],
        route_class=ApiRoute,
    )


async def _scope(
    scope: Annotated[
        Scope,
        Query(
            description="`cluster`: ask all members; the answer has `cluster`, its rows `member` or `members`"
        ),
    ] = "member",
) -> None:
    """The parameter of all routes that can ask a cluster."""


class ApiRoute(APIRoute):
    """A route that can ask a cluster, if there is a rule for merging the members' answers."""

    def __init__(
        self, path: str, endpoint: Callable[..., Any], *, dependencies: Any = None, **more: Any
    ) -> None:
        self._rule = rule_of(path)
        if self._rule is not None or path in OF_HISTORY:
            dependencies = [*(dependencies or ()), Depends(_scope)]
        super().__init__(path, endpoint, dependencies=dependencies, **more)

    def get_route_handler(self) -> Handler:
        """Answers for this member, or for all."""
        handler: Handler = super().get_route_handler()
        if self._rule is None:
            return handler

        async def answer(request: Request) -> Response:
            return await (self._of_all(request, handler) if asks_cluster(request) else handler(request))

        return answer

    async def _of_all(self, request: Request, handler: Handler) -> Response:
        assert self._rule is not None
        context: Context = request.app.state.context
        models = {
            route.path: route.response_model for route in request.app.routes if isinstance(route, APIRoute)
        }
        try:
            query = ClusterQuery(
                request, self._rule, [models[path] for path in (self.path, *self._rule.also)]
            )
        except ValueError:
            return await handler(request)  # it reports what is wrong
        found = await context.ask_cluster(partial(context.in_cluster.ask, query))
        if isinstance(found, ClusterAnswer):
            return with_cluster(await handler(of_member(request)), found, self.response_model)
        return found


async def _known_parameters(request: Request) -> None:
    """400 for an unknown query parameter, so that a typo does not return everything."""
    dependant = request.scope["route"].dependant
    known = [field.alias for each in (dependant, *dependant.dependencies) for field in each.query_params]
    for name in request.query_params:
        if name == "scope" and name not in known:
            raise HTTPException(400, "scope: this route can ask one member only, not a cluster")
        if name not in known:
            hint = did_you_mean(name, known) or f"; expected {', '.join(known) or 'none'}"
            raise HTTPException(400, f"unknown parameter {name[:60]!r}{hint}")
