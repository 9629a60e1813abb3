"""Routes about labels (INT-label): ports by their newest label, coverage, and tracked flows."""

from __future__ import annotations

import threading
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import HTTPException, Query, Request

from ...base.names import Names
from ...history.reading.filters import Filters
from ...labels.state import NEVER
from ...present.events import all_wide, when, wide
from ...present.history import SharedHistory
from ...present.labels.ports import expected_intervals
from ...present.labels.tracked import latencies, passes, path_of
from ...present.select import FlowFilter
from ...wire.address import address
from ..context import Context, Ctx
from ..models import labels as m
from ..models.common import Port
from . import show
from .parameters import Limit, Moment, NodeName, Offset, Order, Text, moment
from .router import api_router

router = api_router("labels")
Address = Annotated[str, Query(max_length=60, description="An address")]
Sort = Literal["age", "labels_per_second", "latency", "occupancy", "s", "node"]
_COLUMNS = {
    "age": "received_ns",
    "labels_per_second": "rate",
    "latency": "latency_ns",
    "occupancy": "occupancy",
    "s": "shift",
    "node": "node_id",
}
FlowSort = Literal["last_seen", "latency", "packets", "changes", "changed"]
_FLOW_COLUMNS = {
    "last_seen": "received_ns",
    "packets": "packets",
    "changes": "changes",
    "changed": "changed_ns",
}


@router.get("/labels", summary="Labelling ports with their newest label")
async def labels(
    context: Ctx, node: NodeName = None,
    silent: Annotated[bool | None, Query(description="Only silent ports, or only the rest")] = None,
    sort: Sort = "node", order: Order = "asc", offset: Offset = 0, limit: Limit = 100,
) -> m.LabelPage:  # fmt: skip
    """Egress ports known to the controller; `age` with `order=desc` begins with those without a label."""
    node_id = None if node is None else context.node(node)

    def work() -> m.LabelPage:
        about, (now, rows) = context.state.labels.about(), context.state.labels.copy()
        if node_id is not None:
            rows = rows[rows["node_id"] == node_id]
        if silent is not None:
            rows = rows[(rows["silent"] != 0) == silent]
        key = rows[_COLUMNS[sort]].astype(np.float64)
        descends = (order == "desc") != (sort == "age")
        rows = rows[np.argsort(-key if descends else key, kind="stable")]
        return m.LabelPage(
            mode=None if about is None else about.mode,  # type: ignore[arg-type]
            interval_ns=None if about is None else about.interval_ns,
            timeout_ns=None if about is None else about.timeout_ns,
            total=len(rows),
            offset=offset,
            items=[_port(row, context.names, now) for row in rows[offset : offset + limit]],
        )

    return await context.run(work)


@router.get("/labels/flows", summary="Tracked flows with their path and the previous one")
async def tracked_flows(
    context: Ctx, node: NodeName = None, sort: FlowSort = "last_seen", order: Order = "desc",
    src: Text = None, dst: Text = None, prefix: Text = None,
    port: Annotated[int | None, Query(ge=0, le=65535, description="Source or destination port")] = None,
    proto: Annotated[str | None, Query(max_length=20, description="Number or name")] = None,
    offset: Offset = 0, limit: Limit = 100,
) -> m.TrackedPage:  # fmt: skip
    """Flows of which all switches label one packet in N; `node`: only those whose path contains it."""
    node_id = None if node is None else context.node(node)
    chosen = FlowFilter(src, dst, proto, port=port, prefixes=() if prefix is None else (prefix,))

    def work() -> m.TrackedPage:
        now, rows = context.state.tracked.copy()
        rows = rows[chosen.mask(rows)]
        if node_id is not None:
            rows = rows[passes(rows, node_id)]
        key = latencies(rows) if sort == "latency" else rows[_FLOW_COLUMNS[sort]].astype(np.float64)
        rows = rows[np.argsort(-key if order == "desc" else key, kind="stable")]
        return m.TrackedPage(
            total=len(rows),
            offset=offset,
            items=[_flow(row, context.names, now) for row in rows[offset : offset + limit]],
        )

    return await context.run(work)


@router.get("/labels/tracked", summary="Flows that the switches track")
async def tracked_rules(context: Ctx) -> list[m.TrackedRule]:
    """Tracked flows: all switches on a flow's path label one packet in `every`."""
    return _rules(await context.ask_collector({"tracked": {}}))


@router.post("/labels/tracked", summary="Track a flow")
async def track(context: Ctx, request: Request, flow: m.TrackedRule) -> list[m.TrackedRule]:
    """Track a flow from now on, or change its `every`; returns all tracked flows."""
    added, subject = flow.model_dump(), f"{flow.src} to {flow.dst}"
    change = {"set_tracked": {"add": [added]}}
    return _rules(await context.change(request, change, "tracked.add", subject, after=added))


@router.delete("/labels/tracked", summary="Stop tracking a flow")
async def untrack(context: Ctx, request: Request, src: Address, dst: Address) -> list[m.TrackedRule]:
    """Returns the flows that are still tracked."""
    removed, subject = {"src": src, "dst": dst}, f"{src} to {dst}"
    change = {"set_tracked": {"remove": [removed]}}
    return _rules(await context.change(request, change, "tracked.remove", subject, before=removed))


@router.get("/labels/history", summary="Labels by port and period", tags=["history"])
async def history(
    context: Ctx, request: Request, since: Moment = None, until: Moment = None, node: NodeName = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 100,
) -> m.LabelHistory:  # fmt: skip
    """Mean and highest latency and queue of each port's labels (`label.period_seconds`), newest first."""
    chosen = _chosen(context, since, until, node)

    def work(past: SharedHistory, _: threading.Event) -> m.LabelHistory:
        table = past.history().labels(limit=limit, **chosen)
        return m.LabelHistory(
            items=[_record(row, context.names) for row in table.rows()], truncated=table.truncated
        )

    return await context.query(request, work)


@router.get("/labels/coverage/history", summary="Coverage by period", tags=["history"])
async def coverage_history(
    context: Ctx, request: Request, since: Moment = None, until: Moment = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 100,
) -> m.CoverageHistory:  # fmt: skip
    """Mean and lowest coverage of each period (`label.period_seconds`), newest first."""
    chosen = _chosen(context, since, until)

    def work(past: SharedHistory, _: threading.Event) -> m.CoverageHistory:
        table = past.history().coverage(limit=limit, **chosen)
        return m.CoverageHistory(
            items=[m.CoverageRecord.model_validate(row) for row in table.rows()], truncated=table.truncated
        )

    return await context.query(request, work)


@router.get("/labels/coverage", summary="Coverage by telemetry interval")
async def coverage(
    context: Ctx,
    last: Annotated[int, Query(ge=1, le=4096, description="Newest intervals")] = 600,
) -> m.CoverageSeries:
    """Share of the ports with traffic whose labels arrived, by telemetry interval."""

    def work() -> m.CoverageSeries:
        about, rows = context.state.labels.about(), context.state.labels.coverage(last)
        busy = rows[rows["active"] > 0]
        return m.CoverageSeries(
            telemetry_ns=None if about is None else about.telemetry_ns,
            mean=float(np.mean(busy["reported"] / busy["active"])) if len(busy) else None,
            intervals=len(rows),
            expected_intervals=expected_intervals(rows, about.telemetry_ns) if about is not None else 0,
            items=[_interval(row) for row in rows],
        )

    return await context.run(work)


def _rules(answer: dict[str, Any]) -> list[m.TrackedRule]:
    """Tracked flows in an answer of the collector."""
    try:
        return [m.TrackedRule.model_validate(flow) for flow in answer["tracked"]]
    except (KeyError, TypeError, ValueError):
        raise HTTPException(503, "the collector's answer has no tracked flows") from None


def _chosen(context: Context, since: str | None, until: str | None, node: str | None = None) -> Filters:
    nodes = () if node is None else (context.node(node),)
    return {"start": moment("since", since), "end": moment("until", until), "nodes": nodes}


def _record(row: dict[str, Any], names: Names) -> m.LabelRecord:
    node, port = row.pop("node_id"), row.pop("port")
    place = {"node": show.node(names, node), "port": Port(id=port, name=names.port(node, port))}
    return m.LabelRecord.model_validate({name: all_wide(value) for name, value in row.items()} | place)


def _port(row: np.void, names: Names, now_ns: int) -> m.LabelPort:
    node, known = int(row["node_id"]), int(row["time_ns"]) != NEVER
    received = int(row["received_ns"])
    return m.LabelPort(
        node=show.node(names, node),
        port=Port(id=int(row["port"]), name=names.port(node, int(row["port"]))),
        last_seen=when(received) if known else None,
        age_ns=wide(max(0, now_ns - received)) if known else None,
        label_time_ns=wide(int(row["time_ns"])) if known else None,
        latency_ns=int(row["latency_ns"]) if known else None,
        occupancy=int(row["occupancy"]) if known else None,
        ingress_port=show.port(names, node, int(row["ingress_port"])) if known else None,
        labels=wide(int(row["labels"])),
        late=wide(int(row["late"])),
        labels_per_second=float(row["rate"]),
        active=int(row["traffic"]) == 2 if row["traffic"] else None,
        silent=bool(row["silent"]),
        s=int(row["shift"]),
    )


def _flow(row: np.void, names: Names, now_ns: int) -> m.TrackedFlow:
    changed = bool(row["changes"])
    return m.TrackedFlow(
        flow=m.TrackedTuple(
            src=address(int(row["src_hi"]), int(row["src_lo"])),
            dst=address(int(row["dst_hi"]), int(row["dst_lo"])),
            proto=int(row["proto"]),
            sport=int(row["sport"]),
            dport=int(row["dport"]),
        ),
        first_seen=when(int(row["begin_ns"])),
        last_seen=when(int(row["received_ns"])),
        age_ns=wide(max(0, now_ns - int(row["received_ns"]))),
        packets=wide(int(row["packets"])),
        late=wide(int(row["late"])),
        partial=wide(int(row["partial"])),
        packets_per_second=float(row["rate"]),
        latency_ns=wide(int(latencies(np.array([row]))[0])),
        hop_count=int(row["hops"]),
        path=[_hop(hop, names) for hop in path_of(row)],
        changes=wide(int(row["changes"])),
        changed=when(int(row["changed_ns"])) if changed else None,
        previous_path=[_hop(hop, names) for hop in path_of(row, "previous")] if changed else None,
    )


def _hop(hop: np.void, names: Names) -> m.TrackedHop:
    node = int(hop["node_id"])
    inward, outward = (int(hop[name]) for name in ("ingress_port", "egress_port"))
    return m.TrackedHop(
        node=show.node(names, node),
        ingress_port=Port(id=inward, name=names.port(node, inward)),
        egress_port=Port(id=outward, name=names.port(node, outward)),
        label_time_ns=wide(int(hop["time_ns"])),
        latency_ns=int(hop["latency_ns"]),
        highest_latency_ns=int(hop["highest_latency_ns"]),
        occupancy=int(hop["occupancy"]),
        highest_occupancy=int(hop["highest_occupancy"]),
    )


def _interval(row: np.void) -> m.CoverageInterval:
    active, reported = int(row["active"]), int(row["reported"])
    return m.CoverageInterval(
        begin=when(int(row["begin_ns"])),
        active=active,
        reported=reported,
        coverage=reported / active if active else None,
        labels=int(row["labels"]),
        packets=int(row["packets"]),
        raised=int(row["raised"]),
    )
