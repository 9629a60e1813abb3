"""Routes of limits: general ones, those of single switches, and the effect that others would have had."""

from __future__ import annotations

import threading
import time
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import HTTPException, Path, Request
from pydantic import ValidationError

from ...present.collector_state import LimitsInForce
from ...present.events import when
from ...present.history import SharedHistory
from ...present.series.objects import place_object
from ...present.series.places import limits_at, unit_of
from ...present.series.preview import Proposal, preview
from ...settings.limits import MetricLimits, as_json
from ..context import Context, Ctx
from ..models import limits as m
from ..models.common import Error
from .parameters import Moment, moment
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


@router.post("/preview", summary="How many events different limits would have caused")
async def preview_limits(
    context: Ctx, request: Request, proposal: m.LimitProposal, since: Moment = "1h", until: Moment = None
) -> m.LimitPreview:
    """Compares limits with the events of a time range; changes nothing. Values that caused no event are not
    stored, so the answer says whether it is exact, and gives a lower bound.
    """
    found = await limits_in_force(context)
    if proposal.metric not in found.metrics:
        raise HTTPException(400, f"metric: unknown, expected one of {', '.join(found.metrics)}")
    node = None if proposal.node is None else context.node(proposal.node)
    given = proposal.model_dump(exclude_unset=True, exclude={"metric", "node"})
    asked = Proposal(proposal.metric, node, given)
    until_ns = moment("until", until) or time.time_ns()
    since_ns = moment("since", since) or 0
    try:
        after = asked.applied(found.limits)
    except ValidationError as error:
        raise HTTPException(400, error.errors()[0]["msg"].removeprefix("Value error, ")) from None
    except ValueError as error:
        raise HTTPException(400, str(error)) from None

    def work(past: SharedHistory, _: threading.Event) -> m.LimitPreview:
        what = preview(past.history(), found.limits, asked, since_ns, until_ns)
        changed = found.change is not None and found.change.time_ns > what.since_ns
        return m.LimitPreview(
            metric=proposal.metric,
            unit=unit_of(proposal.metric),
            since=when(what.since_ns),
            until=when(until_ns),
            in_force=_metric_limits(limits_at(found.limits, proposal.metric, node)),
            proposed=_metric_limits(limits_at(after, proposal.metric, node)),
            had=m.EventCounts(**asdict(what.had), total=what.had.total),
            would=m.EventCounts(**asdict(what.would), total=what.would.total),
            at_least=what.at_least,
            exact=what.exact,
            lower_bound=what.lower_bound,
            limits_changed=when(found.change.time_ns) if found.change and changed else None,
            items=[
                m.PlacePreview.model_validate(
                    {**place_object(context.names, place), "had": had.total, "would": would.total}
                )
                for place, had, would in what.places
            ],
        )

    return await context.query(request, work)


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


def _metric_limits(limits: MetricLimits | None) -> m.MetricLimits:
    assert limits is not None
    return m.MetricLimits(**limits.model_dump())
