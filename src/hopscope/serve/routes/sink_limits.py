"""Routes about the limits of the INT sink: C and T events by switch and measure."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, HTTPException, Request
from pydantic import ConfigDict, Field

from ...base import control_client as control
from ..context import Ctx, client_of
from .models import Model

router = APIRouter(prefix="/sink", tags=["sink"])


class SinkLimitsModel(Model):
    """Limits of one measure; null: never."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    change: int | None = Field(default=None, ge=0, lt=2**63)
    """C: an event where a value differs by more than this from that of the flow's previous packet."""
    above: int | None = Field(default=None, ge=0, lt=2**63)
    """T: an event on every packet with a value above this."""


class SwitchLimits(Model):
    """Limits of one switch."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    hop_latency: SinkLimitsModel | None = None
    queue_occupancy: SinkLimitsModel | None = None
    link_utilization: SinkLimitsModel | None = None


class AllLimits(SwitchLimits):
    """Limits of all switches, end to end, and of the switches that have their own."""

    end_to_end: SinkLimitsModel | None = None
    switches: dict[str, SwitchLimits | None] = Field(default={})
    """By node id; of a change, null takes them away."""


@router.get("/limits", summary="Limits of the INT sink")
async def limits(context: Ctx) -> AllLimits:
    """Limits in force, before they are raised by the rate of events."""
    found = await context.run(context.state.sink_limits)
    if not found:
        raise HTTPException(503, "no collector runs on this data folder: its limits are not known")
    return AllLimits.model_validate(found)


@router.patch("/limits", summary="Change limits of the INT sink")
async def change(context: Ctx, request: Request, limits: AllLimits) -> AllLimits:
    """Change the given limits: an absent one stays, null is never; sinks follow with their next batch."""
    given: dict[str, Any] = limits.model_dump(exclude_unset=True)
    try:
        answer = await context.run(
            control.request,
            context.folder,
            {"set_sink_limits": given, "by": f"HTTP client {client_of(request)}"},
        )
        return AllLimits.model_validate(answer["sink_limits"])
    except control.RejectedError as error:
        raise HTTPException(400, str(error)) from None
    except control.ControlError as error:
        raise HTTPException(503, str(error)) from None
    except (KeyError, TypeError, ValueError):
        raise HTTPException(502, "the collector's answer has no limits") from None
