"""Options of all `hopscope plan` commands."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from ..options.declare import Options, option
from ..output.printer import Summary, SummaryOption


@dataclass(frozen=True)
class PlanOutput(Options):
    """How a plan is shown."""

    title: ClassVar = "Output"

    plot: Annotated[
        Path | None,
        option("--plot", metavar="FILE", help="Write a plot (PNG, SVG, PDF); needs hopscope[plot]."),
    ] = None
    form: SummaryOption = Summary.TEXT
