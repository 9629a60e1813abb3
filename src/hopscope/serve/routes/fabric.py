"""Routes of the network as a map: nodes and links with values, now or at a past moment, and a timeline."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from fastapi import HTTPException, Query, Request

from ...present.events import when
from ...present.fabric.live import WINDOW_SECONDS, LiveFabric, Snapshot
from ...present.fabric.past import past_snapshot
from ...present.fabric.places import UNITS
from ...present.fabric.view import Network, network_of, port_objects, shown, view_object
from ...present.history import SharedHistory
from ..context import Context, Ctx
from ..models import fabric as m
from ..scope import asks_cluster
from . import show
from .parameters import Moment, moment
from .router import api_router

router = api_router("fabric")
T = TypeVar("T")

MAX_BUCKETS = 1000
MOMENTS = 8
"""How many past networks are cached: a slider requests a moment for several metrics and pods."""

Metric = Annotated[m.MetricName, Query(description="Metric of the values")]
At = Annotated[
    str | None,
    Query(max_length=60, description="A past moment: RFC 3339, ns since 1970, or an age; default: now"),
]
Window = Annotated[
    float | None,
    Query(gt=0, le=3600, description="Show the highest values of this many seconds before `at`; default 10"),
]


class FabricState:
    """The live map of one application, and the past ones that were requested last."""

    def __init__(self, context: Context) -> None:
        self._live = LiveFabric(context.state)
        self._names = context.names
        self._network: Network | None = None
        self._moments: OrderedDict[tuple[int, int, bool], Network] = OrderedDict()
        self._lock = threading.Lock()

    def live(self) -> Network:
        """The network now."""
        snapshot = self._live.snapshot()
        with self._lock:
            before = self._network
        if before is not None and before.snapshot is snapshot:
            return before
        made = network_of(snapshot, self._names, before)
        with self._lock:
            self._network = made
        return made

    def past(self, past: SharedHistory, at_ns: int, window_ns: int, cluster: bool) -> Network:
        """The network at a past moment. Raises HistoryError."""
        key = at_ns, window_ns, cluster
        with self._lock:
            if key in self._moments:
                self._moments.move_to_end(key)
                return self._moments[key]
        known: Snapshot | None = None if cluster else self._live.snapshot()
        made = network_of(past_snapshot(past.history(), at_ns, window_ns, known), self._names)
        if at_ns < time.time_ns() - 10**9 and not cluster:  # events of a later moment may still arrive
            with self._lock:
                self._moments[key] = made
                while len(self._moments) > MOMENTS:
                    self._moments.popitem(last=False)
        return made


@router.get("/fabric", summary="The network as a map")
async def fabric(
    context: Ctx,
    request: Request,
    metric: Metric = "hop_latency",
    level: Annotated[
        Literal["auto", "switch", "pod"],
        Query(description="`auto`: show pods if there are more than 400 switches"),
    ] = "auto",
    pod: Annotated[str | None, Query(max_length=60, description="Show the switches of this pod")] = None,
    at: At = None,
    window: Window = None,
    known: Annotated[
        str | None, Query(max_length=16, description="`version` of the structure that the client already has")
    ] = None,
) -> m.Fabric:
    """Switches by layer and pod with their links (from paths of flows, LLDP and the file of links), and the
    highest values of the last seconds; with `at`, values at that moment from events in history. For a
    cluster, values are always from history.
    """

    def answer(network: Network, live: bool) -> m.Fabric:
        try:
            view = shown(network, context.names, None if level == "auto" else level, pod)
        except ValueError as error:
            raise HTTPException(400, str(error)) from None
        limit = _limit(context, metric)
        return m.Fabric.model_validate(
            {
                "time": when(network.snapshot.time_ns),
                "live": live,
                "window_seconds": WINDOW_SECONDS if live else (window or WINDOW_SECONDS),
                "metric": metric,
                "unit": UNITS.get(metric),
                "limit": limit,
                "level": view.level,
                "pod": view.pod,
                **view_object(network, view, context.names, metric, limit, known),
            }
        )

    return await _answered(context, request, at, window, answer)


@router.get("/fabric/ports", summary="Egress ports of a node of the map")
async def ports(
    context: Ctx,
    request: Request,
    node: Annotated[list[str], Query(max_length=64, description="Node ids or names; repeatable")],
    at: At = None,
    window: Window = None,
) -> m.FabricPorts:
    """Every egress port of these nodes: where it leads, the sources of that link, and all values."""
    nodes = np.array([context.node(each) for each in node], np.int64)

    def answer(network: Network, _: bool) -> m.FabricPorts:
        items = port_objects(network, context.names, nodes)
        return m.FabricPorts.model_validate({"time": when(network.snapshot.time_ns), "items": items})

    return await _answered(context, request, at, window, answer)


async def _answered(
    context: Context,
    request: Request,
    at: str | None,
    window: float | None,
    answer: Callable[[Network, bool], T],
) -> T:
    """Show the live network, or one from history."""
    state = context.made(FabricState)
    cluster = asks_cluster(request)
    if at is None and not cluster:
        return await context.scan(lambda: answer(state.live(), True))
    at_ns = moment("at", at) or time.time_ns()
    window_ns = int((window or WINDOW_SECONDS) * 1e9)

    def work(past: SharedHistory, _: threading.Event) -> T:
        return answer(state.past(past, at_ns, window_ns, cluster), False)

    return await context.query(request, work)


@router.get("/fabric/timeline", summary="Events over time")
async def timeline(
    context: Ctx,
    request: Request,
    since: Moment = None,
    until: Moment = None,
    buckets: Annotated[int, Query(ge=1, le=MAX_BUCKETS)] = 120,
    metric: Metric = "hop_latency",
) -> m.FabricTimeline:
    """Notable events and the highest value of a metric by time, to show where to stop a slider over history.
    Default for `since`: an hour before `until`.
    """
    until_ns = moment("until", until) or time.time_ns()
    since_ns = moment("since", since) or until_ns - 3600 * 10**9
    if since_ns >= until_ns:
        raise HTTPException(400, "since: expected a time before until")
    seconds = max(0.001, (until_ns - since_ns) / 1e9 / buckets)

    def work(past: SharedHistory, _: threading.Event) -> m.FabricTimeline:
        table = past.history().activity(metric, bucket_seconds=seconds, start=since_ns, end=until_ns)
        return m.FabricTimeline(
            since=when(since_ns),
            until=when(until_ns),
            bucket_seconds=seconds,
            metric=metric,
            unit=UNITS.get(metric),
            items=[_bucket(context, row) for row in table.rows()],
        )

    return await context.query(request, work)


def _bucket(context: Context, row: dict[str, Any]) -> m.TimelineBucket:
    node, port = row["worst_node_id"], row["worst_port"]
    return m.TimelineBucket(
        time=row["bucket"],
        **{name: row[name] for name in ("events", "drops", "path_changes", "alarms", "highest")},
        node=None if node is None else show.node(context.names, node),
        port=None if node is None or port is None else show.port(context.names, node, port),
    )


def _limit(context: Context, metric: m.MetricName) -> int | None:
    """The general limit above which a value is an alarm."""
    limits = context.state.limits()
    found = getattr(limits.limits.general, metric, None) if limits is not None else None
    return None if found is None else found.raise_above
