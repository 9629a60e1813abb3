"""Options of all `hopscope plan` commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

PlotOption = Annotated[
    Path | None,
    typer.Option(
        "--plot",
        metavar="FILE",
        help="Write a picture (PNG, SVG, PDF); needs hopscope[plot].",
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")]
