"""Routes about limits: those of all switches, and those of single ones."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import HTTPException, Path, Request

from ...base import control_client as control
from ...present.collector_state import LimitsInForce
from ...present.events import when
from ...settings.limits import as_json
from ..context import Context, Ctx, client_of
from . import limit_models as m
from .router import api_router

router = api_router("limits", "/limits")
MetricName = Annotated[str, Path(max_length=60, description="A metric, such as hop_latency")]


@router.get("", summary="Limits in force")
async def limits(context: Ctx) -> m.Limits:
    """Limits as the workers use them now; null: never. A sink's are not yet raised by the rate of events."""
    return _answer(await limits_in_force(context))


@router.patch("", summary="Change limits")
async def change(context: Ctx, request: Request, changes: m.LimitChanges) -> m.Limits:
    """Change the given limits: an absent one stays, null is never. Workers follow with their next batch."""
    await _ask(context, request, {"set_limits": changes.model_dump(exclude_unset=True)})
    return _answer(await limits_in_force(context))


@router.delete("", summary="Return to the limits of the settings")
async def reset(context: Ctx, request: Request) -> m.Limits:
    """Undo all changes since the collector started, or since it read its settings again."""
    await _ask(context, request, {"reset_limits": {}})
    return _answer(await limits_in_force(context))


@router.get("/{metric}", summary="Limits of one metric")
async def limit(context: Ctx, metric: MetricName) -> m.MetricLimits:
    """Limits of all switches; null: never."""
    return _of(_answer(await limits_in_force(context)), metric)


@router.patch("/{metric}", summary="Change limits of one metric")
async def change_limit(
    context: Ctx, request: Request, metric: MetricName, changes: m.MetricChanges
) -> m.MetricLimits:
    """Change the given limits of all switches: an absent one stays, null is never."""
    given = changes.model_dump(exclude_unset=True)
    _of(_answer(await limits_in_force(context)), metric)
    await _ask(context, request, {"set_limits": {"general": {metric: given}}})
    return _of(_answer(await limits_in_force(context)), metric)


@router.put("/{metric}", summary="Set the limits of one metric")
async def set_limit(
    context: Ctx, request: Request, metric: MetricName, limits: m.MetricLimits
) -> m.MetricLimits:
    """Replace all three limits of all switches."""
    _of(_answer(await limits_in_force(context)), metric)
    await _ask(context, request, {"set_limits": {"general": {metric: limits.model_dump()}}})
    return _of(_answer(await limits_in_force(context)), metric)


async def limits_in_force(context: Context) -> LimitsInForce:
    """Limits as the workers use them; 503 without a collector."""
    found = await context.run(context.state.limits)
    if found is None:
        raise HTTPException(503, "no collector runs on this data folder: its limits are not known")
    return found


async def _ask(context: Context, request: Request, message: dict[str, Any]) -> None:
    message["by"] = f"HTTP client {client_of(request)}"
    try:
        await context.run(control.request, context.folder, message)
    except control.RejectedError as error:
        raise HTTPException(400, str(error)) from None
    except control.ControlError as error:
        raise HTTPException(503, str(error)) from None
    context.state.forget("limits")


def _of(limits: m.Limits, metric: str) -> m.MetricLimits:
    if metric not in limits.general:
        raise HTTPException(404, f"no such metric: expected one of {', '.join(limits.general)}")
    return limits.general[metric]


def _answer(found: LimitsInForce) -> m.Limits:
    tree = as_json(found.limits)
    tree["general"] = {name: tree["general"][name] for name in found.metrics}
    change = found.change and {"time": when(found.change.time_ns), "by": found.change.author}
    return m.Limits.model_validate(tree | {"changed": change})
