"""The overview: one answer with everything that its page shows."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import Request

from ...base.names import Names
from ...detect.counters import STORED
from ...detect.records import NO_NODE, ROUTINE, Kind
from ...present.bottleneck.objects import queue_object
from ...present.collector_state import LimitsInForce
from ...present.events import when, wide
from ...settings.limits import SINK_METRICS, MetricLimits
from ...wire.address import address
from ..context import Ctx
from ..models import overview as o
from ..models.collector import Summary
from ..models.common import Event
from ..overview.snapshot import HotRow, Poller, Snapshot
from . import show
from .router import api_router

router = api_router("state")
_METRIC = {"queues": "queue_occupancy", "buffers": "buffer_occupancy", "links": "link_utilization"}


@router.get("/overview", summary="What is slow, where, since when, and whether the data can be trusted")
async def overview(request: Request, context: Ctx) -> o.Overview:
    """The state of the collector, at most half a second old, with the last minutes as points and strips."""
    poller: Poller = request.app.state.overview
    snapshot, names = await poller.newest(), context.names
    return await context.run(lambda: _overview(snapshot, names))


def _overview(snapshot: Snapshot, names: Names) -> o.Overview:
    strips = {name: _strip(name, rows, snapshot.limits, names) for name, rows in snapshot.strips.items()}
    path = snapshot.slowest
    return o.Overview(
        time=when(snapshot.time_ns),
        unit="packet" if snapshot.limits and snapshot.limits.metrics == SINK_METRICS else "report",
        takes_labels=snapshot.takes_labels,
        totals=_totals(snapshot.summary),
        points=o.Points(
            **{
                name: [round(getattr(point, name), 1) for point in snapshot.points]
                for name in o.Points.model_fields
            }
        ),
        followed_seconds=snapshot.followed_seconds,
        queues=strips["queues"], buffers=strips["buffers"], links=strips["links"],
        slow_flows=[show.flow(row) for row in snapshot.slow_flows],
        slowest=None if path is None else show.flow_detail(path.flows[0], path.hops, names),
        slow_hops=[
            o.SlowHop(
                node=show.node(names, hop.node_id), port=show.port(names, hop.node_id, hop.port),
                worst_ns=hop.worst_ns, mean_ns=hop.mean_ns, flows=hop.flows,
            )
            for hop in snapshot.slow_hops
        ],
        contributors=[
            o.Contribution.model_validate(queue_object(share, names))
            for share in snapshot.contributors.items
        ],
        contributors_source=snapshot.contributors.source,
        contributors_seconds=snapshot.contributors.seconds,
        contributors_note=snapshot.contributors.note,
        drops=[
            o.Drops(
                node=None if node == NO_NODE else show.node(names, node), port=show.port(names, node, port),
                queue=queue, last_minute=drops.lately, total=drops.total,
            )
            for drops in snapshot.losses.drops
            for node, port, queue in (drops.place,)
        ],
        lost_sources=[
            o.LostSource(
                address=address(int(row["source_hi"]), int(row["source_lo"])),
                node=None if row["node_id"] == NO_NODE else show.node(names, int(row["node_id"])),
                hw_id=int(row["hw_id"]), lost=wide(int(row["lost"])), received=wide(int(row["received"])),
            )
            for row in snapshot.losses.sources
        ],
        lost_workers=[
            o.LostWorker(worker=worker, cause=cause, reports=wide(reports))
            for worker, cause, reports in snapshot.losses.workers
        ],
        notable=[
            o.Similar(event=Event.model_validate(event), count=count) for event, count in snapshot.notable
        ],
        kinds=_kinds(snapshot.summary),
        missed_events=wide(snapshot.missed),
    )  # fmt: skip


def _kinds(summary: Summary) -> list[o.KindCount]:
    routine = {kind.label for kind in ROUTINE}
    return [
        o.KindCount(kind=counter.label["kind"], total=wide(int(counter.value)), per_second=counter.per_second)
        for counter in summary.counters
        if counter.name == "hopscope_events_total" and counter.label and int(counter.value)
        if counter.label["kind"] not in routine
    ]


def _totals(summary: Summary) -> o.Totals:
    counted = {
        counter.label["kind"]: int(counter.value)
        for counter in summary.counters
        if counter.name == "hopscope_events_total" and counter.label
    }
    stored = sum(counted.get(kind.label, 0) for kind in STORED)
    return o.Totals(
        received=summary.reports, received_per_second=summary.reports_per_second,
        packets_dropped=wide(counted.get(Kind.DROP.label, 0)),
        values_per_event=int(summary.values) / stored if stored and int(summary.values) else None,
        **{
            name: getattr(summary, name)
            for name in o.Totals.model_fields
            if name not in ("received", "received_per_second", "packets_dropped", "values_per_event")
        },
    )  # fmt: skip


def _strip(
    which: str, rows: Sequence[HotRow], limits: LimitsInForce | None, names: Names
) -> list[o.HotPlace]:
    is_link = which == "links"
    return [
        o.HotPlace(
            node=show.node(names, row.node_id),
            port=None
            if which == "buffers"
            else show.port(names, row.node_id, row.ident if is_link else row.port),
            queue=None if is_link else row.ident, values=row.values, now=row.now, peak=row.peak,
            limit=_limit(limits, which, row.node_id), alarm=row.alarm,
        )
        for row in rows
    ]  # fmt: skip


def _limit(limits: LimitsInForce | None, which: str, node_id: int) -> int | None:
    """The value above which queues, buffers or links of a switch raise an alarm."""
    if limits is None:
        return None
    metric, general = _METRIC[which], limits.limits.general
    own = next((switch for switch in limits.limits.switches if switch.node == node_id), None)
    found: MetricLimits = getattr(general, metric) if own is None else own.resolved(general, metric)
    return found.raise_above
