"""Routes of acknowledgements of alarms, and of silences of events."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Annotated

from fastapi import HTTPException, Query, Request

from ...operators.acknowledgements import Acknowledgement, NotAcknowledgedError
from ...operators.silences import Matcher, Silence, SilenceError
from ...present.events import node_object, when
from ...present.select import KINDS, METRICS, labelled
from ...present.text import UnreadableError, parse_span, parse_when
from ..context import Context, Ctx, author_of
from ..models import alarms as a
from ..models.common import Error
from .router import api_router

router = api_router("events")
_ABSENT: dict[int | str, dict[str, object]] = {404: {"model": Error}}


@router.get("/acknowledgements", summary="Acknowledged alarms")
async def acknowledgements(context: Ctx) -> a.AcknowledgementList:
    """Acknowledgements by key of the alarm; each is valid only for the alarm that was open at that time."""
    found = await context.run(context.acknowledgements.by_key)
    return a.AcknowledgementList(items=[acknowledged(found[key]) for key in sorted(found)])


@router.post("/acknowledgements", summary="Acknowledge an alarm", responses=_ABSENT)
async def acknowledge(context: Ctx, request: Request, change: a.NewAcknowledgement) -> a.Acknowledgement:
    """Note who works on an open alarm, until it ends."""

    def work() -> a.Acknowledgement:
        if all(each.key != change.key for each in context.alarms.read()):
            raise HTTPException(404, f"no alarm {change.key[:100]!r} is open")
        return acknowledged(context.acknowledgements.add(change.key, change.note, author_of(request)))

    return await context.of_alarms(work)


@router.delete("/acknowledgements", summary="Withdraw an acknowledgement", responses=_ABSENT)
async def forget(
    context: Ctx, request: Request, key: Annotated[str, Query(max_length=300, description="Key of the alarm")]
) -> a.AcknowledgementList:
    """Returns those that are left."""
    try:
        await context.run(context.acknowledgements.remove, key, author_of(request))
    except NotAcknowledgedError as error:
        raise HTTPException(404, str(error)) from None
    return await acknowledgements(context)


@router.get("/silences", summary="Silences that have not ended")
async def silences(context: Ctx) -> a.SilenceList:
    """Newest first. Silences hide events in the console, and hold back alert messages."""
    found = await context.run(context.silences.all)
    return a.SilenceList(items=[silence_shown(context, each) for each in found])


@router.post("/silences", summary="Silence events")
async def silence(context: Ctx, request: Request, change: a.NewSilence) -> a.Silence:
    """Until a time at most 30 days from now, neither show nor send alerts for events of a kind, metric,
    switch, port or network. The events are still detected, kept and exported.
    """
    try:
        labelled("kind", (change.kind,) if change.kind else (), KINDS)
        labelled("metric", (change.metric,) if change.metric else (), METRICS)
        until_ns = _end_of(change.until)
    except UnreadableError as error:
        raise HTTPException(400, str(error)) from None
    node = None if change.node is None else context.node(change.node)
    matcher = Matcher(change.kind, change.metric, node, change.port, change.prefix)
    try:
        made = await context.run(context.silences.add, matcher, until_ns, change.note, author_of(request))
    except SilenceError as error:
        raise HTTPException(400, str(error)) from None
    return silence_shown(context, made)


@router.delete("/silences/{number}", summary="End a silence", responses=_ABSENT)
async def end(context: Ctx, request: Request, number: int) -> a.SilenceList:
    """Returns those that are left."""
    if not await context.run(context.silences.remove, number, author_of(request)):
        raise HTTPException(404, f"there is no silence {number}")
    return await silences(context)


def acknowledged(one: Acknowledgement) -> a.Acknowledgement:
    """The model of it."""
    return a.Acknowledgement(key=one.key, who=one.who, time=when(one.time_ns), note=one.note)


def silence_shown(context: Context, one: Silence) -> a.Silence:
    """The model of it."""
    matcher = one.matcher
    return a.Silence.model_validate(
        {
            "id": one.id,
            "kind": matcher.kind,
            "metric": matcher.metric,
            "node": None if matcher.node is None else node_object(context.names, matcher.node),
            "port": matcher.port,
            "prefix": matcher.prefix,
            "until": when(one.until_ns),
            "note": one.note,
            "who": one.who,
            "time": when(one.time_ns),
        }
    )


def _end_of(text: str) -> int:
    """The end, ns since the epoch, from a time or a duration from now. Raises UnreadableError."""
    with suppress(UnreadableError):
        return time.time_ns() + parse_span(text)
    return parse_when(text, time.time_ns())
