"""Options of all `hopscope plan` commands."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ..options.declare import Options, option
from ..output.printer import Summary, SummaryOption


@dataclass(frozen=True)
class PlanOutput(Options):
    """How a plan is shown."""

    title: ClassVar = "Output"

    plot: Path | None = option("--plot FILE", "Write a plot (PNG, SVG, PDF); needs hopscope[plot].")
    form: SummaryOption = Summary.TEXT
