"""What all plans show: tables, charts of block characters, units, and pictures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ...base.errors import HopscopeError
from ...base.extras import install_command

WIDTH = 40
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_LEVELS = "▁▂▃▄▅▆▇█"


def bars(console: Console, rows: Sequence[tuple[str, float, str]]) -> None:
    """One bar per row of (name, length, text after the bar)."""
    most = max(value for _, value, _ in rows)
    names = max(len(name) for name, _, _ in rows)
    for name, value, text in rows:
        eighths = max(1, round(value / most * WIDTH * 8))
        bar = "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
        console.print(Text.assemble(f"  {name:<{names}} ", (bar, "cyan"), f" {text}"))


def sparkline(values: npt.NDArray[np.float64]) -> str:
    """Values from 0 to 1 as one row of blocks."""
    return "".join(_LEVELS[min(7, int(value * 8))] for value in values)


def count(value: float) -> str:
    """A count as text, such as 100 M, 1.9 G or 12,345."""
    return _scaled(value, ((1e12, "T"), (1e9, "G"), (1e6, "M"))) or f"{value:,.0f}"


def percent(value: float) -> str:
    """A probability, with enough digits to distinguish it from 1."""
    lost = 1 - value
    digits = 1 if lost >= 0.01 or lost <= 0 else min(10, int(-np.log10(lost)))
    return f"{100 * value:.{digits}f}".rstrip("0").rstrip(".") + " %"


def table(
    console: Console,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    left: int = 1,
    best: int | None = None,
) -> None:
    """Print rows under heads, row `best` in bold; the first `left` columns are aligned to the left."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for at, head in enumerate(heads):
        made.add_column(head, justify="left" if at < left else "right", no_wrap=True)
    for at, row in enumerate(rows):
        made.add_row(*row, style="bold" if at == best else None)
    console.print(made)


def share(value: float) -> str:
    """A share as percentage."""
    percentage = 100 * value
    return f"{percentage:,.0f} %" if percentage >= 100 else f"{percentage:.3g} %"


def bits(value: float) -> str:
    """A rate in bit/s with its unit."""
    steps = ((1e12, "Tbit/s"), (1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"))
    return _scaled(value, steps) or f"{value:.3g} bit/s"


def _scaled(value: float, steps: Sequence[tuple[float, str]]) -> str:
    """A value in the first unit that it reaches when rounded to three digits; empty if it reaches none."""
    for step, unit in steps:
        if value >= 0.9995 * step:
            return f"{value / step:.3g} {unit}"
    return ""


@contextmanager
def picture(path: Path, panels: int) -> Iterator[Any]:
    """Axes of a picture, `panels` side by side, which is written at the end. Raises HopscopeError, see
    `canvas`.
    """
    figure = canvas(path, panels)
    axes = figure.subplots(1, panels, squeeze=False)[0]
    yield axes
    for panel in axes:
        panel.grid(True, alpha=0.3)
    figure.savefig(path, dpi=120)


def canvas(path: Path, panels: int) -> Any:
    """A matplotlib figure for `panels` panels side by side. Raises HopscopeError if matplotlib is missing or
    does not know the format of `path`, or its folder is missing.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise HopscopeError(
            f"--plot needs matplotlib, which is not installed: {install_command('plot')}"
        ) from error
    known = FigureCanvasAgg.get_supported_filetypes()
    if path.suffix.lstrip(".").lower() not in known:
        raise HopscopeError(f"--plot {path}: expected a file named .{', .'.join(sorted(known))}")
    if not path.parent.is_dir():
        raise HopscopeError(f"--plot {path}: folder {path.parent} does not exist")
    figure = Figure(figsize=(6.4 * panels, 4), layout="constrained")
    FigureCanvasAgg(figure)
    return figure
