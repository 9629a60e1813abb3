"""Routes of the stores that switches write to by RDMA: their list, and key lookups."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, HTTPException, Path, Query

from ...direct.stores.answers import QueryOptions
from ...direct.stores.folder import store_names
from ...direct.stores.query import describe_all, query_store, read_list
from ..context import Ctx
from . import models as m

router = APIRouter(prefix="/direct", tags=["direct"])

StoreName = Annotated[
    str, Path(pattern="^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,31}$", description="Name of the store")
]
Keys = Annotated[
    list[str],
    Query(
        min_length=1,
        max_length=1000,
        description="0x and hexadecimal digits, a number, an address, SRC,DST,PROTO,SPORT,DPORT, or several "
        "of these joined with +; a list's number where the store is Append. Repeatable.",
    ),
]


@router.get("/stores", summary="Stores")
async def stores(context: Ctx) -> m.StoreList:
    """Every store of the data folder: primitive, memory, epoch, layout."""
    found = await context.run(describe_all, context.stores)
    return m.StoreList(items=[m.StoreInfo(**store) for store in found])


@router.get("/stores/{name}/query", summary="Ask a store", responses={404: {"model": m.Error}})
async def query(
    context: Ctx,
    name: StoreName,
    key: Keys,
    copies: Annotated[int | None, Query(ge=1, le=16, description="Copies that were written")] = None,
    consensus: Annotated[int, Query(ge=1, le=16, description="Copies that have to agree")] = 1,
    value: Annotated[
        list[int] | None,
        Query(max_length=100_000, description="Postcarding: values that a hop can have. Repeatable."),
    ] = None,
    partial: Annotated[
        bool, Query(description="Postcarding: known hops of paths that are not whole")
    ] = False,
    limit: Annotated[int, Query(ge=1, le=10_000, description="Append: most entries")] = 100,
    epoch: Annotated[
        int | Literal["all"] | None, Query(description="A past epoch, or all, the newest first")
    ] = None,
) -> m.StoreAnswers:
    """Data, paths, counters, estimates or lists by key; each answer says whether something was found."""
    if value is not None and not all(0 <= number < 1 << 32 for number in value):
        raise HTTPException(400, "value: expected numbers of 32 bits")
    values = None if value is None else np.array(value, np.uint32)
    folder = context.stores

    def work() -> list[dict[str, Any]] | None:
        if name not in store_names(folder):
            return None
        return query_store(folder, name, key, QueryOptions(copies, consensus, values, partial, limit), epoch)

    answers = await context.run(work)
    if answers is None:
        raise HTTPException(404, f"no store {name}: /api/v0/direct/stores lists the stores")
    return m.StoreAnswers(items=answers)


@router.get("/stores/{name}/lists/{number}", summary="Poll a list", responses={404: {"model": m.Error}})
async def poll(
    context: Ctx,
    name: StoreName,
    number: Annotated[int, Path(ge=0, le=131_071, description="Number of the list")],
    after: Annotated[str | None, Query(max_length=40, description="`next` of the answer before")] = None,
    limit: Annotated[int, Query(ge=1, le=10_000, description="Most entries, to whole batches")] = 1000,
) -> m.ListEntries:
    """Entries of an Append list since `after`, or from the oldest that is there; each once."""
    folder = context.stores

    def work() -> m.ListEntries | None:
        if name not in store_names(folder):
            return None
        items, lost, place = read_list(folder, name, number, after=after, limit=limit)
        return m.ListEntries(items=items, lost=lost, next=place)

    entries = await context.run(work)
    if entries is None:
        raise HTTPException(404, f"no store {name}: /api/v0/direct/stores lists the stores")
    return entries
