"""Routes of live state: switches, ports, queues, sources and counters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

import numpy as np
from fastapi import HTTPException, Path

from ...detect.counters import COUNTERS, INDEX
from ...detect.records import NO_PORT, PortKind
from ...memory.data_folder import read_owner
from ...present.clocks import clock_offsets
from ...present.events import when, wide
from ...wire.records import Records
from ..context import Context, Ctx
from ..models import collector as c
from ..models import common as m
from . import show
from .parameters import Limit, NodeName, Offset, Order
from .router import api_router

router = api_router("state")


def _of_kind(context: Context, kinds: tuple[PortKind, ...], node_id: int | None) -> Records:
    rows = context.state.ports()
    kept = np.isin(rows["kind"], [int(kind) for kind in kinds])
    kept &= (rows["kind"] != PortKind.EGRESS) | (rows["ident"] != NO_PORT)  # drops at an unknown port
    if node_id is not None:
        kept &= rows["node_id"] == node_id
    return rows[kept]


def _sorted(rows: Records, field: str, order: Order) -> Records:
    key = rows[field].astype(np.int64) if rows[field].ndim == 1 else rows[field][:, 0].astype(np.int64)
    return rows[np.lexsort((rows["ident"], rows["node_id"], -key if order == "desc" else key))]


_PORT_SORT = {"latest": "latest", "highest": "highest", "last_seen": "last_ns", "node": "node_id"}
PortSort = Literal["latest", "highest", "last_seen", "node"]


@router.get("/ports", summary="Egress ports")
async def ports(
    context: Ctx, node: NodeName = None, sort: PortSort = "latest", order: Order = "desc",
    offset: Offset = 0, limit: Limit = 100,
) -> m.PortPage:  # fmt: skip
    """Egress ports with the utilisation of their links, each from its newest report."""
    node_id = None if node is None else context.node(node)

    def work() -> m.PortPage:
        rows = _sorted(_of_kind(context, (PortKind.EGRESS,), node_id), _PORT_SORT[sort], order)
        items = [show.port_state(row, context.names) for row in rows[offset : offset + limit]]
        return m.PortPage(total=len(rows), offset=offset, items=items)

    return await context.run(work)


@router.get("/queues", summary="Queues and buffers")
async def queues(
    context: Ctx, node: NodeName = None, sort: PortSort = "latest", order: Order = "desc",
    offset: Offset = 0, limit: Limit = 100,
) -> m.QueuePage:  # fmt: skip
    """Queues and buffers with their occupancy, each from its newest report."""
    node_id = None if node is None else context.node(node)

    def work() -> m.QueuePage:
        rows = _sorted(_of_kind(context, (PortKind.QUEUE, PortKind.BUFFER), node_id), _PORT_SORT[sort], order)
        items = [show.queue_state(row, context.names) for row in rows[offset : offset + limit]]
        return m.QueuePage(total=len(rows), offset=offset, items=items)

    return await context.run(work)


@router.get("/switches", summary="Switches")
async def switches(context: Ctx, offset: Offset = 0, limit: Limit = 100) -> m.SwitchPage:
    """Switches that have reported a queue, a buffer or a port, by id."""

    def work() -> m.SwitchPage:
        rows = context.state.ports()
        ids = np.unique(rows["node_id"])
        rows = rows[np.isin(rows["node_id"], ids[offset : offset + limit])]
        items = [
            m.Switch.model_validate(show.switch_fields(int(i), rows[rows["node_id"] == i], context.names))
            for i in ids[offset : offset + limit]
        ]
        return m.SwitchPage(total=len(ids), offset=offset, items=items)

    return await context.run(work)


@router.get("/switches/{node}", summary="One switch", responses={404: {"model": m.Error}})
async def switch(
    context: Ctx, node: Annotated[str, Path(max_length=200, description="Node id or name")]
) -> m.SwitchDetail:
    """A switch with its ports, queues and buffers."""
    node_id = context.node(node)

    def work() -> m.SwitchDetail | None:
        rows = context.state.ports()
        rows = rows[rows["node_id"] == node_id]
        if not len(rows):
            return None
        rows = rows[np.lexsort((rows["ident"], rows["port"], rows["kind"]))]
        links = rows["kind"] == PortKind.EGRESS
        known = links & (rows["ident"] != NO_PORT)
        return m.SwitchDetail.model_validate(
            {
                **show.switch_fields(node_id, rows, context.names),
                "port_states": [show.port_state(row, context.names) for row in rows[known]],
                "queue_states": [show.queue_state(row, context.names) for row in rows[~links]],
            }
        )

    detail = await context.run(work)
    if detail is None:
        raise HTTPException(404, "this switch has reported no queue, buffer or port")
    return detail


def _place_of_address(rows: Records) -> Records:
    """Ranks in the order of addresses, IPv4 first; equal addresses have equal ranks."""
    both = np.stack((rows["source_hi"], rows["source_lo"]), axis=1)
    _, place = np.unique(both, axis=0, return_inverse=True)
    return np.asarray(place).reshape(-1)


_SOURCE_SORT: dict[str, Callable[[Records], Records]] = {
    "lost": lambda rows: rows["lost"],
    "received": lambda rows: rows["received"],
    "last_seen": lambda rows: rows["last_ns"],
    "address": _place_of_address,
}
SourceSort = Literal["lost", "received", "last_seen", "address"]


@router.get("/sources", summary="Sources of reports")
async def sources(
    context: Ctx, sort: SourceSort = "lost", order: Order = "desc", offset: Offset = 0, limit: Limit = 100
) -> m.SourcePage:
    """Sequence spaces (source address, node, hw id) with lost, duplicate and reordered reports."""

    def work() -> m.SourcePage:
        rows = context.state.sources()
        key = _SOURCE_SORT[sort](rows).astype(np.float64)
        rows = rows[np.lexsort((rows["hw_id"], rows["node_id"], -key if order == "desc" else key))]
        clocks = clock_offsets(context.state.newest_events())
        started = read_owner(context.folder).get("started_ns")
        shown = rows[offset : offset + limit]
        items = [show.source(row, context.names, clocks, started) for row in shown]
        return m.SourcePage(total=len(rows), offset=offset, items=items)

    return await context.run(work)


@router.get("/summary", summary="The collector at a glance, with every counter")
async def summary(context: Ctx) -> c.Summary:
    """Counters summed over workers, with their rates over the last seconds."""
    return await context.run(summarise, context)


def summarise(context: Context) -> c.Summary:
    """Counters, rates and sizes of tables."""
    state = context.state
    counts, rates, sources = state.counters(), state.rates(), state.sources()
    of_events = [INDEX[each.key] for each in COUNTERS if each.name == "events_total"]
    of_rejected = [INDEX[each.key] for each in COUNTERS if each.name == "rejected_reports_total"]
    busy = rates["busy_ns_total"] / 1e9 / max(1, len(counts.processes))
    reports = rates["reports_total"]
    return c.Summary(
        time=when(counts.time_ns),
        workers=len(state.workers()),
        flows=len(state.flows()),
        switches=len(np.unique(state.ports()["node_id"])),
        sources=len(sources),
        silent_sources=int(np.count_nonzero(sources["silent"])),
        reports_per_second=reports,
        lost_per_second=rates["lost_reports"],
        rejected_per_second=float(rates.total[of_rejected].sum()),
        events_per_second=float(rates.total[of_events].sum()),
        reports=wide(counts["reports_total"]),
        lost=wide(counts["lost_reports"]),
        moved=wide(counts["moved_reports_total"]),
        rejected=wide(int(counts.total[of_rejected].sum())),
        kernel_drops=wide(counts["kernel_drops_total"]),
        events=wide(int(counts.total[of_events].sum())),
        values=wide(counts["values_total"]),
        busy_ratio=min(1.0, busy),
        ns_per_report=rates["busy_ns_total"] / reports if reports else None,
        counters=[
            c.CounterValue(
                name=counter.metric,
                label={counter.label[0]: counter.label[1]} if counter.label else None,
                help=counter.help,
                value=wide(counter.exposed(int(counts.total[i]))),  # type: ignore[arg-type]
                per_second=counter.exposed(float(rates.total[i])),
            )
            for i, counter in enumerate(COUNTERS)
        ],
    )
