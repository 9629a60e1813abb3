"""Options of all `hopscope plan` commands."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from ..options.declare import Options, option


@dataclass(frozen=True)
class PlanOutput(Options):
    """How a plan is shown."""

    title: ClassVar = "Output"

    plot: Annotated[
        Path | None,
        option("--plot", metavar="FILE", help="Write a plot (PNG, SVG, PDF); needs hopscope[plot]."),
    ] = None
    as_json: Annotated[bool, option("--json", help="One JSON object instead of tables.")] = False
