"""Routes of saved queries."""

from __future__ import annotations

from typing import Annotated

from fastapi import HTTPException, Path, Request
from pydantic import Field

from ....operators.queries import Query, TooManyQueriesError
from ....present.events import when
from ...context import Ctx, author_of
from ...models.common import Body, Error, Model, Time
from ..router import api_router

router = api_router("history", "/queries")
Name = Annotated[
    str, Path(min_length=1, max_length=80, pattern=r"^[^\x00-\x1f\x7f/]+$", description="Name of the query")
]


class SavedQuery(Model):
    """A saved query."""

    name: str
    sql: str
    who: str
    """Author of the last change."""
    time: Time
    """Time of the last change."""


class QueryText(Body):
    """The text of a query."""

    sql: str = Field(min_length=1, max_length=20_000)
    """One SELECT."""


class SavedQueries(Model):
    """All saved queries, by name."""

    items: list[SavedQuery]


_ABSENT: dict[int | str, dict[str, object]] = {404: {"model": Error}}
_FULL: dict[int | str, dict[str, object]] = {
    409: {"model": Error, "description": "Too many queries are saved"}
}


@router.get("", summary="Saved queries")
async def queries(context: Ctx) -> SavedQueries:
    """All saved queries; the console opens one at `/ask?saved=NAME`."""
    found = await context.run(context.saved_queries.all)
    return SavedQueries(items=[_shown(query) for query in found])


@router.get("/{name}", summary="One saved query", responses=_ABSENT)
async def query(context: Ctx, name: Name) -> SavedQuery:
    """Its text and author."""
    found = await context.run(context.saved_queries.get, name)
    if found is None:
        raise HTTPException(404, f"no query {name!r} is saved")
    return _shown(found)


@router.put("/{name}", summary="Save a query", responses=_FULL)
async def save(context: Ctx, request: Request, name: Name, query: QueryText) -> SavedQuery:
    """Save the query, replacing any query of this name."""
    try:
        return _shown(await context.run(context.saved_queries.put, name, query.sql, author_of(request)))
    except TooManyQueriesError as error:
        raise HTTPException(409, str(error)) from None


@router.delete("/{name}", summary="Delete a saved query", responses=_ABSENT)
async def delete(context: Ctx, request: Request, name: Name) -> SavedQueries:
    """Returns those that are left."""
    if not await context.run(context.saved_queries.delete, name, author_of(request)):
        raise HTTPException(404, f"no query {name!r} is saved")
    return await queries(context)


def _shown(query: Query) -> SavedQuery:
    return SavedQuery(name=query.name, sql=query.text, who=query.who, time=when(query.time_ns))
