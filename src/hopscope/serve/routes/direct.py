"""Routes of the stores to which switches write by RDMA: list of stores, keys, lists, counters."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import HTTPException, Path, Query

from ...direct.collectors.collector import LocalCollector
from ...direct.collectors.group import CollectorGroup
from ...direct.monitors.query import decode_entries, monitor_of, query_decoded
from ...direct.monitors.registry import MONITORS
from ...direct.stores.answers import QueryOptions
from ...direct.stores.browse import counters_of, entries_of
from ...direct.stores.folder import read_store
from ...direct.stores.numbers import parse_numbers
from ...direct.stores.outlook import VALUES, outlook
from ...present.events import all_wide, wide
from ..context import Ctx
from ..models import direct as m
from ..models.common import Error
from .parameters import Limit, Offset
from .router import api_router

router = api_router("direct", "/direct")

StoreName = Annotated[
    str, Path(pattern="^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,31}$", description="Name of the store")
]
Keys = Annotated[
    list[str],
    Query(
        min_length=1,
        max_length=1000,
        description="0x and hexadecimal digits, a number, an address, SRC,DST,PROTO,SPORT,DPORT, or several "
        "of these joined with +; for an Append store, a list's number. Repeatable.",
    ),
]


_NO_STORE: dict[int | str, dict[str, Any]] = {404: {"model": Error}}
Local = Annotated[bool, Query(description="Ask only this collector's stores, even if another has the key")]
MonitorName = Annotated[
    str | None,
    Query(
        max_length=40,
        description="Monitor that decodes the answers; default: the one after which the store is named",
    ),
]
MAX_VALUES = 100_000


def _known(group: CollectorGroup, name: str, monitor: str | None) -> None:
    """404 for a store that this collector does not have, if no other collector is asked."""
    if monitor is not None and monitor not in MONITORS:
        raise HTTPException(400, f"monitor: unknown monitor {monitor!r}; known: {', '.join(MONITORS)}")
    (first, *others) = group.collectors
    if not others and isinstance(first, LocalCollector) and not first.has(name):
        raise HTTPException(404, f"no store {name}: /api/v0/direct/stores lists the stores")


@router.get("/stores", summary="Stores")
async def stores(context: Ctx, local: Local = False) -> m.StoreList:
    """All stores of the collectors, with primitive, memory, epoch and layout."""

    def work(group: CollectorGroup) -> m.StoreList:
        (here,) = context.own_stores.collectors
        own = {each.name for each in group.collectors if here in (each, getattr(each, "collector", None))}
        only = group.collectors[0].name
        return m.StoreList(
            items=[
                m.StoreInfo(**{**store, "own": store.get("collector", only) in own})
                for store in group.stores()
            ]
        )

    return await context.look_up(local, work)


@router.get("/stores/{name}/query", summary="Ask a store", responses={404: {"model": Error}})
async def query(
    context: Ctx,
    name: StoreName,
    key: Keys,
    copies: Annotated[int | None, Query(ge=1, le=16, description="Copies that were written")] = None,
    consensus: Annotated[int, Query(ge=1, le=16, description="How many copies have to agree")] = 1,
    values: Annotated[
        str | None,
        Query(max_length=50_000, description="Paths: values that a hop can have, such as 1-20,25"),
    ] = None,
    partial: Annotated[bool, Query(description="Postcarding: return known hops of incomplete paths")] = False,
    limit: Annotated[int, Query(ge=1, le=10_000, description="Append: maximum number of entries")] = 100,
    epoch: Annotated[
        int | Literal["all"] | None, Query(description="A past epoch, or `all`, newest first")
    ] = None,
    monitor: MonitorName = None,
    local: Local = False,
) -> m.StoreAnswers:
    """Data, paths, counters, estimates or lists by key, with status, from the collector that has the key."""

    def work(group: CollectorGroup) -> list[dict[str, Any]]:
        _known(group, name, monitor)
        numbers = None if values is None else parse_numbers(values, MAX_VALUES)
        options = QueryOptions(copies, consensus, numbers, partial, limit)
        return query_decoded(group, name, key, options, epoch, monitor_of(name, monitor))

    return m.StoreAnswers(items=all_wide(await context.look_up(local, work)))


@router.get("/stores/{name}/lists/{number}", summary="Poll a list", responses={404: {"model": Error}})
async def poll(
    context: Ctx,
    name: StoreName,
    number: Annotated[int, Path(ge=0, lt=1 << 32, description="Number of the list")],
    after: Annotated[str | None, Query(max_length=4096, description="`next` of the previous answer")] = None,
    limit: Annotated[int, Query(ge=1, le=10_000, description="Maximum number of entries")] = 1000,
    monitor: MonitorName = None,
    local: Local = False,
) -> m.ListEntries:
    """Entries of an Append list since `after`, or from the oldest available one; each is returned once."""

    def work(group: CollectorGroup) -> m.ListEntries:
        _known(group, name, monitor)
        items, lost, place = group.read_list(name, number, after, limit)
        decoder = monitor_of(name, monitor)
        decoded = [entry.get("decoded") for entry in decode_entries(items, decoder)]
        return m.ListEntries(
            items=items, decoded=all_wide(decoded) if any(decoded) else None, lost=lost, next=place
        )

    return await context.look_up(local, work)


@router.get("/stores/{name}/outlook", summary="How likely a store still finds a key", responses=_NO_STORE)
async def store_outlook(
    context: Ctx,
    name: StoreName,
    values: Annotated[
        int, Query(ge=1, le=1 << 32, description="Postcarding: values that a hop can have")
    ] = VALUES,
) -> m.StoreOutlook:
    """How full a store of this collector is, and the probability, by age, that a key is still found."""

    def work(group: CollectorGroup) -> m.StoreOutlook:
        _known(group, name, None)
        return m.StoreOutlook(**asdict(outlook(read_store(context.stores, name), values)))

    return await context.look_up(True, work)


@router.get("/stores/{name}/lists", summary="Lists of a store", responses=_NO_STORE)
async def lists(context: Ctx, name: StoreName, offset: Offset = 0, limit: Limit = 100) -> m.ListPage:
    """Lists of an Append store of this collector, with the number of entries ever appended."""

    def work(group: CollectorGroup) -> m.ListPage:
        _known(group, name, None)
        store = read_store(context.stores, name)
        found = entries_of(store, offset, limit)
        items = [m.ListInfo(number=offset + at, entries=count) for at, count in enumerate(found.tolist())]
        return m.ListPage(total=store.layout.count, offset=offset, items=items)

    return await context.look_up(True, work)


@router.get("/stores/{name}/counters", summary="Counters of a store", responses=_NO_STORE)
async def counters(
    context: Ctx,
    name: StoreName,
    order: Annotated[Literal["highest", "index"], Query(description="Which counters come first")] = "highest",
    offset: Offset = 0,
    limit: Limit = 100,
) -> m.CounterPage:
    """Nonzero counters of a Key-Increment store of this collector; several keys may share a counter."""

    def work(group: CollectorGroup) -> m.CounterPage:
        _known(group, name, None)
        total, numbers, values = counters_of(read_store(context.stores, name), order, offset, limit)
        items = [
            m.StoreCounter(number=number, value=wide(value))
            for number, value in zip(numbers.tolist(), values.tolist(), strict=True)
        ]
        return m.CounterPage(total=total, offset=offset, items=items)

    return await context.look_up(True, work)
