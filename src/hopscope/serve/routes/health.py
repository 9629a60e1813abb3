"""Whether the collector lives, is ready, and its counters for Prometheus."""

from __future__ import annotations

import os
import time

from fastapi import APIRouter, Response

from ...base import control_client as control
from ...export.counters import health_of, labels_of, lost_of, read_counters
from ...history.space import free_bytes
from ...memory.data_folder import read_owner
from ...present.events import when
from .. import prometheus
from ..context import Context, Ctx
from . import collector_models as c

router = APIRouter(tags=["health"])


@router.get("/healthz", summary="Liveness")
async def healthz() -> dict[str, str]:
    """Always ok, without a token."""
    return {"status": "ok"}


@router.get("/readyz", summary="Readiness of every component", responses={503: {"model": c.Ready}})
async def readyz(context: Ctx, response: Response) -> c.Ready:
    """200 if every component is ready, else 503; the components state why."""
    ready = await context.shared(components, context)
    if not ready.ready:
        response.status_code = 503
    return ready


@router.get("/metrics", summary="Prometheus metrics", response_class=Response)
async def metrics(context: Ctx) -> Response:
    """Text format 0.0.4; no label identifies a flow."""
    text = await context.shared(
        prometheus.render, context.state, context.names, context.folder, context.stores
    )
    return Response(text, media_type=prometheus.CONTENT_TYPE)


def components(context: Context) -> c.Ready:
    """State of the supervisor, its processes, the regions and the history, which must all be ready; and of
    the destinations of exports, for which nothing waits.
    """
    parts = [*_processes(context), _regions(context), _history(context)]
    return c.Ready(ready=all(part.ready for part in parts), components=[*parts, *_exports(context)])


def _processes(context: Context) -> list[c.Component]:
    owner = read_owner(context.folder)
    if not owner:
        return [
            c.Component(name="supervisor", ready=False, detail="no collector has run on this data folder")
        ]
    try:
        answer = control.request(context.folder, {"status": {}})
    except control.ControlError as error:
        return [c.Component(name="supervisor", ready=False, detail=str(error))]
    parts = [c.Component(name="supervisor", ready=True, detail=f"pid {owner.get('pid')}")]
    for process in answer.get("processes", ()):
        alive, restarts = bool(process.get("alive")), process.get("restarts", 0)
        state = f"pid {process.get('pid')}"
        if process.get("stopped"):
            state = "left stopped for some minutes, since it ended again and again"
        detail = f"{state}, {restarts} restarts"
        if process.get("last_error"):
            detail += f", last error: {process['last_error']}"
        alive |= process.get("name") == "standby"  # nothing waits for it
        parts.append(c.Component(name=str(process.get("name")), ready=alive, detail=detail))
    for interface in answer.get("interfaces", ()):
        name, there = f"interface {interface.get('name')}", bool(interface.get("ready"))
        parts.append(c.Component(name=name, ready=there, detail=str(interface.get("detail"))))
    return parts


def _regions(context: Context) -> c.Component:
    """Ready once the workers, or the label process of a collector without workers, made their regions."""
    workers, problems = context.state.workers(), context.state.problems
    if problems:
        return c.Component(name="regions", ready=False, detail="; ".join(problems.values()))
    takes_labels = context.state.labels.about() is not None
    if not workers and (read_owner(context.folder).get("listen") or not takes_labels):
        return c.Component(name="regions", ready=False, detail="no worker has made its regions")
    parts = []
    if workers:
        last = max(
            (int(rows["last_ns"].max()) for rows in (context.state.sources(),) if len(rows)), default=0
        )
        ago = f"last report {(time.time_ns() - last) / 1e9:.1f} s ago" if last else "no report yet"
        parts.append(f"{len(workers)} workers, {ago}")
    if takes_labels:
        parts.append(f"{len(context.state.labels.ports())} ports with labels")
    return c.Component(name="regions", ready=True, detail="; ".join(parts))


def _history(context: Context) -> c.Component:
    folder = context.folder / "journal"
    if not os.access(folder, os.R_OK):
        return c.Component(name="history", ready=False, detail=f"{folder} cannot be read")
    counters = context.state.counters()
    detail = f"{free_bytes(folder) / 1e9:,.3f} GB free on its disk"
    failing = counters["journal_failing"] > 0
    if failing:
        detail += f"; it does not take events, {counters['journal_waiting_events']:,} wait in memory"
    if lost := counters["journal_lost_events_total"]:
        detail += f"; {lost:,} were lost"
    return c.Component(name="history", ready=not failing, detail=detail)


def _exports(context: Context) -> list[c.Component]:
    rows = read_counters(context.folder)
    parts = []
    for label, row in zip(labels_of(rows), rows, strict=True):
        health = health_of(row)
        detail = f"{bytes(row['place']).decode('utf-8', 'replace')}, {lost_of(row):,} lost"
        if not health.ok:
            detail += f", failing since {when(health.since_ns)}: {health.problem}"
        parts.append(c.Component(name=label, ready=health.ok, detail=detail))
    return parts
