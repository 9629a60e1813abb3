"""The picture of `hopscope plan direct --plot`. Needs matplotlib, an extra."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ...base.errors import HopscopeError
from ...base.extras import install_command
from ...direct.plan import NetworkPlan, StorePlan
from ...direct.theory import average
from .view import count


def save(path: Path, store: StorePlan | None, network: NetworkPlan | None) -> None:
    """Write the plans as one picture in the format that the file's suffix names. Raises HopscopeError."""
    panels = (store is not None) + (network is not None)
    figure = canvas(path, panels)
    axes = figure.subplots(1, panels, squeeze=False)[0]
    if store is not None:
        _store(axes[0], store)
    if network is not None:
        _network(axes[-1], network)
    for panel in axes:
        panel.grid(True, which="major", alpha=0.3)
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


def _store(axes: Any, plan: StorePlan) -> None:
    memories = plan.best.memory_bytes * np.geomspace(1 / 64, 64, 120)
    for choice in plan.choices:
        load = plan.flows * choice.slot_bytes / memories
        found = average(load, choice.copies, choice.checksum_bits).correct
        axes.plot(memories / 2**30, 100 * found, label=f"N = {choice.copies}")
    axes.plot(plan.best.memory_bytes / 2**30, 100 * plan.best.found, "ko", label="chosen")
    axes.set_xscale("log")
    axes.set_xlabel("memory [GiB]")
    axes.set_ylabel("flows found, mean [%]")
    axes.set_title(f"Key-Write, {count(plan.flows)} flows of {plan.data_bytes} B")
    axes.legend()


def _network(axes: Any, plan: NetworkPlan) -> None:
    switches = np.unique(np.geomspace(1, max(10, plan.switches * 4), 80).round())
    for load, style in zip(plan.loads, ("-", "-", "-", (0, (1, 2))), strict=True):  # two may coincide
        need = np.ceil(switches * plan.rate / load.reports)
        axes.plot(switches, need, linestyle=style, linewidth=2, label=load.primitive)
    axes.plot(switches, np.ceil(switches * plan.rate / plan.core_rate), "k--", label="CPU cores")
    axes.axvline(plan.switches, color="grey", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter("{x:,g}")
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.set_xlabel("switches")
    axes.set_ylabel("collectors")
    axes.set_title(f"{count(plan.rate)} reports/s from each switch")
    axes.legend()
