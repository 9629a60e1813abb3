"""Main of the process that is a member of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...base.clock import running_ns
from ...base.log import logger
from ...cluster.membership.members import as_text
from ...cluster.process import Condition, Context, Part
from ...detect.records import EVENT, EVENT_VERSION
from ...memory.ring import resume_ring
from ..pipeline.event_writer import EventWriter
from ..pipeline.shard import open_journal
from .child import Child

if TYPE_CHECKING:
    from ...cluster.queries.server import Handler

SHARD = 1022
"""Number of the shard of events of this process, above those of all workers and below that of labels."""
RING_EVENTS = 1 << 14
"""Capacity of the ring of these events, 2 MiB."""
SILENT_SECONDS = 60.0
"""A lake process that has not written its status for this long is considered broken."""


def run(child: Child) -> None:
    """Take part in the cluster until `child.stop` is set."""
    from ...cluster.counters import CLUSTER_COUNTERS
    from ...cluster.process import ClusterProcess
    from ...cluster.status import FILE_NAME
    from ...memory.private_file import incarnation

    if not child.settings.cluster.enabled:
        child.rest(FILE_NAME)
        return
    child.begin()
    context = Context(
        child.settings,
        child.data,
        child.regions,
        CLUSTER_COUNTERS.open(child.regions),
        incarnation(child.data),
        _looker(child),
    )
    ClusterProcess(context, parts(context)).run(child.stop)


def parts(context: Context) -> list[Part]:
    """The parts of the process (ARCHITECTURE.md, "Parts of the cluster process") in the order in which they
    start, beginning with this member's record. A part is imported only if the settings need it.
    """
    from ...cluster.configuration_applier import ConfigurationApplier
    from ...cluster.membership.drain import Drain
    from ...cluster.membership.part import Membership
    from ...cluster.owners.file import OwnersPart
    from ...cluster.queries.server import QueryServer

    handlers = {
        "api": partial(_api, context),
        "history": partial(_history, context),
        "tail": partial(_tail, context),
    }
    settings = context.settings
    made: list[Part] = [
        Membership(context),
        ConfigurationApplier(context),
        QueryServer(context, handlers),
        OwnersPart(context),
        Drain(context),
    ]
    if settings.workers and not settings.sink.enabled:
        made += _global_parts(context)
    return made


def _global_parts(context: Context) -> list[Part]:
    """The parts for flows and sources whose reports reach several members."""
    from ...cluster.moved.part import Moved

    moved = Moved(context, partial(_moved_events, context))
    if not context.settings.cluster.exchanges:
        return [moved]
    from ...cluster.postcards.exchange import Exchange
    from ...cluster.postcards.slots import Slots

    slots = Slots(context)
    return [moved, slots, Exchange(context, slots)]


def _moved_events(context: Context) -> EventWriter:
    """The writer of events about what moved. Raises HistoryError and RegionError."""
    warn = logger("cluster").warning
    ring = resume_ring(context.regions / f"worker-{SHARD}.events", EVENT, RING_EVENTS, EVENT_VERSION)
    journal = open_journal(context.data, SHARD, context.settings.history, warn)
    return EventWriter(SHARD, journal, ring, thread=True, notify=warn)


def _api(context: Context) -> Handler:
    """Answers API requests through a separate application."""
    from ...base.names import DISCOVERED, Names
    from ...cluster.queries.api_handler import ApiHandler
    from ...serve.api import create_app
    from ...serve.overview.snapshot import FOR_MERGING

    settings = context.settings
    application = create_app(
        settings.serve, context.data, stores=settings.direct.folder, overview_rows=FOR_MERGING
    )
    served = application.state.context
    served.dialects = settings.dialects
    read: list[int | None] = []

    def name() -> None:
        """Read names again if they have changed."""
        found = [_changed_ns(path) for path in (settings.names, context.data / DISCOVERED)]
        if found != read:
            read[:] = found
            served.names = Names.load(settings.names, context.data)

    return ApiHandler(application, served.close, name)


def _changed_ns(path: Path | None) -> int | None:
    try:
        return None if path is None else path.stat().st_mtime_ns
    except OSError:
        return None


def _history(context: Context) -> Handler:
    """Answers queries of history from the data folder."""
    from ...cluster.queries.history_query import HistoryHandler

    return HistoryHandler(context.data, context.name, context.settings.serve.sql_memory_bytes)


def _tail(context: Context) -> Handler:
    """Answers with events that the lake does not have yet."""
    from ...cluster.queries.tails import TailHandler

    return TailHandler(context.data, context.name, context.incarnation)


def _looker(child: Child) -> Callable[[], Condition]:
    """Returns a function that examines this collector, for the record of the member."""
    from ...detect.counters import INDEX, STORED
    from ...memory.data_folder import read_owner
    from ...present.collector_state import CollectorState
    from ...serve.readiness import components

    state = CollectorState(child.data)
    events = [INDEX[f"events_total.{kind.label}"] for kind in STORED]

    def look() -> Condition:
        owner = read_owner(child.data)
        rates = state.rates()
        waiting = [part for part in components(state, child.data) if not part.ready]
        return Condition(
            ready=not waiting,
            reason=as_text("; ".join(f"{part.name}: {part.detail}" for part in waiting)),
            reports_per_second=rates["reports_total"],
            events_per_second=float(rates.total[events].sum()),
            address=as_text(child.settings.cluster.address or owner.get("api") or ""),
            started_ns=owner.get("started_ns") or 0,
            **(_lag(child.regions) if child.settings.lake.enabled else {}),
        )

    return look


def _lag(regions: Path) -> dict[str, Any]:
    """How far this member's events have reached the lake, as fields of its record."""
    from ...lake.status import read_status

    status = read_status(regions)
    if not status:
        return {"lag_problem": "the lake process has not started"}
    silent = (running_ns() - status["running_ns"]) / 1e9
    problem = status["problem"] if silent < SILENT_SECONDS else f"its process is silent for {silent:.0f} s"
    return {
        "lag_events": status["lag_events"],
        "lag_seconds": float(status["lag_seconds"]),
        "lag_problem": as_text(problem),
    }
