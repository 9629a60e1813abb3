"""Routes about the collector itself, and about its INT sink."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ...base.process import control_client as control
from ...base.version import VERSION
from ...cluster.status import read_status
from ...lake.status import read_status as read_lake_status
from ...memory.data_folder import read_owner
from ...present.counter_advice import advice_of
from ...present.events import when, wide
from ..context import Context, Ctx
from ..models import system as m
from ..readiness import everything
from ..system.counters import Count, meaning
from ..system.destinations import destinations_of
from ..system.disk import history_state
from ..system.readings import Readings
from .router import api_router

router = api_router("system")
_STATISTICS = tuple(
    f"{way}_{what}" for way in ("rx", "tx") for what in ("packets", "bytes", "dropped", "errors")
)
"""Counters of an interface in the kernel (sysfs)."""
_SINK: Mapping[str, Sequence[str]] = {
    "in": ("frames_total", "frame_bytes_total", "kernel_drops_total", "bypassed_frames_total"),
    "int": ("packets_total", "sink_packets_total"),
    "out": ("forwarded_frames_total", "stripped_packets_total", "unverified_packets_total"),
    "kept": ("unstripped_packets_total", "unknown_int_packets_total", "rejected_reports_total"),
    "dropped": ("forward_drops_total",),
    "kernel": ("xdp_forwarded_frames_total", "xdp_passed_frames_total", "xdp_lost_metadata_total"),
    "events": ("sink_ring_events_total", "sink_events_total"),
    "throttled": (
        "sink_throttled_events_total",
        "sink_journal_throttled_events_total",
        "unrecorded_flows_total",
        "unrecorded_flow_packets_total",
    ),
    "report": ("sink_reports_total", "sink_report_drops_total", "sink_reports_unreachable_total"),
}
"""Counters of a sink by group."""


@router.get("/system", summary="Processes, health, destinations, disk")
async def system(context: Ctx) -> m.System:
    """The collector itself: processes, problems with advice, destinations, and the contents of its disk."""
    return await context.run(_system, context)


@router.get("/system/counters", summary="Every counter of every process")
async def counters(context: Ctx) -> m.Counters:
    """All counters with their meaning and their rate over the last seconds."""

    def work() -> m.Counters:
        with Readings.of(context) as readings:
            return m.Counters(
                time=when(time.time_ns()), items=[_counter(each) for each in readings.counters.counts()]
            )

    return await context.run(work)


@router.get("/sink", summary="The INT sink")
async def sink(context: Ctx) -> m.Sink:
    """Frames in and out, INT that was removed or left with the reason, and events."""
    return await context.run(_sink, context)


def _system(context: Context) -> m.System:
    folder, state = context.folder, context.state
    owner = read_owner(folder)
    needed, more = everything(state, folder, context.stores, context.access.certificate)
    with Readings.of(context) as readings:
        processes = [
            m.Process(**asdict(process), cpu_ratio=share) for process, share in readings.processes.read()
        ]
        try:
            history = history_state(state, folder, readings.oldest_event.read())
        except OSError:
            history = None
    started = owner.get("started_ns")
    return m.System(
        time=when(time.time_ns()),
        version=VERSION,
        running=needed[0].ready,
        started=when(int(started)) if started else None,
        data=str(folder.absolute()),
        listeners=[m.Listener.model_validate(each) for each in owner.get("listeners", ())],
        labels=owner.get("labels"),
        ready=all(part.ready for part in needed),
        processes=processes,
        components=[
            m.SystemComponent(
                name=part.name, ready=part.ready, detail=part.detail, advice=part.advice, needed=is_needed
            )
            for parts, is_needed in ((needed, True), (more, False))
            for part in parts
        ],
        destinations=list(destinations_of(folder)),
        history=history,
        cluster=read_status(state.regions) or None,
        lake=read_lake_status(state.regions) or None,
    )


def _counter(count: Count) -> m.ProcessCounter:
    counter = count.counter
    whole = float(count.value).is_integer()
    return m.ProcessCounter(
        process=count.process,
        name=counter.metric,
        label={counter.label[0]: counter.label[1]} if counter.label else None,
        help=counter.help,
        meaning=meaning(counter),
        value=wide(int(count.value)) if whole else count.value,
        per_second=count.per_second,
        gauge=counter.gauge,
        advice=advice_of(counter.key),
    )


def _sink(context: Context) -> m.Sink:
    owner = read_owner(context.folder)
    settings = owner.get("sink")
    if not settings:
        return m.Sink(enabled=False, settings=None, interfaces=[], threshold_increase=0.0, counters={})
    with Readings.of(context) as readings:
        found = [each for each in readings.counters.counts() if each.process == "workers"]
    by_name: dict[str, list[m.ProcessCounter]] = {}
    for each in found:
        by_name.setdefault(each.counter.name, []).append(_counter(each))
    raised = context.state.counters()["sink_threshold_increase_permille"] / 1000
    return m.Sink(
        enabled=True,
        settings=m.SinkSettings.model_validate(settings),
        interfaces=list(_interfaces(context.folder, owner)),
        threshold_increase=raised,
        counters={
            about: [counter for name in names for counter in by_name.get(name, ())]
            for about, names in _SINK.items()
        },
    )


def _interfaces(folder: Path, owner: Mapping[str, Any]) -> Iterator[m.SinkInterface]:
    try:
        known = {str(each["name"]): each for each in control.request(folder, {"status": {}})["interfaces"]}
    except (control.ControlError, KeyError):
        known = {}
    wires = [
        (str(each["url"]).partition("://")[2].partition("?")[0].rstrip("/"), str(each["output"] or ""))
        for each in owner.get("listeners", ())
    ]
    sources, outputs = {source for source, _ in wires}, {output for _, output in wires}
    for name in dict.fromkeys(name for wire in wires for name in wire if name):
        if not (status := known.get(name)) and not Path("/sys/class/net", name).is_dir():
            status = {"ready": False, "detail": "missing"}
        status = status or {"ready": True, "detail": "present"}
        yield m.SinkInterface(
            name=name,
            role="both" if name in sources & outputs else "in" if name in sources else "out",
            ready=bool(status["ready"]),
            detail=str(status["detail"]),
            statistics=dict(_statistics(name)),
        )


def _statistics(interface: str) -> Iterator[tuple[str, int | str]]:
    for name in _STATISTICS:
        try:
            yield name, wide(int(Path("/sys/class/net", interface, "statistics", name).read_text()))
        except (OSError, ValueError):
            continue
