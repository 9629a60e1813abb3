"""The effect that different limits would have had; nothing is changed."""

from __future__ import annotations

import threading
import time
from dataclasses import asdict

from fastapi import HTTPException, Request
from pydantic import ValidationError

from ...present.events import when
from ...present.history import SharedHistory
from ...present.series.objects import place_object
from ...present.series.places import limits_at, unit_of
from ...present.series.preview import Proposal, preview
from ...settings.limits import MetricLimits
from ..context import Ctx
from ..models import limits as m
from .limits import limits_in_force
from .parameters import Moment, moment
from .router import api_router

router = api_router("limits", "/limits")


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


def _metric_limits(limits: MetricLimits | None) -> m.MetricLimits:
    assert limits is not None
    return m.MetricLimits(**limits.model_dump())
