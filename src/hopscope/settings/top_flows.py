"""Which flows have metrics of their own."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from .section import Section


class TopFlowSettings(Section):
    """Flows with series of their own in metrics: the highest by a measure."""

    count: int = Field(default=0, ge=0, le=1000)
    """How many flows; each flow that becomes one of them is a new series for the database."""
    by: Literal["latency", "packets"] = "latency"
    """Measure: mean latency, or packets."""
