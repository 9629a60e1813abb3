"""Routes of the switches that the controller reaches, and of their watch lists."""

from __future__ import annotations

from typing import Any

from fastapi import HTTPException, Request

from ...base import control_client as control
from ...control.status import read_status
from ...present.events import when
from ..context import Context, Ctx, client_of
from . import control_models as m
from . import show
from .router import api_router

router = api_router("control", "/control")


@router.get("/switches", summary="Switches that the controller reaches")
async def switches(context: Ctx) -> m.SwitchList:
    """Of each: how it is reached, what is asked of it, what it does, what failed last."""

    def work() -> m.SwitchList:
        found = read_status(context.state.regions)
        items = [_switch(context, each) for each in found]
        return m.SwitchList(total=len(items), in_sync=sum(each.in_sync for each in items), items=items)

    return await context.run(work)


@router.get("/watch", summary="Rules of the watch lists")
async def watch(context: Ctx) -> m.WatchRules:
    """Packets that get INT, by switch."""
    return await _ask(context, {"watch": {}})


@router.post("/watch", summary="Add a rule")
async def add(context: Ctx, request: Request, rule: m.NewWatchRule) -> m.WatchRules:
    """It comes last, and is in force until the collector restarts; returns all rules."""
    return await _change(context, request, {"add": [rule.model_dump(mode="json")]})


@router.put("/watch", summary="Set all rules")
async def replace(context: Ctx, request: Request, rules: m.NewWatchRules) -> m.WatchRules:
    """They take the place of those in force, until the collector restarts."""
    return await _change(context, request, {"set": rules.model_dump(mode="json")["items"]})


async def _change(context: Context, request: Request, change: dict[str, Any]) -> m.WatchRules:
    return await _ask(context, {"set_watch": change, "by": f"HTTP client {client_of(request)}"})


async def _ask(context: Context, message: dict[str, Any]) -> m.WatchRules:
    try:
        answer = await context.run(control.request, context.folder, message)
    except control.RejectedError as error:
        raise HTTPException(400, str(error)) from None
    except control.ControlError as error:
        raise HTTPException(503, str(error)) from None
    return m.WatchRules(items=answer["watch"])


def _switch(context: Context, found: dict[str, Any]) -> m.ControlledSwitch:
    error_ns = found.pop("error_ns")
    shown = {
        "node": show.node(context.names, found["node"]),
        "since": when(found.pop("since_ns")),
        "error_time": None if error_ns is None else when(error_ns),
    }
    return m.ControlledSwitch.model_validate(found | shown)
