"""Routes of limits: general ones, and those of single switches."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import HTTPException, Path, Request

from ...present.collector_state import LimitsInForce
from ...present.events import when
from ...settings.limits import as_json
from ..context import Context, Ctx
from ..models import limits as m
from ..models.common import Error
from .router import api_router

router = api_router("limits", "/limits")
_ABSENT: dict[int | str, dict[str, Any]] = {404: {"model": Error, "description": "No such metric"}}
MetricName = Annotated[str, Path(max_length=60, description="A metric, such as hop_latency")]


@router.get("", summary="Limits in force")
async def limits(context: Ctx) -> m.Limits:
    """Limits as the workers use them now; null: never. A sink may raise them by its rate of events."""
    return _answer(await limits_in_force(context))


@router.patch("", summary="Change limits")
async def change(context: Ctx, request: Request, changes: m.LimitChanges) -> m.Limits:
    """Change the given limits: absent ones stay, null means never. Workers apply them at the next batch."""
    return await _change(context, request, changes.model_dump(exclude_unset=True))


@router.delete("", summary="Return to the limits of the settings")
async def reset(context: Ctx, request: Request) -> m.Limits:
    """Undo all changes since the collector started or reloaded its settings."""
    before = _shown(await limits_in_force(context))
    await context.change(request, {"reset_limits": {}}, "limits.reset", before=before)
    context.state.forget("limits")
    return _answer(await limits_in_force(context))


@router.get("/{metric}", summary="Limits of one metric", responses=_ABSENT)
async def limit(context: Ctx, metric: MetricName) -> m.MetricLimits:
    """Limits of all switches; null: never."""
    return _of(_answer(await limits_in_force(context)), metric)


@router.patch("/{metric}", summary="Change limits of one metric", responses=_ABSENT)
async def change_limit(
    context: Ctx, request: Request, metric: MetricName, changes: m.MetricChanges
) -> m.MetricLimits:
    """Change the given limits of all switches: absent ones stay, null means never."""
    given = changes.model_dump(exclude_unset=True)
    return _of(await _change(context, request, {"general": {metric: given}}, metric), metric)


@router.put("/{metric}", summary="Set the limits of one metric", responses=_ABSENT)
async def set_limit(
    context: Ctx, request: Request, metric: MetricName, limits: m.MetricLimits
) -> m.MetricLimits:
    """Replace all three limits of all switches."""
    return _of(await _change(context, request, {"general": {metric: limits.model_dump()}}, metric), metric)


async def limits_in_force(context: Context) -> LimitsInForce:
    """Limits as the workers use them; 503 without a collector."""
    found = await context.run(context.state.limits)
    if found is None:
        raise HTTPException(503, "no collector runs on this data folder: its limits are unknown")
    return found


async def _change(context: Context, request: Request, wanted: dict[str, Any], metric: str = "") -> m.Limits:
    """Change limits, and record the limits before and after in the audit, only of `metric` if it is given."""
    found = await limits_in_force(context)
    if metric:
        _of(_answer(found), metric)
    kind, before = "limits.change", _parts(_shown(found), wanted)
    await context.change(request, {"set_limits": wanted}, kind, metric, before=before, after=wanted)
    context.state.forget("limits")
    return _answer(await limits_in_force(context))


def _parts(tree: Any, like: Any) -> Any:
    """The parts of a tree that another tree also has."""
    if not isinstance(tree, dict) or not isinstance(like, dict):
        return tree
    return {key: _parts(tree.get(key), value) for key, value in like.items()}


def _of(limits: m.Limits, metric: str) -> m.MetricLimits:
    if metric not in limits.general:
        raise HTTPException(404, f"no such metric: expected one of {', '.join(limits.general)}")
    return limits.general[metric]


def _shown(found: LimitsInForce) -> dict[str, Any]:
    tree = as_json(found.limits)
    tree["general"] = {name: tree["general"][name] for name in found.metrics}
    return tree


def _answer(found: LimitsInForce) -> m.Limits:
    change = found.change and {"time": when(found.change.time_ns), "by": found.change.author}
    return m.Limits.model_validate(_shown(found) | {"changed": change})
